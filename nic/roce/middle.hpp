// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The packets in the middle of a message: on RC they have a BTH and a payload as long as the path MTU, and nothing else. They are
// nearly all of a stream, so they are looked at first. Of each no more is asked than what may differ; whatever is unusual about one
// leaves it, untouched, to the way that every packet can take.
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

}  // namespace parley::nic::roce
