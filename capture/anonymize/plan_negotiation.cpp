// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// StreamPlan: messages of a staged QP negotiation (docs/negotiation.md). Fields that rules check stay, so that the
// verdict stays the same.
#include <algorithm>
#include <optional>

#include "base/bytes_io.hpp"
#include "capture/anonymize/plan.hpp"
#include "capture/rules/neg/message_check.hpp"
#include "wire/neg.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t patch_max = 32768;  // the length of a patch has 16 bits

void keep(MutBytes masks) { std::fill(masks.begin(), masks.end(), std::uint8_t{0}); }

/// Replaces a text by as many letters, so that it is printable.
void mask_letters(ConstBytes in, MutBytes masks) {
  for (std::size_t i = 0; i < in.size(); ++i) masks[i] = in[i] ^ static_cast<std::uint8_t>('a' + masks[i] % 26);
}

/// Keeps the head of each item, and calls what(type, value, masks of the value). The last item may be truncated.
template <class What>
void each_item(ConstBytes in, MutBytes masks, What what) {
  Reader r(in);
  while (r.left() > 0) {
    const std::size_t begin = r.offset();
    const std::uint16_t type = r.be16(), length = r.be16();
    keep(masks.subspan(begin, std::min<std::size_t>(PARLEY_NEG_ITEM_LEN, in.size() - begin)));
    if (!r.ok()) return;
    const std::size_t at = r.offset(), n = std::min<std::size_t>(length, r.left());
    what(type, r.bytes(n), masks.subspan(at, n));
    if (n < length) return;
  }
}

}  // namespace

void StreamPlan::mask_items(ConstBytes in, MutBytes masks, bool names_stay) const {
  each_item(in, masks, [names_stay](std::uint16_t type, ConstBytes value, MutBytes mask) {
    switch (static_cast<wire::NegItemType>(type)) {
      case wire::NegItemType::plugin:
      case wire::NegItemType::variant: return names_stay ? keep(mask) : mask_letters(value, mask);
      case wire::NegItemType::label:
      case wire::NegItemType::text:
      case wire::NegItemType::advice: return mask_letters(value, mask);
      case wire::NegItemType::done_stage:
      case wire::NegItemType::error: return keep(mask);
    }
  });
}

// QPNs, PSN, LID, Q_Key, rkey and virtual address get other values of the same width; GIDs get the same pseudonyms as
// elsewhere. Lengths, depths and the path MTU stay.
void StreamPlan::mask_qp_info(ConstBytes in, MutBytes masks) {
  keep(masks.first(std::min<std::size_t>(in.size(), PARLEY_NEG_QP_HEADER_LEN)));
  if (in.size() <= PARLEY_NEG_QP_HEADER_LEN) return;
  enum Type : std::uint16_t {
#define PARLEY_X(name, type, octets, text) name = type,
    PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
  };
  each_item(in.subspan(PARLEY_NEG_QP_HEADER_LEN), masks.subspan(PARLEY_NEG_QP_HEADER_LEN),
            [this](std::uint16_t type, ConstBytes value, MutBytes mask) {
              if (type == mtu || type == ird || type == ord || type == tests) return keep(mask);
              if ((type == qpn || type == psn || type == srqn || type == ini_qpn) && !mask.empty())
                return keep(mask.first(1));  // 24-bit numbers
              if (type == memory && value.size() == 20) {
                if (keep_stags_) return keep(mask);
                return keep(mask.last(8));
              }
              if (type != gid || value.size() != 16) return;
              wire::Ip6 before{};
              std::copy(value.begin(), value.end(), before.begin());
              const wire::Ip6 after = names_.v6(before);
              for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = before[i] ^ after[i];
            });
}

void StreamPlan::negotiation(const TappedStream& stream, std::uint64_t at, ConstBytes octets, bool qp_turns) {
  if (full_) return;
  Stream* s = stream_of(stream);
  if (octets.empty()) return;
  Bytes masks(octets.size());
  s->keys.fill(at, masks);
  const std::size_t header = std::min<std::size_t>(octets.size(), PARLEY_NEG_HEADER_LEN);
  keep(MutBytes(masks).first(header));
  if (octets.size() > header) {
    const NegHead head = NegHead::read(octets);
    const ConstBytes body = octets.subspan(header);
    const MutBytes rest = MutBytes(masks).subspan(header);
    if (!head.is(wire::NegType::turn))
      mask_items(
          body, rest,
          says_qp_turns(item_text(body, wire::NegItemType::plugin), item_text(body, wire::NegItemType::variant)));
    else if (qp_turns && head.stage == 1)
      mask_qp_info(body, rest);
    else if (qp_turns && body.size() == 1)
      keep(rest);  // a Turn of the stage ready
  }
  ++counts_.messages;
  for (std::size_t begin = 0; begin < masks.size(); begin += patch_max) {
    const std::size_t n = std::min(patch_max, masks.size() - begin);
    Record r;
    r.kind = Kind::message;
    r.at = at + begin;
    r.crc_mask = static_cast<std::uint32_t>(n);
    Patch p;
    p.masks.assign(masks.begin() + static_cast<std::ptrdiff_t>(begin),
                   masks.begin() + static_cast<std::ptrdiff_t>(begin + n));
    add(*s, r, &p);
  }
}

}  // namespace parley::capture
