// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Finds ULPDUs in a TCP stream with any segmentation: RFC 5044 §4.1 to §4.4, errors §8.
// An FPDU that is whole in the input is returned in place; only one that spans two inputs is copied.
//
//   | state    | input                                  | status               | next     |
//   | reading  | an FPDU whole and in order             | fpdu                 | reading  |
//   | reading  | the beginning of an FPDU               | need_more            | reading  |
//   | reading  | ULPDU_Length 0 or above 64768          | length_error         | dead     |
//   | reading  | an FPDU whole, CRC wrong               | crc_error            | dead     |
//   | reading  | an FPDU whole, CRC good, FPDUPTR wrong | marker_error         | dead     |
//   | dead     | anything                               | the same error again | dead     |
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "mpa/fpdu.hpp"
#include "parley/bytes.hpp"

namespace parley::mpa {

/// A ULPDU as pieces of the input (markers cut out), valid until the next feed() or next().
struct FpduView {
  std::span<const ConstBytes> pieces;
  std::uint16_t ulpdu_length = 0;
  std::uint64_t position = 0;  ///< of the ULPDU_Length field in the stream
  std::uint32_t crc = 0;       ///< as received
};

enum class DeframeStatus : std::uint8_t { fpdu, need_more, crc_error, marker_error, length_error };
std::string_view to_string(DeframeStatus status);
/// The code of a Terminate with layer LLP that reports the error (RFC 5044 §8); 0 for fpdu and need_more.
std::uint8_t mpa_error_code(DeframeStatus status);

/// feed() one input span, then call next() until it returns need_more (the rest is then kept inside). After an error
/// the half stream is dead: next() repeats the error (RFC 5044 §8) and further input is dropped.
class Deframer {
 public:
  /// `position`: stream position of the first octet fed. An FPDU must begin there, so it is a multiple of four.
  explicit Deframer(const FramerOptions& options, std::uint64_t position = 0);

  void feed(ConstBytes in);
  DeframeStatus next(FpduView& out);

  /// The beginning of the next FPDU (its leading marker if it has one); after an error, that of the faulty FPDU.
  std::uint64_t position() const { return position_; }
  /// After an error: the position of the offending field (ULPDU_Length, CRC or marker).
  std::uint64_t error_position() const { return error_position_; }
  /// Octets kept of an incomplete FPDU; 0 if the stream is between two FPDUs.
  std::size_t carried() const { return carry_taken_ ? 0 : carry_.size(); }

 private:
  /// An FPDU's dimensions, known once its ULPDU_Length is.
  struct FpduSize {
    std::size_t lead = 0;  ///< octets of a leading marker
    std::size_t wire = 0;  ///< octets in all
    std::uint16_t ulpdu_length = 0;
  };

  /// Octets until the next marker; without markers, more than any FPDU has.
  std::size_t before_marker() const { return ((0 - position_) & (fpdu::interval - 1)) | beyond_; }
  std::size_t head_size() const;
  bool measure(ConstBytes head, FpduSize& shape);
  DeframeStatus next_carried(FpduView& out);
  DeframeStatus keep(std::size_t wire);
  bool top_up(std::size_t size);
  DeframeStatus deliver_bare(ConstBytes whole, std::uint16_t ulpdu_length, FpduView& out);
  DeframeStatus examine(ConstBytes whole, const FpduSize& shape, FpduView& out);
  bool gather_pieces(ConstBytes whole, const FpduSize& shape, FpduView& out);
  std::size_t first_wrong_marker(ConstBytes covered, const FpduSize& shape) const;
  DeframeStatus die(DeframeStatus why, std::uint64_t position);

  FramerOptions options_;
  DeframeStatus dead_ = DeframeStatus::fpdu;  ///< fpdu: alive
  bool carry_taken_ = false;                  ///< the FPDU in carry_ was returned; the next call drops it
  std::uint64_t position_;
  std::uint64_t error_position_ = 0;
  std::size_t beyond_;  ///< without markers the high bits, so that no FPDU reaches before_marker()
  ConstBytes in_;
  Bytes carry_;                     ///< at most one FPDU: fpdu::wire_max octets
  ConstBytes bare_;                 ///< the one piece of an FPDU without markers
  std::vector<ConstBytes> pieces_;  ///< allocated once: none without markers, fpdu::pieces_max with them
};

}  // namespace parley::mpa
