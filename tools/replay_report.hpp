// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What `parley replay` prints.
#pragma once
#include <string>
#include <vector>

#include "replay/player.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ReplayRun {
  std::string file;
  std::string against;  ///< "192.0.2.1:7175", "sim:parley"
  verdict::Side side = verdict::Side::initiator;
  bool verbose = false;
  std::vector<std::string> events{};  ///< of Parley's side in the simulator
};

/// The MPA connections of a file, for --list.
void print_contents(Output& out, const std::string& file, const replay::Contents& contents);
/// Before the run: what is played, and what is known of the recording.
void print_begin(Output& out, const ReplayRun& run, const replay::Recording& recording);
/// The result, and the exit code that it means.
int print_result(Output& out, const ReplayRun& run, const replay::PlayResult& result);

}  // namespace parley::tools
