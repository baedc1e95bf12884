// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A registry that comes after another knows nothing: the members tell it what they had. What nobody tells of had no
// registrant that lives, and has ended.
#pragma once
#include <algorithm>
#include <utility>

#include "xrc/registry.hpp"

namespace parley::xrc {
namespace registry_detail {

inline bool may_be_declared(State s) { return s >= State::reset && s <= State::drain; }
inline bool has_failed(State s) { return s == State::error || s == State::drain; }
inline bool contradicts(const AttributeDigests& known, const AttributeDigests& said) {
  for (std::size_t i = 0; i < known.size(); ++i)
    if (known[i] != 0 && said[i] != 0 && known[i] != said[i]) return true;
  return false;
}

}  // namespace registry_detail

/// What several declare of one is put together: it is as far as the furthest says.
template <class S>
void BasicRegistry<S>::merge(Instant now, std::uint64_t number, Tgt& tgt, const Declared& d) {
  for (std::size_t i = 0; i < d.attributes.size(); ++i)
    if (tgt.attributes[i] == 0) tgt.attributes[i] = d.attributes[i];
  tgt.events = std::max(tgt.events, d.events);
  const State before = tgt.state;
  if (registry_detail::has_failed(d.state) && d.state > before)
    enter(now, tgt, d.state, d.why == EventKind::none ? EventKind::fatal : d.why, d.reason);
  else
    tgt.state = std::max(before, d.state);
  add_registrant(number, tgt);
  // E2: it may have missed why.
  if (registry_detail::has_failed(before) && d.state < before)
    give(number, {tgt.id, tgt.why, tgt.reason, tgt.why_sequence, 0, true});
  ++counters_.restored;
}

template <class S>
Result<Registered> BasicRegistry<S>::restore(Instant now, MemberId member, const Declared& d) {
  if (const auto known = check(member); !known) return tl::unexpected(known.error());
  const bool number = d.id.qpn >= 2 && d.id.qpn <= 0xFFFFFF;
  if (!number || d.id.generation == 0 || d.id.generation > last_generation_ ||
      !registry_detail::may_be_declared(d.state))
    return tl::unexpected(Error(Refusal::invalid));
  const std::uint64_t domain = members_.at(member.number).domain;
  auto tgt = tgts_.find(d.id.generation);
  const bool earlier = d.id.generation >> 32 < options_.epoch;
  if (tgt != tgts_.end() && !(earlier && recovering(now))) return enlist(now, member, d.id);
  if (tgt != tgts_.end()) {
    if (tgt->second.id != d.id) return tl::unexpected(Error(Refusal::conflict));
    if (tgt->second.domain != domain) return tl::unexpected(Error(Refusal::other_domain));
    if (tgt->second.registrants.contains(member.number)) return Registered{d.id, tgt->second.state, true};
    if (registrations_ >= options_.registrations_max) return tl::unexpected(Error(Refusal::no_memory));
    if (registry_detail::contradicts(tgt->second.attributes, d.attributes))
      return tl::unexpected(Error(Refusal::conflict));
    if (tgt->second.state == State::linger) go_back(tgt->second);
    if (std::exchange(tgt->second.awaited, false)) set_deadline(tgt->second, grace_end(now, tgt->second.state));
  } else {
    if (!earlier || !recovering(now)) return tl::unexpected(Error(Refusal::gone));
    if (const auto free = usable(d.id.qpn); !free) return tl::unexpected(Error(Refusal::conflict));
    if (const auto room = make_room(now); !room) return tl::unexpected(room.error());
    Tgt& made = make(now, domain, d.id, State::reset);
    made.peer = d.peer;
    name_peer(made);
    tgt = tgts_.find(d.id.generation);
  }
  merge(now, member.number, tgt->second, d);
  return Registered{d.id, tgt->second.state, false};
}

}  // namespace parley::xrc
