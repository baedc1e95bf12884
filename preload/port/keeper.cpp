// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port/keeper.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace parley::preload::port {

bool Keeper::connected(Instant now, MemberId member) {
  if (members_.size() >= members_max) return false;
  members_[member] = {.deadline = now + join_within};
  return true;
}

void Keeper::handle(Instant now, MemberId member, ConstBytes message, std::span<const int> files) {
  const auto at = members_.find(member);
  if (at == members_.end()) return;
  const auto decoded = decode_from_member(message);
  if (!decoded) return hang_up(member);
  std::visit([&](const auto& it) { on(now, member, at->second, it, files); }, *decoded);
  steer(now);
}

void Keeper::on(Instant now, MemberId id, Member& member, const Join& join, std::span<const int> files) {
  if (member.state != Member::State::connected) return hang_up(id);
  member.addresses = join.addresses;
  member.prefix = join.prefix;
  if (!files.empty()) ground_.keep_will(id, files.front());
  if (join.prefix != 0) {
    member.state = Member::State::rejoining;
    member.deadline = now + join_within;
    recovering_until_ = std::max(recovering_until_, started_ + recovery);
    return;
  }
  member.state = Member::State::waiting;
  member.deadline = std::max(started_ + patience, now + end_within);
  if (!try_join(now, id, member)) try_at_ = std::min(try_at_, now + between_tries);
}

void Keeper::on(Instant, MemberId id, Member& member, const Offer& offer, std::span<const int> files) {
  if (member.state != Member::State::rejoining || offer.position >= member.addresses.size()) return hang_up(id);
  const Address& address = member.addresses[offer.position];
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::size_t index = offer.first + i;
    if (index >= sizes.back() || !ground_.adopt(address, index, files[i])) return hang_up(id);
    const bool known = groups_.contains(address);
    Group& group = groups_[address];
    if (!known) group.adopted = true;
    group.size = std::max(group.size, index + 1);
  }
}

void Keeper::on(Instant now, MemberId id, Member& member, const Offered&, std::span<const int>) {
  if (member.state != Member::State::rejoining) return hang_up(id);
  for (std::size_t i = 0; i < member.addresses.size(); ++i) {
    const auto group = groups_.find(member.addresses[i]);
    if (group != groups_.end() && group->second.size > member.prefix && !group->second.seats[member.prefix].taken)
      continue;
    send(id, Refused{.why = Refusal::taken, .position = static_cast<std::uint8_t>(i)});
    member.state = Member::State::refused;
    member.deadline = now + join_within;
    return close_empty(now);
  }
  seat(id, member);
  if (!is_recovering(now)) end_recovery();  // a member that joins late: no other one knew the group
}

/// The smallest size of a group that has a free prefix, which it sets; 0: none is free. `of_absent`: also of members of
/// the last keeper that have not come back.
std::size_t Keeper::choose_prefix(Member& member, bool of_absent) const {
  std::size_t from = 1;
  for (const std::size_t size : sizes) {
    std::optional<std::uint64_t> earliest;
    for (std::size_t prefix = from; prefix < size; ++prefix) {
      std::uint64_t freed = 0;
      const bool taken = std::any_of(member.addresses.begin(), member.addresses.end(), [&](const Address& address) {
        const auto group = groups_.find(address);
        if (group == groups_.end()) return false;
        const Seat& seat = group->second.seats[prefix];
        freed = std::max(freed, seat.freed);
        return seat.taken || (seat.freed == absent && !of_absent);
      });
      if (taken || (earliest && freed >= *earliest)) continue;
      earliest = freed;
      member.prefix = static_cast<std::uint8_t>(prefix);
    }
    if (earliest) return size;
    from = size;
  }
  return 0;
}

/// None: all groups of the member have `size` sockets. `again`: later may be different.
std::optional<Refused> Keeper::open_groups(Instant now, const Member& member, std::size_t size, bool& again) {
  for (std::size_t i = 0; i < member.addresses.size(); ++i) {
    const Address& address = member.addresses[i];
    const auto group = groups_.find(address);
    const std::size_t before = group == groups_.end() ? 0 : group->second.size;
    if (before >= size) continue;
    if (const int error = ground_.extend(address, size)) {
      again = error == EADDRINUSE && now < member.deadline;  // of a member that may rejoin, or of one that is ending
      return Refused{
          .why = Refusal::system, .position = static_cast<std::uint8_t>(i), .error = static_cast<std::uint16_t>(error)};
    }
    Group& grown = groups_[address];
    grown.size = size;
    grown.stale = true;
    announce(address, before, size);
  }
  return std::nullopt;
}

/// False: it has to be tried again.
bool Keeper::try_join(Instant now, MemberId id, Member& member) {
  if (still_recovers(now)) return false;
  bool again = false;
  std::optional<Refused> refused;
  for (const bool of_absent : {false, true}) {
    const std::size_t size = choose_prefix(member, of_absent);
    refused = size == 0 ? std::optional(Refused{.why = Refusal::full}) : open_groups(now, member, size, again);
    if (!refused || refused->error == EADDRINUSE) break;
  }
  if (refused && again && now < member.deadline) return false;
  if (!refused) {
    seat(id, member);
    return true;
  }
  send(id, *refused);
  member.state = Member::State::refused;
  member.deadline = now + join_within;
  close_empty(now);
  return true;
}

void Keeper::seat(MemberId id, Member& member) {
  const bool rejoined = member.state == Member::State::rejoining;
  member.state = Member::State::joined;
  member.deadline = never;
  for (std::size_t i = 0; i < member.addresses.size(); ++i) {
    groups_.at(member.addresses[i]).seats[member.prefix].taken = true;
    ground_.give(member.addresses[i], member.prefix, !rejoined);
    const auto own = std::size_t{member.prefix};
    if (!rejoined) send_sockets(id, static_cast<std::uint8_t>(i), member.addresses[i], own, own + 1);
  }
  send(id, Joined{.prefix = member.prefix});
  for (std::size_t i = 0; !rejoined && i < member.addresses.size(); ++i)
    send_sockets(id, static_cast<std::uint8_t>(i), member.addresses[i], 0, groups_.at(member.addresses[i]).size);
}

void Keeper::send_sockets(MemberId to, std::uint8_t position, const Address& address, std::size_t first,
                          std::size_t end) {
  for (std::size_t at = first; at < end; at += sockets_at_once)
    outputs_.push_back(
        {.to = to, .position = position, .group = address, .first = at, .count = std::min(sockets_at_once, end - at)});
}

/// The group has grown: its members keep copies of the new sockets for the next keeper.
void Keeper::announce(const Address& address, std::size_t first, std::size_t end) {
  for (const auto& [id, member] : members_) {
    if (member.state != Member::State::joined) continue;
    const auto at = std::find(member.addresses.begin(), member.addresses.end(), address);
    if (at != member.addresses.end())
      send_sockets(id, static_cast<std::uint8_t>(at - member.addresses.begin()), address, first, end);
  }
}

ClaimResult Keeper::claim(const Member& member, const Claim& claim) {
  for (const std::uint8_t position : claim.positions) {
    const Group& group = groups_.at(member.addresses[position]);
    const auto there = group.services.find(claim.service);
    if (there != group.services.end() && there->second.claims > 0 && there->second.prefix != member.prefix)
      return ClaimResult::taken;
    const bool full = std::count_if(group.services.begin(), group.services.end(),
                                    [](const auto& s) { return s.second.claims > 0; }) >= std::ptrdiff_t{services_max};
    if (there == group.services.end() && full) return ClaimResult::full;
  }
  for (const std::uint8_t position : claim.positions) {
    Group& group = groups_.at(member.addresses[position]);
    if (group.services.size() >= services_max && !group.services.contains(claim.service))
      group.services.erase(std::find_if(group.services.begin(), group.services.end(),
                                        [](const auto& s) { return s.second.claims == 0; }));
    Service& service = group.services[claim.service];
    if (service.prefix != member.prefix) service = {.prefix = member.prefix};
    if (service.claims++ == 0) group.stale = true;
  }
  return ClaimResult::yours;
}

void Keeper::on(Instant, MemberId id, Member& member, const Claim& claimed, std::span<const int>) {
  const bool known = std::all_of(claimed.positions.begin(), claimed.positions.end(),
                                 [&](std::uint8_t position) { return position < member.addresses.size(); });
  if (member.state != Member::State::joined || !known) return hang_up(id);
  send(id, Answer{.request = claimed.request, .result = claim(member, claimed)});
}

void Keeper::on(Instant, MemberId id, Member& member, const Release& release, std::span<const int>) {
  if (member.state != Member::State::joined) return hang_up(id);
  for (const std::uint8_t position : release.positions) {
    if (position >= member.addresses.size()) return hang_up(id);
    auto& services = groups_.at(member.addresses[position]).services;
    const auto at = services.find(release.service);
    if (at != services.end() && at->second.prefix == member.prefix && at->second.claims > 0) --at->second.claims;
  }
}

void Keeper::on(Instant now, MemberId id, Member& member, const Leave&, std::span<const int>) {
  if (member.state == Member::State::joined) remove(member, false);
  ground_.drop_will(id);
  member.state = Member::State::refused;
  member.deadline = now + join_within;
  close_empty(now);
  send(id, Left{});
}

void Keeper::remove(const Member& member, bool mourns) {
  for (const Address& address : member.addresses) {
    Group& group = groups_.at(address);
    if (std::erase_if(group.services, [&](const auto& s) { return s.second.prefix == member.prefix; }) > 0)
      group.stale = true;
  }
  if (!mourns) free_seats(member.addresses, member.prefix);
}

void Keeper::free_seats(const std::vector<Address>& addresses, std::uint8_t prefix) {
  ++frees_;
  for (const Address& address : addresses)
    if (const auto group = groups_.find(address); group != groups_.end()) {
      group->second.seats[prefix] = {.taken = false, .freed = frees_};
      ground_.take_back(address, prefix);
    }
}

bool Keeper::is_offered(const Address& address) const {
  return std::any_of(members_.begin(), members_.end(), [&](const auto& m) {
    const auto& theirs = m.second.addresses;
    return m.second.state == Member::State::rejoining && std::count(theirs.begin(), theirs.end(), address) != 0;
  });
}

/// Closes the groups in which no seat is taken and that no member offers.
void Keeper::close_empty(Instant now) {
  std::erase_if(groups_, [&](const auto& entry) {
    const Address& address = entry.first;
    const Group& group = entry.second;
    const bool used = std::any_of(group.seats.begin(), group.seats.end(), [](const Seat& s) { return s.taken; });
    if (used || is_offered(address)) return false;
    ground_.close(address);
    return true;
  });
  idle_since_ = now;
}

void Keeper::gone(Instant now, MemberId id) {
  const auto at = members_.find(id);
  if (at == members_.end()) return;
  const Member member = std::move(at->second);
  members_.erase(at);
  if (member.state == Member::State::joined)
    remove(member, ground_.mourn(now, id, member.addresses, member.prefix));
  else
    ground_.drop_will(id);
  close_empty(now);
  steer(now);
}

void Keeper::mourned(Instant now, const std::vector<Address>& addresses, std::uint8_t prefix) {
  free_seats(addresses, prefix);
  close_empty(now);
}

void Keeper::handle_deadline(Instant now) {
  if (now >= try_at_) {
    try_at_ = never;
    for (auto& [id, member] : members_)
      if (member.state == Member::State::waiting && !try_join(now, id, member)) try_at_ = now + between_tries;
  }
  for (const auto& [id, member] : members_)
    if (member.state != Member::State::waiting && now >= member.deadline) hang_up(id);
  steer(now);
}

Instant Keeper::next_deadline() const {
  Instant out = try_at_;
  for (const auto& [id, member] : members_)
    if (member.state != Member::State::waiting) out = std::min(out, member.deadline);
  if (recovering_until_ != Instant{}) out = std::min(out, recovering_until_);
  if (members_.empty() && groups_.empty()) out = std::min(out, idle_since_ + linger);
  return out;
}

/// Not while members of the last keeper rejoin: until they have repeated their claims, the kernel's program is better.
void Keeper::steer(Instant now) {
  if (still_recovers(now)) return;
  for (auto& [address, group] : groups_) {
    if (!group.stale || is_offered(address)) continue;
    group.stale = false;
    std::map<std::uint64_t, std::uint8_t> prefixes;
    for (const auto& [number, service] : group.services) prefixes.emplace(number, service.prefix);
    ground_.steer(address, steering(group.size, prefixes));
  }
}

bool Keeper::still_recovers(Instant now) {
  if (is_recovering(now)) return true;
  if (std::exchange(recovering_until_, {}) != Instant{}) end_recovery();
  return false;
}

/// A member that is stopped may still come back: its prefix is the last that another one gets.
void Keeper::end_recovery() {
  for (auto& [address, group] : groups_) {
    if (!std::exchange(group.adopted, false)) continue;
    for (std::size_t i = 0; i < group.size; ++i) {
      if (group.seats[i].taken) continue;
      group.seats[i].freed = absent;
      ground_.take_back(address, i);
    }
  }
}

std::optional<Output> Keeper::poll_output() {
  if (outputs_.empty()) return std::nullopt;
  Output out = std::move(outputs_.front());
  outputs_.pop_front();
  return out;
}

}  // namespace parley::preload::port
