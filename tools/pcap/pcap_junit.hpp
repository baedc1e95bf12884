// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The verdict on captures as JUnit XML: a test suite per capture, a test case per connection and family of rules.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/report/total.hpp"
#include "tools/junit.hpp"
#include "tools/pcap/pcap.hpp"
#include "tools/pcap/pcap_standing.hpp"

namespace parley::tools {

/// "MPA set-up", "MPA framing", "enhanced set-up", ...: the family of a finding's rule ("RFC 5044 §4.4").
std::string_view rule_family(std::string_view rule);

/// The suite of one capture, added connection by connection. It contains at most 100,000 cases and says how many were
/// left out.
class JunitCapture {
 public:
  JunitCapture(std::string file, const StandingArgs& standing) : file_(std::move(file)), standing_(standing) {}
  void connection(const capture::ConnectionReport& c);
  void negotiation(const capture::NegotiationReport& n);
  /// Ignores the connections in `verdict`. Call it once.
  JunitSuite finish(const CaptureVerdict& verdict);

 private:
  void add(JunitCase k);
  std::string file_;
  StandingArgs standing_;
  std::vector<JunitCase> cases_;
  std::uint64_t connections_ = 0, negotiations_ = 0, passed_left_out_ = 0, failed_left_out_ = 0;
};

/// The suite of one capture. Its cases are: whether the file could be read to its end, whether it contains connections,
/// and for each connection whether it ended well and one case per family. Findings of severity `fail_on` or higher fail
/// a case; other findings are its output. A family that nothing in the connection could break is skipped. A connection
/// that was not seen whole fails, or with `partial_ok` is skipped, so that a suite fails when the command fails.
JunitSuite junit_suite(const std::string& file, const CaptureVerdict& verdict, const StandingArgs& standing = {});
/// The totals, as properties of every suite of a run over several files.
std::vector<std::pair<std::string, std::string>> junit_properties(const capture::Total& total);

}  // namespace parley::tools
