// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Domains and their members: how members join and leave, and what ends with them.
#pragma once
#include <algorithm>

#include "base/after.hpp"
#include "xrc/registry.hpp"

namespace parley::xrc {

template <class S>
BasicRegistry<S>::BasicRegistry(Instant now, const RegistryOptions& options)
    : last_generation_(std::uint64_t{options.epoch} << 32),
      qpn_next_(options.qpn_next != 0 ? options.qpn_next : options.qpn_first),
      options_(options),
      recovery_until_(after(now, options.recovery)) {}

template <class S>
bool BasicRegistry<S>::is_sensible(const RegistryOptions& o) {
  const bool range = o.qpn_first >= 2 && o.qpn_first <= o.qpn_last && o.qpn_last <= 0xFFFFFF;
  const bool next = o.qpn_next == 0 || (o.qpn_next >= o.qpn_first && o.qpn_next <= o.qpn_last);
  const bool bounds = o.domains_max > 0 && o.members_max > 0 && o.members_per_domain > 0 && o.tgts_max > 0 &&
                      o.registrations_max > 0 && o.events_max > 0 && o.user_share <= 100;
  const bool times = std::min({o.linger, o.grace, o.error_grace, o.quarantine, o.recovery}) >= Duration{};
  return o.epoch != 0 && range && next && bounds && times;
}

template <class S>
Result<void> BasicRegistry<S>::check(MemberId member) const {
  if (member.epoch != options_.epoch) return tl::unexpected(Error(Refusal::stale_epoch));
  if (!members_.contains(member.number)) return tl::unexpected(Error(Refusal::not_member));
  return {};
}

template <class S>
Result<std::uint64_t> BasicRegistry<S>::domain_for(Instant now, const OpenParameters& p) {
  if (p.key) {
    if (const auto known = keys_.find(*p.key); known != keys_.end()) {
      if (p.exclusive) return tl::unexpected(Error(Refusal::domain_exists));
      if (domains_.at(known->second).members.size() >= options_.members_per_domain)
        return tl::unexpected(Error(Refusal::too_many_members));
      return known->second;
    }
    // A member of an earlier epoch may still have it open and has not declared it yet.
    if (recovering(now) && (!p.create || p.exclusive)) return tl::unexpected(Error(Refusal::busy));
  }
  if (!p.create) return tl::unexpected(Error(Refusal::unknown_domain));
  if (domains_.size() >= options_.domains_max) return tl::unexpected(Error(Refusal::no_memory));
  const std::uint32_t uid = p.process.uid;
  const auto mine = share(uid, &Use::domains, domains_.size(), options_.domains_max, Refusal::share_of_domains);
  if (!mine) return tl::unexpected(mine.error());
  count(uid, &Use::domains, 1);
  const std::uint64_t number = ++last_domain_;
  Domain& made = domains_[number];
  made.key = p.key;
  made.uid = uid;
  made.device = p.key ? p.key->device : p.device;
  if (!p.key) return number;
  keys_[*p.key] = number;
  restore_left_in_order(made);
  return number;
}

template <class S>
Result<MemberId> BasicRegistry<S>::open(Instant now, const OpenParameters& parameters) {
  if (members_.size() >= options_.members_max) return tl::unexpected(Error(Refusal::no_memory));
  const auto domain = domain_for(now, parameters);
  if (!domain) return tl::unexpected(domain.error());
  const std::uint64_t number = ++last_member_;
  Member& made = members_[number];
  made.domain = *domain;
  made.process = parameters.process;
  domains_.at(*domain).members.insert(number);
  add_carriers(now, number, parameters);
  ++counters_.opened;
  return MemberId{options_.epoch, number};
}

template <class S>
Result<void> BasicRegistry<S>::close(Instant now, MemberId member, bool force) {
  if (const auto known = check(member); !known) return known;
  const Member& m = members_.at(member.number);
  if (!force && (!m.registrations.empty() || !m.srqs.empty())) return tl::unexpected(Error(Refusal::busy));
  leave(now, member.number, false);
  return {};
}

template <class S>
void BasicRegistry<S>::dead(Instant now, MemberId member) {
  if (!check(member)) return;
  leave(now, member.number, true);
}

/// R5: each of its queue pairs loses this registrant before the member itself is removed. R10: its receive queues are
/// removed with it. There is a checkpoint after each step. If the calling process dies in between, the process that
/// takes over does the rest.
template <class S>
void BasicRegistry<S>::leave(Instant now, std::uint64_t number, bool died) {
  if (std::as_const(members_).at(number).carrier) {
    const std::uint64_t carried = std::as_const(members_).at(number).domain;
    if (died) remove_device(now, carried, 0);
    drop_carrier(number, died);
    S::checkpoint(this);
  }
  for (const std::uint64_t generation : listed(std::as_const(members_).at(number).registrations)) {
    leave_tgt(now, number, tgts_.at(generation), died);
    S::checkpoint(this);
  }
  for (const std::uint64_t srqn : listed(std::as_const(members_).at(number).srqs)) {
    srqs_.erase(static_cast<std::uint32_t>(srqn));
    members_.at(number).srqs.erase(static_cast<std::uint32_t>(srqn));
    count(uid_of(number), &Use::srqs, -1);
    S::checkpoint(this);
  }
  for (const std::uint64_t qpn : listed(std::as_const(members_).at(number).others)) {
    others_.erase(static_cast<std::uint32_t>(qpn));
    members_.at(number).others.erase(static_cast<std::uint32_t>(qpn));
    count(uid_of(number), &Use::others, -1);
    S::checkpoint(this);
  }
  const std::uint64_t domain = std::as_const(members_).at(number).domain;
  const bool last = std::as_const(domains_).at(domain).members.size() == 1;
  // R9: without members, no member can return to a lingering queue pair. A member of an earlier epoch that declares
  // itself later makes the domain again.
  if (last)
    for (const std::uint64_t generation : listed(std::as_const(domains_).at(domain).tgts)) {
      Tgt& tgt = tgts_.at(generation);
      may_be_declared(now, tgt) ? remove_tgt(tgt) : end(now, tgt);
      S::checkpoint(this);
    }
  if (died) ++counters_.died;
  if (members_.at(number).announced) erase_if(waiting_, [number](const MemberId& id) { return id.number == number; });
  members_.erase(number);
  domains_.at(domain).members.erase(number);
  if (!last) return;
  if (const auto key = domains_.at(domain).key) {
    keys_.erase(*key);
    keep_left_in_order(std::as_const(domains_).at(domain));
  }
  count(domains_.at(domain).uid, &Use::domains, -1);
  domains_.erase(domain);
}

// ---- users' shares -----------------------------------------------------------------------------------------------

template <class S>
std::uint32_t BasicRegistry<S>::used(std::uint32_t uid, Count what) const {
  const auto user = users_.find(uid);
  return user == users_.end() ? 0 : user->second.*what;
}

template <class S>
void BasicRegistry<S>::count(std::uint32_t uid, Count what, int change) {
  Use& use = users_[uid];
  use.*what += static_cast<std::uint32_t>(change);
  if (use == Use{}) users_.erase(uid);
}

/// `all`: what all users have together.
template <class S>
Result<void> BasicRegistry<S>::share(std::uint32_t uid, Count what, std::size_t all, std::uint32_t max,
                                     Refusal refusal) const {
  if (!has_share(options_, uid)) return {};
  const std::size_t without_limit = used(0, what) + (options_.admin_uid == 0 ? 0 : used(options_.admin_uid, what));
  if (!is_within_share(options_, max, used(uid, what), all - without_limit)) return refused(refusal);
  return {};
}

// ---- shared receive queues, and numbers of other queue pairs -----------------------------------------------------

template <class S>
Result<void> BasicRegistry<S>::note(Map<std::uint32_t, std::uint64_t>& table, MemberId member, std::uint32_t number,
                                    Count what, Refusal refusal) {
  if (const auto known = check(member); !known) return known;
  if (number == 0 || number > 0xFFFFFF) return tl::unexpected(Error(Refusal::invalid));
  // A repeated request of the number's owner changes nothing, as in R2.
  if (const auto known = std::as_const(table).find(number); known != std::as_const(table).end())
    return known->second == member.number ? Result<void>() : tl::unexpected(Error(Refusal::conflict));
  if (table.size() >= options_.srqs_max) return tl::unexpected(Error(Refusal::no_memory));
  const std::uint32_t uid = uid_of(member.number);
  if (const auto mine = share(uid, what, table.size(), options_.srqs_max, refusal); !mine) return mine;
  count(uid, what, 1);
  table.try_emplace(number, member.number);
  return {};
}

template <class S>
Result<void> BasicRegistry<S>::add_srq(MemberId member, std::uint32_t srqn) {
  const auto noted = note(srqs_, member, srqn, &Use::srqs, Refusal::share_of_srqs);
  if (noted) members_.at(member.number).srqs.insert(srqn);
  return noted;
}

template <class S>
Result<void> BasicRegistry<S>::remove_srq(MemberId member, std::uint32_t srqn) {
  if (const auto known = check(member); !known) return known;
  if (members_.at(member.number).srqs.erase(srqn) == 0) return tl::unexpected(Error(Refusal::not_found));
  srqs_.erase(srqn);
  count(uid_of(member.number), &Use::srqs, -1);
  return {};
}

template <class S>
Result<void> BasicRegistry<S>::note_other(MemberId member, std::uint32_t qpn) {
  if (numbers_.contains(qpn)) return tl::unexpected(Error(Refusal::conflict));
  const auto noted = note(others_, member, qpn, &Use::others, Refusal::share_of_queue_pairs);
  if (noted) members_.at(member.number).others.insert(qpn);
  return noted;
}

// R10: a packet to an unknown receive queue does not affect the queue pair that received it.
template <class S>
Result<Route> BasicRegistry<S>::route(TgtId id, std::uint32_t srqn) const {
  const auto tgt = tgts_.find(id.generation);
  if (tgt == tgts_.end()) return tl::unexpected(Error(Refusal::gone));
  if (tgt->second.state != State::rtr && tgt->second.state != State::rts) return Route::not_ready;
  const auto owner = srqs_.find(srqn);
  if (owner == srqs_.end()) return Route::no_such_srq;
  return members_.at(owner->second).domain == tgt->second.domain ? Route::delivered : Route::srq_of_other_domain;
}

template <class S>
bool BasicRegistry<S>::is_registered(MemberId member, TgtId id) const {
  return is_member(member) && members_.at(member.number).registrations.contains(id.generation) &&
         tgts_.at(id.generation).id == id;
}

// ---- views -------------------------------------------------------------------------------------------------------

template <class S>
TgtView BasicRegistry<S>::outline(Instant now, const Tgt& t) const {
  return {.id = t.id,
          .state = t.state,
          .peer = t.peer,
          .why = t.why,
          .reason = t.reason,
          .age = now - t.made,
          .events = t.events,
          .attributes = t.attributes};
}

template <class S>
std::vector<MemberView> BasicRegistry<S>::members() const {
  std::vector<MemberView> out;
  for (const auto& [number, member] : members_) out.push_back({.number = number, .process = member.process});
  std::sort(out.begin(), out.end(), [](const MemberView& a, const MemberView& b) { return a.number < b.number; });
  return out;
}

template <class S>
std::vector<DomainView> BasicRegistry<S>::domains(Instant now) const {
  std::vector<DomainView> out;
  for (const auto& [number, domain] : domains_) {
    DomainView v{.number = number, .key = domain.key};
    for (const std::uint64_t m : listed(domain.members)) {
      const Member& member = members_.at(m);
      v.members.push_back({.number = m,
                           .process = member.process,
                           .registrations = static_cast<std::uint32_t>(member.registrations.size()),
                           .srqs = static_cast<std::uint32_t>(member.srqs.size()),
                           .events_waiting = static_cast<std::uint32_t>(member.events.size()),
                           .events_lost = member.lost});
    }
    for (const std::uint64_t generation : listed(domain.tgts)) {
      const Tgt& tgt = tgts_.at(generation);
      v.tgts.push_back(outline(now, tgt));
      v.tgts.back().registrants = listed(tgt.registrants);
    }
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace parley::xrc
