// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley conform`: the options of both roles, and the peer's program that may be started for each case.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "conform/core/report.hpp"
#include "conform/core/run.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct ConformArgs {
  conform::Settings settings;
  std::string endpoint;  ///< responder: HOST:PORT; initiator: ADDR:PORT
  std::string only, ulp, title, run;
  std::string junit, html, markdown, pcapng;
  bool list = false, strict = false, destructive = false, quiet = false;
  std::uint32_t recv_size = 0, recv_count = 0;
  bool recv_size_given = false, recv_count_given = false;
  Duration run_limit = std::chrono::seconds(10);
  Duration timer = std::chrono::seconds(10);  ///< ibcm: limit for the peer's own timers
};

/// A shell command in the background. Its output is stored.
class Program {
 public:
  static constexpr std::size_t output_max = 64 << 10;  ///< octets of output that are returned
  Program() = default;
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  /// Starts the command with the case's name in $PARLEY_CASE. Returns an error message; empty: it runs.
  std::string start(const std::string& command, std::string_view case_name);
  /// Waits up to `limit` or until a signal, then ends the command and the processes that it started. Returns its
  /// output.
  std::string finish(Duration limit);

 private:
  int pid_ = 0;
  int output_ = -1;
};

}  // namespace parley::tools
