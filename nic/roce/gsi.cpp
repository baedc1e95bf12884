// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/gsi.hpp"

#include <algorithm>

#include "nic/roce/output.hpp"
#include "nic/roce/psn.hpp"

namespace parley::nic::roce {

using wire::ib::Operation;
using wire::ib::Packet;
using wire::ib::Service;

namespace {

// rxe's source port for QP1: its hash of the number 1.
constexpr std::uint16_t source_port = 0xD872;

}  // namespace

void Gsi::handle_packet(const PacketFrom& from, std::uint8_t sgid_index, const Packet& packet) {
  Counters& counters = nic_.counters;
  if (packet.deth.q_key != PARLEY_IB_GSI_Q_KEY) {
    ++counters.dropped_q_key;
    return;
  }
  // IBA §13.4.2: every MAD has 256 octets.
  const bool any_size = nic_.options.play.has(wire::ib::Departure::takes_short_mad);
  const std::size_t size = packet.payload.size();
  if (size > PARLEY_IB_MAD_LEN || (size < PARLEY_IB_MAD_LEN && !any_size) || in_.full()) {
    ++counters.dropped_mad;
    return;
  }
  MadIn& mad = in_.push();
  mad.source = from.source;
  mad.destination = from.destination;
  mad.sgid_index = sgid_index;
  mad.source_qpn = packet.deth.source_qpn;
  mad.p_key = packet.bth.p_key;
  mad.traffic_class = from.traffic_class;
  mad.hop_limit = from.hop_limit;
  mad.flow_label = from.flow_label;
  mad.octets.fill(0);
  std::copy(packet.payload.begin(), packet.payload.end(), mad.octets.begin());
}

bool Gsi::poll(MadIn& mad) {
  if (in_.empty()) return false;
  mad = in_.front();
  in_.pop();
  return true;
}

Result<void> Gsi::send(const MadOut& mad) {
  const auto index = nic_.find_gid(mad.source, mad.sgid_index);
  if (!index) return fail(Errc::invalid_argument, "MadOut::source is not a GID of the port, or not at sgid_index");
  if (out_.full()) return fail(Errc::no_space, "{a} management datagrams wait to be sent", queue_max);
  MadOut& out = out_.push();
  out = mad;
  out.sgid_index = index;
  return {};
}

void Gsi::transmit(PacketTo& to, MutBytes out) {
  MadOut& mad = out_.front();
  Packet head;
  head.bth.opcode = wire::ib::opcode_of(Service::ud, Operation::send_only);
  head.bth.p_key = mad.p_key;
  head.bth.dest_qpn = mad.dest_qpn;
  head.bth.ack_req = true;  // has no effect on UD; rxe sets it on QP1
  head.bth.psn = psn_;
  head.deth.q_key = mad.q_key;
  head.deth.source_qpn = PARLEY_IB_GSI_QPN;
  psn_ = (psn_ + 1) & psn_mask;
  set_path(to, Path{.source = mad.source,
                    .destination = mad.destination,
                    .sgid_index = mad.sgid_index.value_or(0),
                    .traffic_class = mad.traffic_class,
                    .hop_limit = mad.hop_limit,
                    .flow_label = mad.flow_label,
                    .source_port = source_port});
  const MutBytes octets = mad.octets;
  to.size = write_packet(head, {&octets, 1}, 0, octets.size(), out);
  out_.pop();
  ++nic_.counters.packets_sent;
}

}  // namespace parley::nic::roce
