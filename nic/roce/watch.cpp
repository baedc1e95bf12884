// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a queue pair detects that its peer is gone (cm::Liveness): silence, and ICMP.
#include <algorithm>
#include <tuple>
#include <utility>

#include "nic/roce/qp.hpp"

namespace parley::nic::roce {
namespace {

// ICMP is only a hint (RFC 5927): a second error is required before it is accepted.
constexpr Duration second_word = std::chrono::milliseconds(200);
constexpr Duration own_delay_max = std::chrono::milliseconds(500);  // if this host is later than this, it was stopped
                                                                    // itself

}  // namespace

void Qp::watch(Instant now, const QpWatch& watch) {
  qp_.watch = watch;
  if (!qp_.reliable() || !qp_.sends()) qp_.watch = {};
  if (qp_.type != QpType::rc) qp_.watch.keepalive = {};  // an XRC request needs a receive queue of the peer
  heard_at_ = now;
  check_at_ = next_check(now);
  settle();
}

/// When the peer counts as dead without further packets; never: no answer is awaited.
Instant Qp::dead_at() const {
  const Instant since = requester_.waits_since();
  if (since == never || qp_.watch.dead_after <= Duration{}) return never;
  // A keepalive goes because of a silence, which counts; so it does where a request of the program went in its stead. Many keepalives wait
  // for one another: then half of the time that is left counts as well.
  Duration silence = qp_.watch.keepalive;
  if (silence > Duration{}) silence += (qp_.watch.dead_after - silence) / 2;
  return std::max(heard_at_, since - silence) + qp_.watch.dead_after;
}

/// When to report the silence to the manager: once per period of silence.
Instant Qp::warning_at() const {
  const Instant dead = dead_at();
  if (dead == never || qp_.watch.warning <= Duration{} || warned_at_ > dead - qp_.watch.dead_after) return never;
  return dead - qp_.watch.warning;
}

// Only evaluated when the timer expires, so that packets need not move it.
void Qp::check_peer(Instant now) {
  const Duration late = now - std::exchange(check_at_, never);
  if (!qp_.watch.on() || (qp_.state != QpState::rts && qp_.state != QpState::sqd)) return;
  if (warning_at() <= now) {
    warned_at_ = now;
    qp_.nic->warn(*this);
  }
  if (dead_at() <= now) {
    if (late < own_delay_max) return peer_is_dead(QpFailure::Cause::silence, now - heard_at_);
    // This side was stopped, and packets that arrived meanwhile may still be unread.
    requester_.ask(now);
    check_at_ = now + own_delay_max;
    return;
  }
  const bool due = qp_.watch.keepalive > Duration{} && ask_at() <= now && requester_.idle();
  const bool refused = refused_at_ > heard_at_ && now - refused_at_ >= second_word;
  if (qp_.state == QpState::rts && qp_.type == QpType::rc && (due || refused)) {
    if (!qp_.nic->keepalives.take(now)) {
      check_at_ = qp_.nic->keepalives.next();
      return;
    }
    requester_.ask(now);
  }
  check_at_ = next_check(now);
}

/// When an idle peer is asked. Where many are, those that are due together are asked together, so that this side wakes once. And the two
/// ends of a connection do not ask at the same time: the question of one shows the other that it is there.
Instant Qp::ask_at() const {
  const Duration keepalive = qp_.watch.keepalive;
  if (qp_.nic->slots.size() < Nic::many) return heard_at_ + keepalive;
  const bool second = std::tie(qp_.path.source, qp_.number) > std::tie(qp_.path.destination, qp_.dest_qpn);
  const Duration left = qp_.watch.dead_after > keepalive ? qp_.watch.dead_after - keepalive : keepalive;
  return qp_.nic->keepalives.round_up(heard_at_ + keepalive + (second ? std::min(keepalive, left) / 16 : Duration{}));
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
    at = std::min(at, requester_.idle() && ask_at() > now ? ask_at() : now + watch.keepalive);
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
