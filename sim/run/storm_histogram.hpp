// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Quantiles of any number of durations in bounded memory: a log-linear histogram of nanoseconds with 1,024 bins per
// doubling, so results have a relative error of at most one part in a thousand. Durations below 2,048 ns, the minimum
// and the maximum are exact.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "parley/time.hpp"

namespace parley::sim {

class DurationHistogram {
 public:
  void add(Duration duration);
  std::uint64_t count() const { return count_; }
  /// The smallest duration such that at least `percent` of all durations are not longer; 0 if there are none.
  Duration quantile(unsigned percent) const;
  /// 0, 50, 90, 99 and 100 %.
  std::array<Duration, 5> summary() const;

 private:
  static constexpr unsigned linear_bits = 10;  // bins per doubling, as a power of two
  static std::size_t place_of(std::uint64_t ns);
  static std::uint64_t value_at(std::size_t place);

  std::vector<std::uint64_t> counts_;  // grows to the longest duration: at most 54 * 1024 bins
  std::uint64_t count_ = 0, least_ = ~std::uint64_t{0}, most_ = 0;
};

}  // namespace parley::sim
