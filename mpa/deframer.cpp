// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The deframer indexes raw octets after one length check, because it is a documented hot path.
#include "mpa/deframer.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "mpa/crc32c.hpp"

namespace parley::mpa {
namespace {

using fpdu::crc_size;
using fpdu::interval;
using fpdu::length_size;
using fpdu::marker_size;

std::uint16_t get_be16(const std::uint8_t* at) { return static_cast<std::uint16_t>(at[0] << 8 | at[1]); }

// RFC 5044 §4.4: the CRC is sent least significant octet first.
std::uint32_t get_crc(const std::uint8_t* at) {
  return std::uint32_t{at[0]} | std::uint32_t{at[1]} << 8 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[3]} << 24;
}

// RFC 5044 §4.3: the low two bits of FPDUPTR are treated as zero; the reserved half of the marker is ignored.
std::size_t marker_pointer(const std::uint8_t* marker) { return get_be16(marker + 2) & ~std::size_t{3}; }

}  // namespace

std::string_view to_string(DeframeStatus status) {
  switch (status) {
    case DeframeStatus::fpdu: return "fpdu";
    case DeframeStatus::need_more: return "need_more";
    case DeframeStatus::crc_error: return "crc_error";
    case DeframeStatus::marker_error: return "marker_error";
    case DeframeStatus::length_error: return "length_error";
  }
  return "unknown";
}

// RFC 5044 §8 has no code for a forbidden length; the one about ULPDU_Length is the nearest.
std::uint8_t mpa_error_code(DeframeStatus status) {
  switch (status) {
    case DeframeStatus::crc_error: return 2;
    case DeframeStatus::marker_error:
    case DeframeStatus::length_error: return 3;
    case DeframeStatus::fpdu:
    case DeframeStatus::need_more: break;
  }
  return 0;
}

Deframer::Deframer(const FramerOptions& options, std::uint64_t position)
    : options_(options),
      position_(position),
      beyond_(options.markers ? 0 : ~(interval - 1)),
      pieces_(options.markers ? fpdu::pieces_max : 0) {
  PARLEY_ASSERT(position % 4 == 0);
}

void Deframer::feed(ConstBytes in) {
  if (dead_ != DeframeStatus::fpdu) return;
  PARLEY_ASSERT(in_.empty());  // the caller must call next() until need_more before it feeds again
  in_ = in;
}

/// Delivers the FPDU `whole`, which has no markers.
inline DeframeStatus Deframer::deliver_bare(ConstBytes whole, std::uint16_t ulpdu_length, FpduView& out) {
  const ConstBytes covered = whole.first(whole.size() - crc_size);
  const std::uint32_t received = get_crc(covered.data() + covered.size());
  // RFC 5044 §4.4: without CRC the field is ignored.
  if (options_.crc && crc32c(covered) != received) [[unlikely]]
    return die(DeframeStatus::crc_error, position_ + covered.size());
  bare_ = covered.subspan(length_size, ulpdu_length);
  out.pieces = {&bare_, 1};
  out.ulpdu_length = ulpdu_length;
  out.position = position_;
  out.crc = received;
  position_ += whole.size();
  return DeframeStatus::fpdu;
}

/// The octets of an FPDU up to the end of ULPDU_Length, including a leading marker if one is due.
inline std::size_t Deframer::head_size() const {
  return options_.markers && position_ % interval == 0 ? marker_size + length_size : length_size;
}

inline bool Deframer::measure(ConstBytes head, FpduSize& shape) {
  shape.lead = head_size() - length_size;
  shape.ulpdu_length = get_be16(head.data() + shape.lead);
  // RFC 5044 §3: a ULPDU has 1 to 64768 octets. Another length is refused before the CRC is checked, since the position
  // of the CRC is then unknown.
  if (!fpdu::length_allowed(shape.ulpdu_length)) [[unlikely]] {
    die(DeframeStatus::length_error, position_ + shape.lead);
    return false;
  }
  shape.wire = fpdu::wire_size(position_, shape.ulpdu_length, options_.markers);
  return true;
}

/// Checks the markers and lists the parts of the ULPDU between them.
inline bool Deframer::gather_pieces(ConstBytes covered, const FpduSize& shape, FpduView& out) {
  const std::uint8_t* const fpdu = covered.data();
  std::size_t wrong = shape.lead != 0 ? marker_pointer(fpdu) : 0;
  std::size_t at = shape.lead + length_size;
  ConstBytes* piece = pieces_.data();
  // RFC 5044 §4.3: every marker inside the FPDU points back to ULPDU_Length, including one between PAD and CRC.
  for (std::size_t marker = interval - position_ % interval; marker < covered.size(); marker += interval) {
    wrong |= marker_pointer(fpdu + marker) ^ (marker - shape.lead);
    *piece++ = {fpdu + at, marker - at};
    at = marker + marker_size;
  }
  // Cut off PAD. It shares a word with the ULPDU's end. Either that word is not listed yet, or a marker followed it and
  // the last piece ends with PAD.
  const std::size_t end = covered.size() - fpdu::pad(shape.ulpdu_length);
  if (at < end)
    *piece++ = {fpdu + at, end - at};
  else
    piece[-1] = piece[-1].first(piece[-1].size() - (at - end));
  out.pieces = {pieces_.data(), piece};
  if (wrong != 0) [[unlikely]] {
    die(DeframeStatus::marker_error, position_ + first_wrong_marker(covered, shape));
    return false;
  }
  return true;
}

inline DeframeStatus Deframer::examine(ConstBytes whole, const FpduSize& shape, FpduView& out) {
  if (!options_.markers) return deliver_bare(whole, shape.ulpdu_length, out);
  const ConstBytes covered = whole.first(shape.wire - crc_size);
  const std::uint32_t received = get_crc(covered.data() + covered.size());
  // The CRC is checked before the markers, because error 3 of RFC 5044 §8 implies that the CRC was correct.
  if (options_.crc && crc32c(covered) != received) [[unlikely]]
    return die(DeframeStatus::crc_error, position_ + covered.size());
  if (!gather_pieces(covered, shape, out)) return dead_;
  out.ulpdu_length = shape.ulpdu_length;
  out.position = position_ + shape.lead;
  out.crc = received;
  position_ += shape.wire;
  return DeframeStatus::fpdu;
}

DeframeStatus Deframer::next(FpduView& out) {
  if (dead_ != DeframeStatus::fpdu || !carry_.empty()) [[unlikely]] {
    if (dead_ != DeframeStatus::fpdu) return dead_;
    if (!carry_taken_) return next_carried(out);
    carry_.clear();
    carry_taken_ = false;
  }
  // The common case: the whole FPDU is in the input and has no marker.
  if (in_.size() >= length_size) [[likely]] {
    const std::uint16_t ulpdu_length = get_be16(in_.data());
    const std::size_t bare = fpdu::bare_size(ulpdu_length);
    if (bare <= before_marker() && bare <= in_.size() && fpdu::length_allowed(ulpdu_length)) [[likely]] {
      const ConstBytes whole = in_.first(bare);
      in_ = in_.subspan(bare);
      return deliver_bare(whole, ulpdu_length, out);
    }
  }
  if (in_.size() < head_size()) return keep(0);
  FpduSize shape;
  if (!measure(in_, shape)) [[unlikely]]
    return dead_;
  if (in_.size() < shape.wire) return keep(shape.wire);
  const ConstBytes whole = in_.first(shape.wire);
  in_ = in_.subspan(shape.wire);
  return examine(whole, shape, out);
}

/// Keeps the rest of the input, which is less than an FPDU. `wire`: the FPDU's size if known.
DeframeStatus Deframer::keep(std::size_t wire) {
  if (!in_.empty()) {
    carry_.reserve(wire);
    carry_.insert(carry_.end(), in_.begin(), in_.end());
    in_ = {};
  }
  return DeframeStatus::need_more;
}

bool Deframer::top_up(std::size_t size) {
  if (carry_.size() < size) {
    const ConstBytes part = in_.first(std::min(in_.size(), size - carry_.size()));
    carry_.insert(carry_.end(), part.begin(), part.end());
    in_ = in_.subspan(part.size());
  }
  return carry_.size() >= size;
}

DeframeStatus Deframer::next_carried(FpduView& out) {
  if (!top_up(head_size())) return DeframeStatus::need_more;
  FpduSize shape;
  if (!measure(carry_, shape)) return dead_;
  carry_.reserve(shape.wire);
  if (!top_up(shape.wire)) return DeframeStatus::need_more;
  carry_taken_ = true;
  return examine(carry_, shape, out);
}

std::size_t Deframer::first_wrong_marker(ConstBytes covered, const FpduSize& shape) const {
  if (shape.lead != 0 && marker_pointer(covered.data()) != 0) return 0;
  std::size_t marker = interval - position_ % interval;
  while (marker_pointer(covered.data() + marker) == marker - shape.lead) marker += interval;
  return marker;
}

DeframeStatus Deframer::die(DeframeStatus why, std::uint64_t position) {
  dead_ = why;
  error_position_ = position;
  in_ = {};
  return why;
}

}  // namespace parley::mpa
