// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/replay/replay_report.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json_text.hpp"
#include "base/text.hpp"
#include "tools/provenance.hpp"

namespace parley::tools {

namespace {

using replay::Evidence;

/// Hex dump with offsets, 16 octets per line.
std::string dump(const Evidence& e) {
  constexpr std::size_t line = 16, lines_max = 16;
  std::string out;
  for (std::size_t at = 0; at < e.octets.size() && at < line * lines_max; at += line) {
    const std::size_t n = std::min(line, e.octets.size() - at);
    const std::size_t known = e.known > at ? std::min(e.known - at, n) : 0;
    out += fmt::format("    {:04x}  {}\n", at, replay::hex(ConstBytes(e.octets).subspan(at, n), known, line));
  }
  if (e.octets.size() > line * lines_max) out += fmt::format("    .. {} octets in all\n", e.octets.size());
  return out;
}

std::string side_text(const char* name, const std::optional<Evidence>& e) {
  if (!e) return fmt::format("  {}: nothing\n", name);
  const std::string frame = e->frame != 0 ? fmt::format(", frame {}", e->frame) : std::string();
  return fmt::format("  {}{} at {}: {}\n{}", name, frame, decimal_seconds(e->at, 6) + " s", e->words, dump(*e));
}

Json side_json(const std::optional<Evidence>& e) {
  if (!e) return nullptr;
  Json out{{"at_s", in_seconds(e->at)}, {"text", e->words}};
  if (e->frame != 0) out["frame"] = e->frame;
  out["hex"] = hex_digits(e->octets);
  out["octets_known"] = e->known;
  return out;
}

const char* transport_of(const capture::ConnectionReport& c) { return c.ib != nullptr ? "roce" : "iwarp"; }
const char* protocol_of(const capture::ConnectionReport& c) { return c.ib != nullptr ? "ibcm" : "mpa"; }

std::string result_word(const replay::PlayResult& r) {
  if (r.difference) return "different";
  return r.compared > 0 ? "same" : "nothing compared";
}

}  // namespace

void print_contents(Output& out, const std::string& file, const replay::Contents& contents) {
  std::size_t number = 0;
  for (const auto& c : contents.report.connections) {
    ++number;
    const bool playable = replay::set_up_captured(c);
    out.text(fmt::format("{}: {} > {}, frames {} to {}, {}{}{}", number, c.end_text(capture::Side::initiator),
                         c.end_text(capture::Side::responder), c.first_frame, c.last_frame,
                         capture::to_string(c.outcome), playable ? "" : ": cannot be played",
                         c.end.empty() ? "" : ", " + c.end));
    out.object({{"event", "connection"},
                {"file", file},
                {"connection", number},
                {"transport", transport_of(c)},
                {"protocol", protocol_of(c)},
                {"initiator", c.end_text(capture::Side::initiator)},
                {"responder", c.end_text(capture::Side::responder)},
                {"first_frame", c.first_frame},
                {"last_frame", c.last_frame},
                {"outcome", json_word(capture::to_string(c.outcome))},
                {"playable", playable}});
  }
}

namespace {

/// What is known about a recording before the run.
struct Head {
  std::size_t connection = 0, connections = 0;
  const capture::ConnectionReport& report;
  std::size_t steps = 0, answers = 0;
  bool other_seen = true;
  const std::vector<std::string>&notes, &lacks;
};

void print_head(Output& out, const ReplayRun& run, const Head& head) {
  const std::string initiator = head.report.end_text(capture::Side::initiator);
  const std::string responder = head.report.end_text(capture::Side::responder);
  out.text(fmt::format("{}: connection {} of {}, {} > {}", run.file, head.connection, head.connections, initiator,
                       responder));
  out.text(fmt::format("playing the {} against {}: {} steps, {} answers to compare", capture::to_string(run.side),
                       run.against, head.steps, head.answers));
  if (!head.other_seen)
    out.text(fmt::format("  nothing of the {} is in the recording: its answers are shown, not compared",
                         capture::to_string(capture::other(run.side))));
  for (const std::string& note : head.notes) out.text("  " + note);
  if (!head.lacks.empty()) out.text(fmt::format("  not in the recording: {}", fmt::join(head.lacks, ", ")));
  out.object({{"event", "replay"},
              {"file", run.file},
              {"connection", head.connection},
              {"connection_count", head.connections},
              {"transport", transport_of(head.report)},
              {"protocol", protocol_of(head.report)},
              {"role", capture::to_string(run.side)},
              {"against", run.against},
              {"recorded", {{"initiator", initiator}, {"responder", responder}}},
              {"steps", head.steps},
              {"answers", head.answers},
              {"other_side_seen", head.other_seen},
              {"lacks", head.lacks},
              {"notes", head.notes}});
}

}  // namespace

void print_begin(Output& out, const ReplayRun& run, const replay::Recording& recording) {
  const auto& other = recording.side(capture::other(run.side));
  print_head(out, run,
             {.connection = recording.connection,
              .connections = recording.connections,
              .report = recording.report,
              .steps = recording.side(run.side).steps.size(),
              .answers = other.items.size(),
              .other_seen = other.seen,
              .notes = recording.notes,
              .lacks = recording.lacks});
}

void print_begin(Output& out, const ReplayRun& run, const replay::RoceRecording& recording) {
  const std::size_t answers = recording.count(capture::other(run.side));
  print_head(out, run,
             {.connection = recording.connection,
              .connections = recording.connections,
              .report = recording.report,
              .steps = recording.count(run.side),
              .answers = answers,
              .other_seen = answers > 0,
              .notes = recording.notes,
              .lacks = recording.lacks});
}

Played print_result(Output& out, const ReplayRun& run, const replay::PlayResult& r) {
  if (run.verbose || out.json)
    for (const replay::LogLine& line : r.log) {
      out.text(fmt::format("  {:>12}  {} {:<9} {}", decimal_seconds(line.at, 6) + " s",
                           line.played ? "played" : "  live",
                           line.frame != 0 ? fmt::format("frame {}", line.frame) : std::string(), line.text));
      if (run.verbose)
        out.object({{"event", line.played ? "played" : "live"},
                    {"at_s", in_seconds(line.at)},
                    {"frame", line.frame},
                    {"text", line.text}});
    }
  if (run.verbose)
    for (const std::string& event : run.events) out.text("  Parley's side: " + event);
  for (const std::string& note : r.notes) out.text("  " + note);
  for (const std::string& words : r.ignored_words) out.text("  " + words);
  if (r.ignored > r.ignored_words.size())
    out.text(fmt::format("  ignored: {} more", r.ignored - r.ignored_words.size()));
  if (r.difference) {
    const auto& d = *r.difference;
    out.text(fmt::format("first difference: {}{}", d.what, d.rule.empty() ? "" : " [" + d.rule + "]"));
    std::string both = side_text("recorded", d.recorded) + side_text("live", d.live);
    both.pop_back();
    out.text(both);
    out.object({{"event", "difference"},
                {"text", d.what},
                {"rule", d.rule},
                {"recorded", side_json(d.recorded)},
                {"live", side_json(d.live)}});
  }
  std::string line = fmt::format("{}: {} of {} steps played, {} of {} answers compared", result_word(r), r.steps_played,
                                 r.steps, r.compared, r.expected);
  if (r.differences > 1) line += fmt::format(", {} differences", r.differences);
  if (r.ignored > 0) line += fmt::format(", {} ignored", r.ignored);
  if (r.not_compared > 0) line += fmt::format(", {} live answers that are not in the recording", r.not_compared);
  if (r.left_out)
    line += "; some of the recording could not be played";
  else if (r.partial)
    line += "; the recording is not whole";
  out.text(line);
  out.object({{"event", "summary"},
              {"command", "replay"},
              {"verdict", json_word(result_word(r))},
              {"steps", r.steps},
              {"steps_played", r.steps_played},
              {"answers", r.expected},
              {"answers_compared", r.compared},
              {"not_compared", r.not_compared},
              {"differences", r.differences},
              {"ignored", r.ignored},
              {"ignored_words", r.ignored_words},
              {"partial", r.partial},
              {"notes", r.notes},
              {"report", report_json(run.provenance)}});
  if (!r.difference && r.compared == 0)
    return {out.error(Exit::failed, "no answer was compared; this does not count as passed"), result_word(r)};
  return {code(r.difference ? Exit::failed : Exit::ok), result_word(r)};
}

void ReplayTotal::add(std::size_t number, const Played& played) {
  auto& where = played.exit == code(Exit::environment) ? broken_off
                : played.word == "same"                ? same
                : played.word == "different"           ? different
                                                       : nothing_compared;
  where.push_back(number);
}

void print_not_played(Output& out, const ReplayRun& run, const capture::ConnectionReport& connection,
                      std::size_t number, std::size_t all, const std::string& why) {
  out.text(fmt::format("{}: connection {} of {}, {} > {}\nnot played: {}\n", run.file, number, all,
                       connection.end_text(capture::Side::initiator), connection.end_text(capture::Side::responder),
                       why));
  out.object({{"event", "not_played"}, {"file", run.file}, {"connection", number}, {"text", why}});
}

int print_total(Output& out, const ReplayTotal& total, std::size_t all, const ReplayRun& run) {
  const std::string& file = run.file;
  const std::size_t reached = total.same.size() + total.different.size() + total.nothing_compared.size() +
                              total.broken_off.size() + total.not_played.size();
  std::vector<std::size_t> left(all - reached);  // always the last connections
  std::iota(left.begin(), left.end(), reached + 1);
  std::string line = fmt::format("{}: {} same", counted(all, "connection"), total.same.size());
  Json object{
      {"event", "total"}, {"command", "replay"}, {"file", file}, {"connection_count", all}, {"same", total.same}};
  const auto tell = [&](const char* words, const char* key, const std::vector<std::size_t>& numbers) {
    if (!numbers.empty()) line += fmt::format(", {} {} ({})", numbers.size(), words, fmt::join(numbers, ", "));
    object[key] = numbers;
  };
  tell("different", "different", total.different);
  tell("with nothing compared", "nothing_compared", total.nothing_compared);
  tell("broken off", "broken_off", total.broken_off);
  tell("not played", "not_played", total.not_played);
  tell("not reached", "not_reached", left);
  object["report"] = report_json(run.provenance);
  out.text(line);
  out.object(object);
  if (total.not_played.size() == all)
    return out.error(Exit::environment, file + ": none of its connections can be played");
  if (!total.broken_off.empty() || !left.empty()) return code(Exit::environment);
  return code(total.different.empty() && total.nothing_compared.empty() ? Exit::ok : Exit::failed);
}

}  // namespace parley::tools
