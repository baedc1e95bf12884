// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/pcap/pcap_junit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "capture/report/standing.hpp"
#include "capture/report/text.hpp"

namespace parley::tools {
namespace {

using capture::ConnectionReport;
using capture::Finding;
using capture::Severity;

struct Family {
  std::string_view name;
  bool needs_fpdus;  // skipped in a connection without FPDUs
};
constexpr std::array families{Family{"MPA set-up", false},
                              Family{"enhanced set-up", false},
                              Family{"Rtr frame of 2007", false},
                              Family{"MPA framing", true},
                              Family{"DDP", true},
                              Family{"RDMAP", true},
                              Family{"Atomics and Immediate Data", true}};
constexpr std::array ib_families{Family{"CM set-up and end", false}, Family{"packets", true},
                                 Family{"requests and answers", true}};
// CI systems show no more cases than cases_max. Beyond it, only failed cases are written, up to failed_more_max.
constexpr std::size_t cases_max = 50'000, failed_more_max = 50'000;

std::string_view skip_reason(const Family& family, const ConnectionReport& c) {
  if (c.ib) {
    const bool data = c.ib->ends[0].packets + c.ib->ends[1].packets > 0;
    return family.needs_fpdus && !data ? "no data in the capture" : "";
  }
  if (family.needs_fpdus && c.from_initiator.fpdus + c.from_responder.fpdus == 0) return "no FPDU in the capture";
  const bool enhanced = (c.request && c.request->revision >= 2) || (c.reply && c.reply->revision >= 2);
  if (family.name == "enhanced set-up" && !enhanced) return "revision 2 is not used";
  const bool offered = c.request && c.request->revision <= 1 && c.request->s();
  if (family.name == "Rtr frame of 2007" && !offered && !c.rtr_frame) return "the Rtr frame is not offered";
  return {};
}

std::string line_of(const Finding& f) {
  return fmt::format("{}{}{}", f.frame == 0 ? "" : fmt::format("frame {}: ", f.frame), f.text, f.cited());
}

void add_line(std::string& to, const std::string& line) { to += (to.empty() ? "" : "\n") + line; }

JunitCase named_case(const std::string& file, std::string name) {
  JunitCase k;
  k.class_name = k.file = file;
  k.name = std::move(name);
  return k;
}

std::string case_name(std::uint64_t number, const ConnectionReport& c, std::string_view what) {
  return fmt::format("connection {} {} -> {}: {}", number, c.end_text(capture::Side::initiator),
                     c.end_text(capture::Side::responder), what);
}

/// What was not seen in the capture makes the case failed or skipped, never passed.
void not_seen(JunitCase& k, const std::string& why, bool partial_ok) {
  if (why.empty()) return;
  if (partial_ok)
    k.skipped = "partial: " + why;
  else
    add_line(k.failure, "partial: " + why);
}

JunitCase end_case(const std::string& file, std::uint64_t number, const ConnectionReport& c, bool partial_ok) {
  JunitCase k = named_case(file, case_name(number, c, "the connection was seen whole and ended well"));
  k.failure = capture::ended_badly(c);
  not_seen(k, capture::not_seen_whole(c), partial_ok && k.failure.empty());
  add_line(k.output, fmt::format("{}; {}", to_string(c.outcome), c.end));
  return k;
}

/// The family for a rule's id in docs/pcap-check.md. A finding without an id concerns the connection as a whole.
std::string_view ib_rule_family(std::string_view key) {
  constexpr std::string_view of_packets[] = {"ib.malformed", "ib.icrc",  "ib.tver",     "ib.reserved", "ib.opcode",
                                             "ib.service",   "ib.p-key", "ib.ud-q-key", "ib.pad",      "ib.pad-octets"};
  if (std::find(std::begin(of_packets), std::end(of_packets), key) != std::end(of_packets)) return "packets";
  return key.starts_with("ib.") ? "requests and answers" : "CM set-up and end";
}

JunitCase connection_case(const std::string& file, std::uint64_t number, const ConnectionReport& c,
                          const Family& family, Severity fail_on) {
  JunitCase k = named_case(file, case_name(number, c, family.name));
  for (const Finding& f : c.findings) {
    if ((c.ib ? ib_rule_family(f.key()) : rule_family(f.rule)) != family.name) continue;
    if (f.severity >= fail_on)
      add_line(k.failure, line_of(f));
    else
      add_line(k.output, fmt::format("{}: {}", to_string(f.severity), line_of(f)));
  }
  if (k.failure.empty() && k.output.empty()) k.skipped = skip_reason(family, c);
  return k;
}

std::string negotiation_name(std::uint64_t number, const capture::NegotiationReport& n, std::string_view what) {
  return fmt::format("negotiation {} {} -> {}: {}", number, n.initiator.to_string(), n.responder.to_string(), what);
}

struct NegotiationFamily {
  std::string_view name, head;  // head: the prefix of its rules
};
constexpr std::array negotiation_families{
    NegotiationFamily{"messages", "QPng §1."}, NegotiationFamily{"items", "QPng §2."},
    NegotiationFamily{"order of messages", "QPng §3."}, NegotiationFamily{"attributes of queue pairs", "QPng §4."}};

JunitCase file_case(const std::string& file, const CaptureVerdict& verdict) {
  JunitCase k = named_case(file, "the capture can be read to its end");
  k.failure = verdict.error;
  for (const std::string& note : verdict.report.notes) add_line(k.output, note);
  if (!verdict.report.ignored.empty()) add_line(k.output, capture::ignored_text(verdict.report.ignored));
  return k;
}

JunitCase holdings_case(const std::string& file, const CaptureVerdict& verdict, const StandingArgs& standing) {
  JunitCase k = named_case(file, "the capture holds connections of a known protocol, as many as are expected");
  const capture::FileReport& r = verdict.report;
  if (!verdict.readable) {
    k.skipped = "the capture cannot be read";
    return k;
  }
  k.failure = capture::shortfall(r, standing.expect);
  const auto of = [&](capture::Standing s) {
    return r.unlisted.standings[static_cast<std::size_t>(s)] +
           r.unlisted_negotiations.standings[static_cast<std::size_t>(s)];
  };
  const std::uint64_t unlisted = r.unlisted.connections + r.unlisted_negotiations.negotiations;
  if (const auto n = of(capture::Standing::failed); n > 0)
    add_line(k.failure, fmt::format("{} of {} that are not listed one by one failed", n, unlisted));
  if (const auto n = of(capture::Standing::partial); n > 0)
    not_seen(k, fmt::format("{} of {} that are not listed one by one", n, unlisted), standing.partial_ok);
  if (r.not_followed > 0)
    not_seen(k, fmt::format("{} not looked at", counted(r.not_followed, "packet")), standing.partial_ok);
  if (!k.failure.empty()) k.skipped.clear();
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
  return "MPA set-up";  // findings without a rule concern the connection as a whole
}

std::vector<std::pair<std::string, std::string>> junit_properties(const capture::Total& total) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto add = [&out](std::string name, std::uint64_t n) {
    out.emplace_back(std::move(name), fmt::format("{}", n));
  };
  const auto counts = [&](std::string_view what, const capture::Total::ByStanding& of) {
    add(fmt::format("total.{}", what), capture::sum(of));
    for (std::size_t i = 0; i < of.size(); ++i)
      add(fmt::format("total.{}.{}", what, to_string(static_cast<capture::Standing>(i))), of[i]);
  };
  counts("files", total.files);
  add("total.files.unread", total.unread);
  counts("connections", total.connections);
  if (capture::sum(total.negotiations) > 0) counts("negotiations", total.negotiations);
  add("total.errors", total.errors);
  add("total.warnings", total.warnings);
  return out;
}

void JunitCapture::add(JunitCase k) {
  if (cases_.size() < (k.failure.empty() ? cases_max : cases_max + failed_more_max))
    cases_.push_back(std::move(k));
  else
    ++(k.failure.empty() ? passed_left_out_ : failed_left_out_);
}

void JunitCapture::connection(const ConnectionReport& c) {
  ++connections_;
  add(end_case(file_, connections_, c, standing_.partial_ok));
  const std::span<const Family> those = c.ib ? std::span<const Family>(ib_families) : std::span<const Family>(families);
  for (const Family& family : those) add(connection_case(file_, connections_, c, family, standing_.fail_on));
}

void JunitCapture::negotiation(const capture::NegotiationReport& n) {
  ++negotiations_;
  JunitCase end = named_case(file_, negotiation_name(negotiations_, n, "it was seen whole and ended well"));
  end.failure = capture::ended_badly(n);
  not_seen(end, capture::not_seen_whole(n), standing_.partial_ok && end.failure.empty());
  add_line(end.output, fmt::format("{}; {}", to_string(n.outcome), n.end));
  for (const Finding& f : n.findings)
    if (f.rule.empty()) add_line(end.output, fmt::format("{}: {}", to_string(f.severity), line_of(f)));
  add(std::move(end));
  for (const NegotiationFamily& family : negotiation_families) {
    JunitCase k = named_case(file_, negotiation_name(negotiations_, n, family.name));
    for (const Finding& f : n.findings) {
      if (!f.rule.starts_with(family.head)) continue;
      if (f.severity >= standing_.fail_on)
        add_line(k.failure, line_of(f));
      else
        add_line(k.output, fmt::format("{}: {}", to_string(f.severity), line_of(f)));
    }
    if (family.head == "QPng §4." && n.attributes.empty() && k.failure.empty() && k.output.empty())
      k.skipped = "no attributes of a queue pair in the capture";
    add(std::move(k));
  }
}

JunitSuite JunitCapture::finish(const CaptureVerdict& verdict) {
  JunitSuite suite{file_, {file_case(file_, verdict), holdings_case(file_, verdict, standing_)}};
  if (passed_left_out_ > 0)
    add_line(suite.cases.front().output,
             fmt::format("left out: {} that did not fail", counted(passed_left_out_, "case")));
  if (failed_left_out_ > 0)
    add_line(suite.cases.back().failure, fmt::format("left out: {} that failed", counted(failed_left_out_, "case")));
  suite.cases.insert(suite.cases.end(), std::make_move_iterator(cases_.begin()), std::make_move_iterator(cases_.end()));
  cases_.clear();
  return suite;
}

JunitSuite junit_suite(const std::string& file, const CaptureVerdict& verdict, const StandingArgs& standing) {
  JunitCapture suite(file, standing);
  for (const ConnectionReport& c : verdict.report.connections) suite.connection(c);
  for (const capture::NegotiationReport& n : verdict.report.negotiations) suite.negotiation(n);
  return suite.finish(verdict);
}

}  // namespace parley::tools
