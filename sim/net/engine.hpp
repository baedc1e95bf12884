// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The base of every part of a world: virtual time, the single event queue, the frame pool, the tap. Links, switches and
// hosts access the world only through this.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "parley/sim.hpp"
#include "sim/net/event_queue.hpp"
#include "sim/net/frame.hpp"
#include "sim/tcp/tcp_buffers.hpp"

namespace parley::sim {

/// Receives its own events. Events cannot be cancelled: a target must recognise stale ones itself.
class EventTarget {
 public:
  virtual ~EventTarget() = default;
  virtual void on_event(std::uint32_t kind, std::uint64_t argument) = 0;
};

/// A host or a switch, as a link sees it. Ownership of frames is passed on.
class Node : public EventTarget {
 public:
  virtual NodeId id() const = 0;
  virtual const std::string& name() const = 0;
  virtual void receive(std::uint16_t port, FramePtr frame) = 0;
  /// Why receive() would discard the frame ("bad TCP checksum", "host is down"); empty: it would not. Only asked
  /// when a tap listens.
  virtual std::string_view would_discard(std::uint16_t port, const Frame& frame, DropReason& reason) const = 0;
};

/// Sends a frame from one end of a link; sim/link implements it, nodes hold one for each of their ports.
class LinkPort {
 public:
  virtual ~LinkPort() = default;
  virtual void transmit(FramePtr frame) = 0;
  virtual std::uint16_t mtu() const = 0;
  /// Whether more than this many octets wait to be sent; how many frames of any length can be sent before that is the
  /// case; when the last queued frame will have left.
  virtual bool has_waiting(std::uint64_t) const { return false; }
  virtual std::uint64_t frames_until_waiting(std::uint64_t) const { return ~std::uint64_t{0}; }
  virtual Instant idle_at() const { return Instant{}; }
  /// Copies of a frame that leave by many ports are one frame in memory and one entry of the event queue, if the links
  /// permit it: no fault may change the copies.
  virtual bool shares_frames() const { return false; }
  /// Sends a shared frame: when it arrives, or `never` if it is dropped. The sender then calls deliver() at that time.
  virtual Instant transmit_shared(const Frame&) { return never; }
  virtual void deliver(FramePtr) {}
};

class Engine {
 public:
  /// Pending events at one time; beyond this an event is lost and the engine stops (exhausted()).
  static constexpr std::size_t events_max = EventQueue::handles_max;
  explicit Engine(std::size_t events_limit = events_max) : events_limit_(events_limit) {}

  Instant now() const { return now_; }
  /// `when` before now() counts as now(); at `never` nothing happens.
  void at(Instant when, EventTarget& target, std::uint32_t kind, std::uint64_t argument = 0) {
    at_each(when, target, kind, argument, 1);
  }
  /// The same for `count` events (not 0) in a row, which take one entry of the queue. No other event comes between them.
  void at_each(Instant when, EventTarget& target, std::uint32_t kind, std::uint64_t argument, std::uint32_t count);
  /// Executes the next event if its time is at most `limit`.
  bool step(Instant limit);
  /// Time of the next event; `never` if there is none.
  Instant next() { return rest_ != 0 ? now_ : queue_.next(); }

  FramePool frames;
  TcpBuffers buffers;                 ///< of the connections of all hosts
  Bytes packets;                      ///< scratch buffer for a host's packets before they become frames
  std::array<ConstBytes, 64> pieces;  ///< scratch, of one write of a host's machine
  Tap* tap = nullptr;
  WorldCounters counters;
  /// Bit i drops the i-th frame that a host sends from now on (World::set_drop_mask).
  std::uint64_t drop_mask = 0;
  Layer mask_layer = Layer::any;  ///< frames without a message of this layer are neither counted nor dropped by the
                                  ///< mask

  void advance_to(Instant when) { now_ = when; }
  std::size_t pending() const { return queue_.size() + more_ + rest_; }
  /// There were more events than the engine can store or number. The run would no longer be correct, so nothing more is
  /// executed.
  bool exhausted() const { return exhausted_; }

 private:
  struct Slot {
    EventTarget* target = nullptr;
    std::uint64_t argument = 0;
    std::uint32_t kind = 0;
    std::uint32_t count = 1;
  };
  const std::size_t events_limit_;
  EventQueue queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  Instant now_{};
  Slot present_{};          // the last entry taken from the queue
  std::uint32_t rest_ = 0;  // its events that are still to be executed
  std::size_t more_ = 0;    // events of queued entries beyond the first of each
  bool exhausted_ = false;
};

inline void Engine::at_each(Instant when, EventTarget& target, std::uint32_t kind, std::uint64_t argument,
                            std::uint32_t count) {
  if (when == never) return;
  std::uint32_t slot = 0;
  if (queue_.full()) [[unlikely]] {
    exhausted_ = true;
    return;
  }
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
    slots_[slot] = {&target, argument, kind, count};
  } else if (slots_.size() < events_limit_) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({&target, argument, kind, count});
  } else {
    exhausted_ = true;
    return;
  }
  more_ += count - 1;
  queue_.push(when < now_ ? now_ : when, slot);
}

inline bool Engine::step(Instant limit) {
  if (exhausted_) [[unlikely]]
    return false;
  if (rest_ == 0) {
    const auto popped = queue_.pop_due(limit);
    if (!popped) return false;
    present_ = slots_[popped->handle];
    free_.push_back(popped->handle);
    now_ = popped->at;
    rest_ = present_.count;
    more_ -= rest_ - 1;
  } else if (now_ > limit) {
    return false;
  }
  --rest_;
  ++counters.events;
  present_.target->on_event(present_.kind, present_.argument);
  return true;
}

}  // namespace parley::sim
