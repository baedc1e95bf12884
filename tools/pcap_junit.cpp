// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap_junit.hpp"

#include <fmt/format.h>

#include <array>

#include "verdict/text.hpp"

namespace parley::tools {
namespace {

using verdict::ConnectionReport;
using verdict::Finding;
using verdict::Severity;

struct Family {
  std::string_view name;
  bool needs_fpdus;  // nothing in a connection without FPDUs could break it
};
constexpr std::array families{Family{"MPA set-up", false},
                              Family{"enhanced set-up", false},
                              Family{"Rtr frame of 2007", false},
                              Family{"MPA framing", true},
                              Family{"DDP", true},
                              Family{"RDMAP", true},
                              Family{"Atomics and Immediate Data", true}};
// More cases than that no CI system shows; of the connections beyond, only cases that failed are written.
constexpr std::size_t cases_max = 50'000;

std::string_view skip_reason(const Family& family, const ConnectionReport& c) {
  if (family.needs_fpdus && c.from_initiator.fpdus + c.from_responder.fpdus == 0) return "no FPDU in the capture";
  const bool enhanced = (c.request && c.request->revision >= 2) || (c.reply && c.reply->revision >= 2);
  if (family.name == "enhanced set-up" && !enhanced) return "revision 2 is not used";
  const bool offered = c.request && c.request->revision <= 1 && c.request->s();
  if (family.name == "Rtr frame of 2007" && !offered && !c.rtr_frame) return "the Rtr frame is not offered";
  return {};
}

std::string line_of(const Finding& f) {
  return fmt::format("{}{}{}", f.frame == 0 ? "" : fmt::format("frame {}: ", f.frame), f.text,
                     f.rule.empty() ? "" : fmt::format(" [{}]", f.rule));
}

void add_line(std::string& to, const std::string& line) { to += (to.empty() ? "" : "\n") + line; }

JunitCase connection_case(const std::string& file, std::size_t number, const ConnectionReport& c,
                          const Family& family) {
  JunitCase k;
  k.class_name = k.file = file;
  k.name =
      fmt::format("connection {} {} -> {}: {}", number, c.initiator.to_string(), c.responder.to_string(), family.name);
  for (const Finding& f : c.findings) {
    if (rule_family(f.rule) != family.name) continue;
    if (f.severity == Severity::error)
      add_line(k.failure, line_of(f));
    else
      add_line(k.output, fmt::format("{}: {}", to_string(f.severity), line_of(f)));
  }
  if (k.failure.empty() && k.output.empty()) k.skipped = skip_reason(family, c);
  return k;
}

JunitCase file_case(const std::string& file, const CaptureVerdict& verdict) {
  JunitCase k;
  k.class_name = k.file = file;
  k.name = "the capture can be read to its end";
  k.failure = verdict.error;
  const auto& unlisted = verdict.report.unlisted;
  if (const auto errors = unlisted.findings[static_cast<std::size_t>(Severity::error)]; errors > 0)
    add_line(k.failure, fmt::format("{} in {}, not listed one by one", verdict::counted(errors, "error"),
                                    verdict::counted(unlisted.connections, "connection")));
  for (const std::string& note : verdict.report.notes) add_line(k.output, note);
  return k;
}

}  // namespace

std::string_view rule_family(std::string_view rule) {
  const auto is = [&](std::string_view head) { return rule.starts_with(head); };
  if (is("RFC 5044 §7") || is("RFC 5044 §8") || is("RFC 5044 Appendix")) return "MPA set-up";
  if (is("RFC 5044")) return "MPA framing";
  if (is("RFC 6581")) return "enhanced set-up";
  if (is("OFA 2007-10 Rtr")) return "Rtr frame of 2007";
  if (is("RFC 5041")) return "DDP";
  if (is("RFC 7306")) return "Atomics and Immediate Data";
  if (is("RFC 5040") || is("RFC 6580")) return "RDMAP";
  return "MPA set-up";  // what cites no rule is about the connection as a whole
}

JunitSuite junit_suite(const std::string& file, const CaptureVerdict& verdict) {
  JunitSuite suite{file, {file_case(file, verdict)}};
  std::size_t number = 0, left_out = 0;
  for (const ConnectionReport& c : verdict.report.connections) {
    ++number;
    for (const Family& family : families) {
      JunitCase k = connection_case(file, number, c, family);
      if (suite.cases.size() < cases_max || !k.failure.empty())
        suite.cases.push_back(std::move(k));
      else
        ++left_out;
    }
  }
  if (left_out > 0)
    add_line(suite.cases.front().output,
             fmt::format("left out: {} that did not fail", verdict::counted(left_out, "case")));
  return suite;
}

}  // namespace parley::tools
