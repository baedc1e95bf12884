// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exchange of one connection as a text ladder: two life lines, an arrow per event, findings at their frames.
//
//    frame      time   192.0.2.2:52347                                              192.0.2.1:9001
//       12     0.0 ms  |-- SYN mss=1460 ----------------------------------------------------->|
#pragma once
#include <string>

#include "capture/report.hpp"

namespace parley::capture {

struct LadderOptions {
  std::size_t width = 100;  ///< columns, at least 60
  bool ascii = false;       ///< no box-drawing characters
  bool findings = true;
  std::string left_name, right_name;  ///< shown instead of the addresses, if not empty
};

/// `connection` must come from an Analyzer with options.events. The initiator is on the left.
std::string to_ladder(const ConnectionReport& connection, const LadderOptions& options = {});

}  // namespace parley::capture
