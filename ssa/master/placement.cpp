// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/master/placement.hpp"

#include <algorithm>
#include <bit>

#include "wire/mad/ssa.hpp"

namespace parley::ssa {

namespace roles = wire::mad::ssa_roles;

namespace {

constexpr std::uint64_t tier_cost = std::uint64_t{1} << 48, same_leaf_cost = std::uint64_t{1} << 44,
                        same_grandparent_cost = std::uint64_t{1} << 40;

}  // namespace

std::uint8_t layer_of(std::uint8_t of) { return static_cast<std::uint8_t>(std::countr_zero(unsigned{of} | 8U)); }

void Placement::add(Id id, const Gid& gid, std::uint8_t node_roles, bool is_root) {
  if (id >= nodes_.size()) nodes_.resize(id + std::size_t{1});
  Entry entry;
  entry.gid = gid;
  entry.leaf = topology_.leaf ? topology_.leaf(gid) : 0;
  entry.roles = node_roles;
  entry.layer = layer_of(node_roles);
  entry.is_root = is_root;
  entry.available = true;
  nodes_[id] = entry;
  if (is_root || (node_roles & (roles::distribution | roles::access)) != 0)
    parents_.insert(std::lower_bound(parents_.begin(), parents_.end(), id), id);
}

void Placement::remove(Id id) {
  count(nodes_[id].choice, -1);
  nodes_[id].choice = {};
  nodes_[id].available = false;
  const auto at = std::lower_bound(parents_.begin(), parents_.end(), id);
  if (at != parents_.end() && *at == id) parents_.erase(at);
}

void Placement::count(const Choice& choice, int change) {
  const auto by = static_cast<std::uint32_t>(change);
  if (choice.parent != none) nodes_[choice.parent].children += by;
  if (choice.backup != none) nodes_[choice.backup].backups += by;
}

void Placement::assign(Id child, const Choice& choice) {
  count(nodes_[child].choice, -1);
  nodes_[child].choice = choice;
  count(choice, 1);
}

/// 0: the preferred layer; 1: the one above it.
unsigned Placement::tier(Id child, Id parent) const {
  return nodes_[child].layer == access_layer && (nodes_[parent].roles & roles::distribution) == 0 ? 1 : 0;
}

/// Whether the roles fit: the table at the head of the header.
bool Placement::can_be_parent(Id child, Id parent) const {
  const Entry &c = nodes_[child], &p = nodes_[parent];
  if (child == parent || c.is_root) return false;
  if (!p.is_root && p.layer >= c.layer) return false;
  switch (c.layer) {
    case 0:
    case 1: return p.is_root;
    case 2: return p.is_root || (p.roles & roles::distribution) != 0;
    default: return (p.roles & roles::access) != 0;
  }
}

bool Placement::is_candidate(Id child, Id parent) const {
  return nodes_[parent].available && can_be_parent(child, parent);
}

std::uint64_t Placement::cost(Id child, Id parent, std::uint64_t load) const {
  const std::uint64_t hops = topology_.hops ? topology_.hops(nodes_[child].gid, nodes_[parent].gid) : 0;
  return tier(child, parent) * tier_cost + hops * options_.hop_cost + load * options_.load_cost;
}

Placement::Id Placement::choose_parent(Id child, Id excluded) const {
  Id best = none;
  std::uint64_t least = ~std::uint64_t{0};
  for (const Id p : parents_) {
    if (p == excluded || !is_candidate(child, p)) continue;
    const bool has_it = nodes_[child].choice.parent == p;
    const std::uint64_t load = nodes_[p].children - (has_it ? 1U : 0U);
    if (load >= options_.capacity) continue;
    if (const std::uint64_t c = cost(child, p, load); c < least) {
      least = c;
      best = p;
    }
  }
  return best;
}

Placement::Id Placement::choose_backup(Id child, Id parent, Id excluded) const {
  if (parent == none) return none;
  const Entry& first = nodes_[parent];
  Id best = none;
  std::uint64_t least = ~std::uint64_t{0};
  for (const Id p : parents_) {
    if (p == excluded || p == parent || !is_candidate(child, p)) continue;
    const Entry& second = nodes_[p];
    const bool has_it = nodes_[child].choice.backup == p;
    const std::uint64_t load = second.backups - (has_it ? 1U : 0U);
    if (load >= options_.capacity) continue;
    std::uint64_t c = cost(child, p, load);
    if (first.leaf != 0 && first.leaf == second.leaf) c += same_leaf_cost;
    if (first.choice.parent != none && first.choice.parent == second.choice.parent) c += same_grandparent_cost;
    if (c < least) {
      least = c;
      best = p;
    }
  }
  return best;
}

Placement::Id Placement::less_loaded(Id child, const std::vector<Id>& parents, std::size_t mean) const {
  Id best = none;
  std::uint64_t least = ~std::uint64_t{0};
  for (const Id p : parents) {
    if (nodes_[p].children >= std::min(mean, options_.capacity) || !is_candidate(child, p)) continue;
    if (const std::uint64_t c = cost(child, p, nodes_[p].children); c < least) {
      least = c;
      best = p;
    }
  }
  return best;
}

void Placement::rebalance_layer(std::uint8_t role, std::size_t moves_max, std::vector<Id>& moved) {
  std::vector<Id> peers;
  std::size_t total = 0;
  for (const Id p : parents_)
    if (nodes_[p].available && (nodes_[p].roles & role) != 0) {
      peers.push_back(p);
      total += nodes_[p].children;
    }
  if (peers.size() < 2) return;
  const std::size_t mean = (total + peers.size() - 1) / peers.size(), most = mean + mean / 8 + 1;
  for (Id child = 0; child < nodes_.size() && moved.size() < moves_max; ++child) {
    const Choice now = nodes_[child].choice;
    if (now.parent == none || !nodes_[child].available || nodes_[now.parent].children <= most) continue;
    if ((nodes_[now.parent].roles & role) == 0) continue;
    const Id to = less_loaded(child, peers, mean);
    if (to == none) continue;
    Choice next{to, now.backup};
    if (next.backup == to || next.backup == none) next.backup = choose_backup(child, to);
    assign(child, next);
    moved.push_back(child);
  }
}

/// Access nodes that are under the root because there was no distribution node, or none with room.
void Placement::leave_root(std::size_t moves_max, std::vector<Id>& moved) {
  for (Id child = 0; child < nodes_.size() && moved.size() < moves_max; ++child) {
    const Choice now = nodes_[child].choice;
    if (now.parent == none || !nodes_[child].available || tier(child, now.parent) == 0) continue;
    const Id to = choose_parent(child);
    if (to == none || tier(child, to) != 0) continue;
    assign(child, {to, now.backup == to ? choose_backup(child, to) : now.backup});
    moved.push_back(child);
  }
}

std::vector<Placement::Id> Placement::rebalance(std::size_t moves_max) {
  std::vector<Id> moved;
  leave_root(moves_max, moved);
  rebalance_layer(roles::distribution, moves_max, moved);
  rebalance_layer(roles::access, moves_max, moved);
  return moved;
}

}  // namespace parley::ssa
