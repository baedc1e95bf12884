// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Plays a recording against Parley's own stack in the simulator: two hosts and a link, in virtual time.
#pragma once
#include <string>

#include "replay/player.hpp"
#include "replay/roce/roce_player.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ReplaySimOptions {
  replay::PlayOptions play{};
  std::string quirk{};   ///< the quirk that Parley's stack plays (mpa/quirks.hpp, wire/ib/quirks.hpp); empty: none
  std::string pcapng{};  ///< capture file of the link; empty: none
};

struct ReplaySimResult {
  replay::PlayResult played;
  std::vector<std::string> events;  ///< of Parley's side
};

/// Plays `side`; Parley's stack plays the other side. `program` is the recording that Parley's side follows; null:
/// `recording`. Errors: environment.
Or<ReplaySimResult> replay_in_simulator(const replay::Recording& recording, capture::Side side,
                                        const ReplaySimOptions& options, const replay::Recording* program = nullptr);

/// The same for RoCE.
Or<ReplaySimResult> replay_in_simulator(const replay::RoceRecording& recording, capture::Side side,
                                        const ReplaySimOptions& options,
                                        const replay::RoceRecording* program = nullptr);

}  // namespace parley::tools
