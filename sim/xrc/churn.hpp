// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that come and go for ever at a node whose XRC domain stays open: how many TGT queue pairs there are meanwhile.
#pragma once
#include "parley/sim.hpp"
#include "xrc/registry.hpp"

namespace parley::sim {

struct ChurnOptions {
  std::uint32_t cycles = 10000;  ///< connected, a message sent, disconnected
  std::uint32_t at_once = 16;    ///< connections of the peer
  std::uint32_t processes = 8;   ///< registered with each TGT queue pair
  std::uint32_t deaf = 1;        ///< of those, how many never let go of one
  Duration grace = std::chrono::milliseconds(50);
  /// What it was before processes were counted: a TGT queue pair stays until its domain is closed.
  bool keep = false;
  std::uint64_t seed = 1;
  std::uint32_t samples = 200;  ///< at most so many, and the end
  Duration limit = std::chrono::hours(24);
};
struct ChurnReport {
  struct Sample {
    std::uint32_t cycles = 0;
    std::size_t tgts = 0;  ///< the most since the sample before
  };
  std::vector<Sample> samples;
  std::size_t peak = 0, left = 0;  ///< TGT queue pairs; left: a grace after the last cycle
  std::uint32_t cycles = 0;        ///< that were completed
  xrc::Counters counters{};
  std::string trouble;  ///< empty: all went as it should
  Duration took{};      ///< virtual
};
Checked<ChurnReport> run_churn(const ChurnOptions& options);

}  // namespace parley::sim
