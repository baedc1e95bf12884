// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connections of a storm, without a list: each process iterates over its own targets.
#pragma once
#include <cstdint>
#include <optional>

#include "sim/run/run.hpp"

namespace parley::sim {

/// Processes are numbered node by node: process p runs on node p / ppn.
class StormPlan {
 public:
  explicit StormPlan(const StormOptions& options);
  std::uint32_t processes() const { return processes_; }
  std::uint32_t node_of(std::uint32_t process) const { return process / ppn_; }
  /// All connections of the storm.
  std::uint64_t wanted() const;
  /// The next target of a process, which keeps its position in `cursor` (0 at first); none: no targets are left.
  std::optional<std::uint32_t> next(std::uint32_t process, std::uint32_t& cursor) const;

 private:
  std::uint32_t half() const { return (processes_ - 1) / 2; }
  std::uint32_t reach(std::uint32_t process) const;
  std::uint32_t sample_max() const;
  std::uint32_t sampled(std::uint32_t process, std::uint32_t cursor) const;
  std::uint32_t nodes_, ppn_, processes_;
  std::uint32_t sample_;  // 0: none
  StormPattern pattern_;
};

}  // namespace parley::sim
