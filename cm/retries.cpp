// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/retries.hpp"

#include <algorithm>
#include <array>

#include "base/after.hpp"

namespace parley::cm {

bool may_pass(const Failure& why) {
  // The last two mean that this machine has no free port or descriptor; other connections may free one.
  constexpr std::array passing{Errc::refused,    Errc::unreachable,    Errc::timed_out, Errc::peer_closed,
                               Errc::peer_reset, Errc::address_in_use, Errc::no_space};
  // After the Reply the peer may have used the connection, so a new one is not a repetition of the same attempt.
  if (why.stage() > Stage::reply) return false;
  return std::any_of(passing.begin(), passing.end(), [&](Errc code) { return why.code == make_error_code(code); });
}

Result<void> Retries::check(const ConnectOptions& options) {
  const Retry& retry = options.retry;
  if (retry.rounds == 0 || retry.rounds > retry_rounds_max)
    return fail(Errc::invalid_argument, "ConnectOptions::retry.rounds is {a}; must be 1 to {b}", retry.rounds,
                retry_rounds_max);
  if (retry.first < Duration{})
    return fail(Errc::invalid_argument, "ConnectOptions::retry.first is {a} ns; must be at least 0",
                retry.first.count());
  if (retry.cap < retry.first)
    return fail(Errc::invalid_argument, "ConnectOptions::retry.cap is {a} ns; must be at least retry.first, {b} ns",
                retry.cap.count(), retry.first.count());
  if (options.backups.size() > backups_max)
    return fail(Errc::invalid_argument, "ConnectOptions::backups has {a} addresses; at most {b}",
                std::ssize(options.backups), static_cast<std::int64_t>(backups_max));
  for (std::size_t i = 0; i < options.backups.size(); ++i) {
    const Address& backup = options.backups[i];
    const auto place = static_cast<std::int64_t>(i);
    if (backup.port == 0)
      return fail(Errc::bad_address, "ConnectOptions::backups[{a}] has port 0; it is 1 to 65535", place);
    if (options.local && backup.family != options.local->family)
      return fail(Errc::bad_address, "ConnectOptions::backups[{a}] is of another IP version than ConnectOptions::local",
                  place);
  }
  return {};
}

void Retries::plan(EndpointId id, const Address& peer, const ConnectOptions& options) {
  forget(id);
  if (options.retry.rounds <= 1 && options.backups.empty() && options.timeout == Duration{}) return;
  Plan plan{.peers = {peer}, .retry = options.retry, .back_off = options.retry.first, .timeout = options.timeout};
  plan.peers.insert(plan.peers.end(), options.backups.begin(), options.backups.end());
  plans_[id] = std::move(plan);
}

void Retries::begin(EndpointId id, Instant now) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return;
  Plan& plan = found->second;
  plan.end = limited(now, plan.timeout);
  if (plan.end != never) ends_.emplace(plan.end, id);
}

// Random, between half of the back-off and all of it.
Duration Retries::spread(Duration back_off) {
  const auto half = static_cast<std::uint64_t>(back_off.count()) / 2;
  return back_off - Duration(static_cast<std::int64_t>(rng_.between(0, half)));
}

std::optional<Retries::NextAttempt> Retries::next(EndpointId id, const Failure& why, Instant now) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return std::nullopt;
  Plan& plan = found->second;
  // A transport that does not open may concern only this address: no IPv6 on this host, a firewall rule, an interface
  // without an RDMA device. So the next address is tried after any such failure.
  const bool passing = may_pass(why);
  const bool elsewhere = (passing || why.stage() <= Stage::transport) && plan.at + 1 < plan.peers.size();
  if (!elsewhere && (!passing || plan.round >= plan.retry.rounds)) return std::nullopt;
  const Duration wait = elsewhere ? Duration{} : spread(plan.back_off);
  if (plan.end != never && after(now, wait) >= plan.end) return std::nullopt;
  ++plan.attempts;
  if (elsewhere) {
    ++plan.at;
  } else {
    ++plan.round;
    plan.at = 0;
    plan.back_off = plan.back_off > plan.retry.cap / 2 ? plan.retry.cap : 2 * plan.back_off;
  }
  return NextAttempt{plan.peers[plan.at], wait};
}

std::uint32_t Retries::attempts(EndpointId id) const {
  const auto found = plans_.find(id);
  return found == plans_.end() ? 1 : found->second.attempts;
}

Duration Retries::timeout(EndpointId id) const {
  const auto found = plans_.find(id);
  return found == plans_.end() ? Duration{} : found->second.timeout;
}

bool Retries::is_late(EndpointId id, Instant now) const {
  const auto found = plans_.find(id);
  return found != plans_.end() && found->second.end != never && found->second.end <= now;
}

void Retries::forget(EndpointId id) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return;
  ends_.erase({found->second.end, id});
  plans_.erase(found);
}

std::optional<EndpointId> Retries::pop_late(Instant now) {
  if (ends_.empty() || ends_.begin()->first > now) return std::nullopt;
  const EndpointId id = ends_.begin()->second;
  ends_.erase(ends_.begin());
  return id;
}

}  // namespace parley::cm
