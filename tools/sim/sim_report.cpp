// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_report.hpp"

#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tools/provenance.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t cases_max = 100'000;    ///< of JUnit; beyond this, passed runs are only counted
constexpr std::size_t rows_max = 200;         ///< GitHub cuts a summary at 1 MiB
constexpr std::size_t violations_shown = 10;  ///< of one run, in text
constexpr std::size_t recorded_max = 20;      ///< failed runs with a capture; a broken commit may have thousands

std::string_view end_word(sim::RunEnd end) {
  switch (end) {
    case sim::RunEnd::settled: return "settled";
    case sim::RunEnd::time_bound: return "time_bound";
    case sim::RunEnd::event_bound: return "event_bound";
    case sim::RunEnd::converge_bound: return "converge_bound";
    case sim::RunEnd::stopped: return "stopped";
    case sim::RunEnd::exhausted: return "exhausted";
  }
  return "unknown";
}

std::string bound_text(const sim::RunReport& report) {
  switch (report.end) {
    case sim::RunEnd::time_bound:
      return fmt::format(
          "not over at its bound (time): [bounds] time = \"{}\"; the last thing happened at {}. Raise the "
          "bound if what is pending only takes long",
          sim::time_text(report.bounds.time), precise_duration_text(report.finished_at.time_since_epoch()));
    case sim::RunEnd::event_bound:
      return fmt::format(
          "not over at its bound (events): [bounds] events = {}, at {}. Raise the bound if what is pending "
          "only takes many events",
          report.bounds.events.value_or(0), precise_duration_text(report.finished_at.time_since_epoch()));
    case sim::RunEnd::converge_bound:
      return fmt::format(
          "not over at its bound (converge): [bounds] converge = \"{}\", at {}. Raise the bound if what is "
          "pending only takes long",
          sim::time_text(report.bounds.converge), precise_duration_text(report.finished_at.time_since_epoch()));
    case sim::RunEnd::exhausted:
      return fmt::format("not over when its event queue was full, at {}; no key of [bounds] raises that limit",
                         precise_duration_text(report.finished_at.time_since_epoch()));
    case sim::RunEnd::settled:
    case sim::RunEnd::stopped: break;
  }
  return {};
}

/// Indented lines below the run's first line.
std::string details(const SimResult& result) {
  const sim::RunReport& report = result.report;
  std::string text;
  if (const std::string bound = bound_text(report); !bound.empty()) text += "\n  " + bound;
  std::size_t shown = 0;
  for (const sim::Violation& violation : report.violations) {
    if (shown++ == violations_shown) break;
    text += "\n  " + violation_text(violation);
  }
  if (report.violations.size() > violations_shown)
    text += fmt::format("\n  and {} violations more", report.violations.size() - violations_shown);
  shown = 0;
  for (const std::string& pending : report.pending) {
    if (shown++ == violations_shown) break;
    text += "\n  pending: " + pending;
  }
  if (report.pending.size() > violations_shown)
    text += fmt::format("\n  and {} more pending", report.pending.size() - violations_shown);
  if (!result.drawn.empty()) {
    text += "\n  drawn from the seed:";
    for (const std::string& line : result.drawn) text += "\n    " + line;
  }
  text += "\n  reproduce: " + replay_command(result.run);
  return text;
}

/// The line of the scenario file for an annotation: that of "connect N" if a violation names one, else 1.
int trouble_line(const SimResult& result) {
  static constexpr std::string_view mark = "of connect ";
  const auto& connects = result.run.file->scenario.connects;
  for (const sim::Violation& violation : result.report.violations) {
    const std::size_t at = violation.connection.find(mark);
    if (at == std::string::npos) continue;
    std::size_t number = 0;
    const std::string_view rest = std::string_view(violation.connection).substr(at + mark.size());
    std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (number >= 1 && number <= connects.size() && connects[number - 1].line > 0) return connects[number - 1].line;
  }
  return 1;
}

Json xrc_json(const std::vector<sim::XrcOutcome>& nodes) {
  Json out = Json::array();
  for (const sim::XrcOutcome& node : nodes) {
    Json processes = Json::array();
    for (const auto& process : node.processes)
      processes.push_back({{"messages", process.messages}, {"octets", process.octets}, {"exited", process.exited}});
    out.push_back({{"label", node.label},
                   {"created", node.created},
                   {"destroyed", node.destroyed},
                   {"reaped", node.reaped},
                   {"processes", std::move(processes)}});
  }
  return out;
}

std::string markdown_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '`') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

}  // namespace

std::string_view verdict_word(const SimResult& result) {
  return result.passed() ? "passed" : result.stopped() ? "stopped" : "failed";
}

std::string outcome_text(const sim::RunReport& report) {
  const std::string text = sim::connections_text(report);
  if (text.empty()) return "no connection";
  return report.retries == 0
             ? text
             : fmt::format("{}, {} {}", text, report.retries, report.retries == 1 ? "retry" : "retries");
}

std::string violation_text(const sim::Violation& violation) {
  std::string text = fmt::format("{} at {}", violation.checker, precise_duration_text(violation.at.time_since_epoch()));
  if (!violation.connection.empty()) text += fmt::format(", {}", violation.connection);
  text += ": " + violation.text;
  if (!violation.rule.empty()) text += fmt::format(" ({})", violation.rule);
  return text;
}

std::string first_trouble(const sim::RunReport& report) {
  if (!report.violations.empty()) return violation_text(report.violations.front());
  return bound_text(report);
}

std::string run_text(const SimResult& result) {
  const sim::RunReport& report = result.report;
  std::string text = fmt::format(
      "{:<6} {:<32} seed {:<8} {}, {}{}{}, {}", result.passed() ? "ok" : "FAILED", result.run.file->shown,
      seed_text(result.run.seed), outcome_text(report), counted(report.faults_hit - report.lost_at_hosts, "fault"),
      report.lost_at_hosts == 0 ? "" : fmt::format(", {} lost at hosts", counted(report.lost_at_hosts, "frame")),
      report.queue_drops == 0 ? "" : ", " + counted(report.queue_drops, "queue drop"),
      precise_duration_text(report.finished_at.time_since_epoch()));
  if (report.counters.ecn_marked != 0)
    text +=
        fmt::format(", {} with CE, {}", counted(report.counters.ecn_marked, "packet"), counted(report.cnp_sent, "CNP"));
  if (!result.passed()) text += details(result);
  if (!result.pcapng_file.empty()) text += "\n  capture: " + result.pcapng_file;
  if (!result.html_file.empty()) text += "\n  ladder: " + result.html_file;
  if (result.hash) text += fmt::format("\n  pcapng fnv1a 0x{:016x}", *result.hash);
  return text;
}

Json run_json(const SimResult& result, bool connections) {
  const sim::RunReport& r = result.report;
  Json object{{"event", "run"},
              {"file", result.run.file->shown},
              {"scenario", r.scenario},
              {"seed", seed_text(result.run.seed)},
              {"swarm", result.run.swarm},
              {"verdict", verdict_word(result)},
              {"end", end_word(r.end)},
              {"virtual_us", in_microseconds(r.finished_at - Instant{})},
              {"established", r.established},
              {"rejected", r.rejected},
              {"failed", r.failed},
              {"attempts", r.established + r.rejected + r.failed + r.retries},
              {"retries", r.retries},
              {"faults_hit", r.faults_hit - r.lost_at_hosts},
              {"frames_lost_at_hosts", r.lost_at_hosts},
              {"queue_drops", r.queue_drops},
              {"events", r.counters.events},
              {"packet_hops", r.counters.packet_hops},
              {"frames_dropped", r.counters.dropped}};
  if (r.counters.ecn_marked != 0) {
    object["ecn_marked"] = r.counters.ecn_marked;
    object["cnp_sent"] = r.cnp_sent;
    object["cnp_held"] = r.cnp_held;
    object["cnp_received"] = r.cnp_received;
  }
  if (result.run.settled) object["settled"] = true;
  if (result.run.drop_mask) object["drop_mask"] = mask_text(*result.run.drop_mask);
  if (result.run.swarm) object["drawn"] = result.drawn;
  object["violations"] = Json::array();
  for (const sim::Violation& v : r.violations)
    object["violations"].push_back({{"checker", v.checker},
                                    {"at_us", in_microseconds(v.at - Instant{})},
                                    {"connection", v.connection},
                                    {"text", v.text},
                                    {"rule", v.rule}});
  object["pending"] = r.pending;
  if (connections) {
    object["connections"] = Json::array();
    for (const sim::ConnectionOutcome& c : r.outcomes)
      object["connections"].push_back({{"label", c.label},
                                       {"initiator", c.initiator},
                                       {"responder", c.responder},
                                       {"setup_us", in_microseconds(c.setup)},
                                       {"octets", c.octets}});
  }
  if (!r.groups.empty()) {
    object["groups"] = Json::array();
    for (const sim::GroupOutcome& g : r.groups)
      object["groups"].push_back({{"label", g.label},
                                  {"role", g.sends ? "sender" : "member"},
                                  {"datagrams", g.datagrams},
                                  {"octets", g.octets}});
  }
  if (!r.xrc.empty()) object["xrc"] = xrc_json(r.xrc);
  if (result.hash) object["pcapng_fnv1a"] = fmt::format("0x{:016x}", *result.hash);
  if (!result.pcapng_file.empty()) object["pcapng"] = result.pcapng_file;
  if (!result.html_file.empty()) object["html"] = result.html_file;
  object["reproduce"] = replay_command(result.run);
  return object;
}

JunitCase run_junit(const SimResult& result) {
  JunitCase c;
  c.class_name = result.report.scenario.empty() ? result.run.file->shown : result.report.scenario;
  c.name = fmt::format("seed {}", seed_text(result.run.seed));
  if (result.run.swarm) c.name += " swarm";
  if (result.run.settled) c.name += " settled";
  if (result.run.drop_mask) c.name += fmt::format(" drop mask {}", mask_text(*result.run.drop_mask));
  c.file = result.run.file->shown;
  c.time_us = result.cpu_us;
  if (result.stopped()) {
    c.skipped = "stopped before its end";
  } else if (!result.passed()) {
    c.failure = first_trouble(result.report) + details(result);  // the first line becomes the message
    if (!result.pcapng_file.empty()) c.output = "capture: " + result.pcapng_file;
  }
  return c;
}

std::string github_escape(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ',')))
      out += fmt::format("%{:02X}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out;
}

Or<std::unique_ptr<SimReporter>> SimReporter::open(const SimSinkOptions& options, Output& out) {
  std::unique_ptr<SimReporter> reporter(new SimReporter(out));
  auto junit = open_output(options.junit);
  if (!junit) return tl::unexpected(junit.error());
  reporter->junit_ = std::move(*junit);
  if (!options.pcapng_on_failure.empty()) {
    if (const auto ready = prepare_directory(options.pcapng_on_failure); !ready) return tl::unexpected(ready.error());
    reporter->directory_ = options.pcapng_on_failure;
  }
  const char* actions = std::getenv("GITHUB_ACTIONS");
  reporter->annotations_ = actions != nullptr && *actions != '\0';
  if (const char* path = std::getenv("GITHUB_STEP_SUMMARY"); path != nullptr && *path != '\0') {
    auto summary = OutputFile::open(path, true);
    if (!summary) return tl::unexpected(summary.error());
    reporter->summary_ = std::make_unique<OutputFile>(std::move(*summary));
  }
  return reporter;
}

namespace {

std::string interrupted_text(std::uint64_t done, std::uint64_t wanted, const std::string& what) {
  return fmt::format("interrupted after {} of {}", done, counted(wanted, what));
}

/// The runs that were not done, as one case: a partial report must not look like a whole one.
JunitCase rest_junit(std::uint64_t done, std::uint64_t wanted, bool interrupted, const std::string& what) {
  JunitCase c;
  c.class_name = "parley sim";
  c.name = fmt::format("{} not run", counted(wanted - done, what));
  (interrupted ? c.error : c.skipped) =
      interrupted ? interrupted_text(done, wanted, what) : fmt::format("the options ended it after {}", done);
  return c;
}

}  // namespace

void SimReporter::annotate(const SimResult& result) {
  const std::string text = first_trouble(result.report) + "\nreproduce: " + replay_command(result.run);
  out_.note(fmt::format("::error file={},line={},title={}::{}", github_escape(result.run.file->scenario.file, true),
                        trouble_line(result), github_escape(result.report.scenario + " fails", true),
                        github_escape(text, false)));
}

void SimReporter::add(SimResult& result) {
  const bool passed = result.passed();
  ++(passed ? passed_ : failed_);
  if (!passed && !directory_.empty() && failed_ <= recorded_max) {
    const std::atomic<bool> no_stop{false};
    // Files with the same name in different folders get different stems.
    std::string stem = file_stem(result.run);
    if (const int others = stems_[stem]++; others > 0) stem += fmt::format("-{}", others + 1);
    if (auto recorded = record_failure(result, directory_, stem, no_stop, provenance_); !recorded && !trouble_)
      trouble_ = recorded.error();
  }
  if (out_.json)
    out_.object(run_json(result, connections));
  else if (!passed || tell_passed)
    out_.text(run_text(result));
  if (!passed && annotations_ && failed_ <= recorded_max) annotate(result);
  if (junit_ && (!passed || cases_.size() < cases_max)) cases_.push_back(run_junit(result));
  if (summary_ && rows_.size() < rows_max && (!passed || tell_passed))
    rows_.push_back(fmt::format(
        "| {} | {} | {} | {} | {} | {} |", passed ? "passed" : "**failed**", markdown_cell(result.run.file->shown),
        seed_text(result.run.seed), outcome_text(result.report),
        precise_duration_text(result.report.finished_at.time_since_epoch()),
        passed ? "" : markdown_cell(first_trouble(result.report)) + "<br>`" + replay_command(result.run) + "`"));
}

void SimReporter::begin(const std::vector<const ScenarioFile*>& files) {
  std::vector<draw::InputFile> inputs;
  for (const ScenarioFile* file : files) inputs.push_back(file->input);
  provenance_ = tools::provenance(out_, std::move(inputs));
  print_provenance(out_, provenance_);
}

int SimReporter::finish(std::uint64_t wanted, bool fewer_is_well, const std::string& what) {
  const std::uint64_t done = passed_ + failed_;
  const bool interrupted = done < wanted && !fewer_is_well;
  if (junit_ && done < wanted) cases_.push_back(rest_junit(done, wanted, interrupted, what));
  std::string text = fmt::format("{}: {} passed, {} failed", counted(done, what), passed_, failed_);
  if (done < wanted) text += fmt::format("; {} of {} were not run", wanted - done, wanted);
  out_.text(text);
  out_.object({{"event", "summary"},
               {"command", out_.command},
               {"wanted", wanted},
               {"passed", passed_},
               {"failed", failed_},
               {"interrupted", interrupted},
               {"report", report_json(provenance_)}});
  if (junit_) {
    junit_->write(
        junit_xml("parley " + out_.command, {{"parley " + out_.command, cases_, report_properties(provenance_)}}));
    if (const auto written = junit_->finish(); !written && !trouble_) trouble_ = written.error();
  }
  if (summary_) {
    std::string table = fmt::format("### parley {}\n\n{}\n\n", out_.command, text);
    if (!rows_.empty())
      table += "| Result | Scenario | Seed | Connections | Virtual time | Trouble |\n|---|---|---|---|---|---|\n";
    for (const std::string& row : rows_) table += row + "\n";
    summary_->write(std::string_view(table + "\n"));
    if (const auto written = summary_->finish(); !written && !trouble_) trouble_ = written.error();
  }
  if (trouble_) return out_.error(trouble_->exit, trouble_->text);
  if (done == 0 && wanted > 0)  // a shard may have no runs
    return out_.error(Exit::failed,
                      fmt::format("none of {} was run; this does not count as passed", counted(wanted, what)));
  if (interrupted) return out_.error(Exit::failed, interrupted_text(done, wanted, what));
  return code(failed_ > 0 ? Exit::failed : Exit::ok);
}

}  // namespace parley::tools
