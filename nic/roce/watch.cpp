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
  // A keepalive goes because of a silence, which counts.
  const Duration before = requester_.only_keepalive() ? qp_.watch.keepalive : Duration{};
  return std::max(heard_at_, since - before) + qp_.watch.dead_after;
}

// Only looked at when the time comes, so that packets do not move a timer.
void Qp::check_peer(Instant now) {
  const Duration late = now - std::exchange(check_at_, never);
  if (!qp_.watch.on() || (qp_.state != QpState::rts && qp_.state != QpState::sqd)) return;
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

/// Not before anything can be due, and not behind what may be due by then.
Instant Qp::next_check(Instant now) const {
  Instant at = std::min(dead_at(), qp_.watch.dead_after > Duration{} ? now + qp_.watch.dead_after : never);
  if (qp_.watch.keepalive > Duration{})
    at = std::min(at, requester_.idle() ? std::max(heard_at_, now - qp_.watch.keepalive) + qp_.watch.keepalive
                                        : now + qp_.watch.keepalive);
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
