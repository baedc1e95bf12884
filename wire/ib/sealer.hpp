// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ICRCs of many packets of one flow, as a UDP socket sends and receives them: what their network headers contribute is worked out
// once for each length. Only the IPv4 identification differs besides, and what it contributes is looked up, since the CRC is linear.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "wire/ib/roce.hpp"

namespace parley::wire::ib {

class Sealer {
 public:
  Sealer() = default;
  /// The header's identification, and what is not covered by the ICRC, say nothing. RoCEv2 only.
  explicit Sealer(const RoceHeader& header) : header_(header), v4_(header.is_ipv4()) {}

  /// Writes the ICRC of `packet` (BTH to ICRC, 16 to 65,000 octets) into its last four octets; `identification` is IPv4's.
  void seal(std::uint16_t identification, MutBytes packet);
  /// The same for packets of `size` octets that stand behind one another; the identification counts up.
  /// Before the ICRC of each comes an equal share of `payload`, which is copied there.
  void seal_all(std::uint16_t identification, std::size_t size, MutBytes packets, ConstBytes payload);
  /// The ICRC of a packet in two pieces that have no room for it, the BTH in the first: its low octet is to come first.
  std::uint32_t icrc(std::uint16_t identification, ConstBytes front, ConstBytes rest = {});
  /// Whether the ICRC is right under this identification, which IPv6 has none of.
  bool is_sealed(std::uint16_t identification, ConstBytes packet);
  /// Whether the ICRC is right, and on IPv4 under which identification; without "don't fragment" if not with it, as on a UDP socket
  /// neither is known. `likely` is tried first, and costs less. On IPv6 the answer is 0. Of damaged packets one in 32,768 passes on
  /// IPv4, where is_sealed() lets one in 2^32 through.
  std::optional<std::uint16_t> identification_of(std::uint16_t likely, ConstBytes packet);
  /// Of packets of `size` octets that stand behind one another, how many at the beginning have a right ICRC under identifications that
  /// count up from `first`. Those behind them may have one too, under another. `payload`, if it is not empty, has an equal share for each
  /// of the packets: what is in front of the ICRC is copied there, of those that are counted.
  std::size_t count_sealed(std::uint16_t first, std::size_t size, ConstBytes packets, MutBytes payload = {});

 private:
  /// What packets of one length have in common.
  struct Share {
    std::size_t size = 0;    // 0: none yet
    std::uint32_t head = 0;  // CRC-32 of all before the BTH, with the identification 0
    // Of the last one, which the next is likely to follow in its message: the first octets of the BTH, and the CRC with them.
    std::uint32_t begun = 0;
    std::uint64_t begins = 0;
  };
  Share& place_of(std::size_t size) { return shares_[(size >> 2 ^ size >> 4) % shares_.size()]; }
  void begin(Share& share, std::size_t size, std::uint64_t begins);

  RoceHeader header_{};
  bool v4_ = false;
  std::array<Share, 8> shares_{};
};

}  // namespace parley::wire::ib
