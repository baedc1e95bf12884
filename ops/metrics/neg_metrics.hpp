// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Counters and histograms of negotiations. Like those of connections (metrics.hpp), they are made from trace events
// only.
#pragma once
#include <array>
#include <cstdint>
#include <unordered_map>

#include "ops/metrics/exposition.hpp"
#include "ops/metrics/words.hpp"
#include "parley/trace.hpp"

namespace parley::ops {

class NegMetrics {
 public:
  void record(const trace::Record& record);
  void write(Exposition& out) const;

  /// Maximum number of sessions that are followed at the same time, more than there are sockets. Sessions beyond it are
  /// not timed.
  static constexpr std::size_t followed_max = 1U << 17;

 private:
  enum class Stage : std::uint8_t { transport, hello, info, ready, done };
  static constexpr std::size_t roles = 2, stages = 5;

  struct TrackedNegotiation {
    std::size_t role = 0;
    Instant begun{}, stage_begun{};
  };

  struct EventVisitor;  ///< a visitor of events
  friend struct EventVisitor;
  TrackedNegotiation* find(const trace::Record& record);
  void done(const trace::Record& record, Stage stage);
  bool forget(const trace::Record& record, bool agreed);

  std::unordered_map<std::uint64_t, TrackedNegotiation> followed_;
  std::array<std::uint64_t, roles> started_{}, agreed_{}, open_{};
  std::array<CountBy<neg_message_words>, 2> messages_{};  ///< [sent]
  CountBy<problem_words> refused_{};
  std::array<std::array<CountBy<problem_words>, 2>, CountBy<neg_stage_words>::size> failures_{};  ///< [stage][by_peer]
  std::array<CountBy<problem_words>, 2> retries_{};                                               ///< [backup]
  std::array<std::array<Histogram, stages>, roles> stage_times_{};
  std::array<Histogram, roles> times_{};
};

}  // namespace parley::ops
