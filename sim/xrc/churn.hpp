// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Peers that connect and disconnect for ever at a node whose XRC domain stays open: measures how many TGT queue pairs
// exist meanwhile.
#pragma once
#include "parley/sim.hpp"
#include "xrc/registry.hpp"

namespace parley::sim {

struct ChurnOptions {
  std::uint32_t cycles = 10000;  ///< connected, a message sent, disconnected
  std::uint32_t at_once = 16;    ///< connections of the peer
  std::uint32_t processes = 8;   ///< registered with each TGT queue pair
  std::uint32_t deaf = 1;        ///< number of processes that never release a TGT queue pair
  Duration grace = std::chrono::milliseconds(50);
  /// Behaviour before processes were counted: a TGT queue pair stays until its domain is closed.
  bool keep = false;
  std::uint64_t seed = 1;
  std::uint32_t samples = 200;  ///< at most this many, plus one at the end
  Duration limit = std::chrono::hours(24);
};
struct ChurnReport {
  struct Sample {
    std::uint32_t cycles = 0;
    std::size_t tgts = 0;  ///< the peak since the previous sample
  };
  std::vector<Sample> samples;
  std::size_t peak = 0, left = 0;  ///< TGT queue pairs; left: after a grace time at the end
  std::uint32_t cycles = 0;        ///< completed ones
  xrc::Counters counters{};
  std::string trouble;  ///< empty: no errors
  Duration took{};      ///< virtual time
};
Checked<ChurnReport> run_churn(const ChurnOptions& options);

}  // namespace parley::sim
