// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: the report.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "capture/rules/mpa/connection.hpp"

#include "base/text.hpp"
#include "capture/read/tcp/tcp_pair.hpp"
#include "capture/rules/stream_end.hpp"

namespace parley::capture {
namespace {

constexpr Duration long_silence = std::chrono::seconds(5);

/// Extends the report's range to its startup frames: after a rejection, a Reply may be captured before its Request.
void widen(ConnectionReport& r, const std::optional<StartupSeen>& seen) {
  if (!seen) return;
  r.first_frame = std::min(r.first_frame, seen->frame);
  r.last_frame = std::max(r.last_frame, seen->frame);
  r.first_at = std::min(r.first_at, seen->at);
  r.last_at = std::max(r.last_at, seen->at);
}

}  // namespace

std::string MpaConnection::describe_end() const {
  std::vector<StreamEnd> ends;
  for (const Half& h : halves_) add_ends(ends, h.fin_frame, h.rst_frame, side_of(h));
  return end_text(std::move(ends));
}

Steps MpaConnection::steps() const {
  Steps s;
  const Half& i = halves_[initiator_];
  const Half& r = halves_[1 - initiator_];
  // The roles of initiator and responder do not depend on which end sent the SYN (RFC 5044 §7.1).
  const Half& first = i.syn_at <= r.syn_at ? i : r;
  const Half& second = i.syn_at <= r.syn_at ? r : i;
  // A second set-up on a TCP connection does not include the TCP handshake.
  const bool both = i.syn_frame != 0 && r.syn_frame != 0 && after_reject_ == 0;
  // None if it would be negative: packets were captured late, or the clock was set back.
  const auto step = [](Instant from, Instant to) -> std::optional<Duration> {
    return to < from ? std::nullopt : std::optional(to - from);
  };
  if (both) s.tcp = step(first.syn_at, second.syn_at);
  // RFC 5044 §7.1.1: a frame that announces too much private data is never whole.
  const auto whole = [](const std::optional<StartupSeen>& seen) {
    return seen && seen->pd_length <= PARLEY_MPA_PD_MAX;
  };
  const bool asked = whole(facts_.request) && i.phase != StreamPhase::startup, answered = whole(facts_.reply);
  if (both && asked) s.request = step(second.syn_at, facts_.request->at);
  if (asked && answered) s.reply = step(facts_.request->at, facts_.reply->at);
  if (answered && facts_.first_fpdu_at != Instant{}) s.first_fpdu = step(facts_.reply->at, facts_.first_fpdu_at);
  return s;
}

void MpaConnection::finish_halves() {
  for (Half& h : halves_) {
    report_reading(h);
    report_fpdu_sizes(h);
    report_waiting(h);
  }
}

void MpaConnection::report_reading(const Half& h) {
  const Side side = side_of(h);
  const HalfNotes& n = h.noted;
  if (n.differing_frame != 0)
    findings_.add(n.differing_frame, side, Rule::tcp_changed,
                  "a TCP retransmission holds other octets than the first copy, which is used");
  if (n.blind_frame != 0)
    findings_.remark(n.blind_frame, side,
                     fmt::format("{} of a startup frame {} not in the capture: this direction cannot be followed",
                                 counted(n.blind_octets, "octet"), n.blind_octets == 1 ? "is" : "are"));
  if (const std::uint64_t missing = h.counts.missing_octets; missing > 0)
    findings_.remark(n.lost_frame, side, missing_text(side, missing, n.lost_places, n.cut_segments > 0));
}

void MpaConnection::report_fpdu_sizes(const Half& h) {
  const Side side = side_of(h);
  const HalfNotes& n = h.noted;
  if (n.big_fpdus > 0)
    findings_.add(
        n.biggest_frame, side, Rule::mpa_fpdu_size,
        fmt::format("{} of the {} {} longer than a TCP segment of this connection (up to {} octets)",
                    counted(n.big_fpdus, "FPDU"), to_string(side), n.big_fpdus == 1 ? "is" : "are", n.biggest));
  const bool ended = h.fin_frame != 0 || h.rst_frame != 0;
  if (h.phase == StreamPhase::fpdus && h.walker.left() > 0 && h.counts.missing_octets == 0 && ended)
    findings_.add(h.data_frame, side, Rule::mpa_cut_fpdu,
                  fmt::format("the stream of the {} ends inside an FPDU ({} of it came)", to_string(side),
                              counted(h.walker.left(), "octet")));
}

void MpaConnection::report_waiting(const Half& h) {
  const Side side = side_of(h);
  if (h.early.dropped() > 0)
    findings_.remark(h.data_frame, side,
                     fmt::format("{} octets of the {} waited for a Reply longer than they could be kept ({} KiB): they "
                                 "are not judged",
                                 h.early.dropped(), to_string(side), KeptOctets::max >> 10));
  if (h.counts.retransmissions > 0)
    findings_.remark(h.noted.again_frame, side, retransmissions_text(side, h.counts.retransmissions));
}

// Linux siw changes its socket callback only after it has sent its Reply. If an FPDU arrives in between, TCP
// acknowledges it, but siw does not read it until more data arrives. In the capture this is an FPDU without an answer,
// followed by silence.
void MpaConnection::suspect_lost_wakeup() {
  const Half& i = halves_[initiator_];
  const Half& r = halves_[1 - initiator_];
  if (!facts_.reply || i.fpdus == 0 || r.fpdus > 0 || r.rst_frame != 0) return;
  if (i.tcp.acked_position() <= i.startup_length) return;
  Instant end = last_at_;
  if (i.fin_frame != 0) end = std::min(end, i.fin_at);
  if (r.fin_frame != 0) end = std::min(end, r.fin_at);
  if (end - i.data_at < long_silence) return;
  findings_.add(
      i.first_fpdu_frame, Side::responder, Rule::mpa_silent_after_fpdu,
      fmt::format("the responder acknowledged the initiator's FPDU in TCP and then sent nothing for {} s; a peer "
                  "that misses what comes right after its Reply (Linux siw) looks like this",
                  decimal_seconds(end - i.data_at + half_a_hundredth, 2)));
}

// Passes an incomplete startup frame to the tap, because it is judged as well.
void MpaConnection::tap_head(const Half& h) {
  if (tap_ != nullptr && !h.head.octets.empty() && !h.head.tapped) tap_->startup(tapped(h), h.head.at, h.head.octets);
}

void MpaConnection::tap_rest() {
  for (const Half& h : halves_) {
    tap_head(h);
    if (h.phase == StreamPhase::rtr_or_fpdu && !h.early.empty())
      tap_->startup(tapped(h), h.early.at(), h.early.front().data);
    if (h.phase == StreamPhase::fpdus && h.walker.left() > 0)
      tap_->lone_length(tapped(h), h.fed_at + h.walker.position());
  }
  tap_->judged(tcp_first_frame_, seen_.frame);
}

std::optional<TerminateSeen> MpaConnection::first_terminate() const {
  std::optional<TerminateSeen> first;
  for (const Side side : {Side::initiator, Side::responder}) {
    const std::uint64_t frame = rdmap_ ? rdmap_->terminate_frame(side) : 0;
    if (frame != 0 && (!first || frame < first->frame)) first = TerminateSeen{side, frame};
  }
  return first;
}

// Tells RdmapCheck which directions have unread octets: they may hold the segment that a Terminate quotes.
void MpaConnection::report_unread() {
  if (!rdmap_) return;
  for (const Half& h : halves_) {
    const bool unread =
        h.phase == StreamPhase::blind || h.counts.missing_octets > 0 || !h.early.empty() || h.early.dropped() > 0;
    if (h.phase != StreamPhase::fpdus && unread) rdmap_->not_all_read(side_of(h));
  }
}

// No octets follow: reads all octets that were held back or kept.
void MpaConnection::flush_streams() {
  if (std::exchange(flushed_, true)) return;
  const SegmentRef end{seen_.frame, last_at_, 0};
  settle_waits_of(halves_, end, budget_);
  for (Half& h : halves_) h.tcp.flush(end, budget_, h);
  // If the initiator sent octets behind its Request, it had the Reply. If the capture may lack the Reply, it does.
  if (Half& r = halves_[1 - initiator_]; phase_ == SetUpPhase::requested && r.phase == StreamPhase::startup &&
                                         r.head.octets.empty() && !halves_[initiator_].early.empty() &&
                                         (!r.tcp.from_syn() || r.counts.missing_octets > 0))
    reply_is_lost(r, halves_[initiator_].data_frame);
  for (Half& h : halves_) {
    if (h.phase == StreamPhase::fpdus) h.walker.finish(h);
  }
}

ConnectionReport MpaConnection::finish() {
  flush_streams();
  if (tap_ != nullptr) tap_rest();
  ConnectionReport r = report();
  for (Half& h : halves_) h.tcp.forget(budget_);
  return r;
}

void MpaConnection::report_agreement(ConnectionReport& r) {
  Agreement& a = facts_.agreement;
  a = agree(facts_.request, facts_.reply);
  r.revision = facts_.request || facts_.reply ? a.revision : std::uint8_t{1};
  report_framing(r);
  r.rtr = facts_.rtr_seen;
  if (a.rtr_frame) r.rtr_agreed = mpa::Rtr::frame;
  for (const auto kind : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read})
    if (a.rtr == mpa::RtrSet::of(kind)) r.rtr_agreed = kind;
  r.peer_to_peer = a.peer_to_peer;
  r.rtr_common = a.rtr;
  r.ird = a.ird;
  r.ord = a.ord;
  r.depths_negotiated = a.depths;
}

/// Reports CRC and markers as agreed, or if that is not known, as the FPDUs show.
void MpaConnection::report_framing(ConnectionReport& r) const {
  const Agreement& a = facts_.agreement;
  const FpduWalker &i = halves_[initiator_].walker, &responder = halves_[1 - initiator_].walker;
  if (picked_up()) {
    r.crc = i.crc() == Known::yes || responder.crc() == Known::yes;
    r.markers_to_responder = i.markers() == Known::yes;
    r.markers_to_initiator = responder.markers() == Known::yes;
    return;
  }
  r.crc = a.crc == Known::yes || (a.crc == Known::unknown && a.accepted && i.crc() == Known::yes);
  r.markers_to_responder = a.markers_to_responder == Known::yes;
  const Known to_initiator = a.markers_to_initiator == Known::unknown ? responder.markers() : a.markers_to_initiator;
  r.markers_to_initiator = to_initiator == Known::yes;
}

ConnectionReport MpaConnection::report() {
  finish_startup();
  ConnectionReport r;
  r.outcome = judge_outcome();
  report_unread();
  const auto end_of = [&](Side side) { return RdmapCheck::End{half_of(side).fin_frame, half_of(side).rst_frame}; };
  if (rdmap_) rdmap_->finish(seen_.frame, end_of(Side::initiator), end_of(Side::responder));
  finish_set_up();
  judge_reactions();
  suspect_lost_wakeup();
  finish_halves();
  r.first_frame = first_frame_;
  r.last_frame = seen_.frame;
  r.first_at = earliest_;
  r.last_at = seen_.at;
  widen(r, facts_.request);
  widen(r, facts_.reply);
  r.initiator = halves_[initiator_].address;
  r.responder = halves_[1 - initiator_].address;
  report_agreement(r);
  r.steps = steps();
  r.request = std::move(facts_.request);
  r.reply = std::move(facts_.reply);
  r.rtr_frame = std::move(facts_.rtr_frame);
  r.end = describe_end();
  r.terminate = first_terminate();
  r.from_initiator = half_of(Side::initiator).counts;
  r.from_responder = half_of(Side::responder).counts;
  r.findings = findings_.listed(seen_.frame);
  r.events = std::move(events_);
  if (initiator_ == 1)
    for (LadderEvent& e : r.events) e.from = other(e.from);
  std::stable_sort(r.events.begin(), r.events.end(),
                   [](const LadderEvent& a, const LadderEvent& b) { return a.frame < b.frame; });
  r.events_dropped = events_dropped_;
  return r;
}

}  // namespace parley::capture
