// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests of one flow, ordered by place (extended PSN). Nearly all arrive in this order and use one PSN each, so a
// look-up counts back from the last one. A tree would cost a cache miss per level.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>

namespace parley::capture {

template <typename Value>
class PsnMap {
 public:
  using ExtendedPsn = std::uint64_t;
  struct Entry {
    ExtendedPsn first = 0;
    Value second;
  };
  using iterator = typename std::deque<Entry>::iterator;
  using const_iterator = typename std::deque<Entry>::const_iterator;

  bool empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  iterator begin() { return entries_.begin(); }
  iterator end() { return entries_.end(); }
  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }

  /// The first entry after `place`.
  iterator upper_bound(ExtendedPsn place) { return entries_.begin() + behind(place); }
  const_iterator upper_bound(ExtendedPsn place) const { return entries_.begin() + behind(place); }
  iterator find(ExtendedPsn place) { return entries_.begin() + at(place); }
  const_iterator find(ExtendedPsn place) const { return entries_.begin() + at(place); }

  /// `place` must not have an entry. Invalidates iterators.
  iterator insert(ExtendedPsn place, const Value& value) {
    return entries_.insert(upper_bound(place), Entry{place, value});
  }
  void forget_first() { entries_.pop_front(); }
  void clear() { entries_.clear(); }

 private:
  using Index = std::ptrdiff_t;
  Index last() const { return static_cast<Index>(entries_.size()); }

  Index behind(ExtendedPsn place) const {
    if (entries_.empty() || place >= entries_.back().first) return last();
    // Places are distinct: the entry `back` positions before the last one has at most this place.
    const ExtendedPsn back = entries_.back().first - place;
    const Index from = back < entries_.size() ? last() - 1 - static_cast<Index>(back) : 0;
    if (entries_[static_cast<std::size_t>(from)].first == place) return from + 1;
    const auto less = [](ExtendedPsn wanted, const Entry& e) { return wanted < e.first; };
    return std::upper_bound(entries_.begin() + from, entries_.end(), place, less) - entries_.begin();
  }
  Index at(ExtendedPsn place) const {
    const Index after = behind(place);
    return after > 0 && entries_[static_cast<std::size_t>(after - 1)].first == place ? after - 1 : last();
  }

  std::deque<Entry> entries_;  // by place
};

}  // namespace parley::capture
