// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The children that have hooked up to a node, and when each was heard last.
#pragma once
#include <map>
#include <vector>

#include "base/deadline_queue.hpp"
#include "mad/packet.hpp"
#include "parley/time.hpp"

namespace parley::ssa {

class Children {
 public:
  struct Child {
    Gid gid{};
    mad::Address from;
    bool is_backup = false;  ///< this node is the child's backup
  };
  enum class Hooked : std::uint8_t { added, again, full };

  Children(std::size_t bound, Duration heartbeat) : bound_(bound), heartbeat_(heartbeat) {}

  Hooked hook(Instant now, const Child& child);
  /// A heartbeat. False: no such child.
  bool refresh(Instant now, const Gid& gid);
  bool remove(const Gid& gid);
  bool has(const Gid& gid) const { return by_gid_.contains(gid); }
  /// Whether this child has hooked up from another port than `from`.
  bool is_elsewhere(const Gid& gid, const mad::Address& from) const;
  /// Removes and returns a child that was silent for 3 1/2 of its heartbeats.
  std::optional<Child> pop_silent(Instant now);

  Instant next_deadline() const { return deadlines_.next(); }
  std::size_t size() const { return by_gid_.size(); }
  /// In the order of their GIDs.
  template <class F>
  void each(F&& f) const {
    for (const auto& [gid, slot] : by_gid_) f(slots_[slot]);
  }
  void clear();

 private:
  void wait(Instant now, std::uint32_t slot);

  std::size_t bound_;
  Duration heartbeat_;
  std::vector<Child> slots_;  // at most bound_
  std::vector<std::uint32_t> free_;
  std::map<Gid, std::uint32_t> by_gid_;
  DeadlineQueue deadlines_;
};

}  // namespace parley::ssa
