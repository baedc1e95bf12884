// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley pcap ...`: the commands that read capture files with capture/. A subcommand is one declaration here, one
// file, and one line in pcap.cpp. Other commands (the demo) may call check_capture_file too.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "capture/analyzer.hpp"
#include "tools/command.hpp"
#include "tools/pcap/capture_feed.hpp"

namespace parley::tools {

/// The result of reading a capture file.
struct CaptureVerdict {
  capture::FileReport report;
  std::string error;      ///< one line: why the file could not be read to its end; empty if it was
  bool readable = false;  ///< the report covers the packets before the error
  draw::InputFile input{};
};

/// Reads the file in pieces; "-" is standard input. Never throws.
CaptureVerdict check_capture_file(const std::string& path, bool with_events, const OnFeedProgress& on_progress = {});
CaptureVerdict check_capture_file(const std::string& path, const capture::AnalyzerOptions& options,
                                  const OnFeedProgress& on_progress = {}, pcap_driver::PacketFilter* filter = nullptr,
                                  bool digest = true);

void register_pcap(Command app, Context& context);

/// `--filter EXPRESSION` in libpcap's syntax; null if the option is not given.
using CaptureFilter = std::shared_ptr<pcap_driver::PacketFilter>;
void add_filter(Command sub, CaptureFilter& filter);
/// `--no-icrc`.
void add_no_icrc(Command sub, bool& no_icrc);
/// `--mpa-port PORT`, may be repeated.
void add_mpa_port(Command sub, std::vector<std::uint16_t>& ports);
void add_pcap_check(Command pcap, Context& context);
void add_pcap_live(Command pcap, Context& context);
void add_pcap_ladder(Command pcap, Context& context);
void add_pcap_anonymize(Command pcap, Context& context);
void add_pcap_matrix(Command pcap, Context& context);
void add_pcap_rules(Command pcap, Context& context);

}  // namespace parley::tools
