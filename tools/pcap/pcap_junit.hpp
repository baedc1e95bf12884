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

/// The suite of one capture, connection by connection. It holds at most 100,000 cases; what is left out is told.
class JunitCapture {
 public:
  JunitCapture(std::string file, const StandingArgs& standing) : file_(std::move(file)), standing_(standing) {}
  void connection(const capture::ConnectionReport& c);
  void negotiation(const capture::NegotiationReport& n);
  /// `verdict`: its list of connections is not looked at. Once.
  JunitSuite finish(const CaptureVerdict& verdict);

 private:
  void add(JunitCase k);
  std::string file_;
  StandingArgs standing_;
  std::vector<JunitCase> cases_;
  std::uint64_t connections_ = 0, negotiations_ = 0, passed_left_out_ = 0, failed_left_out_ = 0;
};

/// The suite of one capture: whether it could be read to its end and holds connections, then each connection: whether
/// it ended well, and each family. Findings of severity `fail_on` fail a case; other findings are its output. A family
/// that nothing in the connection could break is skipped. With `partial_ok` so is what was not seen whole, which fails
/// otherwise: a suite fails when the command does.
JunitSuite junit_suite(const std::string& file, const CaptureVerdict& verdict, const StandingArgs& standing = {});
/// What the total says: every suite of a run over several files has these properties.
std::vector<std::pair<std::string, std::string>> junit_properties(const capture::Total& total);

}  // namespace parley::tools
