// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The invariant CRC: Ethernet's CRC-32 over the packet (IBA §7.8.1, Annexes A16.3 and A17.3.3). Fields that change on
// the way are replaced by ones, and the LRH by eight octets of ones. A packet without a GRH stays in its subnet: the
// ICRC covers its LRH, except the VL.
#include <algorithm>
#include <array>

#include "wire/ib/crc32.hpp"
#include "wire/ib/icrc_head.hpp"
#include "wire/ib/packet.hpp"

namespace parley::wire::ib {
namespace {

/// The BTH of a packet as the ICRC covers it: the octet of FECN and BECN is ones.
std::array<std::uint8_t, PARLEY_IB_BTH_LEN> ones_for_congestion(ConstBytes packet) {
  std::array<std::uint8_t, PARLEY_IB_BTH_LEN> bth;
  std::copy_n(packet.begin(), bth.size(), bth.begin());
  bth[bth_congestion_at] = 0xFF;
  return bth;
}

}  // namespace

IcrcHead::IcrcHead(ConstBytes network) : size(network.size() == lrh ? lrh : lrh + network.size()) {
  if (network.size() == lrh) {
    std::copy(network.begin(), network.end(), all.begin());
    all[0] |= 0xF0;  // VL
    return;
  }
  const bool v4 = network.size() == ipv4_and_udp;
  std::fill_n(all.begin(), lrh, std::uint8_t{0xFF});
  std::copy(network.begin(), network.end(), all.begin() + lrh);
  const MutBytes ip = MutBytes(all).subspan(lrh, network.size());
  const auto mask = [&](std::size_t first, std::size_t octets) {
    std::fill_n(ip.begin() + static_cast<std::ptrdiff_t>(first), octets, std::uint8_t{0xFF});
  };
  if (v4) {
    mask(1, 1);   // type of service
    mask(8, 1);   // time to live
    mask(10, 2);  // header checksum
  } else {
    ip[0] = static_cast<std::uint8_t>(network[0] | 0x0F);  // traffic class and flow label
    mask(1, 3);
    mask(7, 1);  // hop limit
  }
  if (network.size() != PARLEY_ROCE_GRH_LEN) mask(network.size() - 2, 2);  // UDP checksum
}

Result<std::uint32_t> icrc(ConstBytes network, ConstBytes packet) {
  const std::size_t n = network.size();
  const bool v4 = n == IcrcHead::ipv4_and_udp;
  const bool ip = v4 || n == IcrcHead::ipv6_and_udp || n == PARLEY_ROCE_GRH_LEN;
  if ((!ip && n != IcrcHead::lrh) || (ip && network[0] >> 4 != (v4 ? 4 : 6)))
    return fail(Errc::invalid_argument,
                "an ICRC covers 28 octets (IPv4, UDP), 48 (IPv6, UDP), 40 (GRH) or 8 (LRH without GRH), not {a}",
                static_cast<std::int64_t>(n));
  if (packet.size() < PARLEY_IB_BTH_LEN)
    return fail(Errc::invalid_argument, "an ICRC covers a BTH of 12 octets; there are {a}",
                static_cast<std::int64_t>(packet.size()));
  const std::uint32_t head = crc32(crc32(0, IcrcHead(network).octets()), ones_for_congestion(packet));
  return crc32(head, packet.subspan(PARLEY_IB_BTH_LEN));
}

}  // namespace parley::wire::ib
