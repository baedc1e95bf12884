// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The all-to-all exchange of rank_node.hpp among simulated hosts on one switch.
#pragma once
#include "parley/sim.hpp"
#include "sim/xrc/rank_node.hpp"

namespace parley::sim {

struct AllToAllOptions {
  std::uint32_t nodes = 2, processes = 32;
  bool rc = false;
  std::uint64_t seed = 1;
  Duration limit = std::chrono::seconds(60);     ///< of virtual time
  Tap* tap = nullptr;                            ///< not owned
  std::function<void(const World&)> on_world{};  ///< before it runs: for taps that need names
  /// Called when the processes exist and nothing is connected, and again when all is done: to measure memory.
  std::function<void(bool done)> look{};
};
struct AllToAllReport {
  std::vector<RankCount> nodes;
  bool done = false;
  std::string trouble;  ///< why it was not completed
  Duration took{};      ///< virtual, from the first connection to the last message
};
/// Errors: a sentence, if the network cannot be built.
Checked<AllToAllReport> run_all_to_all(const AllToAllOptions& options);

}  // namespace parley::sim
