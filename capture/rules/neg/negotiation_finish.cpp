// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// NegConnection: the verdict.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/neg/negotiation.hpp"
#include "capture/rules/stream_end.hpp"

namespace parley::capture {
namespace {

/// None if it would be negative: packets were captured late, or the clock was set back.
std::optional<Duration> time_between(Instant from, Instant to) {
  if (from == Instant{} || to == Instant{} || to < from) return std::nullopt;
  return to - from;
}

}  // namespace

constexpr std::uint8_t ready = 2, done = 3;  // stages

// The last stage of the session. Without the Hello, the last stage that was seen, but at least ready.
std::uint8_t NegConnection::last_stage() const {
  if (done_ == Tristate::unknown) return std::max(report_.stage(), ready);
  return done_ == Tristate::yes ? done : ready;
}

const NegConnection::Half* NegConnection::first_to_abort() const {
  const Half* first = nullptr;
  for (const Half& h : halves_)
    if (h.abort_frame != 0 && (first == nullptr || h.abort_frame < first->abort_frame)) first = &h;
  return first;
}

NegOutcome NegConnection::outcome() const {
  if (violated_) return NegOutcome::failed;
  if (const Half* const h = first_to_abort()) {
    if (h->index == initiator_ || h->begun == Tristate::yes) return NegOutcome::failed;
    if (h->first_is_abort) return NegOutcome::refused;
    // The capture does not show for certain whether it had sent a message before.
    const bool spoke = std::any_of(report_.stages.begin(), report_.stages.end(),
                                   [h](const NegStageSeen& stage) { return stage.turns[h->index] > 0; });
    return spoke ? NegOutcome::failed : NegOutcome::incomplete;
  }
  if (report_.stages[last_stage()].over()) {
    // Without the Hello, another stage may follow; then only an orderly end by both sides shows that none did.
    const bool last_known = done_ != Tristate::unknown || last_stage() > ready;
    const bool both_left = halves_[0].fin_frame != 0 && halves_[1].fin_frame != 0;
    return last_known || both_left ? NegOutcome::agreed : NegOutcome::incomplete;
  }
  const auto seen = [](const Half& h) {
    return h.tcp.from_syn() && h.counts.missing_octets == 0 && h.state == State::follow;
  };
  const bool ended = std::any_of(std::begin(halves_), std::end(halves_),
                                 [](const Half& h) { return h.fin_frame != 0 || h.rst_frame != 0; });
  return ended && seen(halves_[0]) && seen(halves_[1]) ? NegOutcome::failed : NegOutcome::incomplete;
}

void NegConnection::finish_half(const Half& h) {
  const Side side = side_of(h), place = place_of(h);
  // flush() has counted octets that only empty segments show as missing.
  if (h.state == State::follow && !h.pending.empty() && h.ends_at == h.tcp.position() && h.counts.missing_octets == 0)
    findings_.add(h.fin_frame != 0 ? h.fin_frame : h.rst_frame, place, Rule::neg_cut,
                  fmt::format("{} after {} of a message", h.fin_frame != 0 ? "FIN" : "RST",
                              counted(h.tcp.position() - h.pending_at, "octet")));
  if (const std::uint64_t n = h.counts.missing_octets; n > 0)
    findings_.remark(h.first_lost_frame, place, missing_text(side, n, h.lost_places, h.cut_segments > 0));
  if (h.counts.retransmissions > 0)
    findings_.remark(h.first_again_frame, place, retransmissions_text(side, h.counts.retransmissions));
}

void NegConnection::report_aborts() {
  for (const Half& h : halves_) {
    if (!h.abort) continue;
    const std::string_view error = neg_error_text(h.abort->error);
    findings_.remark(
        h.abort->frame, place_of(h),
        fmt::format("the {} gave up: {}{}{}", to_string(side_of(h)), error.empty() ? "without a reason" : error,
                    h.abort->text.empty() ? "" : ": ", h.abort->text));
    if (!report_.abort || h.abort->frame < report_.abort->frame) report_.abort = h.abort;
  }
}

// Exchanges the sides if halves_[0], so far called the initiator, is the responder.
void NegConnection::name_sides() {
  if (initiator() == 0) return;
  for (QpSeen& seen : report_.attributes) seen.side = other(seen.side);
  if (report_.abort) report_.abort->from = other(report_.abort->from);
  for (Finding& f : report_.findings)
    if (f.side) f.side = other(*f.side);
  for (NegStageSeen& stage : report_.stages) {
    std::swap(stage.turns[0], stage.turns[1]);
    std::swap(stage.last[0], stage.last[1]);
    std::swap(stage.last_at[0], stage.last_at[1]);
  }
}

std::string NegConnection::describe_end() const {
  std::vector<StreamEnd> ends;
  for (const Half& h : halves_) add_ends(ends, h.fin_frame, h.rst_frame, side_of(h));
  return end_text(std::move(ends));
}

void NegConnection::report_times(NegotiationReport& r) const {
  const Half &first = halves_[initiator()], &second = halves_[1 - initiator()];
  if (first.syn_frame != 0 && second.syn_frame != 0)
    r.connecting = time_between(std::min(first.syn_at, second.syn_at), std::max(first.syn_at, second.syn_at));
  r.welcoming = time_between(hello_at_, welcome_at_);
  const NegStageSeen& last = r.stages[last_stage()];
  Instant over = over_at_;
  if (over == Instant{} && last.over()) over = std::max(last.last_at[0], last.last_at[1]);
  r.took = time_between(hello_at_, over);
}

NegotiationReport NegConnection::finish() {
  stop_waiting();
  for (const Side side : {Side::initiator, Side::responder}) {
    const Half& h = half_of(side);
    if (h.state == State::follow) pass_to_tap(h, h.pending_at, h.pending);
    finish_half(h);
  }
  if (tap_ != nullptr) tap_->judged(first_frame_, last_frame_);
  report_.outcome = outcome();
  report_aborts();
  report_.findings = findings_.listed(last_frame_);
  report_times(report_);
  name_sides();
  report_.first_frame = first_frame_;
  report_.last_frame = last_frame_;
  report_.first_at = earliest_;
  report_.last_at = latest_;
  report_.initiator = half_of(Side::initiator).address;
  report_.responder = half_of(Side::responder).address;
  report_.end = describe_end();
  report_.from_initiator = half_of(Side::initiator).counts;
  report_.from_responder = half_of(Side::responder).counts;
  for (Half& h : halves_) h.tcp.forget(budget_);
  return std::move(report_);
}

}  // namespace parley::capture
