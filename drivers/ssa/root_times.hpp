// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the root decides with its clocks: the incarnation of its next master, when it collects the subnet again, and how
// long its database is current.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "base/after.hpp"
#include "parley/time.hpp"

namespace parley::ssa_driver {

/// That of a new master: greater than each that this process has had or seen (0: none), and at least the seconds since
/// 1970, so that it is greater than that of a process before, too.
constexpr std::uint32_t next_incarnation(std::uint32_t own, std::uint32_t seen, std::uint32_t seconds) {
  const std::uint32_t last = std::max(own, seen);
  return std::max(seconds, last == std::numeric_limits<std::uint32_t>::max() ? last : last + 1);
}

/// Whether a master whose clock is wrong by up to ten years may have this incarnation. Others are lies: a root that goes
/// above them has none left soon.
constexpr bool is_plausible(std::uint32_t incarnation, std::uint32_t seconds) {
  constexpr std::uint64_t ten_years = 10ULL * 365 * 86400;
  return incarnation <= seconds + ten_years;
}

/// When the root collects its subnet: periodically, soon after a failure, and soon after a node has greeted from a port
/// that the last collection has not found. The last two wait twice as long each time that they bring nothing.
class SurveyTimes {
 public:
  explicit SurveyTimes(Duration every) : every_(every), pause_(std::min(every, pause_min)) {}

  void start(Instant now) { *this = SurveyTimes(every_), at_ = now; }
  void stop() { at_ = never; }
  void unknown_port(Instant now) { asked_ = true, at_ = std::min(at_, after(now, pause_)); }
  /// A collection has ended. `ports`: how many the subnet has; none: it failed.
  void ended(Instant now, Duration took, std::optional<std::size_t> ports) {
    took_ = took;
    const bool brings = ports && (!std::exchange(asked_, false) || *ports != ports_);
    pause_ = brings ? std::min(every_, pause_min) : std::min(every_, 2 * pause_);
    at_ = after(now, ports ? every_ : pause_);
    if (!ports) return;
    ports_ = *ports;
    good_at_ = now;
  }

  Instant at() const { return at_; }
  /// Whether the last good collection is not longer ago than three collections may take.
  bool is_current(Instant now) const { return good_at_ && now <= after(*good_at_, 3 * (every_ + took_)); }

 private:
  static constexpr Duration pause_min = std::chrono::seconds(2);
  Duration every_, pause_, took_{};
  Instant at_ = never;
  bool asked_ = false;  // by unknown_port(), since the last good one
  std::size_t ports_ = 0;
  std::optional<Instant> good_at_;
};

}  // namespace parley::ssa_driver
