// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_trouble.hpp"

#include <algorithm>
#include <cctype>

#include "tools/sim/sim_report.hpp"

namespace parley::tools {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.'; }

bool is_figure(std::string_view word) { return std::isdigit(static_cast<unsigned char>(word.front())) != 0; }

/// "established", "rejected", or "failed: " with the step that failed.
std::string phase_of(std::string_view outcome) {
  const std::size_t step = outcome.find(": ");
  if (step == std::string_view::npos || !outcome.starts_with("failed")) return std::string(outcome.substr(0, step));
  return std::string(outcome.substr(0, outcome.find(": ", step + 2)));
}

}  // namespace

std::string SimTrouble::message_class(std::string_view text, const std::set<std::string, std::less<>>& names) {
  std::string out;
  int brackets = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      brackets += text[at] == '(' ? 1 : 0;
      if (brackets == 0) out += text[at];
      brackets -= text[at] == ')' && brackets > 0 ? 1 : 0;
      ++at;
      continue;
    }
    const std::size_t end = std::min(
        static_cast<std::size_t>(std::find_if_not(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(), is_word) -
                                 text.begin()),
        text.size());
    const std::string_view word = text.substr(at, end - at);
    at = end;
    if (brackets > 0) continue;
    if (names.contains(word))
      out += '*';
    else if (is_figure(word))
      out += '#';
    else if (out.ends_with("# ") && (word == "ns" || word == "us" || word == "ms" || word == "s"))
      out += "time";
    else
      out += word;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

SimTrouble::SimTrouble(const sim::Scenario& scenario, const sim::RunReport& report) : end_(report.end) {
  for (const sim::ScenarioHost& host : scenario.hosts) names_.insert(host.name);
  for (const sim::ScenarioLink& link : scenario.links) names_.insert(link.name);
  if (!report.violations.empty())
    key_ = key_of(report, report.violations.front());
  else if (!report.pending.empty())
    pending_ = message_class(report.pending.front(), names_);
}

SimTrouble::Key SimTrouble::key_of(const sim::RunReport& report, const sim::Violation& violation) const {
  Key key{.checker = violation.checker, .message = message_class(violation.text, names_), .phase = {}};
  for (const sim::ConnectionOutcome& outcome : report.outcomes)
    if (!violation.connection.empty() && outcome.label == violation.connection) key.phase = phase_of(outcome.initiator);
  return key;
}

std::optional<std::string> SimTrouble::find_in(const sim::RunReport& report) const {
  if (key_) {
    for (const sim::Violation& violation : report.violations)
      if (key_of(report, violation) == *key_) return violation_text(violation);
    return std::nullopt;
  }
  if (report.passed() || report.end != end_) return std::nullopt;
  const bool open = pending_.empty()
                        ? report.pending.empty()
                        : std::any_of(report.pending.begin(), report.pending.end(), [this](const std::string& words) {
                            return message_class(words, names_) == pending_;
                          });
  return open ? std::optional(first_trouble(report)) : std::nullopt;
}

}  // namespace parley::tools
