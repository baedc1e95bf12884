// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What happens to TGT queue pairs, who is told, and how each ends.
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

/// `tgt` is gone when it returns.
template <class S>
void BasicRegistry<S>::take_out(Tgt& tgt) {
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

/// The only way out, but for one that may be declared again. `tgt` is gone when it returns.
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
  take_out(tgt);
}

/// E1: whoever is registered now is told, and nobody else.
template <class S>
void BasicRegistry<S>::tell(Tgt& tgt, EventKind kind, std::uint32_t reason) {
  if (tgt.registrants.empty()) return;  // it is being declared again
  ++tgt.events;
  for (const std::uint64_t number : tgt.registrants) give(number, {tgt.id, kind, reason, tgt.events});
}

/// E4: a member that takes nothing delays nobody and costs no more than its queue.
template <class S>
void BasicRegistry<S>::give(std::uint64_t number, Event event) {
  Member& member = members_.at(number);
  const auto same = std::find_if(member.events.begin(), member.events.end(), [&event](const Event& e) {
    return e.tgt == event.tgt && e.kind == event.kind && e.sticky == event.sticky;
  });
  if (same != member.events.end()) {
    event.merged = same->merged + 1;
    member.events.erase(same);  // to the end, for E7
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
  tell(tgt, kind, reason);
  tgt.why = kind;
  tgt.reason = reason;
  tgt.why_sequence = tgt.events;
  if (!tgt.awaited) set_deadline(tgt, grace_end(now, state));
}

template <class S>
Result<void> BasicRegistry<S>::step(Instant now, Tgt& tgt, EventKind kind, std::uint32_t reason) {
  const auto to = leads_to(kind);
  if (tgt.state == State::creating || tgt.state == State::linger) {
    // Nobody to tell. What is being made for a peer that is gone ends before it is there.
    if (to == State::drain || (to && tgt.state == State::linger)) return end(now, tgt), Result<void>();
    return tl::unexpected(Error(Refusal::state));
  }
  if (tgt.state == State::drain || (tgt.state == State::error && to != State::drain)) return {};  // they have been told
  if (to)
    enter(now, tgt, *to, kind, reason);
  else if (tgt.state == State::rtr || tgt.state == State::rts)
    tell(tgt, kind, reason);
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

// E6: members hear of their device even if they have nothing registered on it.
template <class S>
void BasicRegistry<S>::report_device(Instant now, std::uint64_t device, EventKind kind, std::uint32_t reason) {
  for (const auto& [number, domain] : domains_) {
    if (domain.device != device) continue;
    if (kind == EventKind::device_removed)
      remove_device(now, number, reason);
    else
      for (const std::uint64_t member : domain.members) give(member, {.kind = kind, .reason = reason});
  }
}

/// Done once more, it only repeats the event of the device.
template <class S>
void BasicRegistry<S>::remove_device(Instant now, std::uint64_t number, std::uint32_t reason) {
  const Domain& domain = std::as_const(domains_).at(number);
  for (const std::uint64_t member : domain.members) give(member, {.kind = EventKind::device_removed, .reason = reason});
  for (const std::uint64_t generation : listed(domain.tgts))
    (void)step(now, tgts_.at(generation), EventKind::device_removed, reason);
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
  return std::min(deadlines_.empty() ? never : deadlines_.begin()->first,
                  rests_.empty() ? never : rests_.front().first);
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
    if (tgt.state == State::drain && !tgt.awaited) ++counters_.reaped;  // R8: those who have not let go by now
    end(now, tgt);
    S::checkpoint(this);
  }
  while (!rests_.empty() && rests_.front().first <= now) {
    resting_.erase(rests_.front().second);
    rests_.pop_front();
  }
}

}  // namespace parley::xrc
