// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/neg.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

constexpr std::string_view neg_magic = PARLEY_NEG_MAGIC;
constexpr std::uint8_t neg_stage_max = 3;

bool neg_known(NegType type) {
  switch (type) {
#define PARLEY_X(name, value, text) case NegType::name:
    PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
    return true;
  }
  return false;
}

bool neg_known(NegItemType type) {
  switch (type) {
#define PARLEY_X(name, value, text) case NegItemType::name:
    PARLEY_NEG_ITEMS(PARLEY_X)
#undef PARLEY_X
    return true;
  }
  return false;
}

}  // namespace

std::string_view to_string(NegType type) {
  switch (type) {
#define PARLEY_X(name, value, text) \
  case NegType::name: return #name;
    PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view neg_stage_text(std::uint8_t stage) {
#define PARLEY_X(name, value, text) \
  if (stage == (value)) return #name;
  PARLEY_NEG_STAGES(PARLEY_X)
#undef PARLEY_X
  return "unknown";
}

Result<NegHeader> NegHeader::parse(ConstBytes in) {
  Reader r(in);
  const ConstBytes head = r.bytes(PARLEY_NEG_MAGIC_LEN);
  const std::uint8_t version = r.u8();
  NegHeader out;
  out.type = static_cast<NegType>(r.u8());
  out.stage = r.u8();
  out.flags = r.u8();
  out.round = r.be16();
  const std::uint16_t reserved = r.be16();
  out.length = r.be32();
  if (!r.ok()) return fail(Errc::truncated);
  if (!std::equal(head.begin(), head.end(), neg_magic.begin(), neg_magic.end())) return fail(Errc::malformed);
  if (version != PARLEY_NEG_VERSION)
    return fail(Errc::unsupported, "the message has version {a}; this side supports {b}", version, PARLEY_NEG_VERSION);
  if (!neg_known(out.type))
    return fail(Errc::malformed, "the message has type {a}", static_cast<std::uint8_t>(out.type));
  if (out.stage > neg_stage_max) return fail(Errc::malformed, "the message has stage {a}", out.stage);
  const bool turn = out.type == NegType::turn;
  if (turn != (out.stage != 0) && out.type != NegType::abort)
    return fail(Errc::malformed, "a message of type {a} has stage {b}", static_cast<std::uint8_t>(out.type), out.stage);
  if ((out.flags & ~PARLEY_NEG_FLAG_LAST) != 0 || (out.last() && !turn) || reserved != 0)
    return fail(Errc::malformed, "reserved bits are set: flags {a}, reserved {b}", out.flags, reserved);
  if (out.length > PARLEY_NEG_LENGTH_MAX)
    return fail(Errc::malformed, "the message announces {a} octets; at most {b}", out.length, PARLEY_NEG_LENGTH_MAX);
  return out;
}

Result<NegMessage> NegMessage::parse(ConstBytes in) {
  const auto header = NegHeader::parse(in);
  if (!header) return tl::unexpected(header.error());
  const ConstBytes body = in.subspan(PARLEY_NEG_HEADER_LEN);
  if (body.size() < header->length)
    return fail(Errc::truncated, "a message of {a} octets ends after {b}", header->length, body.size());
  return NegMessage{*header, body.first(header->length)};
}

void NegHeader::emit(MutBytes out) const {
  Writer w(out);
  for (const char c : neg_magic) w.u8(static_cast<std::uint8_t>(c));
  w.u8(PARLEY_NEG_VERSION);
  w.u8(static_cast<std::uint8_t>(type));
  w.u8(stage);
  w.u8(flags);
  w.be16(round);
  w.be16(0);
  w.be32(length);
}

bool may_become_neg_magic(ConstBytes head) {
  const std::size_t n = std::min(head.size(), neg_magic.size());
  return std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(n), neg_magic.begin());
}

Result<std::vector<NegItem>> parse_neg_items(ConstBytes in) {
  std::vector<NegItem> out;
  Reader r(in);
  while (r.left() > 0) {
    const std::uint16_t type = r.be16();
    const std::uint16_t length = r.be16();
    const ConstBytes value = r.bytes(length);
    if (!r.ok()) return fail(Errc::malformed, "an item of {a} octets is cut off", length);
    if (neg_known(static_cast<NegItemType>(type)))
      out.push_back({static_cast<NegItemType>(type), value});
    else if ((type & PARLEY_NEG_ITEM_CRITICAL) != 0)
      return fail(Errc::unsupported, "item {a} is unknown and must not be skipped", type);
  }
  return out;
}

void add_neg_item(Bytes& out, NegItemType type, ConstBytes value) {
  value = value.first(std::min<std::size_t>(value.size(), 0xFFFF));
  const std::size_t at = out.size();
  out.resize(at + PARLEY_NEG_ITEM_LEN + value.size());
  Writer w(MutBytes(out).subspan(at));
  w.be16(static_cast<std::uint16_t>(type));
  w.be16(static_cast<std::uint16_t>(value.size()));
  w.bytes(value);
}

void add_neg_item(Bytes& out, NegItemType type, std::string_view value) {
  const Bytes octets(value.begin(), value.end());
  add_neg_item(out, type, ConstBytes(octets));
}

}  // namespace parley::wire
