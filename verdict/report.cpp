// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/report.hpp"

#include <algorithm>

namespace parley::verdict {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return "note";
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::established: return "established";
    case Outcome::rejected: return "rejected";
    case Outcome::failed: return "failed";
    case Outcome::incomplete: return "incomplete";
    case Outcome::not_captured: return "handshake not captured";
  }
  return "incomplete";
}

std::string_view to_string(Side side) { return side == Side::initiator ? "initiator" : "responder"; }

std::size_t ConnectionReport::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; }));
}

std::size_t FileReport::count(Severity severity) const {
  std::size_t n = unlisted.findings[static_cast<std::size_t>(severity)];
  for (const auto& c : connections) n += c.count(severity);
  return n;
}

}  // namespace parley::verdict
