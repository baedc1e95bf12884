// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The side that sends the REQ (IBA §12.9), and received REJs on both sides.
#include <algorithm>

#include "base/after.hpp"
#include "base/bytes_io.hpp"
#include "cm/ibcm/body.hpp"
#include "cm/ibcm/busy.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

namespace {

constexpr std::uint8_t code_max = 31;  // of exponents of timeouts

Result<void> check(const ConnectParameters& p) {
  if (p.qpn > PARLEY_IB_QPN_MAX || p.starting_psn > PARLEY_IB_QPN_MAX)
    return fail(Errc::invalid_argument, "ConnectParameters: QPN and starting PSN have 24 bits");
  if (p.retry_count > 7 || p.rnr_retry_count > 7)
    return fail(Errc::invalid_argument, "ConnectParameters::retry_count is {a}, rnr_retry_count {b}; must be 0 to 7",
                p.retry_count, p.rnr_retry_count);
  if (p.path_mtu < 1 || p.path_mtu > 5)
    return fail(Errc::invalid_argument, "ConnectParameters::path_mtu is {a}; must be 1 to 5", p.path_mtu);
  if (p.local_response_timeout > code_max || p.remote_response_timeout > code_max)
    return fail(Errc::invalid_argument, "ConnectParameters: response timeouts are {a} and {b}; must be 0 to 31",
                p.local_response_timeout, p.remote_response_timeout);
  if (p.path.primary.local_ack_timeout > code_max)
    return fail(Errc::invalid_argument, "CmPath::local_ack_timeout is {a}; must be 0 to 31",
                p.path.primary.local_ack_timeout);
  return p.timers ? check(*p.timers) : Result<void>();
}

// IBA §A14: an XRC REQ has service type 3 with extended type 1. Members without a meaning for an INI queue pair stay 0,
// as in Linux.
CmReq req_of(const ConnectParameters& p, const Timers& timers) {
  const bool xrc = p.qp_type == QpType::xrc;
  CmReq m;
  m.ece_vendor = p.ece_vendor;
  m.service_id = p.service_id;
  m.local_qpn = p.qpn;
  m.initiator_depth = p.initiator_depth;
  m.remote_cm_response_timeout = p.remote_response_timeout;
  m.service = xrc ? CmService::extended : p.qp_type == QpType::uc ? CmService::uc : CmService::rc;
  m.extended_service = xrc ? PARLEY_IBCM_EXTENDED_XRC : 0;
  m.flow_control = p.flow_control;
  m.starting_psn = p.starting_psn;
  m.local_cm_response_timeout = p.local_response_timeout;
  if (!xrc) {
    m.responder_resources = p.responder_resources;
    m.retry_count = p.retry_count;
    m.rnr_retry_count = p.rnr_retry_count;
    m.srq = p.srq;
  }
  m.p_key = p.path.p_key;
  m.path_mtu = p.path_mtu;
  m.max_cm_retries = timers.retries;
  m.primary = p.path.primary;
  if (p.alternate) m.alternate = *p.alternate;
  return m;
}

}  // namespace

Result<ConnectionId> Agent::Body::connect(Instant now, const ConnectParameters& p) {
  if (const auto good = check(p); !good) return tl::unexpected(good.error());
  const Timers timers = p.timers.value_or(options_.timers);
  CmReq m = req_of(p, timers);
  const std::size_t room = m.private_data.size() - (p.offer_retry_after ? busy::marker_len : 0);
  if (p.private_data.size() > room) return too_long(p.private_data.size(), room);
  (void)fill(m.private_data, p.private_data);
  if (p.offer_retry_after) busy::put_offer(m.private_data);

  const auto made = make(true);
  if (!made) return tl::unexpected(made.error());
  Connection& c = **made;
  c.state = State::queued;
  c.qp_type = p.qp_type;
  c.local_qpn = p.qpn;
  c.service_id = p.service_id;
  c.has_alternate = m.has_alternate();
  c.offered_retry_after = p.offer_retry_after;
  c.to = way_of(p.path);
  c.timers = timers;
  c.retries = timers.retries;
  // IBA §12.9: the time of the path in both directions, plus the time that the peer's CM may take.
  c.interval = time_of(p.path.primary.local_ack_timeout) + time_of(p.remote_response_timeout);
  c.timewait = timewait_of(p.path.primary.local_ack_timeout);
  c.tid = std::uint64_t{incarnation_} << 32 | c.local_id;
  m.local_comm_id = c.local_id;
  m.local_ca_guid = options_.ca_guid;
  keep(c.unanswered, octets_of(c.tid, m, p.ece_options));
  return start(now, c);
}

/// Sends the request at once, or queues it until the window has room.
Result<ConnectionId> Agent::Body::start(Instant now, Connection& c) {
  const ConnectionId id = c.id;
  const auto place = window_.enter(c.to.destination, id);
  if (!place) {
    c.state = State::closed;
    release(c);
    return fail(Errc::no_space, "AgentOptions::waiting_max is {a}, and that many requests wait for their turn",
                options_.waiting_max);
  }
  c.place = *place;
  if (c.place == 0) begin(now, c);
  begin_next(now);
  return id;
}

void Agent::Body::begin(Instant now, Connection& c) {
  c.place = 0;
  c.in_window = true;
  c.state = type_in(*c.unanswered) == CmMessageType::req ? State::req_sent : State::sidr_req_sent;
  await_answer(now, c, *c.unanswered);
}

void Agent::Body::begin_next(Instant now) {
  while (const auto id = window_.next())
    if (Connection* c = get(*id)) begin(now, *c);
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head& head, const CmRep& m) {
  Connection* c = by_local(m.remote_comm_id);
  // IBA §12.6.7.2 reason 6: no connection waits for this REP, and its sender would retransmit it. Linux does not
  // answer.
  const auto refuse_it = [&] {
    if (plays(Departure::drops_unknown_rep)) return;
    send_once(reply_to(from), head.transaction_id,
              CmRej{.local_comm_id = m.remote_comm_id,
                    .remote_comm_id = m.local_comm_id,
                    .about = CmSubject::rep,
                    .reason = CmReject::invalid_comm_id});
  };
  if (c == nullptr || !c->active || (c->peer_known && c->remote_id != m.local_comm_id)) {
    ++counters.unknown;
    return refuse_it();
  }
  if (!from_peer(*c, from)) return;
  switch (c->state) {
    case State::req_sent:
    case State::mra_req_rcvd: return accept_rep(now, *c, head, m);
    case State::rep_rcvd:
      ++counters.duplicates;
      if (options_.mra_timeout) (void)send_mra(now, c->id, *options_.mra_timeout, {});
      return;
    case State::mra_rep_sent: return answer_again(*c);
    case State::established: return answer_again(*c);  // IBA §12.9: the RTU was lost, or crossed this REP
    case State::timewait: ++counters.duplicates; return refuse_it();
    case State::closed:
      if (c->answer != nullptr) return answer_again(*c);  // the REJ was lost
      ++counters.duplicates;
      return refuse_it();
    case State::queued:
    case State::sidr_req_sent: ++counters.unexpected; return;
    default: ++counters.duplicates;  // a DREQ was sent or received
  }
}

void Agent::Body::accept_rep(Instant now, Connection& c, const Head& head, const CmRep& m) {
  // IBA §A14: the REP has the TGT queue pair number in the field of RD's EE context.
  const std::uint32_t qpn = c.qp_type == QpType::xrc ? m.local_eecn : m.local_qpn;
  leave_set_up(c);
  stop_waiting(c);
  if (!can_connect(qpn))  // as in check_req()
    return refuse_rep(now, c, m, CmReject::unsupported_request, unusable_qpn(State::req_sent, "REP", qpn));
  if (Connection* old = found_in(by_peer_qpn_, PeerKey{m.local_ca_guid, qpn})) {
    // IBA §12.9: this side still has a connection with that queue pair.
    refuse_rep(now, c, m, CmReject::stale_connection,
               broken(State::req_sent, Errc::rejected, "a REP whose queue pair another connection with that peer has",
                      "let the peer use another queue pair, or wait until the other connection's timewait is over"));
    ++counters.stale;
    return stale(now, *old, c.to);
  }
  know_peer(c, m.local_ca_guid, m.local_comm_id, qpn);
  c.state = State::rep_rcvd;
  push_event(c, ReplyReceived{.reply = m, .remote_qpn = qpn, .ece_options = head.attribute_modifier});
}

void Agent::Body::refuse_rep(Instant now, Connection& c, const CmRep& m, CmReject reason, Failure why) {
  c.state = State::rep_rcvd;
  c.remote_id = m.local_comm_id;
  answer(c, octets_of(c.tid, rej_of(c, reason)));
  push_event(c, Failed{.why = std::move(why)});
  close(now, c, true);
}

Result<void> Agent::Body::ready(Instant, ConnectionId id, ConstBytes private_data) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || (c->state != State::rep_rcvd && c->state != State::mra_rep_sent))
    return fail(Errc::wrong_state);
  CmRtu m{.local_comm_id = c->local_id, .remote_comm_id = c->remote_id};
  if (!fill(m.private_data, private_data)) return too_long(private_data.size(), m.private_data.size());
  c->state = State::established;
  c->was_established = true;
  answer(*c, octets_of(c->tid, m));
  return {};
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head&, const CmMra& m) {
  Connection* c = nullptr;
  if (m.about == CmSubject::req) {
    // The peer may have assigned an ID already, but this side learns it only from the REP.
    c = by_local(m.remote_comm_id);
    if (c == nullptr || !c->active) {
      ++counters.unknown;
      return;
    }
    if (!from_peer(*c, from)) return;
  } else {
    c = by_both(from, m.remote_comm_id, m.local_comm_id);
    if (c == nullptr) return;
  }
  const bool of_lap = c->state == State::established &&
                      (c->alternate == AlternateState::lap_sent || c->alternate == AlternateState::mra_lap_rcvd);
  switch (m.about) {
    case CmSubject::req:
      if (c->state != State::req_sent && c->state != State::mra_req_rcvd) break;
      c->state = State::mra_req_rcvd;
      return wait_longer(now, *c, peer_timeout(m.service_timeout) + c->timewait,
                         {.about = m.about, .private_data = m.private_data});
    case CmSubject::rep:
      if (c->state != State::rep_sent && c->state != State::mra_rep_rcvd) break;
      c->state = State::mra_rep_rcvd;
      return wait_longer(now, *c, peer_timeout(m.service_timeout) + c->timewait,
                         {.about = m.about, .private_data = m.private_data});
    case CmSubject::other:
      if (!of_lap) break;
      c->alternate = AlternateState::mra_lap_rcvd;
      return wait_longer(now, *c, peer_timeout(m.service_timeout) + c->timewait,
                         {.about = m.about, .private_data = m.private_data});
  }
  ++counters.unexpected;
}

/// The connection that the REJ is about. Null: unknown, or from another GID; it is counted.
Connection* Agent::Body::rejected_by(const MadFrom& from, const CmRej& m) {
  Connection* c = nullptr;
  if (m.reason == CmReject::timeout && m.info_length >= 8) {
    Reader r(m.info);
    c = found_in(by_peer_id_, PeerKey{r.be64(), m.local_comm_id});
  }
  if (c == nullptr) {
    c = by_local(m.remote_comm_id);
    // In a REJ about a REQ the peer's ID is not compared: this side does not know it, and the peer may have none.
    if (c != nullptr && (m.about == CmSubject::req ? c->peer_known : !c->peer_known || c->remote_id != m.local_comm_id))
      c = nullptr;
  }
  if (c == nullptr) {
    ++counters.unknown;
    return nullptr;
  }
  return from_peer(*c, from) ? c : nullptr;
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head&, const CmRej& m) {
  if (Connection* c = rejected_by(from, m)) rejected(now, *c, m);
}

/// How long this side waits before it retransmits its REQ, if the REJ has a retry-after. None: the REJ is final, as
/// also after the last retry.
std::optional<Duration> Agent::Body::busy_wait(const Connection& c, const CmRej& m) {
  if (m.reason != CmReject::consumer || !c.offered_retry_after || c.waits >= waits_max || c.sends > c.retries)
    return std::nullopt;
  const auto asked = busy::retry_after_of(m.private_data);
  if (!asked) return std::nullopt;
  const auto half = static_cast<std::uint64_t>(asked->count()) / 2;  // so that not all peers return at once
  return *asked + Duration(static_cast<std::int64_t>(rng_.between(0, half)));
}

void Agent::Body::rejected(Instant now, Connection& c, const CmRej& m) {
  const bool is_stale = m.reason == CmReject::stale_connection;
  switch (c.state) {
    case State::req_sent:
    case State::mra_req_rcvd:
      if (const auto wait = busy_wait(c, m); wait && after(now, *wait) < c.give_up) {
        c.state = State::mra_req_rcvd;
        return wait_longer(now, c, *wait, {.busy = true});
      }
      [[fallthrough]];
    case State::req_rcvd:
    case State::mra_req_sent:
    case State::rep_sent:
    case State::mra_rep_rcvd:
      // IBA §12.9: after a REJ for a stale connection, this side keeps its queue pair out of use for a timewait.
      push_event(c, Rejected{.reject = m, .timewait = is_stale, .why = rejected_because(c.state, m)});
      return is_stale ? enter_timewait(now, c) : close(now, c, !c.active);
    case State::rep_rcvd:
    case State::mra_rep_sent:
      push_event(c, Rejected{.reject = m, .timewait = true, .why = rejected_because(c.state, m)});
      return enter_timewait(now, c);
    case State::established:
    case State::dreq_sent:
      if (!c.why) c.why = std::make_unique<Failure>(rejected_because(c.state, m));
      return enter_timewait(now, c);
    case State::timewait:
    case State::closed: ++counters.duplicates; return;
    default: ++counters.unexpected;
  }
}

}  // namespace parley::cm::ibcm
