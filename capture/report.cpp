// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/gid.hpp"
#include "base/text.hpp"
#include "capture/rules/mpa/startup_check.hpp"
#include "parley/wire/ib.h"

namespace parley::capture {

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::note: return "note";
    case Severity::warning: return "warning";
    case Severity::error: return "error";
  }
  return "note";
}

std::string_view to_string(Standing standing) {
  switch (standing) {
    case Standing::passed: return "passed";
    case Standing::partial: return "partial";
    case Standing::failed: return "failed";
  }
  return "failed";
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

std::string_view to_string(NegOutcome outcome) {
  switch (outcome) {
    case NegOutcome::agreed: return "agreed";
    case NegOutcome::refused: return "refused";
    case NegOutcome::failed: return "failed";
    case NegOutcome::incomplete: return "incomplete";
  }
  return "incomplete";
}

std::string ConnectionReport::end_text(Side side) const {
  const Address& address = side == Side::initiator ? initiator : responder;
  if (!ib) return address.to_string();
  const std::string text = address.to_string();  // with port 0
  const auto& qpn = ib->ends[index_of(side)].qpn;
  return text.substr(0, text.rfind(':')) + (qpn ? fmt::format(":{:#08x}", *qpn) : "");
}

std::uint64_t FileReport::ib_connections() const {
  return unlisted.ib + taken.ib +
         static_cast<std::uint64_t>(
             std::count_if(connections.begin(), connections.end(), [](const auto& c) { return c.ib != nullptr; }));
}

std::string FileReport::connections_text() const {
  const std::uint64_t all = all_connections(), roce = ib_connections();
  std::string out = all > roce || roce == 0 ? counted(all - roce, "MPA connection") : "";
  if (roce > 0) out += (out.empty() ? "" : ", ") + counted(roce, "RoCE connection");
  return out;
}

std::string Finding::cited() const {
  if (rule.empty()) return {};
  return broken ? fmt::format(" [{}, {}]", rule, key()) : fmt::format(" [{}]", rule);
}

std::string Finding::line() const {
  return (frame == 0 ? std::string() : fmt::format("frame {}: ", frame)) + text + cited();
}

std::string ignored_text(const RuleCounts& ignored) {
  std::uint64_t all = 0;
  std::string which;
  for (const auto& [rule, count] : ignored) {
    all += count;
    which += fmt::format("{}{}{}", which.empty() ? "" : ", ", facts_of(rule).id,
                         ignored.size() > 1 ? fmt::format(" {}", count) : "");
  }
  return all == 0 ? std::string() : fmt::format("{} ignored ({})", counted(all, "finding"), which);
}

std::string_view to_string(Side side) { return side == Side::initiator ? "initiator" : "responder"; }

std::size_t ConnectionReport::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; }));
}

bool ConnectionReport::to_group() const {
  return ib && ib->ends[index_of(Side::responder)].qpn == PARLEY_IB_QPN_MULTICAST && is_multicast(gid_of(responder));
}

std::string_view ConnectionReport::not_agreed() const {
  if (to_group()) return "nothing: datagrams to a multicast group have no set-up";
  if (outcome == Outcome::not_captured) return "not known: the set-up is not in the capture";
  if (ib) return depths_negotiated || outcome == Outcome::established ? "" : "nothing: no REP is in the capture";
  const bool carried_on = from_initiator.fpdus + from_responder.fpdus > 0 || outcome == Outcome::established;
  if (!reply) return carried_on ? "not known: the Reply is not in the capture" : "nothing: no Reply is in the capture";
  if (reply->r()) return "nothing: the Reply rejects";
  return invalid_reply(*reply) ? "nothing: the Reply is not valid" : "";
}

void ConnectionTally::add(const ConnectionReport& c) {
  ++connections;
  ++outcomes[static_cast<std::size_t>(c.outcome)];
  ++standings[static_cast<std::size_t>(c.judgement.standing)];
  for (const Finding& f : c.findings) ++findings[static_cast<std::size_t>(f.severity)];
  fpdus += c.from_initiator.fpdus + c.from_responder.fpdus;
  if (c.ib) ++ib;
}

std::vector<ConnectionReport> FileReport::take_connections() {
  std::vector<ConnectionReport> out;
  out.reserve(connections.size());
  for (ConnectionReport& c : connections) {
    taken.add(c);
    out.push_back(std::move(c));
  }
  connections.clear();
  return out;
}

std::size_t NegotiationReport::count(Severity severity) const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.severity == severity; }));
}

std::uint8_t NegotiationReport::stage() const {
  std::uint8_t last = 0;
  for (std::uint8_t i = 1; i < stages.size(); ++i)
    if (stages[i].turns[0] + stages[i].turns[1] > 0) last = i;
  return last;
}

void NegotiationTally::add(const NegotiationReport& n) {
  ++negotiations;
  ++standings[static_cast<std::size_t>(n.judgement.standing)];
  for (const Finding& f : n.findings) ++findings[static_cast<std::size_t>(f.severity)];
}

std::vector<NegotiationReport> FileReport::take_negotiations() {
  std::vector<NegotiationReport> out;
  for (NegotiationReport& n : negotiations) {
    taken_negotiations.add(n);
    out.push_back(std::move(n));
  }
  negotiations.clear();
  return out;
}

std::size_t FileReport::count(Severity severity) const {
  const auto at = static_cast<std::size_t>(severity);
  std::size_t n = unlisted.findings[at] + taken.findings[at];
  for (const auto& c : connections) n += c.count(severity);
  n += unlisted_negotiations.findings[at] + taken_negotiations.findings[at];
  for (const auto& each : negotiations) n += each.count(severity);
  return n;
}

std::size_t FileReport::connections_of(Standing standing) const {
  const auto at = static_cast<std::size_t>(standing);
  std::size_t n = unlisted.standings[at] + taken.standings[at];
  for (const auto& c : connections)
    if (c.judgement.standing == standing) ++n;
  return n;
}

std::size_t FileReport::negotiations_of(Standing standing) const {
  const auto at = static_cast<std::size_t>(standing);
  std::size_t n = unlisted_negotiations.standings[at] + taken_negotiations.standings[at];
  for (const auto& each : negotiations)
    if (each.judgement.standing == standing) ++n;
  return n;
}

std::size_t FileReport::count(Standing standing) const { return connections_of(standing) + negotiations_of(standing); }

}  // namespace parley::capture
