// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A registry that replaces another starts empty, and the members declare what they had. A queue pair that no member
// declares had no live registrant and has ended.
#pragma once
#include <algorithm>
#include <utility>

#include "xrc/registry.hpp"

namespace parley::xrc {
namespace registry_detail {

inline bool may_be_declared(State s) { return s >= State::reset && s <= State::drain; }
inline bool has_failed(State s) { return s == State::error || s == State::drain; }
/// The number of events without the failure, which is a TGT queue pair's last event.
inline std::uint64_t without_failure(State state, std::uint64_t events) {
  return has_failed(state) && events > 0 ? events - 1 : events;
}
inline bool contradicts(const AttributeDigests& known, const AttributeDigests& said) {
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] != 0 && said[i] != 0 && known[i] != said[i]) return true;
  return false;
}

}  // namespace registry_detail

/// E1: `heard` is the last event that the member got, without the failure that it declares. A member that got fewer
/// events than another has missed some. So has a member that declares itself after this registry sent events to the
/// others.
template <class S>
void BasicRegistry<S>::compare_events(std::uint64_t number, Tgt& tgt, std::uint64_t heard) {
  const std::uint64_t known = std::exchange(tgt.declared_events, std::max(tgt.declared_events, heard));
  const bool told = registry_detail::without_failure(tgt.state, tgt.events) > known;
  if (heard < known || told) lose_events(number);
  if (heard > known)
    for (const std::uint64_t other : tgt.registrants) lose_events(other);
  tgt.events = std::max(tgt.events, told ? heard + 1 : heard);
}

/// Frees the declared number. A device gives a number to one queue pair at a time, so a member that proves to have it
/// wins over those that have claimed it since. Errors: gone (the number was used again, or the queue pair has ended).
template <class S>
Result<void> BasicRegistry<S>::free_number(TgtId id) {
  if (const auto resting = resting_.find(id.qpn); resting != resting_.end()) {
    if (resting->second.id.generation >> 32 < options_.epoch) return refused(Refusal::gone);
    resting_.erase(id.qpn);
    erase_if(rests_, [id](const auto& rest) { return rest.second == id.qpn; });
  }
  if (const auto other = others_.find(id.qpn); other != others_.end()) {
    count(uid_of(other->second), &Use::others, -1);
    members_.at(other->second).others.erase(id.qpn);
    others_.erase(id.qpn);
  }
  if (const auto number = numbers_.find(id.qpn); number != numbers_.end()) {
    Tgt& taken = tgts_.at(number->second);
    const bool declared = taken.id.generation >> 32 < options_.epoch;
    if (declared && taken.id.generation > id.generation) return refused(Refusal::gone);
    notify_registrants(taken, EventKind::killed, 0);
    remove_tgt(taken);
  }
  return {};
}

/// Merges a member's declaration into the queue pair. The most advanced declared state wins.
template <class S>
void BasicRegistry<S>::merge(Instant now, std::uint64_t number, Tgt& tgt, const DeclaredRegistration& d) {
  for (std::size_t i = 0; i < d.attributes.size(); ++i)
    if (tgt.attributes[i] == 0) tgt.attributes[i] = d.attributes[i];
  compare_events(number, tgt, registry_detail::without_failure(d.state, d.events));
  const State before = tgt.state;
  if (registry_detail::has_failed(d.state) && d.state > before) {
    enter(now, tgt, d.state, d.why == EventKind::none ? EventKind::fatal : d.why, d.reason);
    tgt.why_sequence = std::max(tgt.events, d.events);
  } else {
    tgt.state = std::max(before, d.state);
  }
  tgt.events = std::max(tgt.events, d.events);
  add_registrant(number, tgt);
  // E2: the member may have missed the event of the failure.
  if (registry_detail::has_failed(before) && d.state < before)
    queue_event(number, {tgt.id, tgt.why, tgt.reason, tgt.why_sequence, 0, true});
  ++counters_.restored;
}

template <class S>
Result<Registered> BasicRegistry<S>::restore(Instant now, MemberId member, const DeclaredRegistration& d) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const bool number = d.id.qpn >= 2 && d.id.qpn <= 0xFFFFFF;
  if (!number || d.id.generation == 0 || d.id.generation > last_generation_ ||
      !registry_detail::may_be_declared(d.state))
    return tl::unexpected(Error(Refusal::invalid));
  const std::uint64_t domain = members_.at(member.number).domain;
  auto tgt = tgts_.find(d.id.generation);
  const bool earlier = d.id.generation >> 32 < options_.epoch;
  if (tgt != tgts_.end() && !(earlier && recovering(now))) {
    const std::uint64_t events = tgt->second.events;
    auto joined = enlist(now, member, d.id);
    if (joined && !joined->already && d.events < events) lose_events(member.number);
    return joined;
  }
  if (tgt != tgts_.end()) {
    if (tgt->second.id != d.id) return tl::unexpected(Error(Refusal::conflict));
    if (tgt->second.domain != domain) return tl::unexpected(Error(Refusal::other_domain));
    if (tgt->second.registrants.contains(member.number)) return Registered{d.id, tgt->second.state, true};
    if (const auto room = room_to_register(uid_of(member.number)); !room) return tl::unexpected(room.error());
    if (registry_detail::contradicts(tgt->second.attributes, d.attributes))
      return tl::unexpected(Error(Refusal::conflict));
    if (tgt->second.state == State::linger) go_back(tgt->second);
    if (std::exchange(tgt->second.awaited, false)) set_deadline(tgt->second, grace_end(now, tgt->second.state));
  } else {
    if (!earlier || !recovering(now)) return tl::unexpected(Error(Refusal::gone));
    if (const auto room = make_room(now, uid_of(member.number)); !room) return tl::unexpected(room.error());
    if (const auto free = free_number(d.id); !free) return tl::unexpected(free.error());
    Tgt& made = make(now, member.number, d.id, State::reset);
    made.peer = d.peer;
    name_peer(made);
    tgt = tgts_.find(d.id.generation);
  }
  merge(now, member.number, tgt->second, d);
  return Registered{d.id, tgt->second.state, false};
}

}  // namespace parley::xrc
