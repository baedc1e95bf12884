// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A recording against Parley's own stack, in the simulator: two hosts and a cable, in virtual time.
#pragma once
#include <string>

#include "replay/player.hpp"
#include "replay/roce/roce_player.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ReplaySimOptions {
  replay::PlayOptions play{};
  std::string quirk{};   ///< what Parley's stack plays (mpa/quirks.hpp, wire/ib/quirks.hpp); empty: itself
  std::string pcapng{};  ///< file for what went over the cable; empty: none
};

struct ReplaySimResult {
  replay::PlayResult played;
  std::vector<std::string> events;  ///< of Parley's side
};

/// Plays `side`; Parley's stack stands in for the other. `program`: what Parley's side does, if not what is compared with; null: that.
/// Errors: environment.
Or<ReplaySimResult> replay_in_simulator(const replay::Recording& recording, capture::Side side,
                                        const ReplaySimOptions& options, const replay::Recording* program = nullptr);

/// The same over RoCE.
Or<ReplaySimResult> replay_in_simulator(const replay::RoceRecording& recording, capture::Side side,
                                        const ReplaySimOptions& options,
                                        const replay::RoceRecording* program = nullptr);

}  // namespace parley::tools
