// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/demo_captures.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "tools/own_program.hpp"
#include "tools/pcap/pcap.hpp"

namespace parley::tools {

namespace {

namespace fs = std::filesystem;
using capture::Severity;

constexpr std::size_t width = 110;

/// Where a protocol's captures of Linux are, and how their files are named.
struct Shipped {
  const char* directory;
  const char* prefix;
  const char* driver;
};
constexpr Shipped iwarp{"iwarp", "siw_", "siw"}, roce{"roce", "rxe", "rxe"};

/// The directory below tests/captures of the source tree that contains the program or the working directory.
fs::path captures_directory(const Shipped& shipped) {
  std::error_code error;
  const fs::path self = own_program().parent_path();
  const fs::path here = fs::current_path(error);
  for (const fs::path& start : {self, here})
    for (fs::path at = start; !at.empty(); at = at.parent_path()) {
      const fs::path found = at / "tests" / "captures" / shipped.directory;
      if (fs::is_directory(found, error)) return found;
      if (at == at.parent_path()) break;
    }
  return {};
}

std::vector<std::string> find_captures(const Shipped& shipped) {
  std::vector<std::string> files;
  std::error_code error;
  const fs::path directory = captures_directory(shipped);
  if (directory.empty()) return files;
  for (const auto& entry : fs::directory_iterator(directory, error))
    if (entry.path().filename().string().starts_with(shipped.prefix)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

Json verdict_json(const std::string& file, const capture::FileReport& report) {
  return {{"event", "checked"},
          {"file", file},
          {"verdict", capture::to_string(report.judgement.standing)},
          {"connection_count", report.connections.size()},
          {"errors", report.count(Severity::error)},
          {"warnings", report.count(Severity::warning)}};
}

/// The number of connections for each outcome: "3 established, 1 rejected".
std::string outcomes(const capture::FileReport& report) {
  std::string text;
  for (const auto outcome : {capture::Outcome::established, capture::Outcome::rejected, capture::Outcome::failed,
                             capture::Outcome::incomplete}) {
    const auto n = std::count_if(report.connections.begin(), report.connections.end(),
                                 [outcome](const auto& c) { return c.outcome == outcome; });
    if (n > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", n, capture::to_string(outcome));
  }
  return text.empty() ? "no connection" : text;
}

/// Prints the distinct rules that the peers in a file broke, each with its first example.
void print_errors(const capture::FileReport& report, Context& context) {
  constexpr std::size_t rules_max = 4;
  std::vector<std::string> told;
  std::size_t left_out = 0;
  for (const auto& connection : report.connections)
    for (const auto& finding : connection.findings) {
      if (finding.severity != Severity::error) continue;
      if (std::find(told.begin(), told.end(), finding.rule) != told.end()) continue;
      told.push_back(finding.rule);
      if (told.size() > rules_max) {
        ++left_out;
        continue;
      }
      context.out.text("      " +
                       wrap(fmt::format("frame {}: {} [{}]", finding.frame, finding.text, finding.rule), width, 8));
    }
  if (left_out > 0) context.out.text(fmt::format("      and {} more rules; see parley pcap check", left_out));
}

}  // namespace

int demo_captures(const std::string& own, std::vector<std::string> others, bool over_roce, Context& context) {
  const Shipped& shipped = over_roce ? roce : iwarp;
  const CaptureVerdict mine = check_capture_file(own, true);
  if (!mine.error.empty()) return context.out.error(Exit::environment, fmt::format("{}: {}", own, mine.error));
  context.out.text(fmt::format("\nThe exchange, from {}:\n", own));
  for (const auto& connection : mine.report.connections)
    context.out.text(capture::to_ladder(connection, {.width = width}));
  context.out.object(verdict_json(own, mine.report));
  if (mine.report.connections.empty() || mine.report.count(Severity::error) > 0)
    return context.out.error(Exit::failed,
                             "the demo's own capture does not hold what it should: see parley pcap check " + own);

  if (others.empty()) others = find_captures(shipped);
  if (others.empty()) {
    context.out.text("No real captures next to this program; parley demo FILE... checks your own.");
    return code(Exit::ok);
  }
  context.out.text(fmt::format("Real captures of Linux {}, judged by parley pcap check (errors: a peer broke a MUST):",
                               shipped.driver));
  Exit exit = Exit::ok;
  for (const std::string& file : others) {
    const CaptureVerdict other = check_capture_file(file, false);
    if (!other.error.empty()) {
      context.out.note(fmt::format("parley demo: {}: {}", file, other.error));
      exit = Exit::environment;
    }
    if (!other.readable) continue;
    context.out.text(fmt::format("  {}: {} connections ({}); {} errors, {} warnings",
                                 fs::path(file).filename().string(), other.report.connections.size(),
                                 outcomes(other.report), other.report.count(Severity::error),
                                 other.report.count(Severity::warning)));
    print_errors(other.report, context);
    context.out.object(verdict_json(file, other.report));
  }
  context.out.text(fmt::format("\nCapture of the demo: {}", own));
  return code(exit);
}

}  // namespace parley::tools
