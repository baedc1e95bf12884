// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/storm_plan.hpp"

namespace parley::sim {

StormPlan::StormPlan(const StormOptions& options)
    : ppn_(options.ppn), processes_(options.nodes * options.ppn), pattern_(options.pattern) {
  sample_ = pattern_ == StormPattern::alltoall && options.sample < half() ? options.sample : 0;
}

/// alltoall: every process connects to the half of the others that follow it on the circle, so that each unordered pair
/// occurs once and all have the same load. The lower of two opposite processes connects.
std::uint32_t StormPlan::reach(std::uint32_t process) const {
  if (pattern_ != StormPattern::alltoall) return 1;
  if (sample_ != 0) return sample_;
  return processes_ % 2 == 0 && process < processes_ / 2 ? half() + 1 : half();
}

/// From a process to its target on the circle, for the target number `cursor` (from 1). A sample is evenly spread over
/// the half circle.
std::uint32_t StormPlan::distance(std::uint32_t cursor) const {
  if (sample_ == 0) return cursor;
  return 1 + static_cast<std::uint32_t>(std::uint64_t{cursor - 1} * half() / sample_);
}

std::optional<std::uint32_t> StormPlan::next(std::uint32_t process, std::uint32_t& cursor) const {
  while (cursor < reach(process)) {
    ++cursor;
    const std::uint32_t target =
        pattern_ == StormPattern::incast
            ? 0
            : static_cast<std::uint32_t>((std::uint64_t{process} + distance(cursor)) % processes_);
    if (node_of(target) != node_of(process)) return target;
  }
  return std::nullopt;
}

std::uint64_t StormPlan::wanted() const {
  const std::uint64_t p = processes_, n = p / ppn_;
  switch (pattern_) {
    case StormPattern::alltoall:
      if (sample_ != 0) {
        std::uint64_t same_node = 0;  // of the processes of one node
        for (std::uint32_t i = 1; i <= sample_ && distance(i) < ppn_; ++i) same_node += ppn_ - distance(i);
        return p * sample_ - n * same_node;
      }
      return p * (p - 1) / 2 - n * (std::uint64_t{ppn_} * (ppn_ - 1) / 2);
    case StormPattern::ring: return n;  // from the last process of each node to the first of the next
    case StormPattern::incast: return p - ppn_;
  }
  return 0;
}

}  // namespace parley::sim
