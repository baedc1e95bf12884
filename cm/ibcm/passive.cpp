// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The side that receives the REQ: IBA §12.9.
#include <algorithm>

#include "cm/ibcm/body.hpp"
#include "cm/ibcm/busy.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

namespace {

constexpr std::size_t rep_private_data_max = 196;

std::optional<QpType> type_of(const CmReq& m) {
  switch (m.service) {
    case CmService::rc: return QpType::rc;
    case CmService::uc: return QpType::uc;
    case CmService::extended:
      if (m.is_xrc()) return QpType::xrc;
      break;
    default: break;
  }
  return std::nullopt;
}

std::uint32_t share(std::uint32_t pending_max) { return std::min(pending_max / 8, 0xFFFFFFFF - pending_max); }

}  // namespace

Agent::Body::Listener::Listener(std::uint64_t id, const ListenOptions& o)
    : service_id(id), options(o), admission(o.pending_max + share(o.pending_max), share(o.pending_max)) {}

Agent::Body::Listener* Agent::Body::listener_of(std::uint64_t service_id) {
  const auto at = listeners_.find(service_id);
  return at == listeners_.end() ? nullptr : at->second.get();
}

Result<void> Agent::Body::listen(std::uint64_t service_id, const ListenOptions& options) {
  if (options.pending_max == 0)
    return fail(Errc::invalid_argument, "ListenOptions::pending_max is 0; must be at least 1");
  if (options.busy_timeout > 31)
    return fail(Errc::invalid_argument, "ListenOptions::busy_timeout is {a}; must be 0 to 31", options.busy_timeout);
  if (options.retry_after < busy::retry_after_min || options.retry_after > busy::retry_after_max)
    return fail(Errc::invalid_argument, "ListenOptions::retry_after is {a} ns; must be 1 ms to 65535 ms",
                options.retry_after.count());
  if (listeners_.contains(service_id)) return fail(Errc::address_in_use);
  if (listeners_.size() >= options_.listeners_max)
    return fail(Errc::no_space, "AgentOptions::listeners_max is {a}, and that many listen", options_.listeners_max);
  listeners_.emplace(service_id, std::make_unique<Listener>(service_id, options));
  return {};
}

void Agent::Body::unlisten(std::uint64_t service_id) {
  if (listeners_.erase(service_id) == 0) return;
  for (const auto& c : connections_)
    if (c != nullptr && c->service_id == service_id) c->ticket = {};  // of the listener that is gone
}

void Agent::Body::leave_listener(Connection& c) {
  const Admission::Ticket ticket = std::exchange(c.ticket, {});
  if (!ticket) return;
  if (Listener* listener = listener_of(c.service_id)) listener->admission.leave(ticket);
}

void Agent::Body::refuse(const MadFrom& from, const Head& head, const CmReq& m, CmReject reason, ConstBytes info) {
  ++counters.refused;
  CmRej out{.remote_comm_id = m.local_comm_id, .reason = reason};
  out.info_length = static_cast<std::uint8_t>(info.size());
  (void)fill(out.info, info);
  send_once(reply_to(from), head.transaction_id, out);
}

/// Rejects REQs that no user could accept. Linux passes them to its users, and rejects unknown types with 28.
bool Agent::Body::check_req(const MadFrom& from, const Head& head, const CmReq& m) {
  // IBA §12.6.7.2 reason 9. There are no queue pairs here for RD or for an extended type other than XRC.
  if (!type_of(m)) {
    const bool as_user = plays(Departure::rejects_service_type);
    return refuse(from, head, m, as_user ? CmReject::consumer : CmReject::invalid_transport_service), false;
  }
  // IBA §12.6.7.2 has no reason for a queue pair that no connection can have (IBA §9.2.1: 0 and 1 are the port's own, and
  // 0xFFFFFF is a multicast group) or for a P_Key that is not in the port's table. Reason 5 is the nearest.
  if (!can_connect(m.local_qpn) || !has_p_key(m.p_key))
    return refuse(from, head, m, CmReject::unsupported_request), false;
  // IBA §12.6.7.2 reason 26, with the largest MTU that is usable.
  if (plays(Departure::takes_path_mtu)) {
    if (m.path_mtu > 5) return false;
  } else if (m.path_mtu < 1 || m.path_mtu > 5) {
    const std::uint8_t largest = 5 << 4;  // in the same bits as in the REQ
    return refuse(from, head, m, CmReject::invalid_path_mtu, {&largest, 1}), false;
  }
  // IBA §12.6.7.2 reason 12, with a GID of this port.
  if (m.primary.remote_gid != from.destination)
    return refuse(from, head, m, CmReject::primary_gid, from.destination), false;
  return true;
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head& head, const CmReq& m) {
  if (Connection* known = found_in(by_peer_id_, PeerKey{m.local_ca_guid, m.local_comm_id})) {
    const bool same = !known->active && known->tid == head.transaction_id && known->request_psn == m.starting_psn &&
                      known->remote_qpn == m.local_qpn;
    if (same) {
      known->requested_at = now;
      return duplicate_req(*known, from, head, m);
    }
    // Another request with an ID that is in use: the peer was restarted, and its counter of IDs with it.
    refuse(from, head, m, CmReject::stale_connection);
    ++counters.stale;
    return stale(now, *known, reply_to(from));
  }
  if (!check_req(from, head, m)) return;
  if (Connection* known = found_in(by_peer_qpn_, PeerKey{m.local_ca_guid, m.local_qpn})) {
    // IBA §12.9: this side still has a connection with that queue pair, which the peer has lost.
    refuse(from, head, m, CmReject::stale_connection);
    ++counters.stale;
    return stale(now, *known, reply_to(from));
  }
  Listener* listener = listener_of(m.service_id);
  // IBA §12.6.7.2 reason 8.
  if (listener == nullptr || !listener->options.connected) return refuse(from, head, m, CmReject::invalid_service_id);
  new_req(now, from, head, m, *listener);
}

void Agent::Body::duplicate_req(Connection& c, const MadFrom& from, const Head& head, const CmReq& m) {
  switch (c.state) {
    case State::req_rcvd:
      ++counters.duplicates;
      // Like Linux's RDMA CM: a retransmitted REQ is answered with an MRA while the user decides.
      if (options_.mra_timeout) (void)send_mra({}, c.id, c.mra_timeout, {});
      return;
    case State::mra_req_sent: return answer_again(c);
    case State::rep_sent:
      // The REP was lost or crossed this REQ. Linux does not answer; its timer retransmits the REP after 4.3 s.
      ++counters.duplicates;
      if (plays(Departure::leaves_rep_to_timer)) return;
      ++counters.answered_again;
      return send_again(c.to, *c.unanswered);
    case State::timewait:
    case State::closed:
      // A late duplicate, or the answer was lost. Linux has forgotten the request by now and treats it as a new one.
      if (c.answer != nullptr && c.answer_type == CmMessageType::rej) return answer_again(c);
      ++counters.duplicates;
      return refuse(from, head, m, CmReject::stale_connection);
    default: ++counters.duplicates;
  }
}

/// A request has shown that the peer no longer has this connection.
void Agent::Body::stale(Instant now, Connection& old, const MadTo& peer) {
  // A CA GUID is not secret, so only a message from the peer's GID may end the connection.
  if (options_.check_source_gid && !same_peer(peer, old.to)) return;
  if (old.state != State::established) return;
  old.why =
      std::make_unique<Failure>(broken(State::established, Errc::peer_reset, std::string(stale_words),
                                       "the peer was started again, or lost track of the connection; set it up again"));
  begin_disconnect(now, old, {}, {});
}

void Agent::Body::new_req(Instant now, const MadFrom& from, const Head& head, const CmReq& m, Listener& listener) {
  const auto made = make(false);
  if (!made) return turn_away(listener, from, head, m);
  Connection& c = **made;
  c.state = State::req_rcvd;
  c.requested_at = now;
  c.qp_type = *type_of(m);
  c.service_id = m.service_id;
  c.has_alternate = m.has_alternate();
  c.tid = head.transaction_id;
  c.request_psn = m.starting_psn;
  c.to = reply_to(from);
  c.to.flow_label = m.primary.flow_label;
  c.to.traffic_class = m.primary.traffic_class;
  c.interval = peer_timeout(m.local_cm_response_timeout);
  c.retries = m.max_cm_retries;
  c.timewait = timewait_of(m.primary.local_ack_timeout);
  c.mra_timeout = options_.mra_timeout.value_or(0);
  if (!admit(now, c, listener)) {
    release(c);
    return turn_away(listener, from, head, m);
  }
  know_peer(c, m.local_ca_guid, m.local_comm_id, m.local_qpn);
  RequestReceived event{.qp_type = c.qp_type, .request = m, .ece_options = head.attribute_modifier, .from = from};
  c.offered_retry_after = listener.options.when_full == OverloadAction::reject && busy::has_offer(m.private_data);
  if (c.offered_retry_after) busy::strip(event.request.private_data);
  push_event(c, std::move(event));
}

bool Agent::Body::admit(Instant now, Connection& c, Listener& listener) {
  const Admission::Answer answer = listener.admission.arrive(address_of_gid(c.to.destination), c.id);
  if (!answer.ticket) return false;
  c.ticket = answer.ticket;
  listener.admission.hold(c.ticket);  // the user's turn
  if (Connection* evicted = get(answer.gave_way)) {
    evicted->ticket = {};
    ++listener.turned.gave_way;
    report_turned_away(listener, evicted->to.destination);
    evict(now, *evicted);
  }
  return true;
}

void Agent::Body::evict(Instant now, Connection& c) {
  send_once(c.to, c.tid, rej_of(c, CmReject::no_resources));
  push_event(c, Failed{.timewait = true,
                       .why = broken(c.state, Errc::no_space, "no RTU yet, and a newcomer needed the room",
                                     "raise ListenOptions::pending_max, or keep the busiest address out")});
  enter_timewait(now, c);
}

void Agent::Body::report_turned_away(Listener& listener, const Gid& peer) {
  listener.turned.peer = peer;
  if (std::exchange(listener.told, true)) return;
  events_.push(TurnedAway{.service_id = listener.service_id});
}

// Answers a request for which there is no room. This side keeps no state: after an MRA the peer retransmits its REQ.
void Agent::Body::answer_when_full(const ListenOptions& options, const MadTo& to, std::uint64_t tid,
                                   std::uint32_t peer_id, bool offered) {
  if (options.when_full == OverloadAction::drop) {
    ++counters.dropped_requests;
    return;
  }
  ++counters.busy;
  if (options.when_full == OverloadAction::reject && offered) {
    CmRej out{.remote_comm_id = peer_id, .reason = CmReject::consumer};
    busy::put_retry_after(out.private_data, options.retry_after);
    return send_once(to, tid, out);
  }
  send_once(to, tid,
            CmMra{.remote_comm_id = peer_id, .about = CmSubject::req, .service_timeout = options.busy_timeout});
}

void Agent::Body::turn_away(Listener& listener, const MadFrom& from, const Head& head, const CmReq& m) {
  ++(listener.options.when_full == OverloadAction::drop ? listener.turned.dropped : listener.turned.busy);
  report_turned_away(listener, from.source);
  answer_when_full(listener.options, reply_to(from), head.transaction_id, m.local_comm_id,
                   busy::has_offer(m.private_data));
}

void Agent::Body::turn_away(Instant now, ConnectionId id) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan) return;
  const Listener* listener = listener_of(c->service_id);
  if (c->state != State::req_rcvd || listener == nullptr) return destroy(now, id);
  answer_when_full(listener->options, c->to, c->tid, c->remote_id, c->offered_retry_after);
  leave_set_up(*c);
  release(*c);
}

Result<void> Agent::Body::accept(Instant now, ConnectionId id, const AcceptParameters& p) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || (c->state != State::req_rcvd && c->state != State::mra_req_sent))
    return fail(Errc::wrong_state);
  if (p.qpn > PARLEY_IB_QPN_MAX || p.starting_psn > PARLEY_IB_QPN_MAX)
    return fail(Errc::invalid_argument, "AcceptParameters: QPN and starting PSN have 24 bits");
  if (p.rnr_retry_count > 7 || p.target_ack_delay > 31 || p.failover > 3)
    return fail(Errc::invalid_argument,
                "AcceptParameters: rnr_retry_count is 0 to 7, target_ack_delay 0 to 31, failover 0 to 3");
  if (p.timers)
    if (const auto good = check(*p.timers); !good) return good;
  if (p.private_data.size() > rep_private_data_max) return too_long(p.private_data.size(), rep_private_data_max);
  const bool xrc = c->qp_type == QpType::xrc;
  CmRep m{.local_comm_id = c->local_id,
          .remote_comm_id = c->remote_id,
          .local_qpn = xrc ? 0 : p.qpn,
          .local_eecn = xrc ? p.qpn : 0,
          .starting_psn = p.starting_psn,
          .ece_vendor = p.ece_vendor,
          .responder_resources = p.responder_resources,
          .initiator_depth = static_cast<std::uint8_t>(xrc ? 0 : p.initiator_depth),
          .target_ack_delay = p.target_ack_delay,
          .failover_accepted = static_cast<std::uint8_t>(c->has_alternate ? p.failover : 0),
          .flow_control = !xrc && p.flow_control,
          .rnr_retry_count = p.rnr_retry_count,
          .srq = xrc || p.srq,
          .local_ca_guid = options_.ca_guid};
  (void)fill(m.private_data, p.private_data);
  c->local_qpn = p.qpn;
  c->timers = p.timers.value_or(options_.timers);
  c->state = State::rep_sent;
  if (Listener* listener = listener_of(c->service_id)) listener->admission.release(c->ticket);  // the peer's turn
  await_answer(now, *c, octets_of(c->tid, m, p.ece_options));
  return {};
}

Result<void> Agent::Body::reject(Instant now, ConnectionId id, const RejectParameters& p) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan) return fail(Errc::wrong_state);
  const bool sent_rep = c->state == State::rep_sent || c->state == State::mra_rep_rcvd;
  if (!sent_rep && c->state != State::req_rcvd && c->state != State::mra_req_sent && c->state != State::rep_rcvd &&
      c->state != State::mra_rep_sent)
    return fail(Errc::wrong_state);
  CmRej m = rej_of(*c, p.reason);
  m.info_length = static_cast<std::uint8_t>(p.info.size());
  if (!fill(m.info, p.info)) return too_long(p.info.size(), m.info.size());
  if (!fill(m.private_data, p.private_data)) return too_long(p.private_data.size(), m.private_data.size());
  // After an MRA the peer retransmits its REQ only after the service timeout; keep the REJ until then (IBA §12.9).
  if (c->state == State::mra_req_sent && options_.mra_timeout)
    c->timewait = 2 * c->timewait + wire::ib::timeout_of(*options_.mra_timeout);
  answer(*c, octets_of(c->tid, m));
  if (sent_rep)
    enter_timewait(now, *c);
  else
    close(now, *c, !plays(Departure::forgets_rejected));
  return {};
}

Result<void> Agent::Body::send_mra(Instant, ConnectionId id, std::uint8_t service_timeout, ConstBytes private_data) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan) return fail(Errc::wrong_state);
  if (service_timeout > 31)
    return fail(Errc::invalid_argument, "send_mra: service_timeout is {a}; must be 0 to 31", service_timeout);
  CmMra m{.local_comm_id = c->local_id, .remote_comm_id = c->remote_id, .service_timeout = service_timeout};
  if (!fill(m.private_data, private_data)) return too_long(private_data.size(), m.private_data.size());
  std::uint64_t tid = c->tid;
  if (c->state == State::req_rcvd) {
    m.about = CmSubject::req;
    c->state = State::mra_req_sent;
  } else if (c->state == State::rep_rcvd) {
    m.about = CmSubject::rep;
    c->state = State::mra_rep_sent;
  } else if (c->state == State::established && c->alternate == AlternateState::lap_rcvd) {
    m.about = CmSubject::other;
    c->alternate = AlternateState::mra_lap_sent;
    tid = c->lap_tid;
  } else {
    return fail(Errc::wrong_state);
  }
  answer(*c, octets_of(tid, m));
  return {};
}

void Agent::Body::limit_mra(ConnectionId id, std::uint8_t service_timeout) {
  if (Connection* c = get(id)) c->mra_timeout = std::min(c->mra_timeout, service_timeout);
}

/// Only this MRA has `service_timeout`; the copy that is kept for duplicates has the connection's mra_timeout.
void Agent::Body::remind(ConnectionId id, std::uint8_t service_timeout) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || !options_.mra_timeout || c->state != State::req_rcvd) return;
  CmMra m{.local_comm_id = c->local_id,
          .remote_comm_id = c->remote_id,
          .about = CmSubject::req,
          .service_timeout = c->mra_timeout};
  keep(c->answer, octets_of(c->tid, m));
  c->answer_type = CmMessageType::mra;
  c->state = State::mra_req_sent;
  m.service_timeout = std::min(service_timeout, c->mra_timeout);
  send_once(c->to, c->tid, m);
}

Instant Agent::Body::requested_at(ConnectionId id) {
  const Connection* c = get(id);
  return c == nullptr ? Instant::min() : c->requested_at;
}

void Agent::Body::on_message(Instant, const MadFrom& from, const Head&, const CmRtu& m) {
  Connection* c = by_both(from, m.remote_comm_id, m.local_comm_id);
  if (c == nullptr) return;
  if (c->active || (c->state != State::rep_sent && c->state != State::mra_rep_rcvd)) {
    c->state == State::established ? ++counters.duplicates : ++counters.unexpected;
    return;
  }
  establish(*c, {.private_data = m.private_data});
}

void Agent::Body::establish(Connection& c, Ready event) {
  leave_set_up(c);
  stop_waiting(c);
  c.state = State::established;
  c.was_established = true;
  push_event(c, std::move(event));
}

Result<void> Agent::Body::communication_established(ConnectionId id) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || (c->state != State::rep_sent && c->state != State::mra_rep_rcvd))
    return fail(Errc::wrong_state);
  establish(*c, {.by_data = true});
  return {};
}

}  // namespace parley::cm::ibcm
