// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/paths_p_keys.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes_io.hpp"

namespace parley::ssa {

namespace {

constexpr std::uint16_t order_of(std::uint16_t p_key) {
  const std::uint16_t base = p_key_base(p_key);
  return static_cast<std::uint16_t>(base << 8 | base >> 8);
}

bool may_talk(std::uint16_t a, std::uint16_t b) { return ((a | b) & p_key_full) != 0; }

/// The entry with the same base; 0: none.
std::uint16_t find(const std::vector<std::uint16_t>& set, std::uint16_t p_key) {
  const auto at = std::lower_bound(set.begin(), set.end(), order_of(p_key),
                                   [](std::uint16_t entry, std::uint16_t order) { return order_of(entry) < order; });
  return at == set.end() || p_key_base(*at) != p_key_base(p_key) ? std::uint16_t{0} : *at;
}

}  // namespace

std::optional<PKeySets::Id> PKeySets::add(ConstBytes table, std::size_t entries_max) {
  Set set;
  for (Reader in(table); in.left() >= 2;)
    if (const std::uint16_t p_key = in.be16(); p_key_base(p_key) != 0) set.push_back(p_key);
  // Full members come first, so that they remain.
  std::sort(set.begin(), set.end(), [](std::uint16_t a, std::uint16_t b) {
    return order_of(a) != order_of(b) ? order_of(a) < order_of(b) : a > b;
  });
  set.erase(std::unique(set.begin(), set.end(),
                        [](std::uint16_t a, std::uint16_t b) { return p_key_base(a) == p_key_base(b); }),
            set.end());
  if (const auto known = ids_.find(set); known != ids_.end()) return known->second;
  if (set.size() > entries_max - std::min(entries_, entries_max)) return std::nullopt;
  entries_ += set.size();
  const auto added = ids_.emplace(std::move(set), static_cast<Id>(sets_.size())).first;
  sets_.push_back(&added->first);
  return added->second;
}

std::uint16_t PKeySets::common(Id source, Id destination) const {
  const Set &a = *sets_[source], &b = *sets_[destination];
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint16_t x = order_of(a[i]), y = order_of(b[j]);
    if (x == y && may_talk(a[i], b[j])) return a[i];
    i += x <= y;
    j += y <= x;
  }
  return 0;
}

bool PKeySets::share(Id source, Id destination, std::uint16_t p_key) const {
  const std::uint16_t a = find(*sets_[source], p_key), b = find(*sets_[destination], p_key);
  return a != 0 && b != 0 && may_talk(a, b);
}

}  // namespace parley::ssa
