// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/neg/message_check.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/escape.hpp"
#include "base/text.hpp"

namespace parley::capture {
namespace {

constexpr std::uint8_t neg_stage_last = 3;
constexpr std::size_t neg_text_max = 1024;  // octets of a text that a session keeps
constexpr std::uint8_t transport_ud = 3;

bool known_neg_type(std::uint8_t type) {
  switch (static_cast<wire::NegType>(type)) {
#define PARLEY_X(name, value, text) case wire::NegType::name:
    PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
    return true;
  }
  return false;
}

bool known_neg_item(std::uint16_t type) {
  switch (static_cast<wire::NegItemType>(type)) {
#define PARLEY_X(name, value, text) case wire::NegItemType::name:
    PARLEY_NEG_ITEMS(PARLEY_X)
#undef PARLEY_X
    return true;
  }
  return false;
}

enum class QpItem : std::uint16_t {
#define PARLEY_X(name, type, octets, text) name = type,
  PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
};

/// The length of an item of a queue pair; none: the type is not known.
std::optional<std::size_t> qp_item_size(std::uint16_t type) {
  switch (static_cast<QpItem>(type)) {
#define PARLEY_X(name, value, octets, text) \
  case QpItem::name: return octets;
    PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
  }
  return std::nullopt;
}

/// An item, not validated. `octets`: its announced length. `whole`: all of them are present.
struct RawItem {
  std::uint16_t type = 0, octets = 0;
  ConstBytes value;
  bool whole = false;
};

RawItem next_item(Reader& r) {
  RawItem out;
  out.type = r.be16();
  out.octets = r.be16();
  out.value = r.bytes(out.octets);
  out.whole = r.ok();
  return out;
}

constexpr bool critical(std::uint16_t type) { return (type & PARLEY_NEG_ITEM_CRITICAL) != 0; }

bool stage_fits(const NegHead& h) { return h.is(wire::NegType::abort) || h.is(wire::NegType::turn) == (h.stage != 0); }

bool reserved_bits(const NegHead& h) {
  return (h.flags & ~PARLEY_NEG_FLAG_LAST) != 0 || h.reserved != 0 || (h.last() && !h.is(wire::NegType::turn));
}

std::optional<NegFault> check_qp_items(Reader r, bool ud) {
  bool qpn = false, psn = false, qkey = false;
  while (r.left() > 0) {
    const RawItem item = next_item(r);
    if (!item.whole)
      return NegFault{Rule::neg_item_cut, fmt::format("item {:#06x} of {} octets is cut off", item.type, item.octets)};
    const auto due = qp_item_size(item.type);
    if (!due && critical(item.type))
      return NegFault{Rule::neg_item_unknown,
                      fmt::format("item {:#06x} is unknown and must not be skipped", item.type)};
    if (due && *due != item.octets)
      return NegFault{Rule::neg_qp_item_length,
                      fmt::format("item {:#06x} has {} octets, {} are expected", item.type, item.octets, *due)};
    const auto type = static_cast<QpItem>(item.type);
    qpn = qpn || type == QpItem::qpn;
    psn = psn || type == QpItem::psn;
    qkey = qkey || type == QpItem::qkey;
  }
  if (!qpn || !psn)
    return NegFault{Rule::neg_qp_item_missing, fmt::format("the item {} is missing", qpn ? "psn" : "qpn")};
  if (ud && !qkey) return NegFault{Rule::neg_qp_item_missing, "the item qkey is missing; UD needs it"};
  return std::nullopt;
}

void parse_qp_item(QpSeen& out, QpItem type, Reader r) {
  switch (type) {
    case QpItem::qpn: out.qpn = r.be32(); break;
    case QpItem::psn: out.psn = r.be32(); break;
    case QpItem::lid: out.lid = r.be16(); break;
    case QpItem::gid: {
      const ConstBytes gid = r.rest();
      std::copy_n(gid.begin(), out.gid.emplace().size(), out.gid->begin());
      break;
    }
    case QpItem::mtu: out.mtu = r.be32(); break;
    case QpItem::ird: out.ird = r.u8(); break;
    case QpItem::ord: out.ord = r.u8(); break;
    case QpItem::qkey: out.qkey = r.be32(); break;
    case QpItem::srqn: out.srqn = r.be32(); break;
    case QpItem::ini_qpn: out.ini_qpn = r.be32(); break;
    case QpItem::memory: {
      QpMemory& m = out.memory.emplace();
      m.rkey = r.be32();
      m.vaddr = r.be64();
      m.length = r.be64();
      break;
    }
    case QpItem::tests: out.tests = true; break;
  }
}

}  // namespace

NegHead NegHead::read(ConstBytes in) {
  Reader r(in);
  r.skip(PARLEY_NEG_MAGIC_LEN);
  NegHead h;
  h.version = r.u8();
  h.type = r.u8();
  h.stage = r.u8();
  h.flags = r.u8();
  h.round = r.be16();
  h.reserved = r.be16();
  h.length = r.be32();
  return h;
}

bool NegHead::followable() const { return version == PARLEY_NEG_VERSION && length <= PARLEY_NEG_LENGTH_MAX; }

unsigned NegHead::oddities() const {
  const bool odd_stage = stage > neg_stage_last || (known_neg_type(type) && !stage_fits(*this));
  return static_cast<unsigned>(version != PARLEY_NEG_VERSION) + static_cast<unsigned>(!known_neg_type(type)) +
         static_cast<unsigned>(odd_stage) + static_cast<unsigned>(reserved_bits(*this)) +
         static_cast<unsigned>(length > PARLEY_NEG_LENGTH_MAX);
}

std::optional<NegFault> NegHead::fault() const {
  if (version != PARLEY_NEG_VERSION)
    return NegFault{Rule::neg_version,
                    fmt::format("the message has version {}; this side supports {}", version, PARLEY_NEG_VERSION)};
  if (!known_neg_type(type)) return NegFault{Rule::neg_type, fmt::format("the message has type {}", type)};
  if (stage > neg_stage_last) return NegFault{Rule::neg_stage, fmt::format("the message has stage {}", stage)};
  if (!stage_fits(*this))
    return NegFault{Rule::neg_stage, fmt::format("a message of type {} has stage {}", type, stage)};
  if (reserved_bits(*this))
    return NegFault{Rule::neg_reserved, fmt::format("reserved bits are set: flags {}, reserved {}", flags, reserved)};
  if (length > PARLEY_NEG_LENGTH_MAX)
    return NegFault{Rule::neg_length,
                    fmt::format("the message announces {} octets; at most {}", length, PARLEY_NEG_LENGTH_MAX)};
  return std::nullopt;
}

// A session accepts an Abort even with faulty items, so an Abort has its own rules, with severity warning.
std::optional<NegFault> check_items(ConstBytes body, bool abort) {
  Reader r(body);
  while (r.left() > 0) {
    const RawItem item = next_item(r);
    if (!item.whole)
      return NegFault{abort ? Rule::neg_abort_item_cut : Rule::neg_item_cut,
                      fmt::format("an item of {} octets is cut off", item.octets)};
    if (!known_neg_item(item.type) && critical(item.type))
      return NegFault{abort ? Rule::neg_abort_item_unknown : Rule::neg_item_unknown,
                      fmt::format("item {} is unknown and must not be skipped", item.type)};
  }
  return std::nullopt;
}

std::optional<NegFault> check_qp_turn(std::uint8_t stage, ConstBytes body) {
  constexpr std::uint8_t info = 1, ready = 2, ready_words = 3;
  if (body.empty()) return std::nullopt;
  Reader r(body);
  if (stage == ready) {
    const std::uint8_t word = r.u8();
    if (body.size() == 1 && word >= 1 && word <= ready_words) return std::nullopt;
    return NegFault{Rule::neg_ready_word, fmt::format("{} is not a word of the stage ready", hex_text(body))};
  }
  if (stage != info) return std::nullopt;
  const std::uint8_t version = r.u8(), transport = r.u8();
  r.skip(2);
  if (!r.ok())
    return NegFault{Rule::neg_qp_header,
                    fmt::format("{}, {} are expected", counted(body.size(), "octet"), PARLEY_NEG_QP_HEADER_LEN)};
  if (version != PARLEY_NEG_QP_VERSION)
    return NegFault{Rule::neg_qp_version, fmt::format("the attributes have version {}; this side supports {}", version,
                                                      PARLEY_NEG_QP_VERSION)};
  return check_qp_items(r, transport == transport_ud);
}

bool like_qp_info(ConstBytes body) {
  Reader r(body);
  const std::uint8_t version = r.u8(), transport = r.u8();
  const std::uint16_t reserved = r.be16();
  const RawItem first = next_item(r);
  return first.whole && version == PARLEY_NEG_QP_VERSION && !qp_transport_text(transport).empty() && reserved == 0 &&
         static_cast<QpItem>(first.type) == QpItem::qpn && qp_item_size(first.type) == first.value.size();
}

QpSeen read_qp_info(ConstBytes body) {
  Reader r(body);
  QpSeen out;
  out.version = r.u8();
  out.transport = r.u8();
  r.skip(2);
  while (r.left() > 0) {
    const RawItem item = next_item(r);
    if (!item.whole) break;
    if (const auto size = qp_item_size(item.type); size && *size == item.value.size())
      parse_qp_item(out, static_cast<QpItem>(item.type), Reader(item.value));
  }
  return out;
}

std::string_view qp_transport_text(std::uint8_t transport) {
  switch (transport) {
#define PARLEY_X(name, value, text) \
  case value: return text;
    PARLEY_NEG_TRANSPORTS(PARLEY_X)
#undef PARLEY_X
    default: return {};
  }
}

std::string_view neg_error_text(std::uint16_t error) {
  switch (error) {
#define PARLEY_X(name, value, layer, text) \
  case value: return #name;
    PARLEY_NEG_ERRORS(PARLEY_X)
#undef PARLEY_X
    default: return {};
  }
}

bool says_qp_turns(std::string_view plugin, std::string_view variant) {
  constexpr std::string_view variants[] = {"verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc", "manual"};
  return plugin == "parley" && std::find(std::begin(variants), std::end(variants), variant) != std::end(variants);
}

std::optional<ConstBytes> find_item(ConstBytes body, wire::NegItemType type) {
  std::optional<ConstBytes> found;  // a session uses the last one
  Reader r(body);
  while (r.left() > 0) {
    const RawItem item = next_item(r);
    if (!item.whole) break;
    if (item.type == static_cast<std::uint16_t>(type)) found = item.value;
  }
  return found;
}

std::string item_text(ConstBytes body, wire::NegItemType type) {
  const auto value = find_item(body, type);
  if (!value) return {};
  const ConstBytes head = value->first(std::min(value->size(), neg_text_max));
  return printable(std::string(head.begin(), head.end()), false);
}

}  // namespace parley::capture
