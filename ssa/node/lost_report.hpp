// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The report of lost children to the master: collected for a short time, up to 12 in one message, sent until it is
// answered.
#pragma once
#include <deque>
#include <span>

#include "base/rng.hpp"
#include "ssa/node/options.hpp"

namespace parley::ssa {

class LostReport {
 public:
  LostReport(const NodeTimers& timers, std::size_t bound) : timers_(timers), bound_(bound) {}

  /// Beyond the bound, the oldest one that is not in batch() is forgotten (if all are in it, this one): the master learns of
  /// it when it asks.
  void add(Instant now, const Gid& child);
  /// The child has hooked up again before it was reported.
  void remove(const Gid& child);
  /// True: send the children of batch() now.
  bool handle_deadline(Instant now, Rng& rng);
  /// The children of the report that is sent.
  std::vector<Gid> batch() const { return {lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(batch_)}; }
  std::uint32_t transaction_id() const { return transaction_; }
  /// False: it is the answer to no report.
  bool handle_answer(Instant now, std::uint32_t transaction_id);

  Instant next_deadline() const { return deadline_; }
  void clear();

 private:
  NodeTimers timers_;
  std::size_t bound_, batch_ = 0;
  std::deque<Gid> lost_;  // at most bound_; the first batch_ are in the report without an answer
  std::uint32_t transaction_ = 0;
  unsigned tries_ = 0;
  Instant deadline_ = never;
};

}  // namespace parley::ssa
