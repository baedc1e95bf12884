// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap check` and `parley pcap ladder`: the file side of verdict/. Others (the demo) may call them too.
#pragma once
#include <string>

#include "tools/command.hpp"
#include "verdict/report.hpp"

namespace parley::tools {

/// What reading a capture file gave.
struct CaptureVerdict {
  verdict::FileReport report;
  std::string error;      ///< why the file could not be read (to its end), as one line; empty when it was
  bool readable = false;  ///< the report holds what came before the error
};

/// Reads the file in pieces, "-" is standard input; never throws.
CaptureVerdict check_capture_file(const std::string& path, bool with_events);

void register_pcap(CLI::App& app, Context& context);

}  // namespace parley::tools
