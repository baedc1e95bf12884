// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a queue pair notices that its peer is gone (cm::Liveness): silence, and what ICMP says.
#include <algorithm>
#include <utility>

#include "nic/roce/qp.hpp"

namespace parley::nic::roce {
namespace {

// ICMP is advice (RFC 5927): what it says is asked for once more before it is believed.
constexpr Duration second_word = std::chrono::milliseconds(200);
constexpr Duration own_delay_max = std::chrono::milliseconds(500);  // a host that is later than this was stopped itself

}  // namespace

void Qp::watch(Instant now, const QpWatch& watch) {
  qp_.watch = watch;
  if (!qp_.reliable() || !qp_.sends()) qp_.watch = {};
  if (qp_.type != QpType::rc) qp_.watch.keepalive = {};  // an XRC request names a receive queue of the peer's
  heard_at_ = now;
  check_at_ = next_check(now);
  settle();
}

/// When the peer counts as dead if nothing more comes of it; never: nothing waits for an answer.
Instant Qp::dead_at() const {
  const Instant since = requester_.waits_since();
  if (since == never || qp_.watch.dead_after <= Duration{}) return never;
  // A keepalive goes because of a silence, which counts; so it does where a request of the program went in its stead.
  return std::max(heard_at_, since - qp_.watch.keepalive) + qp_.watch.dead_after;
}

/// When the manager learns of the silence: once in each.
Instant Qp::warning_at() const {
  const Instant dead = dead_at();
  if (dead == never || qp_.watch.warning <= Duration{} || warned_at_ > dead - qp_.watch.dead_after) return never;
  return dead - qp_.watch.warning;
}

// Only looked at when the time comes, so that packets do not move a timer.
void Qp::check_peer(Instant now) {
  const Duration late = now - std::exchange(check_at_, never);
  if (!qp_.watch.on() || (qp_.state != QpState::rts && qp_.state != QpState::sqd)) return;
  if (warning_at() <= now) {
    warned_at_ = now;
    qp_.nic->warn(*this);
  }
  if (dead_at() <= now) {
    if (late < own_delay_max) return peer_is_dead(QpFailure::Cause::silence, now - heard_at_);
    // This side has slept, and what came meanwhile may still have to be read.
    requester_.ask(now);
    check_at_ = now + own_delay_max;
    return;
  }
  const bool due = qp_.watch.keepalive > Duration{} && now - heard_at_ >= qp_.watch.keepalive && requester_.idle();
  const bool refused = refused_at_ > heard_at_ && now - refused_at_ >= second_word;
  if (qp_.state == QpState::rts && qp_.type == QpType::rc && (due || refused)) requester_.ask(now);
  check_at_ = next_check(now);
}

/// Not before anything can be due, and not behind what may be due by then. What is asked now is answered, or not, from here on.
Instant Qp::next_check(Instant now) const {
  const QpWatch& watch = qp_.watch;
  Instant at = std::min(dead_at(), warning_at());
  if (watch.dead_after > Duration{}) {
    at = std::min(at, now + watch.dead_after);
    for (const Instant then : {heard_at_ + watch.dead_after - watch.warning, heard_at_ + watch.dead_after})
      if (then > now) at = std::min(at, then);
  }
  if (watch.keepalive > Duration{})
    at = std::min(
        at, requester_.idle() ? std::max(heard_at_, now - watch.keepalive) + watch.keepalive : now + watch.keepalive);
  return at;
}

void Qp::handle_unreachable(Instant now) {
  if (!qp_.watch.on() || (qp_.state != QpState::rts && qp_.state != QpState::sqd)) return;
  if (refused_at_ <= heard_at_) {
    refused_at_ = now;
    check_at_ = std::min(check_at_, now + second_word);
    settle();
  } else if (now - refused_at_ >= second_word) {
    peer_is_dead(QpFailure::Cause::unreachable, now - heard_at_);
    settle();
  }
}

void Qp::peer_is_dead(QpFailure::Cause cause, Duration elapsed) {
  qp_.fails({.cause = cause, .retries = 0, .elapsed = elapsed});
  requester_.give_up();
  own_failure();
}

}  // namespace parley::nic::roce
