// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/keepalive_pace.hpp"

#include "base/after.hpp"

namespace parley::asio_driver {
void KeepalivePace::watch(Instant now, std::uint32_t slot, Duration keepalive) {
  if (keepalive <= Duration{}) return forget(slot);
  if (slot >= streams_.size()) streams_.resize(slot + std::size_t{1});
  streams_[slot] = {.keepalive = keepalive, .since = now};
  queue_.set(slot, asks_.round_up(after(now, keepalive)));
}

std::optional<KeepalivePace::Step> KeepalivePace::poll(Instant now) {
  while (queue_.next() <= now && asks_.has(now)) {
    const std::uint32_t slot = *queue_.pop_due(now);
    Stream& stream = streams_[slot];
    const Instant due = after(stream.since, stream.keepalive);
    if (stream.settles) {
      stream.settles = false;
      queue_.set(slot, asks_.round_up(due));
      return Step{Step::Kind::settle, slot};
    }
    if (due > now) {
      queue_.set(slot, asks_.round_up(due));
      continue;
    }
    (void)asks_.take(now);
    stream.since = now;
    stream.settles = true;
    queue_.set(slot, asks_.round_up(after(now, settling)));
    return Step{Step::Kind::ask, slot};
  }
  return std::nullopt;
}

Instant KeepalivePace::next_deadline() const {
  const Instant next = queue_.next();
  return asks_.has(next) ? next : asks_.next();
}

}  // namespace parley::asio_driver
