// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Transmission, retransmission, and when this side gives up.
#include <algorithm>

#include "base/after.hpp"
#include "cm/ibcm/body.hpp"
#include "wire/ib/packet.hpp"

namespace parley::cm::ibcm {
using namespace wire::ib;

namespace {

/// Lower bound of a peer's timeouts: with a smaller one, this side would retransmit its answer in a burst.
constexpr Duration interval_min = std::chrono::milliseconds(10);

}  // namespace

Result<void> check(const Timers& timers) {
  if (timers.retries > 15)
    return fail(Errc::invalid_argument, "Timers::retries is {a}; must be 0 to 15", timers.retries);
  if (timers.first < std::chrono::microseconds(1))
    return fail(Errc::invalid_argument, "Timers::first is {a} ns; must be at least 1000", timers.first.count());
  if (timers.cap < timers.first)
    return fail(Errc::invalid_argument, "Timers::cap is {a} ns; must be at least Timers::first, {b} ns",
                timers.cap.count(), timers.first.count());
  if (timers.total < Duration{})
    return fail(Errc::invalid_argument, "Timers::total is {a} ns; must be at least 0", timers.total.count());
  if (timers.silence < Duration{})
    return fail(Errc::invalid_argument, "Timers::silence is {a} ns; must be at least 0", timers.silence.count());
  return {};
}

void Agent::Body::send(const MadTo& to, const Octets& octets) {
  if (transmit_.size() >= options_.transmit_max) {
    ++counters.dropped_transmit;
    return;
  }
  const CmMessageType type = type_in(octets);
  ++counters.messages.of(type).sent;
  if (type == CmMessageType::rej)
    if (const auto message = CmMessage::parse(octets)) ++counters.rejects_of(std::get<CmRej>(message->body)).sent;
  transmit_.push({to, octets});
}

void Agent::Body::send_again(const MadTo& to, const Octets& octets) {
  ++counters.messages.of(type_in(octets)).resent;
  send(to, octets);
}

bool Agent::Body::poll_transmit(MadTo& to, MutBytes out) {
  if (out.size() < PARLEY_IB_MAD_LEN || transmit_.empty()) return false;
  const Message& message = transmit_.front();
  to = message.to;
  std::copy(message.octets.begin(), message.octets.end(), out.begin());
  transmit_.drop();
  ++counters.sent;
  return true;
}

void Agent::Body::set_deadline(Connection& c, Instant at) {
  c.deadline = at;
  deadlines_.set(EndpointTable::slot(c.id), at);
}

Duration Agent::Body::time_of(std::uint8_t code) const {
  if (!plays(Departure::counts_milliseconds)) return timeout_of(code);
  return std::chrono::milliseconds(std::int64_t{1} << (code > 8 ? code - 8 : 0));
}

Duration Agent::Body::peer_timeout(std::uint8_t code) const {
  return std::clamp<Duration>(time_of(code), interval_min, options_.peer_timeout_max);
}

// IBA §12.9: as long as a packet of the connection may still be in flight.
Duration Agent::Body::timewait_of(std::uint8_t ack_timeout) const {
  return std::clamp<Duration>(timeout_of(ack_timeout), options_.timewait_min, options_.timewait_max);
}

void Agent::Body::keep(std::unique_ptr<Octets>& place, const Octets& octets) {
  if (place == nullptr) place = spare_octets_.take();
  if (place == nullptr)
    place = std::make_unique<Octets>(octets);
  else
    *place = octets;
}

void Agent::Body::drop(std::unique_ptr<Octets>& place) noexcept {
  if (place != nullptr) spare_octets_.keep(std::move(place));
}

void Agent::Body::await_answer(Instant now, Connection& c, const Octets& octets) {
  keep(c.unanswered, octets);
  c.unanswered_type = type_in(octets);
  c.begun = now;
  c.sends = 1;
  c.waits = 0;
  c.back_off = c.timers.first;
  const Duration total = c.timers.total > Duration{} ? c.timers.total : c.interval * (std::int64_t{c.retries} + 1);
  c.give_up = c.timers.kind == Timers::Kind::back_off ? after(now, total) : never;
  send(c.to, octets);
  arm(now, c);
}

// Each back-off wait is shortened by a random part of up to half, so that set-ups that began together do not retransmit
// together.
void Agent::Body::arm(Instant now, Connection& c) {
  if (c.timers.kind == Timers::Kind::spec) return set_deadline(c, after(now, c.interval));
  const auto half = static_cast<std::uint64_t>(c.back_off.count()) / 2;
  const Duration wait = c.back_off - Duration(static_cast<std::int64_t>(rng_.between(0, half)));
  c.back_off = std::min(c.timers.cap, c.back_off > c.timers.cap / 2 ? c.timers.cap : c.back_off * 2);
  set_deadline(c, std::min(c.give_up, after(now, wait)));
}

void Agent::Body::stop_waiting(Connection& c) {
  drop(c.unanswered);
  set_deadline(c, never);
}

void Agent::Body::answer(Connection& c, const Octets& octets) {
  keep(c.answer, octets);
  c.answer_type = type_in(octets);
  send(c.to, octets);
}

void Agent::Body::answer_again(Connection& c) {
  ++counters.duplicates;
  if (c.answer == nullptr) return;
  ++counters.answered_again;
  send_again(c.to, *c.answer);
}

// IBA §12.9: an MRA replaces the current wait by its service timeout plus the time of the path. It shows that the peer
// is alive, so back-off restarts after it. Later retransmissions still count towards Max CM Retries (§12.6.5).
void Agent::Body::wait_longer(Instant now, Connection& c, Duration wait, Waiting event) {
  if (++c.waits > waits_max) {
    ++counters.unexpected;
    return;
  }
  c.back_off = c.timers.first;
  const bool spec = c.timers.kind == Timers::Kind::spec;
  const Duration silence = event.busy || spec ? Duration{} : c.timers.silence;
  if (const Duration most = 2 * silence / 3;
      silence > Duration{} && wait > most) {  // the last third is for retransmissions
    wait = most;
    c.sends = 1;  // the peer did not ask for the copies that are sent before its time is over
  }
  event.until = after(now, wait);
  // An MRA extends the time limit of this side's request. A busy answer does not.
  if (c.give_up != never && !event.busy)
    c.give_up = silence > Duration{} ? after(now, silence) : std::max(c.give_up, after(event.until, c.interval));
  set_deadline(c, event.until);
  push_event(c, std::move(event));
}

void Agent::Body::handle_deadline(Instant now) {
  while (const auto slot = deadlines_.pop_due(now)) {
    Connection* c = connections_[*slot].get();
    if (c == nullptr) continue;
    c->deadline = never;
    on_deadline(now, *c);
  }
  begin_next(now);
}

void Agent::Body::on_deadline(Instant now, Connection& c) {
  if (c.state == State::timewait) return leave_timewait(c, false);
  if (c.state == State::closed) return forget(c);
  if (c.unanswered == nullptr) return;
  const bool spent = c.sends > c.retries;  // IBA §12.6.5: Max CM Retries
  if (c.timers.kind == Timers::Kind::spec ? spent : now >= c.give_up) return give_up(now, c);
  if (spent) return set_deadline(c, c.give_up);
  ++c.sends;
  ++counters.resent;
  send_again(c.to, *c.unanswered);
  arm(now, c);
}

// IBA §12.9: the side that gives up a set-up sends a REJ, so that the peer does not wait for its own timeouts. Linux
// sends it only when the user destroys the ID.
void Agent::Body::give_up(Instant now, Connection& c) {
  Failure why = nothing_came(c, now);
  const bool says = !plays(Departure::gives_up_in_silence);
  switch (c.state) {
    case State::req_sent:
    case State::mra_req_rcvd:
      if (says) send_once(c.to, c.tid, timeout_rej_of(c));
      push_event(c, Failed{.why = std::move(why)});
      return close(now, c, false);
    case State::rep_sent:
    case State::mra_rep_rcvd:
      if (says) send_once(c.to, c.tid, timeout_rej_of(c));
      push_event(c, Failed{.timewait = true, .why = std::move(why)});
      return enter_timewait(now, c);
    case State::dreq_sent:
      if (!c.why) c.why = std::make_unique<Failure>(std::move(why));
      return enter_timewait(now, c);
    case State::sidr_req_sent: push_event(c, Failed{.why = std::move(why)}); return close(now, c, false);
    default:  // established: no answer to the LAP
      drop(c.unanswered);
      c.alternate = AlternateState::idle;
      push_event(c, AlternateAnswered{.why = std::move(why)});
  }
}

}  // namespace parley::cm::ibcm
