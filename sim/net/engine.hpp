// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The base of every part of a world: virtual time, the single event queue, the frame pool, the tap. Links, switches and
// hosts access the world only through this.
#pragma once
#include <cstdint>
#include <vector>

#include "parley/sim.hpp"
#include "sim/net/event_queue.hpp"
#include "sim/net/frame.hpp"

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
};

class Engine {
 public:
  /// Pending events at one time; beyond this an event is lost and the engine stops (exhausted()).
  static constexpr std::size_t events_max = EventQueue::handles_max;
  explicit Engine(std::size_t events_limit = events_max) : events_limit_(events_limit) {}

  Instant now() const { return now_; }
  /// `when` before now() counts as now(); at `never` nothing happens.
  void at(Instant when, EventTarget& target, std::uint32_t kind, std::uint64_t argument = 0);
  /// Executes the next event if its time is at most `limit`.
  bool step(Instant limit);
  /// Time of the next event; `never` if there is none.
  Instant next() { return queue_.next(); }

  FramePool frames;
  Bytes packets;  ///< scratch buffer for a host's packets before they become frames
  Tap* tap = nullptr;
  WorldCounters counters;
  /// Bit i drops the i-th frame that a host sends from now on (World::set_drop_mask).
  std::uint64_t drop_mask = 0;
  Layer mask_layer = Layer::any;  ///< frames without a message of this layer are neither counted nor dropped by the
                                  ///< mask

  void advance_to(Instant when) { now_ = when; }
  std::size_t pending() const { return queue_.size(); }
  /// There were more events than the engine can store or number. The run would no longer be correct, so nothing more is
  /// executed.
  bool exhausted() const { return exhausted_; }

 private:
  struct Slot {
    EventTarget* target = nullptr;
    std::uint64_t argument = 0;
    std::uint32_t kind = 0;
  };
  const std::size_t events_limit_;
  EventQueue queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  Instant now_{};
  bool exhausted_ = false;
};

inline void Engine::at(Instant when, EventTarget& target, std::uint32_t kind, std::uint64_t argument) {
  if (when == never) return;
  std::uint32_t slot = 0;
  if (queue_.full()) [[unlikely]] {
    exhausted_ = true;
    return;
  }
  if (!free_.empty()) {
    slot = free_.back();
    free_.pop_back();
    slots_[slot] = {&target, argument, kind};
  } else if (slots_.size() < events_limit_) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back({&target, argument, kind});
  } else {
    exhausted_ = true;
    return;
  }
  queue_.push(when < now_ ? now_ : when, slot);
}

inline bool Engine::step(Instant limit) {
  if (exhausted_) [[unlikely]]
    return false;
  const auto popped = queue_.pop_due(limit);
  if (!popped) return false;
  const Slot slot = slots_[popped->handle];
  free_.push_back(popped->handle);
  now_ = popped->at;
  ++counters.events;
  slot.target->on_event(slot.kind, slot.argument);
  return true;
}

}  // namespace parley::sim
