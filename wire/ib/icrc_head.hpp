// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The octets before the BTH that the ICRC covers, private to wire/ib: IBA §7.8.1, Annexes A16.3 and A17.3.3.
#pragma once
#include <array>
#include <cstdint>

#include "parley/bytes.hpp"
#include "parley/wire/ib.h"

namespace parley::wire::ib {

inline constexpr std::size_t icrc_size = PARLEY_IB_ICRC_LEN;
inline constexpr std::size_t sealed_min = PARLEY_IB_BTH_LEN + icrc_size;
inline constexpr std::size_t bth_congestion_at = 4;       // in the BTH: FECN and BECN count as ones
inline constexpr std::size_t ipv4_identification_at = 4;  // in the IPv4 header

/// Eight octets of ones instead of the LRH, then the network headers, with ones in the fields that change on the way.
/// Without network headers: the LRH, with ones in its VL.
struct IcrcHead {
  static constexpr std::size_t lrh = 8, ipv4_and_udp = 28, ipv6_and_udp = 48;
  /// `network` is 28 octets of IPv4 and UDP, 48 of IPv6 and UDP, the 40 of a GRH, or the 8 of an LRH.
  explicit IcrcHead(ConstBytes network);
  ConstBytes octets() const { return ConstBytes(all).first(size); }

  std::array<std::uint8_t, lrh + ipv6_and_udp> all;
  std::size_t size;
};

}  // namespace parley::wire::ib
