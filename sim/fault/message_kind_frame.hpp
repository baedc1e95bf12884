// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where the fields of an Ethernet frame are, for code that inspects or damages frames. Understood:
// Ethernet II without VLAN tags, ARP (RFC 826), IPv4 with options, IPv6 without extension headers, neighbour discovery
// (RFC 4861 §4), TCP (RFC 9293 §3.1). Of any other frame nothing is known. Total: accepts any octets.
#pragma once
#include <cstdint>

#include "parley/bytes.hpp"
#include "parley/sim.hpp"

namespace parley::sim {

struct FrameLayout {
  MessageKind kind = MessageKind::any;  ///< of the lowest layer: arp_request ... tcp_data
  std::uint32_t kinds = 0;              ///< a bit for each such meaning that holds (a FIN may carry data)
  bool tcp = false;                     ///< a whole TCP header in an unfragmented packet that is whole in the frame
  bool ipv6 = false;
  std::uint32_t ip = 0, transport = 0, payload = 0;  ///< where they begin
  std::uint32_t payload_size = 0;
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;
};

constexpr std::uint32_t kind_bit(MessageKind m) { return std::uint32_t{1} << static_cast<unsigned>(m); }

FrameLayout lay_out(ConstBytes frame);

}  // namespace parley::sim
