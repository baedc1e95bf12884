// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the endpoints of every transport have in common. A Manager owns it, and its provider works on it: issues ids for
// incoming connections, asks who may be pending, emits events, and asks whether a failed set-up is tried again. No
// protocol, no time, no calls out.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cm/fifo.hpp"
#include "cm/pending.hpp"
#include "cm/retries.hpp"

namespace parley::cm {

/// What Manager::resolve() was asked for, until Id::connect() succeeds.
struct Way {
  Address peer;
  std::optional<Address> local;
  Device* device = nullptr;  ///< null: the provider searches, or has found it
};

class Core {
 public:
  Core(Manager& manager, std::uint32_t endpoints_max, std::uint64_t seed)
      : ids(endpoints_max), pending(ids), retries(seed), manager_(manager) {}

  EndpointTable ids;
  Pending pending;
  Retries retries;
  /// Those that wait for poll_event(); docs/cm.md has their bound. Events of a destroyed id are passed over there.
  Fifo<Event> events;
  std::map<EndpointId, Way> ways;  // at most one per id

  Id id(EndpointId endpoint) const { return {&manager_, endpoint}; }
  /// The id is free again; poll_event() passes over the events of it that still wait.
  void release(EndpointId endpoint) {
    retries.forget(endpoint);
    ways.erase(endpoint);
    pending.close(endpoint);
    pending.leave(endpoint);
    ids.release(endpoint);
  }

  /// The endpoint's command is carried out at the driver's next turn.
  void note(EndpointId endpoint) { noted_.push_back(endpoint); }
  bool has_noted() const { return !noted_.empty(); }
  /// In order; those noted by `carry_out` itself are among them.
  template <class F>
  void for_each_noted(F&& carry_out) {
    for (std::size_t i = 0; i < noted_.size(); ++i) carry_out(noted_[i]);
    noted_.clear();
  }

  /// A newcomer found no room at this listener.
  void refused(EndpointId listener, Scarce scarce, const Address& peer, const Step& step) {
    if (Turned* note = note_turned(listener, scarce, peer, step)) ++note->refused;
  }
  /// A half-open connection that the user never saw was ended to make room.
  void gave_way(EndpointId listener, Scarce scarce, const Address& peer, const Step& step, Duration waited) {
    Turned* note = note_turned(listener, scarce, peer, step);
    if (note == nullptr) return;
    ++note->gave_way;
    note->waited = waited;
  }
  /// Fills in what has accumulated until the event is polled.
  void tell_turned(TurnedAway& event);
  /// Why a connection that the user knows of was ended to make room.
  Failure evicted(EndpointId listener, Scarce scarce, const Step& step, Duration waited) const;

 private:
  Turned* note_turned(EndpointId listener, Scarce scarce, const Address& peer, const Step& step);
  std::uint32_t limit_of(EndpointId listener, Scarce scarce) const;

  Manager& manager_;
  std::vector<EndpointId> noted_;  // at most three per endpoint
};

}  // namespace parley::cm
