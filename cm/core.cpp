// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/core.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cm/failure_text.hpp"

namespace parley::cm {
namespace {

std::string half_open_text(Duration waited) { return "evicted for a newcomer, half-open for " + limit_text(waited); }

}  // namespace

Result<void> Core::join(Channel& channel) {
  const auto gap = std::find(channels_.begin() + 1, channels_.end(), nullptr);
  const auto number = static_cast<std::size_t>(gap - channels_.begin());
  if (number >= managers_max)
    return fail(Errc::no_space, "{a} Managers are on this host, which is the most",
                static_cast<std::int64_t>(managers_max));
  if (gap == channels_.end()) channels_.push_back(nullptr);
  channels_[number] = &channel;
  channel.number = static_cast<std::uint16_t>(number);
  return {};
}

void Core::leave(const Channel& channel) noexcept {
  channels_[channel.number] = nullptr;
  while (channels_.size() > 1 && channels_.back() == nullptr) channels_.pop_back();
}

bool Core::has_events() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const Channel* c) { return c && !c->events.empty(); });
}

void Core::make_room(std::size_t more) {
  for (Channel* c : channels_)
    if (c != nullptr) c->events.make_room(more);
}

Result<void> Core::migrate(EndpointId endpoint, Channel& from, Channel& to) {
  const auto of_it = [endpoint](const Event& event) { return endpoint_of(event) == endpoint; };
  const auto users =
      static_cast<std::uint32_t>(std::count_if(from.events.begin(), from.events.end(), [&](const Event& e) {
        return of_it(e) && std::holds_alternative<UserEvent>(e);
      }));
  if (users > user_events_max - to.user_events)
    return fail(Errc::no_space, "{a} events of the program's own would wait there; poll some first",
                std::int64_t{to.user_events} + users);
  from.events.move_to(to.events, of_it);
  from.user_events -= users;
  to.user_events += users;
  ids.find(endpoint)->channel = to.number;
  for (Event& event : to.events)
    if (of_it(event)) std::visit([&](auto& e) { e.id = id(endpoint); }, event);
  if (!ids.find(endpoint)->visited) return {};
  // Unannounced newcomers follow their listener. Those that have failed stay: their last event waits in `from`.
  for (Event& event : from.events)
    if (auto* request = std::get_if<ConnectRequest>(&event); request && request->listener.number() == endpoint)
      request->listener = id(endpoint);
  ids.for_each([&](EndpointId other) {
    Endpoint& e = *ids.find(other);
    if (e.listener == endpoint && !e.announced && !e.over) e.channel = to.number;
  });
  return {};
}

std::uint32_t Core::limit_of(EndpointId listener, ReachedLimit scarce) const {
  return scarce == ReachedLimit::endpoints_max ? ids.max() : pending.limit_of(listener);
}

TurnedAwayPeers* Core::note_turned(EndpointId listener, ReachedLimit scarce, const Address& peer, const Step& step) {
  TurnedAwayPeers* note = pending.turned(listener);
  if (note == nullptr) return nullptr;
  if (!note->any()) push(TurnedAway{.id = id(listener), .peer = peer, .why = {}});
  note->scarce = scarce;
  note->peer = peer;
  note->waited = {};
  note->step = step;
  return note;
}

void Core::fill_turned_away(TurnedAway& event) {
  TurnedAwayPeers* kept = pending.turned(event.id.number());
  if (kept == nullptr) return;
  const TurnedAwayPeers note = std::exchange(*kept, {});
  event.peer = note.peer;
  event.gave_way = note.gave_way;
  event.refused = note.refused;
  event.why = no_room(note.step, note.scarce, limit_of(event.id.number(), note.scarce),
                      note.waited ? half_open_text(*note.waited) : "refused: no connection could be evicted");
}

Failure Core::evicted(EndpointId listener, ReachedLimit scarce, const Step& step, Duration waited) const {
  return no_room(step, scarce, limit_of(listener, scarce), half_open_text(waited));
}

}  // namespace parley::cm
