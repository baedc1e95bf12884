// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley xrc demo` and its plot.
#pragma once
#include <optional>
#include <string>

#include "tools/command.hpp"
#include "tools/options.hpp"

namespace parley::tools {

struct XrcDemoArgs {
  std::uint32_t nodes = 2, processes = 32;
  std::string transport = "both";
  bool sockets = false;
  std::optional<std::uint64_t> seed;
  std::uint64_t seed_or_one() const { return seed.value_or(1); }
  std::uint32_t churn = 0;  ///< cycles; 0: none
  std::string svg, pcapng;
  Duration timeout = std::chrono::seconds(60);
};

int run_xrc_demo(const XrcDemoArgs& args, Output& out);
/// Runs after the demo and writes the plot of --svg.
int run_xrc_churn(const XrcDemoArgs& args, Output& out);

}  // namespace parley::tools
