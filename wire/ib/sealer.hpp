// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ICRCs of many packets of one flow, as a UDP socket sends and receives them. The network headers' share of the CRC
// is computed once for each length. Packets of one length differ only in the IPv4 identification; its share is looked
// up in a table, since the CRC is linear.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "wire/ib/roce.hpp"

namespace parley::wire::ib {

class IcrcSealer {
 public:
  IcrcSealer() = default;
  /// RoCEv2 only. The header's identification is ignored, as are the fields that the ICRC does not cover.
  explicit IcrcSealer(const RoceHeader& header) : header_(header), v4_(header.is_ipv4()) {}

  /// Writes the ICRC of `packet` (BTH to ICRC, 16 to 65,000 octets) into its last four octets; `identification` is
  /// IPv4's.
  void seal(std::uint16_t identification, MutBytes packet);
  /// The same for consecutive packets of `size` octets each; the identification counts up. Each packet gets an equal
  /// share of `payload`, which is copied to just before its ICRC.
  void seal_all(std::uint16_t identification, std::size_t size, MutBytes packets, ConstBytes payload);
  /// The ICRC of a packet in two pieces without it; `front` holds the BTH. The caller writes it low octet first.
  std::uint32_t icrc(std::uint16_t identification, ConstBytes front, ConstBytes rest = {});
  /// Whether the ICRC is correct under this identification; IPv6 ignores the identification.
  bool is_sealed(std::uint16_t identification, ConstBytes packet);
  /// The identification under which the ICRC is correct; nullopt if there is none. On IPv6 it is 0. On IPv4 "don't
  /// fragment" may be set or clear, since a UDP socket does not report either. `likely` is tried first and costs less.
  /// On IPv4 one damaged packet in 32,768 passes; is_sealed() passes one in 2^32.
  std::optional<std::uint16_t> identification_of(std::uint16_t likely, ConstBytes packet);
  /// Counts how many of the consecutive packets of `size` octets each, from the first on, have a correct ICRC under
  /// identifications that count up from `first`. Later packets may be correct under other identifications. If `payload`
  /// is not empty, it has an equal share for each packet. The octets before the ICRC of each counted packet are copied
  /// there.
  std::size_t count_sealed(std::uint16_t first, std::size_t size, ConstBytes packets, MutBytes payload = {});

 private:
  /// The state that packets of one length share.
  struct LengthState {
    std::size_t size = 0;    // 0: none yet
    std::uint32_t head = 0;  // CRC-32 of all before the BTH, with the identification 0
    // State of the last packet; the next packet of a message often begins in the same way.
    std::uint32_t begun = 0;   // CRC-32 up to and including the first 8 octets of the BTH
    std::uint64_t begins = 0;  // those 8 octets
  };
  LengthState& place_of(std::size_t size) { return shares_[(size >> 2 ^ size >> 4) % shares_.size()]; }
  void begin(LengthState& share, std::size_t size, std::uint64_t begins);

  RoceHeader header_{};
  bool v4_ = false;
  std::array<LengthState, 8> shares_{};
};

}  // namespace parley::wire::ib
