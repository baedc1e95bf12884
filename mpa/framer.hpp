// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FPDU framing, both halves: RFC 5044 §4. Framer makes FPDUs from ULPDUs, Deframer finds ULPDUs in a TCP stream however it
// was cut. Neither allocates after construction, except the Deframer's carry buffer, which is bounded by one FPDU.
#pragma once
#include <array>
#include <cstdint>

#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::mpa {

struct FramerOptions {
  bool crc = true;
  bool markers = false;
  std::uint16_t emss = 1460;
};

/// RFC 5044 §4.5: the longest ULPDU that fits one TCP segment, markers' worst case included; never below 128.
std::uint16_t mulpdu_of(std::uint16_t emss, bool markers);

class Framer {
 public:
  explicit Framer(const FramerOptions& options) : options_(options) {}

  std::uint16_t mulpdu() const { return mulpdu_of(options_.emss, options_.markers); }
  /// Octets on the wire of an FPDU with this ULPDU at the present position, markers, pad and CRC included.
  std::size_t wire_size(std::size_t ulpdu_length) const;
  /// Writes one FPDU whose ULPDU is `header` then `payload`; the octets written. `out` holds at least wire_size().
  /// header + payload: 1..64768 octets.
  std::size_t frame(ConstBytes header, ConstBytes payload, MutBytes out);

  /// Scatter/gather form, payload not copied. `side` receives the FPDU's own octets (length, header, markers, pad, CRC;
  /// at least side_size()); `pieces` the list to send, in order. Returns pieces used, 0 if they do not suffice.
  static std::size_t side_size(std::size_t header, std::size_t ulpdu_length);
  std::size_t gather(ConstBytes header, std::span<const ConstBytes> payload, MutBytes side, std::span<ConstBytes> pieces,
                     std::size_t& wire_octets);

  /// Stream position: octets of FPDUs and markers since the startup frame.
  std::uint64_t position() const { return position_; }

 private:
  FramerOptions options_;
  std::uint64_t position_ = 0;
};

/// A ULPDU as pieces of the input (markers cut out), valid until the next feed() or next().
struct FpduView {
  std::span<const ConstBytes> pieces;
  std::uint16_t ulpdu_length = 0;
  std::uint64_t position = 0;  ///< of the ULPDU_Length field in the stream
  std::uint32_t crc = 0;       ///< as received
};

enum class DeframeStatus : std::uint8_t { fpdu, need_more, crc_error, marker_error, length_error };

/// feed() one input span, then next() until it says need_more (the rest is then kept inside). After an error the
/// half stream is dead: next() repeats the error (RFC 5044 §8).
class Deframer {
 public:
  explicit Deframer(const FramerOptions& options) : options_(options) {}
  void feed(ConstBytes in);
  DeframeStatus next(FpduView& out);
  std::uint64_t position() const { return position_; }

 private:
  FramerOptions options_;
  std::uint64_t position_ = 0;
};

}  // namespace parley::mpa
