// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/congestion.hpp"

#include <fmt/format.h>

#include "base/text.hpp"
#include "sim/net/ecn.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::sim::check {
namespace {

using wire::ib::Operation;
using wire::ib::Service;

constexpr Duration interval = std::chrono::microseconds(50);  // nic::roce::DeviceOptions::cnp_interval

/// IBA §9.7.1: half of the 2^24 PSNs are ahead.
bool covers(std::uint32_t ack, std::uint32_t psn) { return ((ack - psn) & 0xFFFFFF) < (1U << 23); }

bool is_ack(const wire::ib::Packet& packet) {
  return wire::ib::operation_of(packet.bth.opcode) == Operation::acknowledge &&
         (packet.aeth.syndrome & ~PARLEY_IB_SYNDROME_VALUE) == PARLEY_IB_SYNDROME_ACK;
}

}  // namespace

void Congestion::frame(const std::string& host, const TapFrame& frame) {
  if (!frame.outbound && frame.drop != DropReason::none) return;  // discarded: its contents were not processed
  const auto view = wire::parse_packet(static_cast<std::uint16_t>(wire::LinkType::ethernet), frame.octets,
                                       static_cast<std::uint32_t>(frame.octets.size()));
  if (view.cargo != wire::PacketCargo::rocev2) return;
  const auto roce = wire::ib::RoceHeader::parse(view.ethertype, view.network);
  if (!roce) return;
  const auto packet = wire::ib::Packet::parse(roce->packet);
  if (!packet) return;
  const std::uint8_t opcode = packet->bth.opcode;
  const bool cnp = opcode == PARLEY_IB_OPCODE_CNP;
  if (!cnp && (!wire::ib::rule_of(opcode).assigned || wire::ib::service_of(opcode) != Service::rc)) return;
  const Passed passed{frame.at, packet->bth.psn};
  if (frame.outbound) {
    Sent& sent = sent_[{host, {roce->header.destination, packet->bth.dest_qpn}}];
    if (cnp)
      sent.cnp = frame.at;
    else if (is_ack(*packet))
      sent.ack = passed;
  } else if (!cnp && !wire::ib::rule_of(opcode).response && is_congestion_marked(frame.octets)) {
    Received& received = received_[{host, packet->bth.dest_qpn}];
    if (!received.first) received.first = passed;
    received.last = passed;
  }
}

void Congestion::judge_end(const Attempt& attempt, const End& end, Judge& judge) const {
  if (!end.ib) return;
  const auto marked = received_.find({end.host, end.ib->qp_num});
  const auto answers = sent_.find({end.host, {end.ib->dgid, end.ib->remote_qp_num}});
  if (marked == received_.end() || answers == sent_.end()) return;
  const Sent& sent = answers->second;
  for (const auto& mark : {marked->second.first, marked->second.last}) {
    // A queue pair that has ended accepts and acknowledges no packet.
    if (!mark || !sent.ack || sent.ack->at < mark->at || !covers(sent.ack->psn, mark->psn)) continue;
    if (sent.cnp && *sent.cnp > mark->at - interval) continue;
    judge.add("congestion", mark->at, attempt.label,
              fmt::format("{} acknowledged PSN {:#08x}, which came with the mark of congestion, and sent no CNP",
                          end.host, mark->psn),
              "IBA §A17.9.3");
    return;
  }
}

// A packet that a fault touched may have arrived in another life of the host.
void Congestion::finish(const std::deque<Attempt>& attempts, Judge& judge) const {
  if (received_.empty()) return;
  for (const Attempt& attempt : attempts) {
    if (!attempt.roce || attempt.touched) continue;
    judge_end(attempt, attempt.initiator, judge);
    if (attempt.responder() != nullptr) judge_end(attempt, *attempt.responder(), judge);
  }
}

}  // namespace parley::sim::check
