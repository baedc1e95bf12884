// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How set-ups and connections end, on both sides: DREQ and DREP, timewait, and what is remembered of ended connections.
#include <algorithm>

#include "base/after.hpp"
#include "base/bytes_io.hpp"
#include "cm/ibcm/body.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

void Agent::Body::leave_set_up(Connection& c) {
  if (c.state == State::queued) window_.withdraw(c.to.destination, std::exchange(c.place, 0));
  if (std::exchange(c.in_window, false)) window_.leave(c.to.destination);
  leave_listener(c);
}

/// `remember_it`: keeps the connection for duplicates of the peer's last message.
void Agent::Body::close(Instant now, Connection& c, bool remember_it) {
  leave_set_up(c);
  stop_waiting(c);
  forget_qpn(c);
  c.state = State::closed;
  if (c.answer_type != CmMessageType::rej && c.answer_type != CmMessageType::sidr_rep) drop(c.answer);
  if (remember_it) return remember(now, c);
  forget_peer(c);
  if (c.orphan) release(c);
}

// IBA §12.9: the queue pair and the IDs of both sides stay out of use until no packet of the connection can be in
// flight. Linux removes them from its tables here, so it treats a late duplicate of the REQ as a new request.
void Agent::Body::enter_timewait(Instant now, Connection& c, const CmDrep* drep) {
  leave_set_up(c);
  stop_waiting(c);
  c.state = State::timewait;
  c.alternate = AlternateState::idle;
  if (std::exchange(c.was_established, false)) {
    Disconnected event{.graceful = c.why == nullptr};
    if (const auto why = std::exchange(c.why, nullptr)) event.why = std::move(*why);
    event.end = c.peer_end;
    if (drep != nullptr) event.private_data = drep->private_data;
    push_event(c, std::move(event));
  }
  if (plays(Departure::forgets_in_timewait)) forget_peer(c);
  remember(now, c);
}

void Agent::Body::remember(Instant now, Connection& c) {
  auto& those = remembered_[c.state == State::timewait ? 1 : 0];
  if (spare_places_.empty()) spare_places_.emplace_back();
  those.splice(those.end(), spare_places_, spare_places_.begin());
  those.back() = c.id;
  c.remembered = std::prev(those.end());
  c.is_remembered = true;
  set_deadline(c, after(now, c.timewait));
  if (those.size() <= std::max<std::size_t>(options_.remembered_max / 2, 1)) return;
  ++counters.forgotten;
  Connection& oldest = *get(those.front());
  oldest.state == State::timewait ? leave_timewait(oldest, true) : forget(oldest);
}

void Agent::Body::leave_timewait(Connection& c, bool early) {
  push_event(c, TimewaitExit{.early = early});
  forget(c);
}

void Agent::Body::forget(Connection& c) {
  if (std::exchange(c.is_remembered, false)) {
    auto& those = remembered_[c.state == State::timewait ? 1 : 0];
    if (spare_places_.size() < FreeList<ConnectionId>::most)
      spare_places_.splice(spare_places_.begin(), those, c.remembered);
    else
      those.erase(c.remembered);
  }
  set_deadline(c, never);
  c.state = State::closed;
  drop(c.answer);
  forget_peer(c);
  if (c.orphan) release(c);
}

CmRej Agent::Body::rej_of(const Connection& c, CmReject reason) const {
  CmRej m{.local_comm_id = c.local_id, .remote_comm_id = c.remote_id, .about = CmSubject::other, .reason = reason};
  switch (c.state) {
    case State::req_rcvd:
    case State::mra_req_sent: m.about = CmSubject::req; break;
    case State::rep_rcvd:
    case State::mra_rep_sent: m.about = CmSubject::rep; break;
    default: break;
  }
  return m;
}

// IBA §12.6.7.2 reason 4: this side may not know the receiver's communication ID. The receiver then finds the
// connection by this side's ID and the CA GUID in the additional information.
CmRej Agent::Body::timeout_rej_of(const Connection& c) const {
  CmRej m = rej_of(c, CmReject::timeout);
  m.info_length = 8;
  Writer w(m.info);
  w.be64(options_.ca_guid);
  return m;
}

void Agent::Body::begin_disconnect(Instant now, Connection& c, ConstBytes private_data,
                                   const std::optional<EndNote>& end) {
  CmDreq m{.local_comm_id = c.local_id, .remote_comm_id = c.remote_id, .remote_qpn = c.remote_qpn};
  (void)fill(m.private_data, private_data);
  if (end) put_end_note(m.private_data, *end);
  c.state = State::dreq_sent;
  c.alternate = AlternateState::idle;
  const std::uint64_t tid = std::uint64_t{incarnation_} << 32 | c.local_id;
  await_answer(now, c, octets_of(tid, m));
}

void Agent::Body::send_drep(Instant now, Connection& c, ConstBytes private_data) {
  CmDrep m{.local_comm_id = c.local_id, .remote_comm_id = c.remote_id};
  (void)fill(m.private_data, private_data);
  answer(c, octets_of(c.tid, m));
  enter_timewait(now, c);
}

Result<void> Agent::Body::disconnect(Instant now, ConnectionId id, ConstBytes private_data,
                                     const std::optional<EndNote>& end) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan) return fail(Errc::wrong_state);
  if (c->state == State::established) {
    const std::size_t most = std::tuple_size_v<decltype(CmDreq::private_data)> - (end ? marker::length : 0);
    if (private_data.size() > most) return too_long(private_data.size(), most);
    begin_disconnect(now, *c, private_data, end);
    return {};
  }
  if (c->state != State::dreq_rcvd) return fail(Errc::wrong_state);
  if (private_data.size() > 224) return too_long(private_data.size(), 224);
  send_drep(now, *c, private_data);
  return {};
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head& head, const CmDreq& m) {
  Connection* c = by_local(m.remote_comm_id);
  if (c == nullptr || !c->peer_known || c->remote_id != m.local_comm_id || c->state == State::closed) {
    // IBA §12.9: this side does not know the connection. It answers all the same, so that the peer need not wait.
    ++counters.unknown;
    return send_once(reply_to(from), head.transaction_id,
                     CmDrep{.local_comm_id = m.remote_comm_id, .remote_comm_id = m.local_comm_id});
  }
  if (!from_peer(*c, from)) return;
  // IBA §12.6.10: the DREQ names the receiver's queue pair.
  if (m.remote_qpn != c->local_qpn) {
    ++counters.unexpected;
    return;
  }
  switch (c->state) {
    case State::rep_rcvd:
    case State::mra_rep_sent:
    case State::rep_sent:
    case State::mra_rep_rcvd:
    case State::established:
      leave_set_up(*c);
      stop_waiting(*c);
      c->tid = head.transaction_id;
      c->state = State::dreq_rcvd;
      c->alternate = AlternateState::idle;
      c->was_established = true;
      push_event(*c, DisconnectRequested{.end = end_note_of(m.private_data), .private_data = m.private_data});
      return;
    case State::dreq_sent:  // the DREQs crossed: each side sends a DREP
      c->tid = head.transaction_id;
      c->peer_end = end_note_of(m.private_data);
      return send_drep(now, *c, {});
    case State::timewait:
      if (c->answer == nullptr || c->answer_type != CmMessageType::drep) {
        keep(c->answer,
             octets_of(head.transaction_id, CmDrep{.local_comm_id = c->local_id, .remote_comm_id = c->remote_id}));
        c->answer_type = CmMessageType::drep;
      }
      return answer_again(*c);
    default: ++counters.duplicates;  // dreq_rcvd: the user has not answered yet
  }
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head&, const CmDrep& m) {
  Connection* c = by_both(from, m.remote_comm_id, m.local_comm_id);
  if (c == nullptr) return;
  if (c->state != State::dreq_sent) {
    ++counters.duplicates;
    return;
  }
  enter_timewait(now, *c, &m);
}

// Sends the same message in each state as Linux's ib_destroy_cm_id(). An undecided REQ is rejected.
void Agent::Body::destroy_set_up(Instant now, Connection& c) {
  switch (c.state) {
    case State::req_sent:
    case State::mra_req_rcvd: send_once(c.to, c.tid, timeout_rej_of(c)); return close(now, c, false);
    case State::req_rcvd:
    case State::mra_req_sent:
    case State::rep_rcvd:
    case State::mra_rep_sent:
      answer(c, octets_of(c.tid, rej_of(c, CmReject::consumer)));
      return close(now, c, !plays(Departure::forgets_rejected));
    case State::rep_sent:
    case State::mra_rep_rcvd: send_once(c.to, c.tid, rej_of(c, CmReject::consumer)); return enter_timewait(now, c);
    default: return close(now, c, false);
  }
}

void Agent::Body::destroy(Instant now, ConnectionId id, const std::optional<EndNote>& end) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan) return;
  c->orphan = true;
  switch (c->state) {
    case State::established:
      // IBA §A14: the TGT queue pair is shared, and outlives the ID through which it was set up.
      if (c->qp_type == QpType::xrc && !c->active) return enter_timewait(now, *c);
      return begin_disconnect(now, *c, {}, end);
    case State::dreq_rcvd: return send_drep(now, *c, {});
    case State::dreq_sent:
    case State::timewait: return;  // ends without the user
    case State::closed:
      if (!c->is_remembered) release(*c);
      return;
    case State::sidr_req_rcvd: return answer_sidr(now, *c, {.status = SidrStatus::rejected});
    default: destroy_set_up(now, *c); begin_next(now);
  }
}

}  // namespace parley::cm::ibcm
