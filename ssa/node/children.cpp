// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/node/children.hpp"

#include "base/after.hpp"

namespace parley::ssa {

void Children::wait(Instant now, std::uint32_t slot) {
  const Duration interval = slots_[slot].is_backup ? 4 * heartbeat_ : heartbeat_;
  deadlines_.set(slot, after(now, interval * 7 / 2));
}

Children::Hooked Children::hook(Instant now, const Child& child) {
  if (const auto found = by_gid_.find(child.gid); found != by_gid_.end()) {
    slots_[found->second] = child;
    wait(now, found->second);
    return Hooked::again;
  }
  if (by_gid_.size() >= bound_) return Hooked::full;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const std::uint32_t slot = free_.back();
  free_.pop_back();
  slots_[slot] = child;
  by_gid_.emplace(child.gid, slot);
  wait(now, slot);
  return Hooked::added;
}

bool Children::is_elsewhere(const Gid& gid, const mad::Address& from) const {
  const auto found = by_gid_.find(gid);
  return found != by_gid_.end() && !mad::same_port(slots_[found->second].from, from);
}

bool Children::refresh(Instant now, const Gid& gid) {
  const auto found = by_gid_.find(gid);
  if (found == by_gid_.end()) return false;
  wait(now, found->second);
  return true;
}

bool Children::remove(const Gid& gid) {
  const auto found = by_gid_.find(gid);
  if (found == by_gid_.end()) return false;
  deadlines_.set(found->second, never);
  free_.push_back(found->second);
  by_gid_.erase(found);
  return true;
}

std::optional<Children::Child> Children::pop_silent(Instant now) {
  const auto slot = deadlines_.pop_due(now);
  if (!slot) return std::nullopt;
  const Child child = slots_[*slot];
  (void)remove(child.gid);
  return child;
}

void Children::clear() {
  while (!by_gid_.empty()) (void)remove(by_gid_.begin()->first);
}

}  // namespace parley::ssa
