// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/retries.hpp"

#include <algorithm>
#include <array>

namespace parley::cm {

bool may_pass(const Failure& why) {
  // The last two are this machine's own want of ports or descriptors, which other connections may give back.
  constexpr std::array passing{Errc::refused,    Errc::unreachable,    Errc::timed_out, Errc::peer_closed,
                               Errc::peer_reset, Errc::address_in_use, Errc::no_space};
  // After the Reply the peer may have acted on the connection: another one would not be the same.
  if (why.stage() > Stage::reply) return false;
  return std::any_of(passing.begin(), passing.end(), [&](Errc code) { return why.code == make_error_code(code); });
}

Result<void> Retries::check(const ConnectOptions& options) {
  const Retry& retry = options.retry;
  if (retry.rounds == 0 || retry.rounds > retry_rounds_max)
    return fail(Errc::invalid_argument, "ConnectOptions::retry.rounds is {a}; it is 1 to {b}", retry.rounds,
                retry_rounds_max);
  if (retry.first < Duration{})
    return fail(Errc::invalid_argument, "ConnectOptions::retry.first is {a} ns; it is at least 0", retry.first.count());
  if (retry.cap < retry.first)
    return fail(Errc::invalid_argument, "ConnectOptions::retry.cap is {a} ns; it is at least retry.first, {b} ns",
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
  if (options.retry.rounds <= 1 && options.backups.empty()) return;
  Plan plan{.peers = {peer}, .retry = options.retry, .back_off = options.retry.first};
  plan.peers.insert(plan.peers.end(), options.backups.begin(), options.backups.end());
  plans_[id] = std::move(plan);
}

std::optional<Retries::Again> Retries::next(EndpointId id, const Failure& why) {
  const auto found = plans_.find(id);
  if (found == plans_.end()) return std::nullopt;
  Plan& plan = found->second;
  // What kept the transport from opening, whatever it was, may be that address's alone: no IPv6 here, a firewall's rule,
  // an interface without an RDMA device.
  if (may_pass(why) || why.stage() <= Stage::transport) {
    if (plan.at + 1 < plan.peers.size()) return Again{plan.peers[++plan.at], {}};
    if (may_pass(why) && plan.round < plan.retry.rounds) {
      ++plan.round;
      plan.at = 0;
      const Duration back_off = plan.back_off;
      plan.back_off = back_off > plan.retry.cap / 2 ? plan.retry.cap : 2 * back_off;
      const auto half = static_cast<std::uint64_t>(back_off.count()) / 2;
      return Again{plan.peers.front(), back_off - Duration(static_cast<std::int64_t>(rng_.between(0, half)))};
    }
  }
  plans_.erase(found);
  return std::nullopt;
}

}  // namespace parley::cm
