// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which socket of a group (SO_REUSEPORT) gets a packet: a classic BPF program that Linux runs for each datagram on its
// payload, from the BTH on (SO_ATTACH_REUSEPORT_CBPF). Socket 0 is the keeper's; socket p has the member with prefix p:
//
//   packets for queue pairs        the top octet of the destination QPN
//   REQ, SIDR_REQ                  the member that has claimed the service ID; otherwise socket 0
//   SIDR_REP                       the top octet of the request ID, which the member chose
//   other messages of the CM       the top octet of the remote communication ID, which the member chose
//   everything else                socket 0
//
// A REJ of reason 4 (timeout) of a side that does not know the receiver's communication ID yet has 0 there. It goes to
// socket 0, where the keeper drops it: the receiver finds out when it accepts, since no RTU comes.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

namespace parley::preload::port {

/// As Linux's struct sock_filter.
struct Instruction {
  std::uint16_t code = 0;
  std::uint8_t if_true = 0, if_false = 0;
  std::uint32_t k = 0;
  bool operator==(const Instruction&) const = default;
};

/// Services of an address. The program has two instructions for each; Linux bounds its size (net.core.optmem_max, 20,480
/// octets by default, for a form of it with three).
inline constexpr std::size_t services_max = 512;

/// `sockets`: how many the group has; larger top octets go to socket 0. `services`: prefixes by service ID; those above
/// 2^32 - 1 are left out, and go to socket 0 (RDMA CM's are below: IBA Annex A11).
std::vector<Instruction> steering(std::size_t sockets, const std::map<std::uint64_t, std::uint8_t>& services);

}  // namespace parley::preload::port
