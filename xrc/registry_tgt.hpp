// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// TGT queue pairs: create, register, modify, unregister.
#pragma once
#include <algorithm>

#include "base/after.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc {
namespace registry_detail {

inline bool is_live(State state) { return state >= State::reset && state <= State::rts; }
inline constexpr std::uint32_t number_max = 0xFFFFFF;

}  // namespace registry_detail

// ---- names -------------------------------------------------------------------------------------------------------

/// Why the domain has no queue pair of this name. Generations only increase, so that one that has ended differs from
/// one that never existed, however long ago it was.
template <class S>
Refusal BasicRegistry<S>::why_not(Instant now, std::uint64_t domain, TgtId id) const {
  const auto resting = resting_.find(id.qpn);
  const bool rests = resting != resting_.end();
  // A domain that all members left and that was opened again counts as the same domain.
  const bool elsewhere = rests && resting->second.domain != domain && domains_.contains(resting->second.domain);
  if (id.generation == 0) {
    if (others_.contains(id.qpn)) return Refusal::wrong_type;
    if (rests) return elsewhere ? Refusal::other_domain : Refusal::gone;
    return recovering(now) ? Refusal::busy : Refusal::not_found;
  }
  if (id.generation > last_generation_) return Refusal::not_found;
  if (elsewhere && resting->second.id == id) return Refusal::other_domain;
  if (id.generation >> 32 < options_.epoch && recovering(now)) return Refusal::busy;
  return Refusal::gone;
}

template <class S>
typename BasicRegistry<S>::FoundGeneration BasicRegistry<S>::locate(Instant now, std::uint64_t domain, TgtId id) const {
  auto tgt = tgts_.find(id.generation);
  if (id.generation == 0)
    if (const auto number = numbers_.find(id.qpn); number != numbers_.end()) tgt = tgts_.find(number->second);
  if (tgt == tgts_.end()) return refused(why_not(now, domain, id));
  if (tgt->second.id.qpn != id.qpn) return refused(Refusal::not_found);
  if (tgt->second.domain != domain) return refused(Refusal::other_domain);
  if (tgt->second.awaited) return refused(Refusal::busy);
  return tgt->first;
}

template <class S>
Result<void> BasicRegistry<S>::usable(std::uint32_t qpn) const {
  if (qpn < 2 || qpn > registry_detail::number_max) return refused(Refusal::invalid);
  if (numbers_.contains(qpn) || others_.contains(qpn)) return refused(Refusal::conflict);
  if (resting_.contains(qpn)) return refused(Refusal::busy);
  return {};
}

/// The next free number in cyclic order, so that the number that ended last is reused last.
template <class S>
Result<std::uint32_t> BasicRegistry<S>::assign_number(std::uint32_t wanted) {
  if (wanted != 0 || !options_.assigns_numbers) {
    if (options_.assigns_numbers) return refused(Refusal::invalid);
    const auto free = usable(wanted);
    if (!free) return tl::unexpected(free.error());
    return wanted;
  }
  const std::uint32_t count = options_.qpn_last - options_.qpn_first + 1;
  for (std::uint32_t tried = 0; tried < count; ++tried) {
    const std::uint32_t qpn = qpn_next_;
    qpn_next_ = qpn == options_.qpn_last ? options_.qpn_first : qpn + 1;
    if (usable(qpn)) return qpn;
  }
  return refused(Refusal::no_memory);
}

template <class S>
void BasicRegistry<S>::name_peer(Tgt& tgt) {
  if (tgt.peer) domains_.at(tgt.domain).peers[*tgt.peer] = tgt.id.generation;
}

template <class S>
void BasicRegistry<S>::forget_peer(Tgt& tgt) {
  if (!tgt.peer) return;
  auto& peers = domains_.at(tgt.domain).peers;
  if (const auto named = peers.find(*tgt.peer); named != peers.end() && named->second == tgt.id.generation)
    peers.erase(named);
}

template <class S>
Result<TgtId> BasicRegistry<S>::find(MemberId member, const Peer& peer) const {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const auto& peers = domains_.at(members_.at(member.number).domain).peers;
  const auto named = peers.find(peer);
  if (named == peers.end()) return refused(Refusal::not_found);
  return tgts_.at(named->second).id;
}

// ---- create ------------------------------------------------------------------------------------------------------

/// R7: if the table is full, ends the lingering queue pair with the earliest deadline.
template <class S>
Result<void> BasicRegistry<S>::make_room(Instant now, std::uint32_t uid) {
  if (ended_.size() >= options_.tgts_max) return refused(Refusal::no_memory);
  if (const auto room = room_to_register(uid); !room) return room;
  if (const auto mine = share(uid, &Use::tgts, tgts_.size(), options_.tgts_max, Refusal::share_of_tgts); !mine)
    return mine;
  if (tgts_.size() < options_.tgts_max) return {};
  const auto lingers = std::find_if(deadlines_.begin(), deadlines_.end(), [this](const auto& deadline) {
    return tgts_.at(deadline.second).state == State::linger;
  });
  if (lingers == deadlines_.end()) return refused(Refusal::no_memory);
  end(now, tgts_.at(lingers->second));
  return {};
}

template <class S>
Result<void> BasicRegistry<S>::room_to_register(std::uint32_t uid) const {
  if (registrations_ >= options_.registrations_max) return refused(Refusal::no_memory);
  return share(uid, &Use::registrations, registrations_, options_.registrations_max, Refusal::share_of_registrations);
}

template <class S>
typename BasicRegistry<S>::Tgt& BasicRegistry<S>::make(Instant now, std::uint64_t member, TgtId id, State state) {
  const std::uint64_t domain = std::as_const(members_).at(member).domain;
  Tgt& tgt = tgts_[id.generation];
  tgt.id = id;
  tgt.domain = domain;
  tgt.uid = uid_of(member);
  count(tgt.uid, &Use::tgts, 1);
  tgt.state = state;
  tgt.made = now;
  domains_.at(domain).tgts.insert(id.generation);
  if (id.qpn != 0) numbers_[id.qpn] = id.generation;
  return tgt;
}

template <class S>
Result<Created> BasicRegistry<S>::create(Instant now, MemberId member, const CreateParameters& p) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const std::uint64_t domain = members_.at(member.number).domain;
  if (p.peer) {
    if (p.peer->qpn > registry_detail::number_max) return refused(Refusal::invalid);
    // Two members that create a queue pair for the same peer get the same one.
    if (const auto named = domains_.at(domain).peers.find(*p.peer); named != domains_.at(domain).peers.end()) {
      Tgt& tgt = tgts_.at(named->second);
      if (tgt.state == State::creating || tgt.awaited) return refused(Refusal::busy);
      const auto joined = join(member.number, tgt);
      if (!joined) return tl::unexpected(joined.error());
      return Created{tgt.id, tgt.state, true};
    }
    if (recovering(now)) return refused(Refusal::busy);
  }
  if (const auto room = make_room(now, uid_of(member.number)); !room) return tl::unexpected(room.error());
  std::uint32_t qpn = 0;
  if (options_.assigns_numbers || !p.reserve || p.qpn != 0) {
    const auto taken = assign_number(p.qpn);
    if (!taken) return tl::unexpected(taken.error());
    qpn = *taken;
  }
  Tgt& tgt = make(now, member.number, {qpn, ++last_generation_}, p.reserve ? State::creating : State::reset);
  tgt.peer = p.peer;
  name_peer(tgt);
  add_registrant(member.number, tgt);  // R1
  ++counters_.created;
  return Created{tgt.id, tgt.state, false};
}

template <class S>
Result<TgtId> BasicRegistry<S>::publish(Instant now, MemberId member, TgtId id, std::uint32_t qpn) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const auto found = locate(now, members_.at(member.number).domain, id);
  if (!found) return tl::unexpected(found.error());
  Tgt& tgt = tgts_.at(*found);
  if (!tgt.registrants.contains(member.number)) return refused(Refusal::not_registered);
  if (tgt.state != State::creating) return refused(Refusal::state);
  if (qpn != 0 && qpn != tgt.id.qpn) {
    if (tgt.id.qpn != 0) return refused(Refusal::invalid);
    if (const auto free = usable(qpn); !free) return tl::unexpected(free.error());
    tgt.id.qpn = qpn;
    numbers_[qpn] = tgt.id.generation;
  }
  if (tgt.id.qpn == 0) return refused(Refusal::invalid);
  tgt.state = State::reset;
  return tgt.id;
}

// ---- register and unregister -------------------------------------------------------------------------------------

template <class S>
void BasicRegistry<S>::add_registrant(std::uint64_t number, Tgt& tgt) {
  S::insert_new(tgt.registrants, number);
  S::insert_new(members_.at(number).registrations, tgt.id.generation);
  count(uid_of(number), &Use::registrations, 1);
  ++registrations_;
  ++counters_.registered;
}

/// Returns from linger to the earlier state.
template <class S>
void BasicRegistry<S>::go_back(Tgt& tgt) {
  tgt.state = tgt.kept;
  set_deadline(tgt, never);
  --lingering_;
  ++counters_.revived;
}

template <class S>
Result<Registered> BasicRegistry<S>::join(std::uint64_t number, Tgt& tgt) {
  if (tgt.registrants.contains(number)) return Registered{tgt.id, tgt.state, true};  // R2
  if (tgt.state == State::creating) return refused(Refusal::not_found);
  if (tgt.state == State::drain) return refused(Refusal::gone);  // R8
  if (tgt.state == State::error && !options_.join_failed) return refused(Refusal::state);
  if (const auto room = room_to_register(uid_of(number)); !room) return tl::unexpected(room.error());
  if (tgt.state == State::linger) go_back(tgt);
  add_registrant(number, tgt);
  // E2: the failure that it joined too late for is its first event.
  if (tgt.state == State::error) queue_event(number, {tgt.id, tgt.why, tgt.reason, tgt.why_sequence, 0, true});
  return Registered{tgt.id, tgt.state, false};
}

template <class S>
Result<Registered> BasicRegistry<S>::enlist(Instant now, MemberId member, TgtId id) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const auto found = locate(now, members_.at(member.number).domain, id);
  if (!found) {
    if (found.error() == make_error_code(Refusal::gone)) ++counters_.stale_refused;
    return tl::unexpected(found.error());
  }
  Tgt& tgt = tgts_.at(*found);
  // R7: a lingering one can only be joined with its generation.
  if (tgt.state == State::linger && id.generation == 0) return refused(Refusal::gone);
  return join(member.number, tgt);
}

template <class S>
Result<std::uint32_t> BasicRegistry<S>::unregister(Instant now, MemberId member, TgtId id) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const auto found = locate(now, members_.at(member.number).domain, id);
  if (!found) {
    if (const auto resting = resting_.find(id.qpn); id.generation == 0 && resting != resting_.end())
      id = resting->second.id;
    purge(member.number, id.generation);  // E3 also applies if the registry ended the queue pair
    return tl::unexpected(found.error());
  }
  Tgt& tgt = tgts_.at(*found);
  if (!tgt.registrants.contains(member.number)) return refused(Refusal::not_registered);  // R3
  const std::uint32_t purged = purge(member.number, tgt.id.generation);
  leave_tgt(now, member.number, tgt, false);
  return purged;
}

/// R4: after this, the queue pair has registrants, lingers or has ended. During recovery it may instead be awaited,
/// because not all registrants are known yet.
template <class S>
void BasicRegistry<S>::leave_tgt(Instant now, std::uint64_t number, Tgt& tgt, bool died) {
  tgt.registrants.erase(number);
  members_.at(number).registrations.erase(tgt.id.generation);
  count(uid_of(number), &Use::registrations, -1);
  --registrations_;
  if (!tgt.registrants.empty()) return;
  const bool receives = tgt.state == State::rtr || tgt.state == State::rts;
  const bool lingers = receives && options_.linger != Duration{};
  if (may_be_declared(now, tgt) && !(lingers && after(now, options_.linger) > recovery_until_)) {
    tgt.awaited = true;
    return set_deadline(tgt, recovery_until_);
  }
  if (!lingers) {
    if (tgt.state == State::creating && died) ++counters_.rolled_back;
    return end(now, tgt);
  }
  tgt.kept = tgt.state;
  tgt.state = State::linger;
  set_deadline(tgt, after(now, options_.linger));
  ++lingering_;
  ++counters_.lingered;
}

// ---- modify ------------------------------------------------------------------------------------------------------

template <class S>
Result<bool> BasicRegistry<S>::modify(Instant now, MemberId member, TgtId id, State to, std::uint64_t digest) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  if (to == State::creating || to > State::error) return refused(Refusal::invalid);
  const auto found = locate(now, members_.at(member.number).domain, id);
  if (!found) return tl::unexpected(found.error());
  Tgt& tgt = tgts_.at(*found);
  if (!tgt.registrants.contains(member.number)) return refused(Refusal::not_registered);
  if (tgt.state == State::drain) return refused(Refusal::gone);
  if (tgt.state == State::creating) return refused(Refusal::state);
  if (to == State::error) {
    if (tgt.state == State::error) return true;
    enter(now, tgt, State::error, EventKind::fatal, 0);
    return false;
  }
  if (to == State::reset) {
    if (tgt.state == State::reset) return true;
    if (tgt.registrants.size() > 1) return refused(Refusal::busy);
    tgt.state = State::reset;
    tgt.attributes = {};
    tgt.why = EventKind::none;
    set_deadline(tgt, never);
    name_peer(tgt);
    return false;
  }
  if (!registry_detail::is_live(tgt.state)) return refused(Refusal::state);
  std::uint64_t& given = tgt.attributes[static_cast<std::size_t>(to) - static_cast<std::size_t>(State::init)];
  if (to <= tgt.state) {
    if (given != digest) return refused(Refusal::conflict);
    return true;  // two members set it up at once
  }
  if (static_cast<int>(to) != static_cast<int>(tgt.state) + 1) return refused(Refusal::state);
  given = digest;
  tgt.state = to;
  return false;
}

template <class S>
Result<TgtView> BasicRegistry<S>::query(Instant now, MemberId member, TgtId id) const {
  auto seen = glance(now, member, id);
  if (seen) seen->registrants = listed(tgts_.at(seen->id.generation).registrants);
  return seen;
}

template <class S>
Result<TgtView> BasicRegistry<S>::glance(Instant now, MemberId member, TgtId id) const {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const auto found = locate(now, members_.at(member.number).domain, id);
  if (!found) return tl::unexpected(found.error());
  const Tgt& tgt = tgts_.at(*found);
  if (tgt.state == State::creating && !tgt.registrants.contains(member.number)) return refused(Refusal::not_found);
  return outline(now, tgt);
}

}  // namespace parley::xrc
