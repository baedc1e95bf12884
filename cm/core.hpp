// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State shared by the endpoints of all transports. The Managers of a host own it, and their provider uses it: to issue ids for
// incoming connections, to ask which connections may be pending, to emit events, and to ask whether to retry a failed set-up.
// It has no protocol and no clock, and calls no other code.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cm/fifo.hpp"
#include "cm/pending.hpp"
#include "cm/resolver.hpp"
#include "cm/retries.hpp"

namespace parley::cm {

/// The arguments of Manager::resolve(), until Id::connect() succeeds.
struct ResolveTarget {
  Address peer;
  std::optional<Address> local;
  Device* device = nullptr;  ///< null: the provider searches for it, or has found it
};

/// The id that an event is about; 0: none.
inline EndpointId endpoint_of(const Event& event) {
  return std::visit([](const auto& e) { return e.id.number(); }, event);
}

/// State of one Manager of a host.
struct Channel {
  Manager* manager = nullptr;
  std::uint16_t number = 0;  ///< index in Core's table
  /// Events waiting for poll_event(); docs/cm.md has their bound. poll_event() skips events of a destroyed id.
  Fifo<Event> events;
  std::uint32_t user_events = 0;  ///< number of user events among them
};

class Core {
 public:
  Core(Channel& first, std::uint32_t endpoints_max, std::uint64_t seed, const ResolvePolicy& policy)
      : ids(endpoints_max), pending(ids), retries(seed), resolver(policy), channels_{&first} {}

  EndpointTable ids;
  Pending pending;
  Retries retries;
  Resolver resolver;                                    ///< for providers that search
  std::map<EndpointId, ResolveTarget> resolve_targets;  // at most one per id
  Liveness liveness;                                    ///< ManagerOptions::liveness

  /// The first Manager was destroyed, and with it the provider.
  bool closed() const { return channels_.front() == nullptr; }
  /// Errors: no_space (managers_max).
  Result<void> join(Channel& channel);
  void leave(const Channel& channel) noexcept;
  /// The channel of the Manager that has the id; of the first Manager if none has it.
  Channel& channel_of(EndpointId endpoint) const {
    if (channels_.size() == 1) [[likely]]
      return *channels_.front();
    const Endpoint* e = ids.find(endpoint);
    Channel* channel = e == nullptr ? nullptr : channels_[e->channel];
    return channel == nullptr ? *channels_.front() : *channel;
  }
  bool has(const Channel& channel, EndpointId endpoint) const {
    return !closed() && (channels_.size() == 1 || &channel_of(endpoint) == &channel);
  }
  bool has_events() const;
  /// Reserves memory for the next `more` calls of push(), for any ids.
  void make_room(std::size_t more);
  /// Queues an event for the Manager that has its id.
  template <class E>
  void push(E&& event) {
    if (channels_.size() == 1) [[likely]]
      return channels_.front()->events.push(std::forward<E>(event));
    Event any(std::forward<E>(event));
    Channel& to = channel_of(endpoint_of(any));
    to.events.push(std::move(any));
  }
  /// A newcomer belongs to the Manager of its listener.
  void set_listener(EndpointId endpoint, EndpointId listener) {
    ids.find(endpoint)->listener = listener;
    ids.find(endpoint)->channel = channel_of(listener).number;
    if (Endpoint* visited = ids.find(listener)) visited->visited = true;
  }
  /// Moves the id to `to`, with its pending events; for a listener also its newcomers that have not been announced. Errors: no_space
  /// (user events).
  Result<void> migrate(EndpointId endpoint, Channel& from, Channel& to);

  Id id(EndpointId endpoint) const { return {channel_of(endpoint).manager, endpoint}; }
  /// Frees the id; poll_event() skips its pending events.
  void release(EndpointId endpoint) {
    retries.forget(endpoint);
    resolver.leave(endpoint);
    resolve_targets.erase(endpoint);
    pending.close(endpoint);
    pending.leave(endpoint);
    ids.release(endpoint);
  }

  /// The endpoint's command is executed at the driver's next turn.
  void note(EndpointId endpoint) { noted_.push_back(endpoint); }
  bool has_noted() const { return !noted_.empty(); }
  /// Calls `carry_out` for each in order, including those that it notes itself.
  template <class F>
  void for_each_noted(F&& carry_out) {
    for (std::size_t i = 0; i < noted_.size(); ++i) carry_out(noted_[i]);
    noted_.clear();
  }

  /// A newcomer was reset because there was no room at this listener.
  void refused(EndpointId listener, ReachedLimit scarce, const Address& peer, const Step& step) {
    if (TurnedAwayPeers* note = note_turned(listener, scarce, peer, step)) ++note->refused;
  }
  /// A half-open connection that was not yet announced to the user was ended to make room.
  void gave_way(EndpointId listener, ReachedLimit scarce, const Address& peer, const Step& step, Duration waited) {
    TurnedAwayPeers* note = note_turned(listener, scarce, peer, step);
    if (note == nullptr) return;
    ++note->gave_way;
    note->waited = waited;
  }
  /// Fills in the totals at the time when the event is polled.
  void fill_turned_away(TurnedAway& event);
  /// Why a connection that was announced to the user was ended to make room.
  Failure evicted(EndpointId listener, ReachedLimit scarce, const Step& step, Duration waited) const;

 private:
  TurnedAwayPeers* note_turned(EndpointId listener, ReachedLimit scarce, const Address& peer, const Step& step);
  std::uint32_t limit_of(EndpointId listener, ReachedLimit scarce) const;

  std::vector<Channel*> channels_;  // at most managers_max; null: the Manager is gone
  std::vector<EndpointId> noted_;   // at most three per endpoint
};

}  // namespace parley::cm
