// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Events of the agent and the device, and how connections end.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "cm/providers/roce/roce_impl.hpp"

namespace parley::cm::roce {

void Roce::on_event(Instant now, ibcm::Event& event) {
  if (auto* request = std::get_if<ibcm::RequestReceived>(&event)) return on_request(now, *request);
  if (std::holds_alternative<ibcm::TurnedAway>(event)) return;  // the Manager's bounds are below the agent's
  if (auto* asked = std::get_if<ibcm::SidrRequested>(&event)) return on_service_request(now, *asked);
  const auto id_in = [](const auto& e) -> ibcm::ConnectionId {
    if constexpr (requires { e.id; })
      return e.id;
    else
      return 0;
  };
  Connection* c = by_cm(std::visit(id_in, event));
  if (c == nullptr) return on_host_answer(now, event);
  if (auto* reply = std::get_if<ibcm::ReplyReceived>(&event)) {
    if (c->phase == Phase::requesting) on_reply(*c, now, *reply);
  } else if (auto* answer = std::get_if<ibcm::SidrReplied>(&event)) {
    if (c->phase == Phase::requesting) on_service_reply(*c, now, *answer);
  } else if (std::holds_alternative<ibcm::Ready>(event)) {
    if (c->phase == Phase::accepting) established(*c, now, {});
  } else if (auto* rejected = std::get_if<ibcm::Rejected>(&event)) {
    if (c->phase != Phase::over) on_rejected(*c, now, *rejected);
  } else if (auto* failed = std::get_if<ibcm::Failed>(&event)) {
    if (c->live()) return disconnected(*c, std::move(failed->why), false);
    if (c->phase == Phase::over) return;
    failed->why.step = step_of(*c);
    fail_setup(*c, now, std::move(failed->why));
  } else if (auto* asked = std::get_if<ibcm::DisconnectRequested>(&event)) {
    on_disconnect_requested(*c, now, *asked);
  } else if (auto* over = std::get_if<ibcm::Disconnected>(&event)) {
    on_disconnected(*c, *over);
  } else if (std::holds_alternative<ibcm::Waiting>(event)) {
    if (c->phase == Phase::requesting) watch_decider(*c, now);
  } else if (std::holds_alternative<ibcm::TimewaitExit>(event)) {
    if (c->told_end) push_event(*c, TimewaitExit{id_of(*c)});
    leave_agent(*c);
  } else if (auto* alternate = std::get_if<ibcm::AlternateRequested>(&event)) {
    // RoCE has no paths that the connection manager could load (IBA A17).
    (void)agent_.answer_alternate(now, alternate->id, {.status = wire::ib::ApStatus::unsupported});
  }
}

void Roce::on_notice(Instant now, const nic::roce::QpNotice& notice) {
  Connection* c = notice.qp == nullptr ? nullptr : find(notice.qp->owner);
  if (c == nullptr) return;
  using Kind = QueuePairEvent::Kind;
  const auto* kind = std::get_if<Kind>(&notice.what);
  if (kind == nullptr) return ask_host(*c, now);
  if (*kind == Kind::comm_est && c->phase == Phase::accepting) {
    (void)agent_.communication_established(now, c->cm);  // IBA §12.9.7.2
  } else if (*kind == Kind::qp_fatal && c->live()) {
    hang_up(*c, now);
    const nic::roce::QpFailure& why = c->qp->failure();
    // A queue pair that its owner has closed does not answer either, and its DREQ may have been lost.
    const bool closed = why.cause == nic::roce::QpFailure::Cause::silence && host_answered(*c, now);
    disconnected(*c, closed ? closed_in_silence(c->peer, why.elapsed) : failure_of(*c, why), false);
  }
}

// The peer has ended the connection. The completions for what it sent before are already in the completion queue.
void Roce::on_disconnect_requested(Connection& c, Instant now, const ibcm::DisconnectRequested& event) {
  if (!c.live()) {
    if (c.phase == Phase::accepting) established(c, now, {});  // the RTU was lost; the DREQ implies it
    if (!c.live()) return;
  }
  c.peer_end = event.end;
  hang_up(c, now);
}

void Roce::on_disconnected(Connection& c, ibcm::Disconnected& event) {
  if (!c.live()) return;
  stop_qp(c);
  const bool asked = c.phase == Phase::closing;
  if (c.forced)
    return disconnected(
        c,
        plain_failure(step::closing, Errc::timed_out, {}, "requests were not complete when the time for them was over",
                      "raise RoceProviderOptions::linger, or see why the peer takes so long"),
        false);
  if (event.end) c.peer_end = event.end;
  if (auto lost = not_all_delivered(c, asked ? step::closing : step::data))
    return disconnected(c, std::move(*lost), false);
  disconnected(c, std::move(event.why), event.graceful);
}

void Roce::on_deadline(Connection& c, Instant now) {
  if (c.phase == Phase::deciding || c.phase == Phase::decided) return check_asker(c, now);
  if (c.phase == Phase::requesting) return ask_decider(c, now);
  record(c, trace::TimerExpired{c.phase == Phase::waiting ? "back_off" : "linger"});
  if (c.phase == Phase::waiting) return start_attempt(c, now);
  if (c.phase != Phase::closing) return;
  if (c.datagrams())
    return disconnected(
        c,
        plain_failure(step::closing, Errc::timed_out, {}, "requests were not complete when the time for them was over",
                      "raise RoceProviderOptions::linger"),
        false);
  if (!c.asked) {  // linger has passed; the DREQ is sent all the same
    c.forced = true;
    hang_up(c, now);
    return set_deadline(c, after(now, options_.linger));
  }
  disconnected(c,
               plain_failure(step::closing, Errc::timed_out, {}, "no answer to the disconnect (DREQ)",
                             "check that the peer is up"),
               false);
  leave_agent(c);
}

// The time for all attempts is over.
void Roce::out_of_time(Connection& c, Instant now) {
  if (!c.initiator || c.phase > Phase::requesting) return;
  const Step& step = c.phase == Phase::requesting ? ib::step::wait_reply : ib::step::resolve_addr;
  fail_setup(c, now, cm::out_of_time(step, core_->retries.timeout(c.id)));
}

// Posted requests complete first, as Id::disconnect() promises.
void Roce::check_closing(Connection& c, Instant now) {
  if (c.phase != Phase::closing || c.asked || c.qp->sends_open() != 0) return;
  if (c.datagrams()) return disconnected(c, {}, true);  // there is no peer to notify
  hang_up(c, now);
  set_deadline(c, after(now, options_.linger));
}

/// Moves the queue pair to ERR: posted work is flushed, and later packets of the peer are dropped.
void Roce::stop_qp(Connection& c) {
  if (c.qp->state() == QpState::err) return;
  c.left = c.qp->sends_open();
  (void)c.qp->modify({.state = QpState::err});
}

/// Sends a DREQ, or a DREP if the peer's DREQ has arrived. Posted work is flushed.
void Roce::hang_up(Connection& c, Instant now) {
  if (std::exchange(c.asked, true)) return;
  std::erase(closing_, c.id);
  stop_qp(c);
  using How = ibcm::EndNote::How;
  const bool failed = c.qp->failure().cause != nic::roce::QpFailure::Cause::none;
  const How how = failed ? How::failed : c.left != 0 ? How::incomplete : How::delivered;
  if (c.cm != 0) (void)agent_.disconnect(now, c.cm, {}, ibcm::end_note(how, c.left));
}

void Roce::disconnected(Connection& c, Failure why, bool graceful) {
  set_deadline(c, never);
  stop_qp(c);
  push_event(c, Disconnected{.id = id_of(c), .graceful = graceful, .why = std::move(why)});
  c.told_end = true;
  end(c);
}

// The user gets no more events of this id, except TimewaitExit.
void Roce::end(Connection& c) {
  enter(c, Phase::over);
  std::erase(closing_, c.id);
  core_->retries.forget(c.id);
  core_->ids.find(c.id)->over = true;
}

}  // namespace parley::cm::roce
