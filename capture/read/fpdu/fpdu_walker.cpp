// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/fpdu/fpdu_walker.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::capture {
namespace {

using wire::marker_interval;
constexpr std::uint32_t fpdu_least = PARLEY_MPA_LEN_LEN + 2 + PARLEY_MPA_CRC_LEN;  // with an empty ULPDU, padded
constexpr std::uint32_t startup_length = 0x4D50;  // "MP", the beginning of startup frames

std::uint64_t next_marker(std::uint64_t at) { return (at + marker_interval - 1) / marker_interval * marker_interval; }

// Whether a ULPDU can be a DDP segment. Used only to recognise FPDUs after a loss, never to report a fault.
bool plausible_segment(ConstBytes ulpdu) {
  const auto h = wire::DdpHeader::parse(ulpdu);
  if (!h || h->ddp_version > 1 || h->rdmap_version > 1) return false;
  Reader r(ulpdu);
  if ((r.u8() & PARLEY_DDP_RSVD) != 0) return false;
  const auto rule = wire::rule_of(h->opcode);  // the queue number is 0 if tagged, in the rule and in the header
  return rule.assigned && rule.tagged == h->tagged && rule.qn == h->qn;
}

}  // namespace

std::uint32_t FpduWalker::wire_size(std::uint64_t position, std::uint32_t ulpdu_length, bool markers) {
  const std::uint32_t n = ((2 + ulpdu_length + 3) & ~3u) + PARLEY_MPA_CRC_LEN;
  if (!markers) return n;
  const auto distance = static_cast<std::uint32_t>((marker_interval - position % marker_interval) % marker_interval);
  const std::uint32_t count = distance >= n ? 0 : 1 + (n - distance - 1) / (PARLEY_MPA_MARKER_INTERVAL - 4);
  return n + 4 * count;
}

void FpduWalker::start(Known crc, Known markers) { *this = {}, crc_ = crc, markers_ = markers; }

void FpduWalker::start_inside(Known crc, bool markers, std::uint64_t position) {
  start(crc, markers ? Known::yes : Known::no);
  begun_ = true;
  base_ = position;
  lose(position);
}

bool FpduWalker::unknown_in(std::uint64_t begin, std::uint64_t stop) const {
  // The ranges are ascending and disjoint: the first one that ends after `begin` decides.
  const auto it = std::upper_bound(unknown_.begin(), unknown_.end(), begin,
                                   [](std::uint64_t v, const Range& r) { return v < r.end; });
  return it != unknown_.end() && it->begin < stop;
}

ConstBytes FpduWalker::view(std::uint64_t at, std::size_t n) const { return window_.subspan(begin_ + (at - base_), n); }

const FpduWalker::Mark& FpduWalker::mark_at(std::uint64_t at) const {
  const auto first = marks_.begin() + static_cast<std::ptrdiff_t>(first_mark_);
  if (marks_.end() - first == 1) return *first;
  const auto it = std::upper_bound(first, marks_.end(), at, [](std::uint64_t v, const Mark& m) { return v < m.at; });
  return it == first ? *first : *std::prev(it);
}

void FpduWalker::consume(std::uint64_t to) {
  begin_ += to - base_;
  base_ = to;
  while (first_mark_ + 1 < marks_.size() && marks_[first_mark_ + 1].at <= to) ++first_mark_;
  if (!unknown_.empty()) std::erase_if(unknown_, [&](const Range& r) { return r.end <= to; });
}

void FpduWalker::append(ConstBytes in) {
  buffer_.insert(buffer_.end(), in.begin(), in.end());
  window_ = buffer_;
}

// How many octets the first FPDU in the buffer still lacks; 0: none, or not known.
std::size_t FpduWalker::wanted() const {
  if (resync_ || markers_ == Known::unknown || !unknown_.empty()) return 0;
  const bool markers = markers_ == Known::yes;
  const std::uint64_t header = base_ + (markers && base_ % marker_interval == 0 ? 4 : 0);
  if (end() < header + 2) return 0;
  Reader r(view(header, 2));
  const std::uint64_t stop = base_ + wire_size(base_, r.be16(), markers);
  return stop > end() ? stop - end() : 0;
}

void FpduWalker::octets(ConstBytes in, const SegmentRef& ref, bool start, FpduSink& sink) {
  window_ = buffer_;  // a copied walker has its own buffer
  if (size() == 0) {
    marks_.clear();
    first_mark_ = 0;
  }
  marks_.push_back({end(), ref, start});
  if (size() > 0) {
    // Append only the octets that complete the FPDU in the buffer. The rest is walked in place.
    if (const std::size_t n = wanted(); n > 0 && n < in.size()) {
      append(in.first(n));
      in = in.subspan(n);
      walk(sink);
    }
    if (size() > 0) {
      append(in);
      return walk(sink);
    }
  }
  window_ = in;
  walk(sink);
}

void FpduWalker::missing(std::uint64_t n, const SegmentRef& ref, FpduSink& sink) {
  window_ = buffer_;
  // A hole inside an FPDU of known length does not lose the boundaries. Only mark its octets as unknown.
  bool inside = false;
  if (!resync_ && markers_ != Known::unknown) {
    const bool lead = markers_ == Known::yes && base_ % marker_interval == 0;
    const std::size_t head = (lead ? 4u : 0u) + 2u;
    if (size() >= head && !unknown_in(base_, base_ + head)) {
      Reader r(view(base_ + head - 2, 2));
      const std::uint64_t stop = base_ + wire_size(base_, r.be16(), markers_ == Known::yes);
      inside = end() + n <= stop;
    }
  }
  if (inside) {
    unknown_.push_back({end(), end() + n});
    marks_.push_back({end(), ref, false});
    buffer_.resize(buffer_.size() + n);
    window_ = buffer_;
    walk(sink);
    return;
  }
  const std::uint64_t lost_at = resync_ ? lost_at_ : base_;
  base_ = end() + n;
  buffer_.clear();
  window_ = {};
  begin_ = 0;
  unknown_.clear();
  if (markers_ == Known::unknown) markers_ = Known::no;  // the octets that would decide are missing
  lose(none);
  lost_at_ = lost_at;
}

/// Whether a doubtful FPDU is plausible. If it is proven (by its CRC or by markers), the doubt ends.
bool FpduWalker::dispel(WalkedFpdu& f, Known crc_before) {
  const bool marked =
      markers_ == Known::yes && f.wire_octets > wire_size(0, static_cast<std::uint32_t>(f.ulpdu.size()), false);
  if (!plausible_segment(f.ulpdu) || f.pad_not_zero || !f.marker_fault.empty()) return false;
  doubtful_ = f.crc != WalkedFpdu::Crc::good && !marked;
  if (f.crc != WalkedFpdu::Crc::good && crc_before == Known::unknown) crc_ = crc_before;
  f.doubtful = doubtful_;
  return true;
}

/// Whether a startup frame begins here ("MPA ID R" in place of a ULPDU_Length). `wait`: it is not whole yet.
bool FpduWalker::startup_here(FpduSink& sink, bool& wait) {
  const std::size_t have = std::min<std::size_t>(size(), PARLEY_MPA_HEADER_LEN);
  constexpr std::string_view head = "MPA ID R";
  const ConstBytes in = view(base_, have);
  const std::size_t common = std::min(have, head.size());
  if (unknown_in(base_, base_ + have) ||
      !std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(common), in.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
    return false;
  const auto v = wire::MpaFrameView::parse(view(base_, size()));
  wait = !v || size() < v->frame_size();
  if (wait) return true;
  const std::size_t n = v->frame_size();
  sink.startup_frame(*v, mark_at(base_ + n - 1).ref);
  consume(base_ + n);
  if (markers_ == Known::yes) lose(base_);  // it is unknown where its sender now counts marker positions from
  return true;
}

/// FPDU octets on the wire at `at` with all markers except the one at `omitted`.
std::uint32_t FpduWalker::size_without(std::uint64_t at, std::uint32_t length, std::uint64_t omitted) {
  const std::uint32_t plain = wire_size(0, length, false);
  std::uint32_t markers = 0;
  for (std::uint64_t m = next_marker(at); m < at + plain + markers; m += marker_interval)
    if (m != omitted) markers += PARLEY_MPA_MARKER_LEN;
  return plain + markers;
}

// A sender that omits a marker computes the CRC without it (RFC 5044 §4.3). `stop`: where known octets end.
void FpduWalker::find_missing_marker(std::uint64_t at, std::uint64_t header, std::uint64_t stop,
                                     WalkedFpdu& out) const {
  const auto length = static_cast<std::uint32_t>(out.ulpdu.size());
  for (std::uint64_t m = next_marker(at); m + PARLEY_MPA_MARKER_LEN <= stop && m < at + out.wire_octets;
       m += marker_interval) {
    if (m <= header) continue;  // without this marker, the ULPDU_Length would be elsewhere
    Reader here(view(m, PARLEY_MPA_MARKER_LEN));
    if ((here.be32() & 0xFFFC) == m - header) continue;
    const std::uint64_t crc_at = at + size_without(at, length, m) - PARLEY_MPA_CRC_LEN;
    if (crc_at + PARLEY_MPA_CRC_LEN > stop) return;
    Reader r(view(crc_at, PARLEY_MPA_CRC_LEN));
    if (r.le32() != mpa::crc32c(view(at, crc_at - at))) return;
    out.marker_missing = true;
    out.missing_marker = m;
    out.wire_octets = static_cast<std::uint32_t>(crc_at + PARLEY_MPA_CRC_LEN - at);
    out.wire = view(at, out.wire_octets);
    out.last = mark_at(at + out.wire_octets - 1).ref;
    return;
  }
}

// As find_missing_marker() for the leading marker of an FPDU: the ULPDU_Length is at its place.
FpduWalker::LeadingMarker FpduWalker::leading_marker(WalkedFpdu& out) {
  constexpr std::uint32_t probe = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN;
  if (markers_ != Known::yes || crc_ != Known::yes || base_ % marker_interval != 0 || doubtful_)
    return LeadingMarker::there;
  if (size() < PARLEY_MPA_LEN_LEN) return ended_ ? LeadingMarker::there : LeadingMarker::wait;
  Reader r(view(base_, PARLEY_MPA_LEN_LEN));
  const std::uint32_t length = r.be16();  // RFC 5044 §4.3: 0 in a marker; the FPDUPTR is 0 here, too
  if (length < PARLEY_DDP_TAGGED_LEN || length > PARLEY_MPA_ULPDU_MAX) return LeadingMarker::there;
  if (size() < probe) return ended_ ? LeadingMarker::there : LeadingMarker::wait;
  if (unknown_in(base_, base_ + probe) || Reader(view(base_ + PARLEY_MPA_LEN_LEN, 1)).u8() == 0 ||
      !plausible_segment(view(base_ + PARLEY_MPA_LEN_LEN, probe - 2)))
    return LeadingMarker::there;
  const std::uint32_t total = size_without(base_, length, base_);
  if (size() < total) return ended_ ? LeadingMarker::there : LeadingMarker::wait;
  const std::uint64_t crc_at = base_ + total - PARLEY_MPA_CRC_LEN;
  Reader crc(view(crc_at, PARLEY_MPA_CRC_LEN));
  if (unknown_in(base_, base_ + total) || crc.le32() != mpa::crc32c(view(base_, total - PARLEY_MPA_CRC_LEN)))
    return LeadingMarker::there;
  out.position = out.missing_marker = base_;
  out.marker_missing = true;
  out.crc = WalkedFpdu::Crc::bad;  // for a receiver, which expects the marker
  out.wire_octets = total;
  out.wire = view(base_, total);
  out.first = mark_at(base_).ref;
  out.last = mark_at(base_ + total - 1).ref;
  strip_markers(base_ + marker_interval, base_, crc_at, out);
  out.ulpdu = ConstBytes(scratch_).first(length);
  out.known = length;
  return LeadingMarker::missing;
}

void FpduWalker::lose(std::uint64_t candidate) {
  resync_ = true;
  lost_at_ = segment_scan_ = base_;
  marker_scan_ = next_marker(base_);
  expected_ = candidate;
  have_candidate_ = false;
}

void FpduWalker::walk(FpduSink& sink) {
  // step() consumes from the front. Erasing once at the end keeps the cost linear for many small FPDUs in a segment.
  while (step(sink)) {
  }
  if (window_.data() == buffer_.data() && !buffer_.empty())
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(begin_));
  else
    buffer_.assign(window_.begin() + static_cast<std::ptrdiff_t>(begin_), window_.end());
  window_ = buffer_;
  begin_ = 0;
  if (first_mark_ > 32) {
    marks_.erase(marks_.begin(), marks_.begin() + static_cast<std::ptrdiff_t>(first_mark_));
    first_mark_ = 0;
  }
}

void FpduWalker::finish(FpduSink& sink) {
  begun_ = ended_ = true;
  walk(sink);
  const std::size_t due = wanted();
  if (markers_ != Known::yes || crc_ != Known::yes || due == 0 || due > 2 * PARLEY_MPA_MARKER_LEN) return;
  // The last FPDU lacks the octets of one marker, or of two: without the omitted one, a second may lie behind its end.
  const std::uint64_t header = base_ + (base_ % marker_interval == 0 ? PARLEY_MPA_MARKER_LEN : 0), stop = end();
  Reader r(view(header, 2));
  const std::uint32_t length = r.be16();
  buffer_.resize(buffer_.size() + due);
  window_ = buffer_;
  WalkedFpdu f;
  build(base_, length, wire_size(base_, length, true), f);
  find_missing_marker(base_, header, stop, f);
  if (f.marker_missing) sink.fpdu(f);
  buffer_.resize(f.marker_missing ? 0 : buffer_.size() - due);
  window_ = buffer_;
}

bool FpduWalker::step(FpduSink& sink) {
  if (size() == 0) return false;
  if (resync_ && !resync(sink)) return false;
  if (markers_ == Known::unknown) {
    if (size() < 4) return false;
    Reader r(view(base_, 2));
    markers_ = r.be16() == 0 ? Known::yes : Known::no;
  }
  if (!begun_) {
    std::uint32_t proof = 0;
    const MarkerCheck b = check_markers(proof);
    if (b == MarkerCheck::wait) return false;
    begun_ = true;
    if (b == MarkerCheck::otherwise) {
      markers_ = markers_ == Known::yes ? Known::no : Known::yes;
      sink.markers_differ(markers_ == Known::yes, mark_at(base_ + proof - 1).ref);
    }
  }
  const bool markers = markers_ == Known::yes;
  WalkedFpdu f;
  const LeadingMarker lead = leading_marker(f);
  if (lead == LeadingMarker::wait) return false;
  if (lead == LeadingMarker::missing) {
    const std::uint64_t next = base_ + f.wire_octets;
    sink.fpdu(f);
    consume(next);
    lose(next);
    return true;
  }
  const std::uint64_t header = base_ + (markers && base_ % marker_interval == 0 ? 4 : 0);
  if (end() < header + 2) return false;
  if (unknown_in(base_, header + 2)) {
    lose(header + 4);
    return true;
  }
  Reader r(view(header, 2));
  const std::uint32_t length = r.be16();
  Reader begin(view(base_, 2));
  if (bool wait = false; begin.be16() == startup_length && startup_here(sink, wait)) return !wait;
  // RFC 5044 §3: a ULPDU has 1 to 64768 octets; the DDP header alone has 14.
  if (length == 0 || length > PARLEY_MPA_ULPDU_MAX) {
    const SegmentRef ref = mark_at(header + 1).ref;
    const bool doubted = doubtful_;
    lose(base_ + wire_size(base_, length, markers));
    if (!doubted) sink.bad_length(length, ref);
    return true;
  }
  const std::uint32_t total = wire_size(base_, length, markers);
  if (size() < total) return false;
  const Known before = crc_;
  build(base_, length, total, f);
  if (doubtful_ && !dispel(f, before)) {
    if (before == Known::unknown) crc_ = before;
    consume(base_ + 1);
    lose(none);
    return true;
  }
  if (f.crc == WalkedFpdu::Crc::bad && markers) find_missing_marker(base_, header, end(), f);
  sink.fpdu(f);
  if (f.crc == WalkedFpdu::Crc::bad) {
    const std::uint64_t next = base_ + f.wire_octets;
    consume(next);
    lose(next);
  } else {
    consume(base_ + total);
  }
  return true;
}

/// Whether the stream begins with a marker although none was agreed, or without one although markers were agreed
/// (RFC 5044 §4.3). Only a good FPDU under the other reading proves it. Octets that fit the agreement are never held
/// back. `total`: the octets of that FPDU.
FpduWalker::MarkerCheck FpduWalker::check_markers(std::uint32_t& total) {
  if (base_ != 0 || resync_) return MarkerCheck::as_agreed;
  const bool agreed = markers_ == Known::yes;
  if (size() < 2 || unknown_in(0, 2)) return size() < 2 ? MarkerCheck::wait : MarkerCheck::as_agreed;
  Reader head(view(0, 2));
  const bool zero = head.be16() == 0;
  if (zero == agreed) return MarkerCheck::as_agreed;
  // A marker's reserved half may have bits set. Its FPDUPTR is 0 here; a DDP header has its nonzero version there.
  if (agreed && size() > 2 && !unknown_in(2, 3) && Reader(view(2, 1)).u8() == 0) return MarkerCheck::as_agreed;
  const std::uint64_t header = agreed ? 0 : PARLEY_MPA_MARKER_LEN;
  if (end() < header + 2) return MarkerCheck::wait;
  if (unknown_in(0, header + 2)) return MarkerCheck::as_agreed;
  Reader r(view(0, header + 2));
  // A marker between FPDUs has FPDUPTR 0; a DDP header would follow a ULPDU_Length of 0.
  if (!agreed && (r.be32() & ~std::uint32_t{3}) != 0) return MarkerCheck::as_agreed;
  const std::uint32_t length = r.be16();
  if (length < PARLEY_DDP_TAGGED_LEN || length > PARLEY_MPA_ULPDU_MAX) return MarkerCheck::as_agreed;
  if (!plausible_head(header + PARLEY_MPA_LEN_LEN, length, !agreed)) return MarkerCheck::as_agreed;
  total = wire_size(0, length, !agreed);
  if (size() < total) return MarkerCheck::wait;
  markers_ = agreed ? Known::no : Known::yes;
  const Guess guess = judge(0);
  markers_ = agreed ? Known::yes : Known::no;
  return guess == Guess::good ? MarkerCheck::otherwise : MarkerCheck::as_agreed;
}

void FpduWalker::strip_markers(std::uint64_t first_marker, std::uint64_t header, std::uint64_t stop, WalkedFpdu& out) {
  scratch_.clear();
  std::uint64_t from = header + 2;
  for (std::uint64_t m = first_marker; m < stop; m += marker_interval) {
    if (m > from) {
      const ConstBytes part = view(from, m - from);
      scratch_.insert(scratch_.end(), part.begin(), part.end());
    }
    from = std::max(from, m + PARLEY_MPA_MARKER_LEN);
    if (unknown_in(m, m + PARLEY_MPA_MARKER_LEN)) continue;
    Reader r(view(m, PARLEY_MPA_MARKER_LEN));
    const std::uint16_t reserved = r.be16(), sent = r.be16();
    // RFC 5044 §4.3: the low two bits of FPDUPTR are treated as 0.
    const std::uint32_t pointer = sent & 0xFFFCu;
    if (reserved != 0 || pointer != sent) out.marker_bits = true;
    const std::uint64_t expected = m < header ? 0 : m - header;
    if (pointer != expected && out.marker_fault.empty())
      out.marker_fault = fmt::format("the marker at stream position {} has FPDUPTR {}, its FPDU began {} octets before",
                                     m, pointer, expected);
  }
  if (stop > from) {
    const ConstBytes part = view(from, stop - from);
    scratch_.insert(scratch_.end(), part.begin(), part.end());
  }
}

bool FpduWalker::build(std::uint64_t at, std::uint32_t length, std::uint32_t total, WalkedFpdu& out) {
  const bool markers = markers_ == Known::yes;
  const std::uint64_t header = at + (markers && at % marker_interval == 0 ? 4 : 0);
  const std::uint64_t crc_at = at + total - PARLEY_MPA_CRC_LEN;
  out.position = at;
  out.wire_octets = total;
  out.wire = view(at, total);
  const Mark& first = mark_at(at);
  const Mark& last = mark_at(at + total - 1);
  out.first = first.ref;
  out.last = last.ref;
  out.starts_segment = first.start && first.at == at;
  out.spans_segments = first.at != last.at;
  ConstBytes body;  // ULPDU and pad
  if (markers) {
    strip_markers(next_marker(at), header, crc_at, out);
    body = scratch_;
  } else {
    body = view(header + 2, total - 2 - PARLEY_MPA_CRC_LEN);
  }
  out.ulpdu = body.first(length);
  out.known = length;
  const bool holes = unknown_in(at, at + total);
  out.whole = !holes;
  if (holes) {
    for (const Range& r : unknown_)
      if (r.begin < at + total && r.end > at) {
        const std::uint64_t ahead = std::max(r.begin, header + 2) - (header + 2);
        // Markers only move the stream position ahead of the ULPDU. The result may be too small, but never too large.
        const std::uint64_t inside = markers ? ahead - std::min(ahead, ahead / (marker_interval - 4) * 4 + 8) : ahead;
        out.known = std::min<std::size_t>(out.known, inside);
        break;
      }
  } else {
    const ConstBytes pad = body.subspan(length);
    out.pad_not_zero = std::any_of(pad.begin(), pad.end(), [](std::uint8_t b) { return b != 0; });
  }
  if (crc_ == Known::no) return true;
  if (holes) {
    out.crc = WalkedFpdu::Crc::not_seen;
    return true;
  }
  Reader r(view(crc_at, PARLEY_MPA_CRC_LEN));
  out.crc_sent = r.le32();  // RFC 5044 §4.4: least significant octet first
  out.crc_computed = mpa::crc32c(view(at, total - PARLEY_MPA_CRC_LEN));
  const bool good = out.crc_sent == out.crc_computed;
  if (crc_ == Known::unknown) crc_ = good ? Known::yes : Known::no;
  out.crc = good ? WalkedFpdu::Crc::good : crc_ == Known::yes ? WalkedFpdu::Crc::bad : WalkedFpdu::Crc::off;
  return good;
}

/// Whether a DDP header can begin at `at`, or is not complete yet. The search rejects most candidates early by this.
bool FpduWalker::plausible_head(std::uint64_t at, std::uint32_t ulpdu_length, bool markers) const {
  std::array<std::uint8_t, PARLEY_DDP_UNTAGGED_LEN> head{};
  const std::size_t n = std::min<std::size_t>(head.size(), ulpdu_length);
  for (std::size_t i = 0; i < n; ++i, ++at) {
    if (markers && at % marker_interval == 0) at += PARLEY_MPA_MARKER_LEN;
    if (at >= end()) return true;
    head[i] = view(at, 1).front();
  }
  return plausible_segment(ConstBytes(head).first(n));
}

FpduWalker::Guess FpduWalker::judge(std::uint64_t at) {
  const bool markers = markers_ == Known::yes;
  const std::uint64_t header = at + (markers && at % marker_interval == 0 ? 4 : 0);
  if (end() < header + 2) return Guess::wait;
  if (unknown_in(at, header + 2)) return Guess::bad;
  Reader r(view(header, 2));
  const std::uint32_t length = r.be16();
  if (length < PARLEY_DDP_TAGGED_LEN || length > PARLEY_MPA_ULPDU_MAX) return Guess::bad;
  const std::uint32_t total = wire_size(at, length, markers);
  if (!plausible_head(header + PARLEY_MPA_LEN_LEN, length, markers)) return Guess::bad;
  if (end() < at + total) return Guess::wait;
  WalkedFpdu f;
  const Known before = crc_;
  build(at, length, total, f);
  if (before == Known::unknown && f.crc != WalkedFpdu::Crc::good) crc_ = before;  // it may not have been an FPDU
  if (!plausible_segment(f.ulpdu) || f.known < PARLEY_DDP_TAGGED_LEN) return Guess::bad;
  if (f.crc == WalkedFpdu::Crc::bad || !f.marker_fault.empty() || f.pad_not_zero) return Guess::bad;
  return Guess::good;
}

/// The first captured marker that was not tried; `none` if there is none.
std::uint64_t FpduWalker::marker_to_try() const {
  if (markers_ != Known::yes) return none;
  for (std::uint64_t m = marker_scan_; m + PARLEY_MPA_MARKER_LEN <= end(); m += marker_interval)
    if (!unknown_in(m, m + PARLEY_MPA_MARKER_LEN)) return m;
  return none;
}

/// The beginning of the first TCP segment that was not tried; `none` if there is none.
std::uint64_t FpduWalker::segment_to_try() const {
  auto mark = std::lower_bound(marks_.begin() + static_cast<std::ptrdiff_t>(first_mark_), marks_.end(), segment_scan_,
                               [](const Mark& m, std::uint64_t v) { return m.at < v; });
  while (mark != marks_.end() && !mark->start) ++mark;
  return mark != marks_.end() && mark->at < end() ? mark->at : none;
}

bool FpduWalker::next_candidate() {
  for (;;) {
    const std::uint64_t marker = marker_to_try(), segment = segment_to_try();
    const std::uint64_t expected = expected_ < end() ? expected_ : none;
    // Behind an empty ULPDU, or one whose length is missing, only the expected position is a candidate.
    const bool expected_first = expected_ - lost_at_ <= fpdu_least + PARLEY_MPA_MARKER_LEN;
    if (expected == none && (expected_first || (marker == none && segment == none))) return false;
    const std::uint64_t marker_end = marker == none ? none : marker + PARLEY_MPA_MARKER_LEN;
    if (expected_first || (expected <= segment && expected <= marker_end)) {
      candidate_ = std::exchange(expected_, none);
    } else if (segment <= marker_end) {
      candidate_ = segment;
      segment_scan_ = segment + 1;
    } else {
      // RFC 5044 §6: a marker points to the beginning of its FPDU, or an FPDU begins right after it.
      Reader r(view(marker + 2, 2));
      const std::uint64_t pointer = r.be16() & 0xFFFCu;
      candidate_ = pointer > marker ? marker : marker - pointer;
      if (candidate_ >= 4 && candidate_ % marker_interval == 4) candidate_ -= 4;  // its leading marker belongs to it
      marker_scan_ = marker + marker_interval;
    }
    if (candidate_ >= base_) return true;
  }
}

/// Drops octets in which no candidate can begin any more. A later marker may still point back up to pointer_max.
void FpduWalker::forget_tried() {
  std::uint64_t to = end();
  if (markers_ == Known::yes) to = std::min(to, marker_scan_ - std::min(marker_scan_, pointer_max));
  if (have_candidate_) to = std::min(to, candidate_);
  if (to > base_) consume(to);
}

bool FpduWalker::resync(FpduSink& sink) {
  for (;;) {
    if (!have_candidate_) have_candidate_ = next_candidate();
    const Guess v = have_candidate_ ? judge(candidate_) : Guess::wait;
    if (v == Guess::wait) {
      forget_tried();
      return false;
    }
    have_candidate_ = false;
    if (v == Guess::bad) continue;
    const SegmentRef ref = mark_at(candidate_).ref;
    const std::uint64_t skipped = candidate_ - lost_at_;
    consume(candidate_);
    resync_ = false;
    doubtful_ = doubts_ && crc_ != Known::yes;
    sink.resynchronised(skipped, ref);
    return true;
  }
}

}  // namespace parley::capture
