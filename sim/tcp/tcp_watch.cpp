// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Detects a peer that is gone (RFC 9293 §3.8.4, RFC 5482), as Linux does with TCP_KEEPINTVL 1 s and TCP_USER_TIMEOUT.
#include <algorithm>

#include "sim/tcp/tcp.hpp"

namespace parley::sim {
namespace {

constexpr Duration probe_interval = std::chrono::seconds(1);

}  // namespace

void Tcp::watch_peer(Duration keepalive, Duration dead_after) {
  if (keepalive > Duration{} || dead_after > Duration{})
    watch_ = std::make_unique<Watch>(Watch{.keepalive = keepalive, .dead_after = dead_after});
}

/// never: no answer is awaited.
Instant Tcp::dead_at() const {
  if (watch_->dead_after <= Duration{}) return never;
  // Answers to probes of a shut window do not count: Linux measures TCP_USER_TIMEOUT from the first of them.
  if (snd_una_ != snd_max_)
    return (snd_wnd_ == 0 ? watch_->waits_since : std::max(watch_->heard_at, watch_->waits_since)) + watch_->dead_after;
  return watch_->asked_at > watch_->heard_at ? watch_->heard_at + watch_->dead_after : never;
}

/// When to send the next keepalive, if nothing else is in flight.
Instant Tcp::ask_at() const {
  return watch_->asked_at > watch_->heard_at ? watch_->asked_at + probe_interval : watch_->heard_at + watch_->keepalive;
}

void Tcp::check_peer(Instant now) {
  watch_->check_at = never;
  if (state_ == TcpState::closed || state_ == TcpState::time_wait || orphan_) return;
  if (dead_at() <= now) return finish(TcpEvent::timeout);
  const bool asks = watch_->keepalive > Duration{} && snd_una_ == snd_max_;
  if (asks && ask_at() <= now) {
    send_keepalive_ = true;
    watch_->asked_at = now;
  }
  const Instant next = std::min(dead_at(), asks ? ask_at() : now + probe_interval);
  watch_->check_at = std::max(next, now + std::chrono::milliseconds(1));
}

}  // namespace parley::sim
