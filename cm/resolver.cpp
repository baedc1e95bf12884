// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/resolver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/after.hpp"
#include "base/text.hpp"

namespace parley::cm {
Failure NotFound::of(const Address& peer, Duration age) const {
  Failure out{.step = step, .code = code, .advice = advice};
  // `age` may be negative: the answer may have arrived after the time that the driver took at the start of its turn.
  out.received = age <= Duration{}
                     ? peer.to_string() + ": as another search has just found"
                     : fmt::format("{}: as another search found {} ago", peer.to_string(), duration_text(age));
  return out;
}

Resolver::Key::Key(const Address& to, const std::optional<Address>& from) : peer(to), local(from) {
  peer.port = 0;
  if (local) local->port = 0;
}

const NotFound* Resolver::known_failure(const PendingQuery& query, Instant now) const {
  const Peer& peer = query.peer->second;
  return !query.anew && fresh(peer, now) ? std::get_if<NotFound>(&peer.known) : nullptr;
}

void Resolver::ask(EndpointId id, const Key& key, bool anew, Instant now) {
  leave(id);
  const auto peer = peers_.try_emplace(key).first;
  PendingQuery& query = queries_[id];
  query = {.peer = peer, .anew = anew};
  ++peer->second.askers;
  if (const NotFound* failed = known_failure(query, now)) {
    query.where = Where::answered;
    answered_.push_back({.id = id, .failed = *failed, .at = peer->second.since});
  } else {
    query.place = queue_.insert(queue_.end(), id);
  }
}

std::optional<Resolver::NextSearch> Resolver::next(Instant now) {
  if (!answered_.empty()) {
    NextSearch turn = answered_.front();
    leave(turn.id);
    return turn;
  }
  while (!queue_.empty() && under_way_ < policy_.searches_max) {
    PendingQuery& query = queries_.at(queue_.front());
    Peer& peer = query.peer->second;
    NextSearch turn{.id = queue_.front()};
    if (const NotFound* failed = known_failure(query, now)) {
      turn.failed = *failed;
      turn.at = peer.since;
      leave(turn.id);
      return turn;
    }
    const bool leads = std::holds_alternative<FoundPath>(peer.known) && fresh(peer, now);
    if (peer.under_way != 0 && !leads && !query.alone) {
      // One search is enough to find that a peer does not exist. The other places are for other peers.
      query.where = Where::follows;
      peer.followers.splice(peer.followers.end(), queue_, query.place);
      continue;
    }
    queue_.erase(query.place);
    query.where = Where::under_way;
    ++peer.under_way;
    ++under_way_;
    return turn;
  }
  return std::nullopt;
}

const FoundPath* Resolver::known(const Key& key, Instant now) const {
  const auto at = peers_.find(key);
  return at != peers_.end() && fresh(at->second, now) ? std::get_if<FoundPath>(&at->second.known) : nullptr;
}

Instant Resolver::known_since(const Key& key) const {
  const auto at = peers_.find(key);
  return at == peers_.end() ? Instant{} : at->second.since;
}

/// Removes the id from all tables. The peer's entry stays: the caller must call tidy().
Resolver::Peers::iterator Resolver::remove_query(std::map<EndpointId, PendingQuery>::iterator query) noexcept {
  const auto peer = query->second.peer;
  switch (query->second.where) {
    case Where::queue: queue_.erase(query->second.place); break;
    case Where::follows: peer->second.followers.erase(query->second.place); break;
    case Where::answered:
      std::erase_if(answered_, [id = query->first](const NextSearch& turn) { return turn.id == id; });
      break;
    case Where::under_way:
      --peer->second.under_way;
      --under_way_;
      break;
  }
  --peer->second.askers;
  queries_.erase(query);
  // Its followers go to the front of the queue: they have waited longest.
  if (peer->second.under_way == 0) {
    for (const EndpointId id : peer->second.followers) queries_.at(id).where = Where::queue;
    queue_.splice(queue_.begin(), peer->second.followers);
  }
  return peer;
}

void Resolver::drop(Peer& peer) noexcept {
  if (!std::holds_alternative<std::monostate>(peer.known)) --known_;
  peer.known = {};
}

void Resolver::keep(Peer& peer, std::variant<std::monostate, FoundPath, NotFound> what, Duration how_long,
                    Instant now) {
  drop(peer);
  if (how_long <= Duration{}) return;
  if (known_ >= policy_.known_max) forget_if([&](const auto& entry) { return !fresh(entry.second, now); });
  if (known_ >= policy_.known_max) return;
  peer.known = std::move(what);
  peer.since = now;
  peer.until = after(now, how_long);
  ++known_;
}

void Resolver::tidy(Peers::iterator peer) noexcept {
  if (peer->second.askers == 0 && std::holds_alternative<std::monostate>(peer->second.known)) peers_.erase(peer);
}

void Resolver::found(EndpointId id, FoundPath way, Instant now) {
  const auto at = queries_.find(id);
  if (at == queries_.end() || at->second.where != Where::under_way) return;
  const auto peer = at->second.peer;
  for (const EndpointId follower : peer->second.followers) {
    queries_.at(follower).alone = true;
    queries_.at(follower).where = Where::queue;
  }
  queue_.splice(queue_.begin(), peer->second.followers);
  keep(peer->second, std::move(way), policy_.found_kept, now);
  tidy(remove_query(at));
}

void Resolver::not_found(EndpointId id, const Failure& why, Instant now) {
  const auto at = queries_.find(id);
  if (at == queries_.end() || at->second.where != Where::under_way) return;
  const auto peer = at->second.peer;
  // Other failures, such as no descriptor or no memory on this side, are not about the peer.
  if (why.code == Errc::unreachable || why.code == Errc::timed_out) {
    const NotFound failed{.step = why.step, .code = why.code, .advice = why.advice};
    for (const EndpointId follower : peer->second.followers) {
      answered_.push_back({.id = follower, .failed = failed, .at = now});
      queries_.at(follower).where = Where::answered;
    }
    peer->second.followers.clear();
    keep(peer->second, failed, policy_.failed_kept, now);
  }
  tidy(remove_query(at));
}

void Resolver::leave(EndpointId id) noexcept {
  if (const auto at = queries_.find(id); at != queries_.end()) tidy(remove_query(at));
}

template <class Of>
void Resolver::forget_if(Of of) {
  for (auto at = peers_.begin(); at != peers_.end();) {
    const auto entry = at++;
    if (!of(*entry)) continue;
    drop(entry->second);
    tidy(entry);
  }
}

void Resolver::forget(const Address& peer) {
  Address to = peer;
  to.port = 0;
  forget_if([&](const auto& entry) { return entry.first.peer == to; });
}

void Resolver::forget(const Device& device) {
  forget_if([&](const auto& entry) {
    const FoundPath* way = std::get_if<FoundPath>(&entry.second.known);
    return way != nullptr && way->device == &device;
  });
}

}  // namespace parley::cm
