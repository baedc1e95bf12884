// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// StreamPlan: computes the masks for any part of a stream.
#include <algorithm>

#include "base/bytes_io.hpp"
#include "capture/anonymize/plan.hpp"

namespace parley::capture {
namespace {

using wire::marker_interval;

}  // namespace

/// The position in the FPDU stream of octet `n` (markers not counted) of an FPDU that begins at `at`.
std::uint64_t StreamPlan::place_of(std::uint64_t at, std::uint64_t n, bool markers) {
  if (!markers) return at + n;
  const std::uint64_t first = (marker_interval - at % marker_interval) % marker_interval;
  const std::uint64_t count = n < first ? 0 : 1 + (n - first) / (marker_interval - PARLEY_MPA_MARKER_LEN);
  return at + n + count * PARLEY_MPA_MARKER_LEN;
}

std::uint64_t StreamPlan::end_of(const Stream& s, const Record& r) {
  const bool markers = (r.flags & has_markers) != 0;
  const std::uint64_t at = r.at - s.info.fpdus_at;
  switch (r.kind) {
    case Kind::startup:
    case Kind::message: return r.at + r.crc_mask;
    case Kind::fpdu: return r.at + FpduWalker::wire_size(at, r.length, markers);
    case Kind::lone:
      return r.at + (markers && at % marker_interval == 0 ? PARLEY_MPA_MARKER_LEN : 0) + PARLEY_MPA_LEN_LEN;
  }
  return r.at;
}

void StreamPlan::mask_startup(const Record& r, std::uint64_t begin, MutBytes out) const {
  Reader head(ConstBytes(patches_).subspan(r.patch));
  head.skip(2);
  const ConstBytes masks = head.bytes(head.be16());
  for (std::uint64_t i = begin - r.at; i < masks.size() && i < begin - r.at + out.size(); ++i)
    out[i - (begin - r.at)] = masks[i];
}

// Markers (RFC 5044 §4.3) of an FPDU with a correct CRC stay. In other FPDUs, only the correct octets of a marker stay;
// a wrong octet becomes a fixed one that is wrong, too.
void StreamPlan::mask_markers(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out) {
  const std::uint64_t base = s.info.fpdus_at, at = r.at - base;
  const std::uint64_t header = at + (at % marker_interval == 0 ? PARLEY_MPA_MARKER_LEN : 0);
  const std::uint64_t from = begin - base, to = from + out.size();
  for (std::uint64_t m = std::max(at, from) / marker_interval * marker_interval; m < to; m += marker_interval) {
    const std::uint64_t pointer = m < header ? 0 : m - header;
    for (std::uint64_t i = 0; i < PARLEY_MPA_MARKER_LEN; ++i) {
      const std::uint64_t q = m + i;
      if (q < from || q >= to || q < at) continue;
      const std::uint8_t due = i < 2 ? std::uint8_t{0} : static_cast<std::uint8_t>(i == 2 ? pointer >> 8 : pointer);
      const std::uint8_t is = in[q - from];
      const std::uint8_t becomes = (r.flags & unproven) == 0 || is == due ? is : due != 0 ? 0 : 0xFC;
      out[q - from] = is ^ becomes;
    }
  }
}

void StreamPlan::mask_fpdu(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out) const {
  const bool markers = (r.flags & has_markers) != 0;
  const std::uint64_t base = s.info.fpdus_at, at = r.at - base;
  const std::uint64_t end = begin + out.size();
  s.keys.fill(begin, out);
  const auto put = [&](std::uint64_t n, std::uint8_t mask) {
    const std::uint64_t q = base + place_of(at, n, markers);
    if (q >= begin && q < end) out[q - begin] = mask;
  };
  ConstBytes patch, pad_masks;
  std::size_t patch_begin = 0;
  if ((r.flags & has_patch) != 0) {
    Reader p(ConstBytes(patches_).subspan(r.patch));
    patch_begin = p.be16();
    patch = p.bytes(p.be16());
    pad_masks = p.bytes(3);
  }
  constexpr std::uint64_t length_field = PARLEY_MPA_LEN_LEN;
  const std::uint64_t head = (r.flags & is_tagged) != 0 ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN;
  // A segment from the middle of a long FPDU does not reach its headers.
  if (begin <= base + place_of(at, length_field + std::max<std::uint64_t>(head, patch_begin + patch.size()), markers)) {
    for (std::uint64_t n = 0; n < length_field; ++n) put(n, 0);
    std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> masks{};
    Writer w(masks);
    w.be16(0);
    w.be32(r.stag_mask);
    if ((r.flags & is_tagged) != 0) w.be64(r.offset_mask);
    for (std::uint64_t n = 0; n < std::min<std::uint64_t>(head, r.length); ++n) put(length_field + n, masks[n]);
    for (std::uint64_t n = 0; n < patch.size(); ++n) put(length_field + patch_begin + n, patch[n]);
  }
  const std::uint64_t pad_at = length_field + r.length, pad = (4 - pad_at % 4) % 4;
  if ((r.flags & pad_unknown) == 0)
    for (std::uint64_t n = 0; n < pad; ++n) put(pad_at + n, pad_masks.empty() ? std::uint8_t{0} : pad_masks[n]);
  for (std::uint64_t n = 0; n < PARLEY_MPA_CRC_LEN; ++n)
    put(pad_at + pad + n, static_cast<std::uint8_t>(r.crc_mask >> (24 - 8 * n)));
  if (markers) mask_markers(s, r, begin, in, out);
}

void StreamPlan::mask(const Stream& s, const Record& r, std::uint64_t begin, ConstBytes in, MutBytes out) const {
  switch (r.kind) {
    case Kind::startup:
    case Kind::message: s.keys.fill(begin, out); return mask_startup(r, begin, out);
    case Kind::fpdu: return mask_fpdu(s, r, begin, in, out);
    case Kind::lone: {
      // A leading marker becomes zeros (FPDUPTR 0). At the beginning of the stream all octets stay, because they decide
      // whether the stream has markers.
      const std::uint64_t length_at = r.at == s.info.fpdus_at ? r.at : end_of(s, r) - PARLEY_MPA_LEN_LEN;
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = begin + i < length_at ? in[i] : std::uint8_t{0};
      return;
    }
  }
}

/// Keeps well-formed markers where FPDU boundaries were lost: a receiver resynchronises by them (RFC 5044 §6).
void StreamPlan::keep_lost_markers(const Stream& s, std::uint64_t begin, ConstBytes in, MutBytes out) {
  if (s.info.markers != Known::yes) return;
  const std::uint64_t base = s.info.fpdus_at, end = begin + in.size();
  if (end <= base) return;
  const std::uint64_t from = begin > base ? begin - base : 0;
  for (std::uint64_t m = (from + marker_interval - 1) / marker_interval * marker_interval;
       base + m + PARLEY_MPA_MARKER_LEN <= end; m += marker_interval) {
    const ConstBytes octets = in.subspan(base + m - begin, PARLEY_MPA_MARKER_LEN);
    Reader r(octets);
    const std::uint16_t reserved = r.be16(), pointer = r.be16();
    if (reserved == 0 && pointer % 4 == 0)
      std::copy(octets.begin(), octets.end(), out.begin() + static_cast<std::ptrdiff_t>(base + m - begin));
  }
}

StreamPlan::TappedConnection* StreamPlan::find(const wire::TcpSegmentView& t, std::uint64_t frame) {
  const auto ends = by_ends_.find(ends_hash(t.source, t.destination));
  if (ends == by_ends_.end()) return nullptr;
  const auto after = std::upper_bound(ends->second.begin(), ends->second.end(), frame);
  if (after == ends->second.begin()) return nullptr;
  const auto it = connections_.find(*std::prev(after));
  if (it == connections_.end() || !it->second.judged || frame > it->second.last_frame) return nullptr;
  return &it->second;
}

void StreamPlan::apply(const wire::TcpSegmentView& t, std::uint64_t frame, MutBytes out) {
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  ConstBytes in = t.payload;
  counts_.zeroed += in.size();
  if (in.empty() || in.size() != out.size()) return;
  TappedConnection* c = find(t, frame);
  if (c == nullptr) return;
  Stream& s = c->streams[t.source < t.destination ? 0 : 1];
  if (!s.known || s.info.source != t.source || s.info.destination != t.destination) return;
  const std::uint32_t relative = (t.syn() ? t.seq + 1 : t.seq) - s.info.first_seq;
  const std::int64_t signed_at =
      static_cast<std::int64_t>(s.high) + static_cast<std::int32_t>(relative - static_cast<std::uint32_t>(s.high));
  if (signed_at < 0) {  // octets before the known part of this stream
    const auto before = static_cast<std::size_t>(std::min(-signed_at, static_cast<std::int64_t>(in.size())));
    in = in.subspan(before);
    out = out.subspan(before);
  }
  const auto begin = static_cast<std::uint64_t>(std::max<std::int64_t>(signed_at, 0)), end = begin + in.size();
  s.high = std::max(s.high, begin);
  keep_lost_markers(s, begin, in, out);
  auto r = std::upper_bound(s.records.begin(), s.records.end(), begin,
                            [](std::uint64_t v, const Record& each) { return v < each.at; });
  if (r != s.records.begin()) --r;
  for (; r != s.records.end() && r->at < end; ++r) {
    const std::uint64_t from = std::max(begin, r->at), to = std::min(end, end_of(s, *r));
    if (from >= to) continue;
    const ConstBytes part = in.subspan(from - begin, to - from);
    const MutBytes target = out.subspan(from - begin, to - from);
    mask(s, *r, from, part, target);
    for (std::size_t i = 0; i < part.size(); ++i) target[i] ^= part[i];
    counts_.payload_replaced += part.size();
    counts_.zeroed -= part.size();
  }
}

}  // namespace parley::capture
