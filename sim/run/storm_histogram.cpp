// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/storm_histogram.hpp"

#include <algorithm>
#include <bit>

namespace parley::sim {

std::size_t DurationHistogram::place_of(std::uint64_t ns) {
  const auto bits = static_cast<unsigned>(std::bit_width(ns));
  if (bits <= linear_bits + 1) return static_cast<std::size_t>(ns);
  const unsigned shift = bits - linear_bits - 1;
  return (std::size_t{shift} << linear_bits) + static_cast<std::size_t>(ns >> shift);
}

std::uint64_t DurationHistogram::value_at(std::size_t place) {
  constexpr std::size_t first = std::size_t{2} << linear_bits;
  if (place < first) return place;
  const std::size_t shift = (place >> linear_bits) - 1;
  return static_cast<std::uint64_t>(place - (shift << linear_bits)) << shift;
}

void DurationHistogram::add(Duration duration) {
  const auto ns = static_cast<std::uint64_t>(std::max<Duration::rep>(duration.count(), 0));
  const std::size_t place = place_of(ns);
  if (place >= counts_.size()) counts_.resize(place + 1);
  ++counts_[place];
  ++count_;
  least_ = std::min(least_, ns);
  most_ = std::max(most_, ns);
}

Duration DurationHistogram::quantile(unsigned percent) const {
  if (count_ == 0) return {};
  if (percent == 0) return Duration(static_cast<Duration::rep>(least_));
  if (percent >= 100) return Duration(static_cast<Duration::rep>(most_));
  const std::uint64_t wanted = count_ / 100 * percent + (count_ % 100 * percent + 99) / 100;
  std::uint64_t seen = 0;
  std::size_t place = 0;
  while (seen + counts_[place] < wanted) seen += counts_[place++];
  return Duration(static_cast<Duration::rep>(std::clamp(value_at(place), least_, most_)));
}

std::array<Duration, 5> DurationHistogram::summary() const {
  return {quantile(0), quantile(50), quantile(90), quantile(99), quantile(100)};
}

}  // namespace parley::sim
