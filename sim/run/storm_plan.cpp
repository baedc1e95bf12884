// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/run/storm_plan.hpp"

namespace parley::sim {

StormPlan::StormPlan(const StormOptions& options)
    : nodes_(options.nodes), ppn_(options.ppn), processes_(options.nodes * options.ppn), pattern_(options.pattern) {
  sample_ = pattern_ == StormPattern::alltoall && options.sample <= sample_max() ? options.sample : 0;
}

/// How many targets each process can have if each pair occurs once: the processes of the next nodes, up to half of the
/// circle. Two opposite nodes share the pairs of their processes.
std::uint32_t StormPlan::sample_max() const {
  return ppn_ * ((nodes_ - 1) / 2) + (nodes_ % 2 == 0 ? (ppn_ - 1) / 2 : 0);
}

/// alltoall: every process connects to the half of the others that follow it on the circle, so that each unordered pair
/// occurs once and all have the same load. The lower of two opposite processes connects.
std::uint32_t StormPlan::reach(std::uint32_t process) const {
  if (pattern_ != StormPattern::alltoall) return 1;
  if (sample_ != 0) return sample_;
  return processes_ % 2 == 0 && process < processes_ / 2 ? half() + 1 : half();
}

/// Target number `cursor` (from 1) of a sample, which is evenly spread over those that sample_max() counts.
std::uint32_t StormPlan::sampled(std::uint32_t process, std::uint32_t cursor) const {
  const auto at = static_cast<std::uint32_t>(std::uint64_t{cursor - 1} * sample_max() / sample_);
  const std::uint32_t distance = 1 + at / ppn_;  // in nodes
  const std::uint32_t shift = at % ppn_ + (nodes_ % 2 == 0 && distance == nodes_ / 2 ? 1 : 0);
  return (node_of(process) + distance) % nodes_ * ppn_ + (process % ppn_ + shift) % ppn_;
}

std::optional<std::uint32_t> StormPlan::next(std::uint32_t process, std::uint32_t& cursor) const {
  while (cursor < reach(process)) {
    ++cursor;
    const std::uint32_t target =
        pattern_ == StormPattern::incast
            ? 0
            : (sample_ != 0 ? sampled(process, cursor)
                            : static_cast<std::uint32_t>((std::uint64_t{process} + cursor) % processes_));
    if (node_of(target) != node_of(process)) return target;
  }
  return std::nullopt;
}

std::uint64_t StormPlan::wanted() const {
  const std::uint64_t p = processes_, n = p / ppn_;
  switch (pattern_) {
    case StormPattern::alltoall:
      if (sample_ != 0) return p * sample_;
      return p * (p - 1) / 2 - n * (std::uint64_t{ppn_} * (ppn_ - 1) / 2);
    case StormPattern::ring: return n;  // from the last process of each node to the first of the next
    case StormPattern::incast: return p - ppn_;
  }
  return 0;
}

}  // namespace parley::sim
