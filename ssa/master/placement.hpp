// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Who is whose parent and backup: a place costs its distance in hops and the load of the parent. Each node is in the layer
// of its highest role, and a parent is always in a higher layer, so there are no loops.
//
//   layer          parents, in this order of preference
//   core           the root
//   distribution   the root
//   access         distribution nodes, the root
//   consumer       access nodes
#pragma once
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/gid.hpp"

namespace parley::ssa {

/// The subnet as the placement sees it.
struct TreeTopology {
  /// Hops between two ports. None: all ports are equally near.
  std::function<unsigned(const Gid&, const Gid&)> hops;
  /// GUID of the port's leaf switch; 0: unknown. A backup is at another one than the parent if possible.
  std::function<std::uint64_t(const Gid&)> leaf;
};

struct PlacementOptions {
  unsigned hop_cost = 4, load_cost = 1;  ///< one hop more is worth four children more
  std::size_t capacity = 256;            ///< children of a parent; as many others can have it as their backup
};

class Placement {
 public:
  using Id = std::uint32_t;  ///< small dense numbers, chosen by the caller
  static constexpr Id none = ~Id{0};
  struct Choice {
    Id parent = none, backup = none;
    bool operator==(const Choice&) const = default;
  };

  explicit Placement(TreeTopology topology, const PlacementOptions& options = {})
      : topology_(std::move(topology)), options_(options) {}

  /// `roles`: bits of PARLEY_SSA_ROLES, at least one. `is_root`: the only core node that can be a parent.
  void add(Id id, const Gid& gid, std::uint8_t roles, bool is_root = false);
  /// Its children keep it as parent until they are reassigned.
  void remove(Id id);
  /// An unavailable node is not chosen; what has it as parent keeps it.
  void set_available(Id id, bool available) { nodes_[id].available = available; }

  /// The least cost; among equals, the smaller id. None: no node of a higher layer has room.
  Id choose_parent(Id child, Id excluded = none) const;
  /// Another one than `parent`, if possible at another leaf switch, then under another parent.
  Id choose_backup(Id child, Id parent, Id excluded = none) const;
  bool can_be_parent(Id child, Id parent) const;
  void assign(Id child, const Choice& choice);
  Choice of(Id child) const { return nodes_[child].choice; }
  std::size_t load(Id parent) const { return nodes_[parent].children; }
  std::size_t backup_load(Id parent) const { return nodes_[parent].backups; }

  /// Moves at most `moves_max` children from parents that have more than their share (an eighth more than the mean, and
  /// one) to the cheapest parent below the mean, and access nodes from the root to distribution nodes. Returns the
  /// children that have new parents.
  std::vector<Id> rebalance(std::size_t moves_max);

 private:
  struct Entry {
    Gid gid{};
    std::uint64_t leaf = 0;
    std::uint8_t roles = 0, layer = 0;
    bool is_root = false, available = false;
    std::uint32_t children = 0, backups = 0;
    Choice choice;
  };

  std::uint64_t cost(Id child, Id parent, std::uint64_t load) const;
  bool is_candidate(Id child, Id parent) const;
  unsigned tier(Id child, Id parent) const;
  void count(const Choice& choice, int change);
  Id less_loaded(Id child, const std::vector<Id>& parents, std::size_t mean) const;
  void leave_root(std::size_t moves_max, std::vector<Id>& moved);
  void rebalance_layer(std::uint8_t role, std::size_t moves_max, std::vector<Id>& moved);

  TreeTopology topology_;
  PlacementOptions options_;
  std::vector<Entry> nodes_;
  std::vector<Id> parents_;  // the root, distribution and access nodes, in ascending order
};

inline constexpr std::uint8_t access_layer = 2, consumer_layer = 3;
/// The layer of a node with these roles: 0 core, 1 distribution, 2 access, 3 consumer.
std::uint8_t layer_of(std::uint8_t roles);

}  // namespace parley::ssa
