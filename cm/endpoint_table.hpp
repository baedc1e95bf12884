// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ids of a Manager: issued once, never reused, found in constant time. A provider stores its own data of an endpoint in a
// vector, by slot.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cm/admission.hpp"

namespace parley::cm {

using EndpointId = std::uint64_t;

/// A Manager's data of an endpoint, for every transport.
struct Endpoint {
  std::uint32_t generation = 0;
  std::uint16_t channel = 0;  ///< of the Manager that has the endpoint, see cm/core.hpp
  bool used : 1 = false;
  bool orphan : 1 = false;     ///< destroyed by the user; it exists only until the remaining octets are sent
  bool announced : 1 = false;  ///< the user created this id, or has received an event with it
  bool over : 1 = false;       ///< its last event is queued or was polled
  bool visited : 1 = false;    ///< a listener that has had a newcomer
  EndpointId listener = 0;
  Admission::Ticket pending{};  ///< in its listener's admission
  Admission::Ticket silent{};   ///< accepted, and its peer is not required to send first
};

class EndpointTable {
 public:
  /// Bound of slot numbers.
  static constexpr std::uint32_t limit = 1U << 24;

  explicit EndpointTable(std::uint32_t max) : max_(max) {}

  /// Returns 0 if `max` endpoints are alive.
  EndpointId issue() {
    if (alive_ >= max_) return 0;
    std::uint32_t slot = 0;
    if (free_.empty()) {
      slot = static_cast<std::uint32_t>(endpoints_.size());
      endpoints_.emplace_back();
      free_.reserve(endpoints_.capacity());  // so that release() allocates no memory
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    ++alive_;
    Endpoint& endpoint = endpoints_[slot];
    endpoint = {.generation = endpoint.generation + 1, .used = true};
    return EndpointId{endpoint.generation} << 32 | (EndpointId{slot} + 1);
  }

  void release(EndpointId id) {
    Endpoint* endpoint = find(id);
    if (endpoint == nullptr) return;
    endpoint->used = false;
    free_.push_back(slot(id));
    --alive_;
  }

  /// Null: never issued, or released. Valid until the next issue().
  Endpoint* find(EndpointId id) {
    const std::size_t at = slot(id);
    if (id == 0 || at >= endpoints_.size()) return nullptr;
    Endpoint& endpoint = endpoints_[at];
    return endpoint.used && endpoint.generation == id >> 32 ? &endpoint : nullptr;
  }
  const Endpoint* find(EndpointId id) const { return const_cast<EndpointTable*>(this)->find(id); }

  /// Calls `each` with every slot's id, in order; `each` may release that id, and must not issue any.
  template <class F>
  void for_each(F&& each) {
    for (std::size_t at = 0; at < endpoints_.size(); ++at)
      if (const Endpoint& e = endpoints_[at]; e.used) each(EndpointId{e.generation} << 32 | (EndpointId{at} + 1));
  }

  /// An id is its slot plus one, with the slot's generation in the upper bits: never 0, never reused.
  static std::uint32_t slot(EndpointId id) { return static_cast<std::uint32_t>(id - 1); }
  std::size_t alive() const { return alive_; }
  std::uint32_t max() const { return max_; }

 private:
  std::uint32_t max_;
  std::size_t alive_ = 0;
  std::vector<Endpoint> endpoints_;  // at most max_
  std::vector<std::uint32_t> free_;
};

}  // namespace parley::cm
