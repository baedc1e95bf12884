// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Service ID resolution, with which UD queue pairs find each other: IBA §12.11.
#include <tuple>

#include "cm/ibcm/body.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

namespace {

constexpr std::uint8_t answer_kept = 21;  // timeout_of(): 8.6 s, for two retransmissions of Linux, 4.1 s apart

}  // namespace

Result<ConnectionId> Agent::Body::sidr_request(Instant now, const SidrParameters& p) {
  if (p.response_timeout > 31)
    return fail(Errc::invalid_argument, "SidrParameters::response_timeout is {a}; must be 0 to 31", p.response_timeout);
  const Timers timers = p.timers.value_or(options_.timers);
  if (const auto good = check(timers); !good) return tl::unexpected(good.error());
  CmSidrReq m{.p_key = p.path.p_key, .service_id = p.service_id};
  if (!fill(m.private_data, p.private_data)) return too_long(p.private_data.size(), m.private_data.size());
  const auto made = make(true);
  if (!made) return tl::unexpected(made.error());
  Connection& c = **made;
  c.state = State::queued;
  c.service_id = p.service_id;
  c.to = way_of(p.path);
  c.timers = timers;
  c.retries = timers.retries;
  c.interval = timeout_of(p.response_timeout);
  c.tid = std::uint64_t{incarnation_} << 32 | c.local_id;
  m.request_id = c.local_id;
  keep(c.unanswered, octets_of(c.tid, m));
  return start(now, c);
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head&, const CmSidrRep& m) {
  Connection* c = by_local(m.request_id);
  if (c == nullptr || !c->active) {
    ++counters.unknown;
    return;
  }
  if (!from_peer(*c, from)) return;
  if (c->state != State::sidr_req_sent) {
    c->state == State::closed ? ++counters.duplicates : ++counters.unexpected;
    return;
  }
  if (m.status == SidrStatus::valid && !can_connect(m.qpn)) {
    push_event(*c, Failed{.why = unusable_qpn(c->state, "SIDR_REP", m.qpn)});
    return close(now, *c, false);
  }
  SidrReplied event{.reply = m};
  if (m.status != SidrStatus::valid)
    event.why = broken(c->state, m.status == SidrStatus::unsupported_service_id ? Errc::refused : Errc::rejected,
                       std::string("SIDR_REP: ") += to_string(m.status), "see what serves that service ID at the peer");
  push_event(*c, std::move(event));
  close(now, *c, false);
}

void Agent::Body::on_message(Instant now, const MadFrom& from, const Head& head, const CmSidrReq& m) {
  if (const auto at = sidr_.find(sidr_key(reply_to(from), m.request_id)); at != sidr_.end()) {
    Connection& known = *get(at->second);
    if (known.state != State::closed || known.tid == head.transaction_id) return answer_again(known);
    forget(known);  // the peer was restarted, and its counter of IDs with it
  }
  const auto refuse_it = [&](SidrStatus status) {
    ++counters.refused;
    send_once(reply_to(from), head.transaction_id,
              CmSidrRep{.request_id = m.request_id, .status = status, .service_id = m.service_id});
  };
  if (!has_p_key(m.p_key)) return refuse_it(SidrStatus::rejected);  // there is no status for this
  Listener* listener = listener_of(m.service_id);
  if (listener == nullptr || !listener->options.sidr) return refuse_it(SidrStatus::unsupported_service_id);
  const auto made = make(false);
  if (made) {
    Connection& c = **made;
    c.state = State::sidr_req_rcvd;
    c.service_id = m.service_id;
    c.tid = head.transaction_id;
    c.remote_id = m.request_id;
    c.to = reply_to(from);
    c.timewait = timeout_of(answer_kept);
    if (admit(now, c, *listener)) {
      c.by_sidr = sidr_.try_emplace(sidr_key(c.to, m.request_id), c.id).second;
      return push_event(c, SidrRequested{.request = m, .from = from});
    }
    c.state = State::closed;
    release(c);
  }
  // SIDR has no message that asks the peer to wait, and a refusal would be final. Without an answer the peer
  // retransmits.
  ++counters.dropped_requests;
  ++listener->turned.dropped;
  report_turned_away(*listener, from.source);
}

void Agent::Body::answer_sidr(Instant now, Connection& c, const SidrAnswer& p) {
  CmSidrRep m{.request_id = c.remote_id,
              .status = p.status,
              .info_length = static_cast<std::uint8_t>(p.info.size()),
              .qpn = p.qpn,
              .service_id = c.service_id,
              .q_key = p.q_key};
  (void)fill(m.info, p.info);
  (void)fill(m.private_data, p.private_data);
  answer(c, octets_of(c.tid, m));
  close(now, c, true);
}

Result<void> Agent::Body::sidr_reply(Instant now, ConnectionId id, const SidrAnswer& p) {
  Connection* c = get(id);
  if (c == nullptr || c->orphan || c->state != State::sidr_req_rcvd) return fail(Errc::wrong_state);
  if (p.qpn > PARLEY_IB_QPN_MAX) return fail(Errc::invalid_argument, "SidrAnswer::qpn has 24 bits");
  if (p.info.size() > PARLEY_IBCM_INFO_LEN) return too_long(p.info.size(), PARLEY_IBCM_INFO_LEN);
  const std::size_t room = std::tuple_size_v<decltype(CmSidrRep::private_data)>;
  if (p.private_data.size() > room) return too_long(p.private_data.size(), room);
  answer_sidr(now, *c, p);
  return {};
}

}  // namespace parley::cm::ibcm
