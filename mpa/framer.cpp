// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The framer writes raw octets by pointer after one check of the room, because it is a documented hot path.
#include "mpa/framer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "base/assert.hpp"
#include "mpa/crc32c.hpp"

namespace parley::mpa {
namespace {

using fpdu::crc_size;
using fpdu::interval;
using fpdu::length_size;
using fpdu::marker_size;

void put_be16(std::uint8_t* at, std::size_t v) {
  at[0] = static_cast<std::uint8_t>(v >> 8);
  at[1] = static_cast<std::uint8_t>(v);
}

// RFC 5044 §4.4: the CRC is sent least significant octet first.
void put_crc(std::uint8_t* at, std::uint32_t v) {
  at[0] = static_cast<std::uint8_t>(v);
  at[1] = static_cast<std::uint8_t>(v >> 8);
  at[2] = static_cast<std::uint8_t>(v >> 16);
  at[3] = static_cast<std::uint8_t>(v >> 24);
}

void put(std::uint8_t* at, ConstBytes in) {
  if (!in.empty()) std::memcpy(at, in.data(), in.size());
}

/// Headers are short: two overlapping moves are faster than a call of memcpy.
void put_header(std::uint8_t* at, ConstBytes in) {
  const auto ends = [&](auto size) {
    std::memcpy(at, in.data(), size);
    std::memcpy(at + in.size() - size, in.data() + in.size() - size, size);
  };
  if (in.size() - 16 <= 16)
    ends(std::integral_constant<std::size_t, 16>{});
  else if (in.size() - 8 < 8)
    ends(std::integral_constant<std::size_t, 8>{});
  else
    put(at, in);
}

/// The running CRC over ULPDU_Length and the header. It reads the header's source: reading back octets that were just
/// written in pieces would wait for the stores. XORing two octets into the low bits of a running value and extending
/// over two zero octets is the same as extending over the two octets.
std::uint32_t crc_of_head(std::size_t ulpdu_length, ConstBytes header) {
  const auto length = static_cast<std::uint32_t>(ulpdu_length >> 8 | (ulpdu_length & 0xFF) << 8);
  return crc32c_extend(crc32c_zeros(crc32c_init ^ length, length_size), header);
}

// RFC 5044 §4.3: 16 reserved bits of zero, then the distance from ULPDU_Length.
void put_marker(std::uint8_t* at, std::size_t pointer) {
  put_be16(at, 0);
  put_be16(at + 2, pointer);
}

constexpr std::array<std::uint8_t, 4> zeros{};

/// Octets until the next marker is due; 0 if it is due now.
std::size_t before_marker(std::uint64_t position) { return static_cast<std::size_t>((0 - position) & (interval - 1)); }

/// From this length on, one pass for copy and CRC is faster despite the separate calls for header and PAD.
constexpr std::size_t fused_from = 512;

/// Copies octets into one buffer and puts the markers in between.
class MarkedCopy {
 public:
  MarkedCopy(std::uint8_t* out, std::uint64_t position) : at_(out), position_(position), start_(position) {
    marker_if_due();
    start_ = position_;  // ULPDU_Length comes after a leading marker
  }
  void octets(ConstBytes in) {
    while (!in.empty()) {
      marker_if_due();
      const std::size_t n = std::min(in.size(), room());
      std::memcpy(at_, in.data(), n);
      advance(n);
      in = in.subspan(n);
    }
  }
  void marker_if_due() {
    if (before_marker(position_) != 0) return;
    put_marker(at_, static_cast<std::size_t>(position_ - start_));
    advance(marker_size);
  }
  std::uint8_t* at() const { return at_; }

 private:
  std::size_t room() const { return before_marker(position_); }
  void advance(std::size_t n) {
    at_ += n;
    position_ += n;
  }

  std::uint8_t* at_;
  std::uint64_t position_;
  std::uint64_t start_;
};

/// Lists octets as pieces, with markers in between. The FPDU's own octets are copied to the side buffer; the payload
/// stays in place.
class MarkedGather {
 public:
  MarkedGather(MutBytes side, std::span<ConstBytes> pieces, std::uint64_t position, bool crc)
      : pieces_(pieces), at_(side.data()), run_(side.data()), position_(position), start_(position), crc_(crc) {
    marker_if_due();
    start_ = position_;
  }
  void own(ConstBytes in) { split(in, true); }
  void borrow(ConstBytes in) { split(in, false); }
  /// The number of pieces used, 0 if there were too few.
  std::size_t finish() {
    marker_if_due();  // RFC 5044 §4.3: a marker between PAD and CRC belongs to this FPDU
    put_crc(at_, crc_ ? crc32c_final(state_) : 0);
    at_ += crc_size;
    close_run();
    return used_ <= pieces_.size() ? used_ : 0;
  }

 private:
  void split(ConstBytes in, bool copy) {
    while (!in.empty()) {
      marker_if_due();
      const ConstBytes part = in.first(std::min(in.size(), before_marker(position_)));
      if (crc_) state_ = crc32c_extend(state_, part);
      if (copy) {
        std::memcpy(at_, part.data(), part.size());
        at_ += part.size();
      } else {
        close_run();
        piece(part);
      }
      position_ += part.size();
      in = in.subspan(part.size());
    }
  }
  void marker_if_due() {
    if (before_marker(position_) != 0) return;
    put_marker(at_, static_cast<std::size_t>(position_ - start_));
    if (crc_) state_ = crc32c_extend(state_, {at_, marker_size});
    at_ += marker_size;
    position_ += marker_size;
  }
  void close_run() {
    if (run_ != at_) piece({run_, at_});
    run_ = at_;
  }
  void piece(ConstBytes in) {
    if (used_ < pieces_.size()) pieces_[used_] = in;
    ++used_;
  }

  std::span<ConstBytes> pieces_;
  std::size_t used_ = 0;
  std::uint8_t* at_;
  std::uint8_t* run_;  ///< the beginning of the side octets that are not yet listed
  std::uint64_t position_;
  std::uint64_t start_;
  std::uint32_t state_ = crc32c_init;
  bool crc_;
};

}  // namespace

// RFC 5044 §4.5: worst case, a marker at the very beginning of the segment.
std::uint16_t mulpdu_of(std::uint16_t emss, bool markers) {
  const std::size_t room = emss;
  std::size_t overhead = length_size + crc_size + room % 4;
  if (markers) overhead += marker_size * ((room + interval - 1) / interval);
  const std::size_t fits = room > overhead ? room - overhead : 0;
  return static_cast<std::uint16_t>(
      std::clamp<std::size_t>(fits, PARLEY_MPA_MULPDU_MIN, PARLEY_MPA_ULPDU_MAX));  // RFC 5044 §3
}

Framer::Framer(const FramerOptions& options, std::uint64_t position) : options_(options), position_(position) {
  PARLEY_ASSERT(position % 4 == 0);
}

std::size_t Framer::frame(ConstBytes header, ConstBytes payload, MutBytes out) {
  const std::size_t ulpdu_length = header.size() + payload.size();
  if (!fpdu::length_allowed(ulpdu_length) || out.size() < wire_size(ulpdu_length)) return 0;
  if (options_.markers) return frame_marked(header, payload, out, ulpdu_length);

  const std::size_t size = fpdu::bare_size(ulpdu_length);
  std::uint8_t* const fpdu = out.data();
  std::uint8_t* const crc = fpdu + size - crc_size;
  std::memcpy(crc - zeros.size(), zeros.data(), zeros.size());  // PAD; the rest of that word is written below
  put_be16(fpdu, ulpdu_length);
  put_header(fpdu + length_size, header);
  std::uint8_t* const body = fpdu + length_size + header.size();
  if (!options_.crc) {
    // RFC 5044 §4.4: without CRC the field is still present; its value does not matter.
    put(body, payload);
    put_crc(crc, 0);
  } else if (payload.size() < fused_from) {
    put(body, payload);
    put_crc(crc, crc32c({fpdu, crc}));
  } else {
    std::uint32_t state = crc32c_copy(crc_of_head(ulpdu_length, header), body, payload);
    put_crc(crc, crc32c_final(crc32c_zeros(state, fpdu::pad(ulpdu_length))));
  }
  position_ += size;
  return size;
}

std::size_t Framer::frame_marked(ConstBytes header, ConstBytes payload, MutBytes out, std::size_t ulpdu_length) {
  std::array<std::uint8_t, length_size> length;
  put_be16(length.data(), ulpdu_length);
  MarkedCopy copy(out.data(), position_);
  copy.octets(length);
  copy.octets(header);
  copy.octets(payload);
  copy.octets(ConstBytes(zeros).first(fpdu::pad(ulpdu_length)));
  copy.marker_if_due();  // RFC 5044 §4.3: a marker between PAD and CRC belongs to this FPDU
  std::uint8_t* const crc = copy.at();
  // RFC 5044 §4.4: the CRC covers every marker of the FPDU, a leading one included.
  put_crc(crc, options_.crc ? crc32c({out.data(), crc}) : 0);
  const auto size = static_cast<std::size_t>(crc + crc_size - out.data());
  position_ += size;
  return size;
}

std::size_t Framer::side_size(std::size_t header, std::size_t ulpdu_length) {
  const std::size_t bare = fpdu::bare_size(ulpdu_length);
  return length_size + header + fpdu::pad(ulpdu_length) + crc_size + marker_size * fpdu::markers(0, bare);
}

std::size_t Framer::gather_pieces(std::size_t payload_spans, std::size_t ulpdu_length) {
  // Each marker inside the payload splits a piece in two, with a piece of the side buffer in between.
  return payload_spans + 2 + 2 * fpdu::markers(0, fpdu::bare_size(ulpdu_length));
}

inline std::size_t Framer::gather_bare(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                                       std::span<ConstBytes> pieces, std::size_t ulpdu_length) const {
  const std::size_t head_size = length_size + header.size();
  const std::size_t pad = fpdu::pad(ulpdu_length);
  if (side.size() < head_size + pad + crc_size || pieces.size() < payload.size() + 2) return 0;
  std::uint8_t* const head = side.data();
  std::uint8_t* const tail = head + head_size;
  put_be16(head, ulpdu_length);
  put_header(head + length_size, header);
  std::uint32_t state = options_.crc ? crc_of_head(ulpdu_length, header) : 0;
  ConstBytes* piece = pieces.data();
  *piece++ = {head, head_size};
  for (const ConstBytes part : payload) {
    if (part.empty()) continue;
    if (options_.crc) state = crc32c_extend(state, part);
    *piece++ = part;
  }
  std::memcpy(tail, zeros.data(), zeros.size());  // the CRC overwrites the octets after PAD
  put_crc(tail + pad, options_.crc ? crc32c_final(crc32c_zeros(state, pad)) : 0);
  *piece++ = {tail, pad + crc_size};
  return static_cast<std::size_t>(piece - pieces.data());
}

std::size_t Framer::gather(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                           std::span<ConstBytes> pieces, std::size_t& wire_octets) {
  wire_octets = 0;
  std::size_t ulpdu_length = header.size();
  for (const ConstBytes part : payload) {
    ulpdu_length += part.size();
    if (ulpdu_length > PARLEY_MPA_ULPDU_MAX) break;  // refused below; the sum cannot overflow
  }
  if (!fpdu::length_allowed(ulpdu_length)) return 0;
  const std::size_t used = options_.markers ? gather_marked(header, payload, side, pieces, ulpdu_length)
                                            : gather_bare(header, payload, side, pieces, ulpdu_length);
  if (used == 0) return 0;
  wire_octets = wire_size(ulpdu_length);
  position_ += wire_octets;
  return used;
}

std::size_t Framer::gather_marked(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                                  std::span<ConstBytes> pieces, std::size_t ulpdu_length) const {
  if (side.size() < side_size(header.size(), ulpdu_length)) return 0;
  std::array<std::uint8_t, length_size> length;
  put_be16(length.data(), ulpdu_length);
  MarkedGather gather(side, pieces, position_, options_.crc);
  gather.own(length);
  gather.own(header);
  for (const ConstBytes part : payload) gather.borrow(part);
  gather.own(ConstBytes(zeros).first(fpdu::pad(ulpdu_length)));
  return gather.finish();
}

}  // namespace parley::mpa
