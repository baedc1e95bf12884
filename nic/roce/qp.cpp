// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/qp.hpp"

#include <algorithm>

#include "base/same_octets.hpp"

namespace parley::nic::roce {

using wire::ib::Packet;
using wire::ib::Service;

namespace {

// Like rxe's, so that paths through a network are those of rxe's flows.
std::uint16_t datagram_port(std::uint32_t qpn) {
  return static_cast<std::uint16_t>(0xC000 | (qpn * std::uint32_t{0x61C88647}) >> 18);
}

constexpr std::size_t groups_max = 64;

}  // namespace

Qp::Qp(QpContext context) : qp_(std::move(context)), requester_(qp_), responder_(qp_) {
  if (qp_.type == QpType::ud) {
    qp_.mtu = qp_.nic->port_mtu;
    qp_.path.source_port = datagram_port(qp_.number);
  }
  qp_.nic->add(*this);
  if (qp_.pd != 0) qp_.tables().pds.use(qp_.pd);
}

Qp::~Qp() {
  requester_.drop();
  responder_.drop();
  qp_.tables().regions.unbind_all(qp_.number);
  while (!groups_.empty()) (void)detach_multicast(Gid(groups_.back()));
  if (qp_.pd != 0) qp_.tables().pds.release(qp_.pd);
  qp_.nic->remove(*this);
}

bool Qp::ready() const { return cnp_due_ || responder_.has_reply() || (qp_.sends() && requester_.ready()); }

bool Qp::comes_from_peer(const PacketFrom& from) const {
  return same_octets(from.source, qp_.path.destination) && same_octets(from.destination, qp_.path.source) &&
         (!from.sgid_index || from.sgid_index == qp_.path.sgid_index);
}

// IBA §9.7.4.1: a packet that is dropped here does not change the queue pair.
bool Qp::accepts(const PacketFrom& from, const Packet& packet) {
  Counters& counters = qp_.device();
  // In RTR and SQE no request was sent that could be answered.
  const bool response = wire::ib::rule_of(packet.bth.opcode).response;
  const bool takes = qp_.state == QpState::rts || qp_.state == QpState::sqd ||
                     (!response && (qp_.state == QpState::rtr || qp_.state == QpState::sqe));
  if (!takes) {
    ++counters.dropped_state;
    return false;
  }
  if (qp_.type != QpType::ud && !comes_from_peer(from)) {
    ++counters.dropped_address;
    return false;
  }
  if (!p_keys_match(packet.bth.p_key, PARLEY_IB_P_KEY_DEFAULT)) {
    ++counters.dropped_p_key;
    return false;
  }
  if (qp_.type == QpType::ud && packet.deth.q_key != qp_.attr.qkey.value_or(0)) {
    ++counters.dropped_q_key;
    return false;
  }
  return true;
}

void Qp::handle_packet(Instant now, const PacketFrom& from, const Packet& packet) {
  if (!accepts(from, packet)) return;
  heard_at_ = now;
  ++qp_.counters.packets_received;
  note_congestion(now, from, packet);
  // IBA §11.6.3: the peer sends, so it knows of the connection, even if its RTU was lost.
  if (qp_.state == QpState::rtr && !established_ && qp_.type != QpType::ud) {
    established_ = true;
    notify(QueuePairEvent::Kind::comm_est);
  }
  if (wire::ib::rule_of(packet.bth.opcode).response) {
    if (!requester_.handle_response(now, packet)) own_failure();
  } else if (qp_.type == QpType::ud) {
    responder_.handle_datagram(from, packet);
  } else if (!responder_.handle_request(packet)) {
    to_error();
    notify(QueuePairEvent::Kind::qp_fatal);
  }
  if (responder_.holds_ack()) ack_at_ = std::min(ack_at_, now + qp_.nic->options.ack_delay);
  settle();
}

// IBA §A17.9.3: a congestion mark is reported to the packet's sender, at most once per cnp_interval.
void Qp::note_congestion(Instant now, const PacketFrom& from, const Packet& packet) {
  const Duration interval = qp_.nic->options.cnp_interval;
  if ((from.traffic_class & 3) != 3 || interval <= Duration{}) return;
  if (is_multicast(from.destination))
    return;  // a group's address is not a valid source, and all its members would answer
  if (cnp_due_ || now < next_cnp_) {
    ++qp_.device().cnp_held;
    return;
  }
  cnp_due_ = true;
  next_cnp_ = now + interval;
  cnp_path_ = qp_.path;
  cnp_qpn_ = qp_.dest_qpn;
  if (qp_.type == QpType::ud) {
    cnp_path_ = Path{.source = from.destination,
                     .destination = from.source,
                     .sgid_index = qp_.nic->find_gid(from.destination, from.sgid_index).value_or(0),
                     .source_port = datagram_port(qp_.number)};
    cnp_qpn_ = packet.deth.source_qpn;
  }
}

void Qp::write_cnp(PacketTo& to, MutBytes out) {
  Packet cnp;
  cnp.bth.opcode = PARLEY_IB_OPCODE_CNP;
  cnp.bth.becn = true;
  cnp.bth.dest_qpn = cnp_qpn_;
  std::array<std::uint8_t, PARLEY_IB_CNP_PAYLOAD_LEN> reserved{};
  const MutBytes payload = reserved;
  set_path(to, cnp_path_);
  to.traffic_class = 48 << 2 | 2;  // as hardware sends it: network control; it can be marked itself
  to.size = write_packet(cnp, {&payload, 1}, 0, payload.size(), out);
  cnp_due_ = false;
  ++qp_.counters.cnp_sent;
  ++qp_.device().cnp_sent;
}

bool Qp::is_held(Instant now) {
  if (qp_.nic->pace == nullptr || qp_.reliable() || cnp_due_ || !requester_.ready()) return false;
  const Instant at = qp_.nic->pace->may_send(now, requester_.path().destination);
  if (at <= now) return false;
  qp_.nic->wake(*this, at);
  return true;
}

PacketRun Qp::transmit(Instant now, std::size_t most, PacketTo& to, MutBytes out) {
  PacketRun run;
  if (qp_.sends() && !requester_.execute_local()) own_failure();
  const bool answers = responder_.has_reply(), asks = qp_.sends() && requester_.ready();
  if (answers && asks) most = 1;  // they alternate
  if (cnp_due_) {
    write_cnp(to, out);
    run = {.size = to.size, .count = 1};
  } else if (answers && (requester_had_turn_ || !asks)) {
    requester_had_turn_ = false;
    // In ERR, where answers are still sent, another failure is ignored.
    if (responder_.transmit(most, to, out, run) == Responder::Sent::failed && qp_.state != QpState::err) {
      to_error();
      notify(QueuePairEvent::Kind::qp_fatal);
    }
  } else if (asks) {
    requester_had_turn_ = true;
    PacketPace* const pace = qp_.reliable() ? nullptr : qp_.nic->pace;
    run = requester_.transmit(now, pace == nullptr ? most : std::min(most, PacketPace::run_max), to, out);
    if (run.count == 0) own_failure();
    if (pace != nullptr) pace->sent(to.destination, run.count, run.size);
  }
  qp_.counters.packets_sent += run.count;
  qp_.device().packets_sent += run.count;
  settle();
  return run;
}

void Qp::handle_deadline(Instant now) {
  if (requester_.deadline() <= now && !requester_.handle_deadline(now)) own_failure();
  if (check_at_ <= now) check_peer(now);
  if (ack_at_ <= now) responder_.release_ack();
  settle();
}

// Call after anything that may have changed the pending output.
void Qp::settle() {
  if (!responder_.holds_ack()) ack_at_ = never;
  const Instant at = std::min(ack_at_, check_at_);
  qp_.nic->wake(*this, qp_.sends() ? std::min(requester_.deadline(), at) : at);
  if (qp_.state == QpState::sqd && !drain_told_ && !requester_.under_way()) {
    drain_told_ = true;
    notify(QueuePairEvent::Kind::sq_drained);
  }
  if (ready()) {
    qp_.nic->mark_dirty(*this);
    return;
  }
  // The next one begins with its own requests: an ACK after them can be sent in the same message to the system
  // (UDP_SEGMENT).
  requester_had_turn_ = false;
  qp_.nic->unlink_dirty(*this);
}

void Qp::withdraw(std::uint32_t region) {
  const bool sends = qp_.sends() && requester_.uses(region);
  if (qp_.receives() && responder_.uses(region)) {
    to_error();
    notify(QueuePairEvent::Kind::qp_fatal);
  } else if (sends) {
    qp_.fails({.cause = QpFailure::Cause::local});
    own_failure();
  }
  if (qp_.receives()) responder_.withdraw(region);
  settle();
}

// IBA §10.3.1: the current send fails; receives of unreliable queue pairs continue.
void Qp::own_failure() {
  if (qp_.reliable()) {
    to_error();
  } else {
    qp_.state = QpState::sqe;
    requester_.flush();
  }
  notify(QueuePairEvent::Kind::qp_fatal);
}

void Qp::to_error() {
  qp_.state = QpState::err;
  check_at_ = never;
  if (qp_.sends()) requester_.flush();
  if (qp_.receives()) responder_.flush();
  // IBA §11.6.3: users of a shared receive queue must know when this queue pair stops taking receives.
  if (qp_.srq || qp_.type == QpType::xrc_tgt) notify(QueuePairEvent::Kind::qp_last_wqe_reached);
}

Result<void> Qp::attach_multicast(const Gid& group) {
  if (qp_.type != QpType::ud) return fail(Errc::unsupported, "only UD queue pairs receive from multicast groups");
  if (!is_multicast(group)) return fail(Errc::invalid_argument, "the group is not a multicast GID");
  if (std::find(groups_.begin(), groups_.end(), group) != groups_.end()) return {};
  if (groups_.size() >= groups_max)
    return fail(Errc::no_space, "a queue pair is in at most {a} multicast groups", groups_max);
  groups_.reserve(groups_.size() + 1);
  auto& members = qp_.nic->groups;
  if (const auto found = members.find(group); found != members.end())
    found->second.push_back(this);
  else
    members.emplace(group, std::vector<Qp*>{this});
  groups_.push_back(group);  // last: all memory is allocated
  if (members[group].size() > 1) return {};
  auto joined = qp_.nic->join(group);
  if (!joined) drop_group(group);
  return joined;
}

/// True if it was the last member of the group.
bool Qp::drop_group(const Gid& group) {
  std::erase(groups_, group);
  const auto found = qp_.nic->groups.find(group);
  if (found == qp_.nic->groups.end()) return false;
  std::erase(found->second, this);
  if (!found->second.empty()) return false;
  qp_.nic->groups.erase(found);
  return true;
}

Result<void> Qp::detach_multicast(const Gid& group) {
  if (std::find(groups_.begin(), groups_.end(), group) == groups_.end())
    return fail(Errc::invalid_argument, "the queue pair is not attached to this group");
  if (drop_group(group)) qp_.nic->leave(group);
  return {};
}

}  // namespace parley::nic::roce
