// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When the keepalives of many idle streams go: few at a time.
//
// Linux rounds the keepalive timers of sockets up to steps of 0.26 or 0.5 s and sends the keepalives of one step together. On one machine
// those of more than net.core.netdev_max_backlog (1000) sockets do not fit in the queue of the loopback device. The lost ones are repeated
// each second, together again, until TCP_USER_TIMEOUT ends connections whose peers are well. A host therefore says itself when each
// keepalive goes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/deadline_queue.hpp"
#include "base/tick_budget.hpp"
#include "parley/time.hpp"

namespace parley::asio_driver {

class KeepalivePace {
 public:
  static constexpr Duration tick = std::chrono::milliseconds(20);  ///< keepalives go at multiples of this
  static constexpr std::size_t most_per_tick = 256;
  static constexpr Duration settling = std::chrono::milliseconds(100);  ///< from `ask` to `settle`

  struct Step {
    enum class Kind : std::uint8_t {
      ask,     ///< the system sends a keepalive now
      settle,  ///< it has: its own timer is set behind the next `ask`
    };
    Kind kind;
    std::uint32_t slot;
  };

  /// From now on, until forget(). `keepalive`: as in cm::Liveness; 0: never.
  void watch(Instant now, std::uint32_t slot, Duration keepalive);
  void forget(std::uint32_t slot) { queue_.set(slot, never); }
  /// Octets came. Does nothing for a slot that is not watched.
  void heard(Instant now, std::uint32_t slot) {
    if (slot < streams_.size()) streams_[slot].since = now;
  }

  /// Call it until it gives nothing.
  std::optional<Step> poll(Instant now);
  Instant next_deadline() const;

 private:
  struct Stream {
    Duration keepalive{};
    Instant since{};  ///< the last octets, or the last `ask`
    bool settles = false;
  };

  DeadlineQueue queue_;
  std::vector<Stream> streams_;  // by slot
  TickBudget asks_{tick, most_per_tick};
};

}  // namespace parley::asio_driver
