// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Collects the checkers' findings, and defines how they name things. Bounded, because a broken run repeats itself.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/run/run.hpp"

namespace parley::sim::check {

class Judge {
 public:
  static constexpr std::size_t violations_max = 100;  // the maximum of RunReport::violations

  void add(std::string_view checker, Instant at, std::string_view connection, std::string text,
           std::string_view rule = {}) {
    ++count_;
    if (list_.size() < violations_max)
      list_.push_back({std::string(checker), at, std::string(connection), std::move(text), std::string(rule)});
  }
  /// All violations found, including those beyond the first violations_max.
  std::uint64_t count() const { return count_; }
  const std::vector<Violation>& list() const { return list_; }
  std::vector<Violation> take() { return std::move(list_); }

 private:
  std::vector<Violation> list_;
  std::uint64_t count_ = 0;
};

}  // namespace parley::sim::check
