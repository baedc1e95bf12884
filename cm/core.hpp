// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the endpoints of every transport have in common. The Managers of a host own it, and their provider works on it: issues
// ids for incoming connections, asks who may be pending, emits events, and asks whether a failed set-up is tried again. No
// protocol, no time, no calls out.
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

/// What Manager::resolve() was asked for, until Id::connect() succeeds.
struct Way {
  Address peer;
  std::optional<Address> local;
  Device* device = nullptr;  ///< null: the provider searches, or has found it
};

/// The id that an event is about; 0 where it is about none.
inline EndpointId endpoint_of(const Event& event) {
  return std::visit([](const auto& e) { return e.id.number(); }, event);
}

/// What each Manager of a host has for itself.
struct Channel {
  Manager* manager = nullptr;
  std::uint16_t number = 0;  ///< of Core's table
  /// Those that wait for poll_event(); docs/cm.md has their bound. Events of a destroyed id are passed over there.
  Fifo<Event> events;
  std::uint32_t user_events = 0;  ///< of these
};

class Core {
 public:
  Core(Channel& first, std::uint32_t endpoints_max, std::uint64_t seed, const ResolvePolicy& policy)
      : ids(endpoints_max), pending(ids), retries(seed), resolver(policy), channels_{&first} {}

  EndpointTable ids;
  Pending pending;
  Retries retries;
  Resolver resolver;               ///< for providers that search
  std::map<EndpointId, Way> ways;  // at most one per id
  Liveness liveness;               ///< ManagerOptions::liveness

  /// The first Manager is gone, and the provider with it.
  bool closed() const { return channels_.front() == nullptr; }
  /// Errors: no_space (managers_max).
  Result<void> join(Channel& channel);
  void leave(const Channel& channel) noexcept;
  /// Of the Manager that has the id; of the first, if nobody has.
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
  /// The next `more` of push() need no memory, whoever has their ids.
  void make_room(std::size_t more);
  /// For poll_event() of the Manager that has the event's id.
  template <class E>
  void push(E&& event) {
    if (channels_.size() == 1) [[likely]]
      return channels_.front()->events.push(std::forward<E>(event));
    Event any(std::forward<E>(event));
    Channel& to = channel_of(endpoint_of(any));
    to.events.push(std::move(any));
  }
  /// A newcomer at a listener is its Manager's.
  void came_from(EndpointId endpoint, EndpointId listener) {
    ids.find(endpoint)->listener = listener;
    ids.find(endpoint)->channel = channel_of(listener).number;
    if (Endpoint* visited = ids.find(listener)) visited->visited = true;
  }
  /// The id, what waits of it, and a listener's newcomers that nobody has heard of yet are `to`'s from now on. Errors: no_space
  /// (user events).
  Result<void> migrate(EndpointId endpoint, Channel& from, Channel& to);

  Id id(EndpointId endpoint) const { return {channel_of(endpoint).manager, endpoint}; }
  /// The id is free again; poll_event() passes over the events of it that still wait.
  void release(EndpointId endpoint) {
    retries.forget(endpoint);
    resolver.leave(endpoint);
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

  std::vector<Channel*> channels_;  // at most managers_max; null: it is gone
  std::vector<EndpointId> noted_;   // at most three per endpoint
};

}  // namespace parley::cm
