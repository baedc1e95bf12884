// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Alternate paths of an established connection: LAP and APR, IBA §12.8. Only the side that sent the REQ asks for one.
#include "cm/ibcm/body.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

Result<void> Agent::Body::load_alternate(Instant now, ConnectionId id, const CmPath& path, ConstBytes private_data) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || c->state != State::established || !c->active || c->alternate != AlternateState::idle)
    return fail(Errc::wrong_state);
  CmLap m{.local_comm_id = c->local_id,
          .remote_comm_id = c->remote_id,
          .remote_qpn = c->remote_qpn,
          .remote_cm_response_timeout = 20,
          .alternate = path};
  if (!fill(m.private_data, private_data)) return too_long(private_data.size(), m.private_data.size());
  c->alternate = AlternateState::lap_sent;
  c->lap_tid = rng_.next();
  await_answer(now, *c, octets_of(c->lap_tid, m));
  return {};
}

Result<void> Agent::Body::answer_alternate(ConnectionId id, const AlternateAnswer& p) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || c->state != State::established ||
      (c->alternate != AlternateState::lap_rcvd && c->alternate != AlternateState::mra_lap_sent))
    return fail(Errc::wrong_state);
  CmApr m{.local_comm_id = c->local_id, .remote_comm_id = c->remote_id, .status = p.status};
  m.info_length = static_cast<std::uint8_t>(p.info.size());
  if (!fill(m.info, p.info)) return too_long(p.info.size(), m.info.size());
  if (!fill(m.private_data, p.private_data)) return too_long(p.private_data.size(), m.private_data.size());
  c->alternate = AlternateState::idle;
  answer(*c, octets_of(c->lap_tid, m));
  return {};
}

void Agent::Body::on_message(Instant, const MadFrom& from, const Head& head, const CmLap& m) {
  if (plays(Departure::drops_lap)) {
    ++counters.unexpected;
    return;
  }
  const auto refuse_it = [&](ApStatus status) {
    send_once(reply_to(from), head.transaction_id,
              CmApr{.local_comm_id = m.remote_comm_id, .remote_comm_id = m.local_comm_id, .status = status});
  };
  Connection* c = by_both(from, m.remote_comm_id, m.local_comm_id);
  if (c == nullptr || c->state == State::closed || c->state == State::timewait)
    return refuse_it(ApStatus::invalid_comm_id);  // IBA §12.8.2; Linux does not answer
  if (c->state != State::established) {
    ++counters.unexpected;
    return;
  }
  if (c->active) return refuse_it(ApStatus::unsupported);
  if (m.remote_qpn != c->local_qpn) return refuse_it(ApStatus::invalid_qpn);
  if (head.transaction_id == c->lap_tid) {
    if (c->alternate == AlternateState::lap_rcvd) {
      ++counters.duplicates;
      return;
    }
    return answer_again(*c);
  }
  if (c->alternate != AlternateState::idle) {
    ++counters.unexpected;
    return;
  }
  c->lap_tid = head.transaction_id;
  c->alternate = AlternateState::lap_rcvd;
  push_event(*c, AlternateRequested{.request = m});
}

void Agent::Body::on_message(Instant, const MadFrom& from, const Head& head, const CmApr& m) {
  Connection* c = by_both(from, m.remote_comm_id, m.local_comm_id);
  if (c == nullptr) return;
  const bool awaited = c->state == State::established &&
                       (c->alternate == AlternateState::lap_sent || c->alternate == AlternateState::mra_lap_rcvd);
  if (!awaited || head.transaction_id != c->lap_tid) {
    ++counters.unexpected;
    return;
  }
  c->alternate = AlternateState::idle;
  stop_waiting(*c);
  push_event(*c, AlternateAnswered{.answer = m});
}

}  // namespace parley::cm::ibcm
