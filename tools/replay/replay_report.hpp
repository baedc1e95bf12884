// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The output of `parley replay`.
#pragma once
#include <string>
#include <vector>

#include "draw/provenance.hpp"
#include "replay/player.hpp"
#include "replay/roce/roce_recording.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ReplayRun {
  std::string file;
  std::string against;  ///< "192.0.2.1:7175", "sim:parley"
  capture::Side side = capture::Side::initiator;
  bool verbose = false;
  std::vector<std::string> events{};  ///< of Parley's side in the simulator
  draw::Provenance provenance{};
};

/// Prints the connections of a file, for --list.
void print_contents(Output& out, const std::string& file, const replay::Contents& contents);
/// Printed before the run: what is played, and what the recording contains.
void print_begin(Output& out, const ReplayRun& run, const replay::Recording& recording);
void print_begin(Output& out, const ReplayRun& run, const replay::RoceRecording& recording);
/// The result for one connection.
struct Played {
  int exit = 0;
  std::string word;  ///< "same", "different", "nothing compared"; empty if it could not be played to its end
};
/// Prints the result and returns its meaning.
Played print_result(Output& out, const ReplayRun& run, const replay::PlayResult& result);

/// The numbers of a file's connections by result.
struct ReplayTotal {
  std::vector<std::size_t> same, different, nothing_compared, broken_off, not_played;
  void add(std::size_t number, const Played& played);
};
/// Reports that connection `number` of `all` is not played; `why` is a sentence.
void print_not_played(Output& out, const ReplayRun& run, const capture::ConnectionReport& connection,
                      std::size_t number, std::size_t all, const std::string& why);
/// Prints the totals and returns the exit code.
int print_total(Output& out, const ReplayTotal& total, std::size_t all, const ReplayRun& run);

}  // namespace parley::tools
