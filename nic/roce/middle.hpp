// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The packets in the middle of a message: on RC they have only a BTH and a payload as long as the path MTU. Most
// packets of a stream are of this kind, so they are handled first, and many at a time. Only the fields that may differ
// are checked for each; a packet that is unusual in any way is left unchanged for the general path.
#pragma once
#include "wire/ib/packet.hpp"

namespace parley::nic::roce {

constexpr bool is_middle(std::uint8_t opcode) {
  using wire::ib::Operation;
  if (wire::ib::service_of(opcode) != wire::ib::Service::rc) return false;
  const Operation operation = wire::ib::operation_of(opcode);
  return operation == Operation::send_middle || operation == Operation::write_middle ||
         operation == Operation::read_response_middle;
}

/// Consecutive packets: the BTH of each equals that of the first, except for the PSN, which counts up; only the last
/// may ask for an ACK.
struct MiddlePackets {
  wire::ib::Operation operation{};
  std::uint32_t psn = 0;  // PSN of the first
  std::size_t count = 0;
  std::size_t size = 0;  // size of each, from the BTH to the ICRC
  ConstBytes packets;

  ConstBytes payload(std::size_t which) const {
    return packets.subspan(which * size + PARLEY_IB_BTH_LEN, size - PARLEY_IB_BTH_LEN - PARLEY_IB_ICRC_LEN);
  }
  bool asks_for_ack(std::size_t which) const { return (packets[which * size + 8] & PARLEY_IB_BTH_ACK_REQ) != 0; }
};

}  // namespace parley::nic::roce
