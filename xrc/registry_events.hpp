// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Events and failures of TGT queue pairs, their delivery to members, and the end of each queue pair.
#pragma once
#include <algorithm>

#include "base/after.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc {

template <class S>
void BasicRegistry<S>::set_deadline(Tgt& tgt, Instant at) {
  if (tgt.deadline != never) deadlines_.erase({tgt.deadline, tgt.id.generation});
  tgt.deadline = at;
  if (at != never) deadlines_.insert({at, tgt.id.generation});
}

/// Removes the queue pair from all tables. Destroys `tgt`.
template <class S>
void BasicRegistry<S>::remove_tgt(Tgt& tgt) {
  set_deadline(tgt, never);
  forget_peer(tgt);
  for (const std::uint64_t number : tgt.registrants) {
    members_.at(number).registrations.erase(tgt.id.generation);
    count(uid_of(number), &Use::registrations, -1);
  }
  count(tgt.uid, &Use::tgts, -1);
  registrations_ -= tgt.registrants.size();
  if (tgt.state == State::linger) --lingering_;
  domains_.at(tgt.domain).tgts.erase(tgt.id.generation);
  if (tgt.id.qpn != 0) numbers_.erase(tgt.id.qpn);
  tgts_.erase(tgt.id.generation);
}

/// Ends a queue pair. Destroys `tgt`. Each one ends here, except those that a member may declare again.
template <class S>
void BasicRegistry<S>::end(Instant now, Tgt& tgt) {
  ++counters_.destroyed;
  if (tgt.id.qpn != 0) {
    ended_.push_back(tgt.id);
    if (options_.quarantine > Duration{} && options_.resting_max > 0) {
      if (resting_.size() >= options_.resting_max) {
        resting_.erase(rests_.front().second);
        rests_.pop_front();
      }
      const Instant until = after(now, options_.quarantine);
      resting_[tgt.id.qpn] = {tgt.id, tgt.domain, until};
      rests_.emplace_back(until, tgt.id.qpn);
    }
  }
  remove_tgt(tgt);
}

/// E1: sends the event to the present registrants, and only to them.
template <class S>
void BasicRegistry<S>::notify_registrants(Tgt& tgt, EventKind kind, std::uint32_t reason) {
  if (tgt.registrants.empty()) return;  // it is being declared again
  ++tgt.events;
  for (const std::uint64_t number : tgt.registrants) queue_event(number, {tgt.id, kind, reason, tgt.events});
}

/// E4: a member that takes no events delays no other member, and costs no more than its queue.
template <class S>
void BasicRegistry<S>::queue_event(std::uint64_t number, Event event) {
  Member& member = members_.at(number);
  const auto same = std::find_if(member.events.begin(), member.events.end(), [&event](const Event& e) {
    return e.tgt == event.tgt && e.kind == event.kind && e.sticky == event.sticky;
  });
  if (same != member.events.end()) {
    event.merged = same->merged + 1;
    member.events.erase(same);  // it moves to the end (E7)
  }
  if (member.events.size() >= options_.events_max || !S::has_room(member.events)) {
    member.lost = true;
    ++counters_.events_lost;
  } else {
    member.events.push_back(event);
    ++counters_.events;
  }
  announce(number, member);
}

template <class S>
void BasicRegistry<S>::announce(std::uint64_t number, Member& member) {
  if (!std::exchange(member.announced, true)) waiting_.push_back({options_.epoch, number});
}

template <class S>
void BasicRegistry<S>::lose_events(std::uint64_t number) {
  Member& member = members_.at(number);
  member.lost = true;
  ++counters_.events_lost;
  announce(number, member);
}

template <class S>
std::uint32_t BasicRegistry<S>::purge(std::uint64_t number, std::uint64_t generation) {
  return static_cast<std::uint32_t>(
      erase_if(members_.at(number).events, [generation](const Event& e) { return e.tgt.generation == generation; }));
}

template <class S>
Instant BasicRegistry<S>::grace_end(Instant now, State state) const {
  if (state == State::drain) return limited(now, options_.grace);
  return state == State::error ? limited(now, options_.error_grace) : never;
}

template <class S>
void BasicRegistry<S>::enter(Instant now, Tgt& tgt, State state, EventKind kind, std::uint32_t reason) {
  tgt.state = state;
  forget_peer(tgt);
  notify_registrants(tgt, kind, reason);
  tgt.why = kind;
  tgt.reason = reason;
  tgt.why_sequence = tgt.events;
  if (!tgt.awaited) set_deadline(tgt, grace_end(now, state));
}

template <class S>
Result<void> BasicRegistry<S>::step(Instant now, Tgt& tgt, EventKind kind, std::uint32_t reason) {
  const auto to = leads_to(kind);
  if (tgt.state == State::creating || tgt.state == State::linger) {
    // There are no registrants to inform. One that is being created for a peer that has gone ends before it is
    // published.
    if (to == State::drain || (to && tgt.state == State::linger)) return end(now, tgt), Result<void>();
    return tl::unexpected(Error(Refusal::state));
  }
  if (tgt.state == State::drain || (tgt.state == State::error && to != State::drain)) return {};  // already reported
  if (to)
    enter(now, tgt, *to, kind, reason);
  else if (tgt.state == State::rtr || tgt.state == State::rts)
    notify_registrants(tgt, kind, reason);
  else
    return tl::unexpected(Error(Refusal::state));
  return {};
}

template <class S>
Result<void> BasicRegistry<S>::report(Instant now, TgtId id, EventKind kind, std::uint32_t reason) {
  const bool sensible = kind == EventKind::established || (leads_to(kind) && kind != EventKind::unattended);
  if (!sensible) return tl::unexpected(Error(Refusal::invalid));
  const auto tgt = tgts_.find(id.generation);
  if (tgt == tgts_.end() || tgt->second.id != id)
    return tl::unexpected(Error(id.generation == 0 || id.generation > last_generation_ || tgt != tgts_.end()
                                    ? Refusal::not_found
                                    : Refusal::gone));
  return step(now, tgt->second, kind, reason);
}

// E6: members get the device's event even if they have no registrations on it.
template <class S>
void BasicRegistry<S>::report_device(Instant now, std::uint64_t device, EventKind kind, std::uint32_t reason) {
  for (const auto& [number, domain] : std::as_const(domains_))
    if (domain.device == device) report_to_domain(now, number, kind, reason);
}

// Programs choose the device number, and each machine's first device may have the same one.
template <class S>
void BasicRegistry<S>::report_device(Instant now, MemberId by, EventKind kind, std::uint32_t reason) {
  if (!check(by)) return;
  const std::uint32_t uid = uid_of(by.number);
  const std::uint64_t own = std::as_const(members_).at(by.number).domain;
  const std::uint64_t device = std::as_const(domains_).at(own).device;
  for (const auto& [number, domain] : std::as_const(domains_)) {
    const bool may = number == own || domain.uid == uid || uid == 0 || uid == options_.admin_uid;
    if (domain.device == device && may) report_to_domain(now, number, kind, reason);
  }
}

template <class S>
void BasicRegistry<S>::report_to_domain(Instant now, std::uint64_t number, EventKind kind, std::uint32_t reason) {
  if (kind == EventKind::device_removed) return remove_device(now, number, reason);
  for (const std::uint64_t member : std::as_const(domains_).at(number).members)
    queue_event(member, {.kind = kind, .reason = reason});
}

/// A second call only repeats the event of the device.
template <class S>
void BasicRegistry<S>::remove_device(Instant now, std::uint64_t number, std::uint32_t reason) {
  const Domain& domain = std::as_const(domains_).at(number);
  for (const std::uint64_t member : domain.members)
    queue_event(member, {.kind = EventKind::device_removed, .reason = reason});
  drain_all(now, number, reason);
}

template <class S>
void BasicRegistry<S>::drain_all(Instant now, std::uint64_t number, std::uint32_t reason) {
  for (const std::uint64_t generation : listed(std::as_const(domains_).at(number).tgts))
    (void)step(now, tgts_.at(generation), EventKind::device_removed, reason);
}

// ---- R11: members that carry the device --------------------------------------------------------------------------

template <class S>
std::uint32_t BasicRegistry<S>::carriers(MemberId member) const {
  if (!check(member)) return 0;
  const Domain& domain = domains_.at(members_.at(member.number).domain);
  return domain.carriers + domain.carriers_missing();
}

template <class S>
void BasicRegistry<S>::announce_all(std::uint64_t domain) {
  for (const std::uint64_t member : std::as_const(domains_).at(domain).members) announce(member, members_.at(member));
}

/// A member of an earlier registry declares how many carriers the domain had. They may return until recovery ends. A
/// carrier that declares none is new. A member of this registry whose connection broke declares how many it was informed
/// of: if there are fewer now, it missed the event of one that died.
template <class S>
void BasicRegistry<S>::add_carriers(Instant now, std::uint64_t number, const OpenParameters& parameters) {
  Member& member = members_.at(number);
  member.carrier = parameters.carrier;
  if (!parameters.carrier && parameters.carriers == 0) return;
  Domain& domain = domains_.at(member.domain);
  if (parameters.carrier) ++domain.carriers;
  if (parameters.carriers_epoch == options_.epoch) {
    member.carriers = parameters.carriers > 0 ? domain.carriers_declared : 0;
    if (parameters.carriers > domain.carriers + domain.carriers_missing())
      queue_event(number, {.kind = EventKind::device_removed});
    return announce_all(member.domain);
  }
  member.carriers = parameters.carriers;
  if (parameters.carrier && parameters.carriers > 0) {
    member.returned = true;
    ++domain.carriers_returned;
  }
  if (recovering(now)) {
    domain.carriers_declared = std::max(domain.carriers_declared, parameters.carriers);
    awaits_carriers_ = awaits_carriers_ || domain.carriers_declared > 0;
  } else if (parameters.carriers > domain.carriers_returned) {
    queue_event(number, {.kind = EventKind::device_removed});
  }
  announce_all(member.domain);
}

/// Current members were informed. A member that declares itself later still counts this carrier and gets device_removed.
template <class S>
void BasicRegistry<S>::drop_carrier(std::uint64_t number, bool died) {
  Member& carrier = members_.at(number);
  Domain& domain = domains_.at(carrier.domain);
  carrier.carrier = false;
  --domain.carriers;
  if (died && carrier.returned) {
    --domain.carriers_returned;
    if (domain.carriers_declared > 0) --domain.carriers_declared;
    for (const std::uint64_t member : std::as_const(domain).members)
      if (std::as_const(members_).at(member).carriers > 0) --members_.at(member).carriers;
  }
  announce_all(carrier.domain);
}

/// A member of an earlier epoch that makes the domain again does not miss carriers that left in order. Beyond the bound
/// or the user's share it misses them, and gets device_removed.
template <class S>
void BasicRegistry<S>::keep_left_in_order(const Domain& domain) {
  if (domain.carriers_returned == 0 || left_in_order_.size() >= options_.domains_max) return;
  const auto mine =
      share(domain.uid, &Use::left_in_order, left_in_order_.size(), options_.domains_max, Refusal::share_of_domains);
  if (!mine) return;
  count(domain.uid, &Use::left_in_order, 1);
  left_in_order_[*domain.key] = {domain.uid, domain.carriers_returned};
}

template <class S>
void BasicRegistry<S>::restore_left_in_order(Domain& domain) {
  const auto left = std::as_const(left_in_order_).find(*domain.key);
  if (left == std::as_const(left_in_order_).end()) return;
  domain.carriers_returned = left->second.carriers_returned;
  count(left->second.uid, &Use::left_in_order, -1);
  left_in_order_.erase(*domain.key);
}

/// Recovery is over: a carrier that has not returned died with the earlier registry, or has not run since.
template <class S>
void BasicRegistry<S>::await_no_carriers(Instant now) {
  awaits_carriers_ = false;
  std::vector<std::uint64_t> awaiting;
  for (const auto& [number, domain] : std::as_const(domains_))
    if (domain.carriers_declared > 0) awaiting.push_back(number);
  for (const std::uint64_t number : awaiting) {
    Domain& domain = domains_.at(number);
    if (std::exchange(domain.carriers_declared, 0) <= domain.carriers_returned) continue;
    for (const std::uint64_t member : std::as_const(domain).members)
      if (std::as_const(members_).at(member).carriers > domain.carriers_returned)
        queue_event(member, {.kind = EventKind::device_removed});
    drain_all(now, number, 0);
    announce_all(number);
  }
}

// ---- outputs -----------------------------------------------------------------------------------------------------

template <class S>
std::optional<Event> BasicRegistry<S>::poll_event(MemberId id) {
  if (!check(id)) return std::nullopt;
  Member& member = members_.at(id.number);
  if (member.events.empty()) {
    if (!std::exchange(member.lost, false)) return std::nullopt;
    return Event{.kind = EventKind::events_lost};
  }
  Event event = member.events.front();
  member.events.pop_front();
  return event;
}

template <class S>
std::optional<MemberId> BasicRegistry<S>::poll_waiting() {
  if (waiting_.empty()) return std::nullopt;
  const MemberId id = waiting_.front();
  waiting_.pop_front();
  members_.at(id.number).announced = false;
  return id;
}

template <class S>
std::optional<TgtId> BasicRegistry<S>::poll_ended() {
  if (ended_.empty()) return std::nullopt;
  const TgtId id = ended_.front();
  ended_.pop_front();
  return id;
}

template <class S>
Instant BasicRegistry<S>::next_deadline() const {
  return std::min({deadlines_.empty() ? never : deadlines_.begin()->first,
                   rests_.empty() ? never : rests_.front().first, awaits_carriers_ ? recovery_until_ : never});
}

template <class S>
void BasicRegistry<S>::handle_deadline(Instant now) {
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    Tgt& tgt = tgts_.at(deadlines_.begin()->second);
    if (tgt.state == State::error && !tgt.awaited) {
      enter(now, tgt, State::drain, EventKind::unattended, 0);
      S::checkpoint(this);
      continue;
    }
    if (tgt.state == State::drain && !tgt.awaited) ++counters_.reaped;  // R8: its registrants did not leave in time
    end(now, tgt);
    S::checkpoint(this);
  }
  while (!rests_.empty() && rests_.front().first <= now) {
    resting_.erase(rests_.front().second);
    rests_.pop_front();
  }
  if (awaits_carriers_ && !recovering(now)) await_no_carriers(now);
}

}  // namespace parley::xrc
