// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What queue pairs and their halves do with them. Each condition is one of the way that every packet can take; it is named where
// that way has it.
#include "nic/roce/middle.hpp"

#include "nic/roce/qp.hpp"

namespace parley::nic::roce {

using wire::ib::Operation;

// Qp::handle_packet: nothing to tell of congestion, and established long since.
bool Qp::take_middle(Instant now, const PacketFrom& from, const wire::ib::Bth& bth, ConstBytes octets) {
  if (qp_.type != QpType::rc || qp_.state != QpState::rts || bth.tver != 0 || bth.pad_count != 0 ||
      bth.p_key != PARLEY_IB_P_KEY_DEFAULT || (from.traffic_class & 3) == 3 || !comes_from_peer(from) ||
      octets.size() != PARLEY_IB_BTH_LEN + qp_.mtu + PARLEY_IB_ICRC_LEN)
    return false;
  const ConstBytes payload = octets.subspan(PARLEY_IB_BTH_LEN, qp_.mtu);
  if (wire::ib::operation_of(bth.opcode) == Operation::read_response_middle) {
    if (!requester_.take_middle(now, bth, payload)) return false;
    ++qp_.counters.packets_received;
    settle();  // the window has moved
    return true;
  }
  if (!responder_.take_middle(bth, payload)) return false;
  ++qp_.counters.packets_received;
  if (bth.ack_req) settle();
  return true;
}

// Responder::handle_request and execute_send or execute_write: the expected packet of the message that is arriving, for which there
// is room.
bool Responder::take_middle(const wire::ib::Bth& bth, ConstBytes payload) {
  const bool write = wire::ib::operation_of(bth.opcode) == Operation::write_middle;
  if (bth.psn != wire_psn(expected_) || replies_.full() ||
      arriving_.message != (write ? Message::write : Message::send))
    return false;
  const auto size = static_cast<std::uint32_t>(payload.size());
  if (write) {
    MrRange range;
    if (!grants(Access::remote_write) || size >= arriving_.length - arriving_.got ||
        qp_.tables().regions.check(arriving_.rkey, arriving_.va + arriving_.got, size, receiver_.pd,
                                   Access::remote_write, range) != MrFault::none)
      return false;
    place({&range.memory, 1}, 0, payload);
  } else {
    const WrMemory& memory = receive().memory;
    if (size > memory.length - arriving_.got) return false;
    place(memory.view(), arriving_.got, payload);
  }
  nak_sent_ = false;
  arriving_.got += size;
  executed(bth, false);
  return true;
}

// Requester::handle_response and handle_read_response: the next part of the oldest request, which is a Read whose first part is here
// and whose last is not.
bool Requester::take_middle(Instant now, const wire::ib::Bth& bth, ConstBytes payload) {
  if (bth.psn != wire_psn(una_) || una_ >= sent_end_) return false;
  SendWqe& read = sends_.front();
  if (read.kind != SendWqe::Kind::read || read.arrived == 0 || read.first + read.arrived != una_ ||
      una_ + 1 == read.end)
    return false;
  place(read.memory.view(), std::size_t{read.arrived} * qp_.mtu, payload);
  ++read.arrived;
  ++una_;
  progress(now);
  return true;
}

}  // namespace parley::nic::roce
