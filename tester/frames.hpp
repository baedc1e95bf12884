// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Octets for a scripted peer: startup frames (RFC 5044 §7.1.1, RFC 6581 §6), FPDUs (RFC 5044 §4) and DDP segments.
// Every field can be set, without checks, so that a script can send faulty frames on purpose.
#pragma once
#include <optional>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/wire/mpa.h"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::tester {

struct StartupOctets {
  std::string_view key = PARLEY_MPA_KEY_REQ;  ///< cut to 16 octets, or padded with zeros
  std::uint8_t flags = 0;
  std::uint8_t revision = 1;
  std::optional<std::uint32_t> enhanced{};  ///< the IRD word in the high half, the ORD word in the low
  Bytes private_data{};
  std::optional<std::uint16_t> pd_length{};  ///< instead of the correct one
  Bytes trailing{};                          ///< octets after the frame, in the same write
};
Bytes startup(const StartupOctets& frame);

/// IRD word and ORD word with their bits (PARLEY_MPA_ENH_A...): RFC 6581 §6.
constexpr std::uint32_t enhanced(unsigned ird_word, unsigned ord_word) {
  return static_cast<std::uint32_t>(ird_word) << 16 | (ord_word & 0xFFFFU);
}

struct FpduFaults {
  bool bad_crc = false;                   ///< one bit of the CRC is wrong
  std::uint8_t pad = 0;                   ///< value of the pad octets
  std::uint16_t fpduptr_add = 0;          ///< added to each FPDUPTR; the CRC covers the result
  std::uint16_t marker_reserved = 0;      ///< of each marker
  std::optional<std::uint16_t> length{};  ///< ULPDU_Length instead of the correct one
};

/// Writes the FPDUs of one direction, in sequence.
class FpduWriter {
 public:
  FpduWriter(bool crc, bool markers) : crc_(crc), markers_(markers) {}
  /// `ulpdu` must have at most PARLEY_MPA_ULPDU_MAX octets.
  Bytes write(ConstBytes ulpdu, const FpduFaults& faults = {});
  std::uint64_t position() const { return position_; }

 private:
  bool crc_, markers_;
  std::uint64_t position_ = 0;  ///< octets since the startup frame
};

/// Header and payload as one ULPDU.
Bytes segment(const wire::DdpHeader& header, ConstBytes payload = {});
/// Untagged: a Send on queue 0.
wire::DdpHeader send_header(std::uint32_t msn);
wire::DdpHeader write_header(std::uint32_t stag, std::uint64_t to);
/// The whole ULPDU.
Bytes read_request(std::uint32_t msn, const wire::ReadRequest& request);
wire::DdpHeader read_response_header(std::uint32_t stag, std::uint64_t to);

}  // namespace parley::tester
