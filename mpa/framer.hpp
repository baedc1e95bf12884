// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FPDU framing, both halves: RFC 5044 §4. Framer makes FPDUs from ULPDUs; Deframer (mpa/deframer.hpp) finds ULPDUs in a
// TCP stream with any segmentation. The Framer never allocates. If an FPDU does not fit, the Framer returns 0 and its
// state does not change.
#pragma once
#include <cstdint>

#include "mpa/deframer.hpp"
#include "mpa/fpdu.hpp"
#include "parley/bytes.hpp"

namespace parley::mpa {

/// RFC 5044 §4.5: the longest ULPDU that fits one TCP segment, with the most markers it can have; 128 to 64768.
std::uint16_t mulpdu_of(std::uint16_t emss, bool markers);

class Framer {
 public:
  /// `position`: stream position of the first FPDU; a multiple of four.
  explicit Framer(const FramerOptions& options, std::uint64_t position = 0);

  std::uint16_t mulpdu() const { return mulpdu_of(options_.emss, options_.markers); }
  /// Octets on the wire of an FPDU with this ULPDU at the current position, including markers, pad and CRC.
  std::size_t wire_size(std::size_t ulpdu_length) const {
    return fpdu::wire_size(position_, ulpdu_length, options_.markers);
  }
  /// Writes one FPDU whose ULPDU is `header` then `payload`; returns the octets written, wire_size() of them.
  /// Returns 0 and writes nothing if header + payload is not 1..64768 octets, or `out` is shorter than wire_size().
  std::size_t frame(ConstBytes header, ConstBytes payload, MutBytes out);

  /// Scatter/gather form: the payload is not copied. `side` (at least side_size() octets) receives the FPDU's own
  /// octets: length, header, markers, pad, CRC. `pieces` receives the list to send, in order. Returns the number of
  /// pieces used; 0 if `side` or `pieces` is too small or the length is not allowed. gather_pieces() pieces are always
  /// enough.
  static std::size_t side_size(std::size_t header, std::size_t ulpdu_length);
  static std::size_t gather_pieces(std::size_t payload_spans, std::size_t ulpdu_length);
  std::size_t gather(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                     std::span<ConstBytes> pieces, std::size_t& wire_octets);

  /// Stream position: octets of FPDUs and markers since the startup frame.
  std::uint64_t position() const { return position_; }

 private:
  std::size_t frame_marked(ConstBytes header, ConstBytes payload, MutBytes out, std::size_t ulpdu_length);
  std::size_t gather_bare(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                          std::span<ConstBytes> pieces, std::size_t ulpdu_length) const;
  std::size_t gather_marked(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side,
                            std::span<ConstBytes> pieces, std::size_t ulpdu_length) const;

  FramerOptions options_;
  std::uint64_t position_;
};

}  // namespace parley::mpa
