// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Positions of the fields of an Ethernet frame, for code that inspects or damages frames. Understood: Ethernet II
// without VLAN tags, IPv4 with options, IPv6 without extension headers, and the layers of sim/fault/layer.hpp that are
// carried by them or by UDP. Nothing is known of any other frame. Total: accepts any octets.
#pragma once
#include <cstdint>

#include "parley/bytes.hpp"
#include "sim/fault/layer.hpp"

namespace parley::sim {

struct FrameLayout {
  static constexpr std::uint8_t protocol_udp = 17;
  static constexpr std::uint32_t udp_header = 8;
  MessageKind kind = MessageKind::any;  ///< by headers only: arp_request ... tcp_data
  KindSet kinds;                        ///< all kinds that hold (a FIN may carry data)
  bool tcp = false;                     ///< a complete TCP header in an unfragmented packet that is complete in the
                                        ///< frame
  bool roce = false;                    ///< a complete BTH and an ICRC in such a packet; the payload is between them
  bool ipv6 = false;
  std::uint32_t ip = 0, transport = 0, payload = 0;  ///< offsets of their first octets
  std::uint32_t payload_size = 0;
  std::uint32_t psn = 0;  ///< RoCE only
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;
  void mark(MessageKind m) {
    kind = m;
    kinds.add(m);
  }
};

FrameLayout lay_out(ConstBytes frame);

}  // namespace parley::sim
