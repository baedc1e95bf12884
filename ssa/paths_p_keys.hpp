// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// P_Key tables of ports. Ports with equal tables share one set, so that what two ports have in common is computed once
// for all pairs with these sets.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "parley/bytes.hpp"

namespace parley::ssa {

inline constexpr std::uint16_t p_key_full = 0x8000;  ///< the member bit (IBA §10.9.1.1)
constexpr std::uint16_t p_key_base(std::uint16_t p_key) { return p_key & 0x7FFF; }

class PKeySets {
 public:
  using Id = std::uint32_t;

  PKeySets() = default;
  PKeySets(const PKeySets&) = delete;
  PKeySets& operator=(const PKeySets&) = delete;

  /// `table`: 2 octets an entry, as in a port record. Empty entries are left out. A P_Key that is there as full and as
  /// limited member is a full one. None: all different sets together would have more than `entries_max` entries.
  std::optional<Id> add(ConstBytes table, std::size_t entries_max);
  std::size_t size() const { return sets_.size(); }

  /// The P_Key by which ports with these sets may talk, with the member bit that `source` has; 0: none. Two limited
  /// members may not (IBA §10.9.3). If there are several, it is the one that opensm chooses: the least by its lower
  /// octet, then by its upper one.
  std::uint16_t common(Id source, Id destination) const;
  /// Whether they may talk by this P_Key; its member bit does not matter.
  bool share(Id source, Id destination, std::uint16_t p_key) const;

 private:
  using Set = std::vector<std::uint16_t>;  // in opensm's order
  std::map<Set, Id> ids_;
  std::vector<const Set*> sets_;  // the keys of ids_
  std::size_t entries_ = 0;       // of all sets
};

}  // namespace parley::ssa
