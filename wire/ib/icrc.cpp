// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The invariant CRC: CRC-32 of Ethernet over the packet with the fields that change on the way replaced by ones, and eight octets
// of ones in the place of the LRH (IBA §7.8.1, Annexes A16.3 and A17.3.3).
#include <algorithm>
#include <array>

#include "wire/ib/crc32.hpp"
#include "wire/ib/packet.hpp"

namespace parley::wire::ib {
namespace {

constexpr std::size_t ipv4_and_udp = 28, ipv6_and_udp = 48;
constexpr std::size_t lrh = 8;
constexpr std::size_t bth_congestion_at = 4;

}  // namespace

Result<std::uint32_t> icrc(ConstBytes network, ConstBytes packet) {
  std::array<std::uint8_t, lrh + ipv6_and_udp + PARLEY_IB_BTH_LEN> head;
  const std::size_t n = network.size();
  const bool v4 = n == ipv4_and_udp;
  if ((!v4 && n != ipv6_and_udp && n != PARLEY_ROCE_GRH_LEN) || network[0] >> 4 != (v4 ? 4 : 6))
    return fail(Errc::invalid_argument, "an ICRC covers 28 octets (IPv4, UDP), 48 (IPv6, UDP) or 40 (GRH), not {a}",
                static_cast<std::int64_t>(n));
  if (packet.size() < PARLEY_IB_BTH_LEN)
    return fail(Errc::invalid_argument, "an ICRC covers a BTH of 12 octets; there are {a}",
                static_cast<std::int64_t>(packet.size()));
  std::fill_n(head.begin(), lrh, std::uint8_t{0xFF});
  const auto at = std::copy(network.begin(), network.end(), head.begin() + lrh);
  std::copy_n(packet.begin(), PARLEY_IB_BTH_LEN, at);
  const MutBytes ip = MutBytes(head).subspan(lrh, n), bth = MutBytes(head).subspan(lrh + n, PARLEY_IB_BTH_LEN);
  const auto mask = [&](std::size_t first, std::size_t octets) {
    std::fill_n(ip.begin() + static_cast<std::ptrdiff_t>(first), octets, std::uint8_t{0xFF});
  };
  if (v4) {
    mask(1, 1);   // type of service
    mask(8, 1);   // time to live
    mask(10, 2);  // header checksum
  } else {
    ip[0] |= 0x0F;  // traffic class and flow label
    mask(1, 3);
    mask(7, 1);  // hop limit
  }
  if (n != PARLEY_ROCE_GRH_LEN) mask(n - 2, 2);  // UDP checksum
  bth[bth_congestion_at] = 0xFF;
  return crc32(crc32(0, ConstBytes(head).first(lrh + n + PARLEY_IB_BTH_LEN)), packet.subspan(PARLEY_IB_BTH_LEN));
}

}  // namespace parley::wire::ib
