// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Analyzer on TCP connections that carry, or may carry, a staged QP negotiation. From its first packet on, both
// these rules and the MPA rules read a connection, until its octets show which protocol it carries.
#include <algorithm>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/analyzer.hpp"
#include "capture/report/standing.hpp"

namespace parley::capture {
namespace {

/// Memory of a report.
std::size_t octets_of_negotiation(const NegotiationReport& r) {
  std::size_t n = sizeof r + r.end.capacity() + r.judgement.why.capacity() + r.plugin.capacity() +
                  r.variant.capacity() + r.label.capacity() + r.attributes.capacity() * sizeof(QpSeen);
  if (r.abort) n += r.abort->text.capacity() + r.abort->advice.capacity();
  for (const Finding& f : r.findings) n += sizeof f + f.rule.capacity() + f.text.capacity();
  return n;
}

}  // namespace

void Analyzer::forget_negotiation(Known& known) {
  if (known.negotiation == nullptr) return;
  known.negotiation.reset();
  --negotiations_;
}

void Analyzer::retire_negotiation(Known& known) {
  NegConnection& n = *known.negotiation;
  const std::uint64_t dropped = n.whole() ? 0 : report_.dropped - n.dropped_before;
  NegotiationReport r = n.finish();
  r.dropped = dropped;
  forget_negotiation(known);
  list(std::move(r));
}

void Analyzer::retire(Known& known) {
  if (known.slot != nullptr) {
    forget_negotiation(known);
    return retire(known.slot);
  }
  retire_negotiation(known);
}

// Evaluates what the last packet showed. True: the connection is a negotiation.
bool Analyzer::negotiation_found(const Key& key, Known& known, bool was_closed, Instant now) {
  NegConnection& n = *known.negotiation;
  if (n.refuted()) {
    known.may_be_negotiation = n.may_lack_begin();
    forget_negotiation(known);
    return false;
  }
  if (!n.confirmed()) return false;
  if (known.slot != nullptr) {
    if ((*known.slot)->with_events()) --drawn_;
    drop(known.slot);
  }
  known.may_be_mpa = false;
  if (!was_closed && n.closed()) closed_now(key, now);
  return true;
}

// True: the packet belongs to a negotiation. `fresh`: it is the first packet of its connection, or opens another.
bool Analyzer::negotiation(const Key& key, Known& known, bool fresh, unsigned from, const wire::TcpSegmentView& t,
                           const wire::CapturedPacket& packet) {
  const bool opening = t.syn() && !t.has_ack();
  // A new connection on the addresses and ports of an earlier one. The caller retires that one afterwards.
  const bool anew = opening && known.slot != nullptr && (*known.slot)->is_new_syn(from, t);
  if (known.slot != nullptr && (*known.slot)->is_mpa() && !anew) {
    forget_negotiation(known);
    return false;
  }
  if (known.negotiation != nullptr && opening && known.negotiation->is_new_syn(from, t)) {
    known.negotiation->stop_waiting();
    negotiation_found(key, known, true, packet.at);
    known.negotiates() ? retire_negotiation(known) : forget_negotiation(known);
  }
  const bool begins = fresh && (known.slot == nullptr || anew);
  if (known.negotiation == nullptr) {
    if (!begins && !(known.may_be_negotiation && NegConnection::may_begin_with(t.payload))) return false;
    if (negotiations_ >= live_max || (begins && live_ >= live_max)) return false;
    known.may_be_negotiation = false;
    known.negotiation = std::make_unique<NegConnection>(negotiation_budget_, options_.tap);
    known.negotiation->dropped_before = dropped_before_;
    ++negotiations_;
  }
  NegConnection& n = *known.negotiation;
  const bool was_closed = n.closed();
  n.packet(from, t, packet.frame, packet.at);
  if (!n.confirmed() && n.closed()) n.stop_waiting();
  const bool found = negotiation_found(key, known, was_closed, packet.at);
  if (found && begins) ++report_.tcp_connections;
  if (!found && known.negotiation != nullptr && known.negotiation->closed()) forget_negotiation(known);
  return found;
}

void Analyzer::end_silent_negotiation(Known& known, Instant now) {
  if (known.slot != nullptr || known.negotiation == nullptr) return;
  NegConnection& n = *known.negotiation;
  const bool found = n.confirmed();
  if ((found && n.closed()) || now - n.last_at() < (found ? options_.idle : std::min(options_.idle, undecided_quiet)))
    return;
  if (!found) return forget_negotiation(known);
  const std::size_t listed = report_.negotiations.size();
  retire_negotiation(known);
  if (report_.negotiations.size() > listed)
    report_.negotiations.back().end =
        fmt::format("open, and silent for {}: not followed any longer", duration_text(options_.idle));
  known.may_be_negotiation = true;
}

void Analyzer::list(NegotiationReport&& r) {
  options_.policy.apply(r.findings, report_.ignored);
  r.judgement = judge(r, options_.fail_on);
  const std::size_t octets = octets_of_negotiation(r);
  const bool wrong = r.count(Severity::error) + r.count(Severity::warning) > 0;
  const std::size_t all = options_.events ? ladder_octets_max : options_.report_octets_max;
  if (report_.negotiations.size() < reports_max && reports_octets_ + octets <= (wrong ? all : all / 4 * 3)) {
    reports_octets_ += octets;
    report_.negotiations.push_back(std::move(r));
    return;
  }
  report_.unlisted_negotiations.add(r);
}

}  // namespace parley::capture
