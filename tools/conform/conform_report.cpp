// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/conform/conform_report.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "tools/provenance.hpp"

namespace parley::tools {

using conform::Case;
using conform::Result;
using conform::Verdict;

Or<CaseFilter> CaseFilter::parse(const std::string& text, const std::vector<std::string_view>& names) {
  if (text.size() > octets_max)
    return command_error(Exit::usage, fmt::format("--only has {} octets; the limit is {}", text.size(), octets_max));
  if (std::count(text.begin(), text.end(), '(') > groups_max)
    return command_error(Exit::usage, fmt::format("--only has more than {} groups", groups_max));
  CaseFilter only;
  only.all_ = text.empty();
  try {
    for (std::size_t at = 0; !text.empty() && at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      if (comma - at > expression_octets_max)
        return command_error(Exit::usage, fmt::format("--only has an expression of {} octets; the limit is {}",
                                                      comma - at, expression_octets_max));
      if (comma > at) only.patterns_.emplace_back(text.substr(at, comma - at), flavour);
      at = comma + 1;
    }
    // The regex library may detect only at the first match that an expression is too complex.
    for (const std::string_view name : names) (void)only.has(name);
  } catch (const std::regex_error& error) {
    return command_error(Exit::usage,
                         fmt::format("--only '{}' is not a valid regular expression: {}", text, error.what()));
  }
  return only;
}
bool CaseFilter::has(std::string_view name) const {
  if (all_) return true;
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::regex& p) { return std::regex_search(name.begin(), name.end(), p); });
}

static Json exchange_json(const Result& r) {
  Json list = Json::array();
  for (const conform::Exchange& e : r.exchanges)
    list.push_back({{"at_ms", std::chrono::duration_cast<std::chrono::milliseconds>(e.at - r.began).count()},
                    {"connection", e.connection},
                    {"by", e.by_tester ? "tester" : "peer"},
                    {"text", e.words},
                    {"hex", hex_digits(e.octets)}});
  return list;
}

Json case_json(const ConformTable& table, const Case& c) {
  return {{"row", c.row},
          {"name", c.name},
          {"transport", table.transport},
          {"protocol", table.protocol},
          {"iut", to_string(c.iut)},
          {"rule", c.clause},
          {"level", to_string(c.level)},
          {"destructive", c.destructive},
          {"stimulus", c.stimulus},
          {"expected", c.expected}};
}

Json result_json(const ConformTable& table, const Result& r) {
  Json object{{"event", "case"}};
  object.update(case_json(table, *r.what));
  object["verdict"] = json_word(to_string(r.finding.verdict));
  object["observed"] = r.finding.observed;
  object["took_s"] = in_seconds(r.took);
  object["exchanges"] = exchange_json(r);
  if (!r.output.empty()) object["output"] = r.output;
  return object;
}

JunitCase junit_case(const ConformTable& table, const Result& r, bool strict) {
  JunitCase c;
  c.class_name = table.class_name;
  c.name = std::string(r.what->name);
  c.time_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(r.took).count());
  const std::string words = fmt::format("{}\nclause: {} ({})\nstimulus: {}\nexpected: {}", r.finding.observed,
                                        r.what->clause, to_string(r.what->level), r.what->stimulus, r.what->expected);
  if (counts_as_failed(r, strict)) {
    c.failure = words;
  } else if (r.finding.verdict == Verdict::inconclusive || r.finding.verdict == Verdict::not_run) {
    c.skipped = fmt::format("{}: {}", to_string(r.finding.verdict), r.finding.observed);
  }
  for (const conform::Exchange& e : r.exchanges)
    c.output +=
        fmt::format("{} {}: {} [{}]\n", e.connection, e.by_tester ? "tester" : "peer", e.words, hex_text(e.octets));
  c.output += r.output;
  return c;
}

void list_case(const ConformTable& table, const Case& c, bool live, Output& out) {
  out.text(fmt::format("{:<6} {:<34} {:<26} {:<7}{}", c.row, c.name, c.clause, to_string(c.level),
                       !live           ? "not testable live"
                       : c.destructive ? "destructive"
                                       : ""));
  Json object{{"event", "case"}};
  object.update(case_json(table, c));
  out.object(object);
}

std::string conform_line(const Result& result, bool strict, std::size_t columns) {
  constexpr std::size_t words_at = 56, words_least = 24;  // column of the text; minimum width for wrapping
  const std::string& observed = result.finding.observed;
  return fmt::format("{:<13} {:<6} {:<34} {}", verdict_text(result, strict), result.what->row, result.what->name,
                     columns < words_at + words_least ? observed : wrap(observed, columns, words_at));
}

Json summary_json(const ConformTable& table, conform::Iut iut, const conform::Tally& t, bool interrupted,
                  const draw::Provenance& provenance) {
  return {{"event", "summary"},
          {"command", "conform"},
          {"transport", table.transport},
          {"protocol", table.protocol},
          {"iut", to_string(iut)},
          {"passed", t.passed},
          {"failed", t.failed},
          {"should_failed", t.should_failed},
          {"may_failed", t.may_failed},
          {"inconclusive", t.inconclusive},
          {"not_run", t.not_run},
          {"interrupted", interrupted},
          {"report", report_json(provenance)}};
}

int exit_of(bool interrupted, const conform::Tally& t, Output& out) {
  if (interrupted) return out.error(Exit::failed, "interrupted: the results are partial");
  if (t.passed + t.failed + t.should_failed + t.may_failed == 0)
    return out.error(
        Exit::failed,
        fmt::format("no case reached a verdict ({} inconclusive, {} not run); this does not count as passed",
                    t.inconclusive, t.not_run));
  return code(t.failed > 0 ? Exit::failed : Exit::ok);
}

Or<ConformOutputs> ConformOutputs::open(const ConformArgs& args) {
  if (const auto apart = check_outputs(
          {},
          {{"--junit", args.junit}, {"--html", args.html}, {"--markdown", args.markdown}, {"--pcapng", args.pcapng}});
      !apart)
    return tl::unexpected(apart.error());
  ConformOutputs outputs;
  for (auto [file, path] : {std::pair(&outputs.junit, &args.junit), std::pair(&outputs.html, &args.html),
                            std::pair(&outputs.markdown, &args.markdown)}) {
    auto opened = open_output(*path);
    if (!opened) return tl::unexpected(opened.error());
    *file = std::move(*opened);
  }
  return outputs;
}

Or<void> ConformOutputs::write(const ConformTable& table, const conform::ReportHead& head, conform::Iut iut,
                               const std::vector<Result>& results) const {
  Or<void> written;
  const auto save = [&written](const std::unique_ptr<OutputFile>& file, const auto& make) {
    if (!file) return;
    file->write(std::string_view(make()));
    if (const auto ended = file->finish(); !ended && written) written = ended;
  };
  save(markdown, [&] { return conform::markdown(head, iut, results); });
  save(html, [&] { return conform::html(head, iut, results); });
  save(junit, [&] {
    std::vector<JunitCase> cases;
    for (const Result& r : results) cases.push_back(junit_case(table, r, head.strict));
    return junit_xml(table.command, {{table.command, std::move(cases), report_properties(*head.provenance)}});
  });
  return written;
}

}  // namespace parley::tools
