// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RequestFlow: number and timing of retransmissions, and number of outstanding Reads and Atomics (IBA vol. 1 §9.7.5,
// §9.9.2).
#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/rules/roce/operations.hpp"
#include "capture/rules/roce/request_flow.hpp"

namespace parley::capture {

using wire::ib::Operation;

namespace {

constexpr std::uint8_t endless = 7;              // IBA §12.6.5: RNR retry count 7 is unlimited
constexpr std::uint64_t went_on_min = 3;         // requests behind a NAK until its PSN counts as not retransmitted
constexpr std::uint32_t message_max = 1u << 31;  // IBA §9.7.4

}  // namespace

void RequestFlow::check_size(const RocePacket& p) const {
  const auto headers = wire::ib::rule_of(p.packet.bth.opcode).headers;
  if ((headers & PARLEY_IB_RETH) == 0 || p.packet.reth.dma_length <= message_max) return;
  findings_.report(IbRule::ib_message_size, p.frame, requester_,
                   fmt::format("'s {} is of {} octets; no message is longer than {}", operation_text(p.operation()),
                               p.packet.reth.dma_length, message_max));
}

void RequestFlow::report_beyond(const std::optional<Outstanding::One>& one, std::size_t depth) {
  if (!one || told_depth_) return;
  told_depth_ = true;
  findings_.report(
      IbRule::ib_outstanding, one->ref.frame, requester_,
      fmt::format(" sent {} with PSN {:#08x} while {} outstanding; its peer has responder resources for {}",
                  with_article(operation_text(one->operation)), psn_of(one->first),
                  depth == 0   ? std::string("none was")
                  : depth == 1 ? std::string("another was")
                               : fmt::format("{} others were", depth),
                  depth));
}

/// Counts a request that is not a retransmission.
void RequestFlow::count_outstanding(const RocePacket& p, ExtendedPsn place, const Request& r, const FlowTerms& terms) {
  if (!carries_no_payload(r.operation)) return;
  const Outstanding::One one{place, place + r.span - 1, {p.frame, p.at}, r.operation};
  if (terms.depth && *terms.depth == 0) return report_beyond(one, 0);
  outstanding_.sent(one);
}

void RequestFlow::settle_outstanding(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  if (outstanding_.size() == 0) return;
  const bool acknowledges = p.operation() == Operation::acknowledge;
  const std::uint8_t s = p.packet.aeth.syndrome;
  const bool positive = !acknowledges || (s & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_ACK;
  if (terms.depth && terms.set_up_seen) {
    if (!acknowledges) report_beyond(outstanding_.beyond_at_answer(place, p.at, *terms.depth), *terms.depth);
    if (s == (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(wire::ib::Nak::invalid_request)) && acknowledges)
      report_beyond(outstanding_.beyond_at_nak(place, *terms.depth), *terms.depth);
  }
  if (positive || place > 0) outstanding_.answered(positive ? place : place - 1);
}

/// Handles an answer: it ends or changes the pending retries.
void RequestFlow::settle_retries(const RocePacket& p, ExtendedPsn place) {
  const std::uint8_t s = p.packet.aeth.syndrome;
  const bool acknowledges = p.operation() == Operation::acknowledge;
  const auto kind = s & PARLEY_IB_SYNDROME_KIND;
  ++answers_;
  retry_.count = 0;
  if (acknowledges && kind == PARLEY_IB_SYNDROME_RNR_NAK) {
    if (rnr_.place != place) rnr_ = {};
    rnr_.place = place;
    rnr_.pending = true;
    rnr_.ref = {p.frame, p.at};
    rnr_.timer = wire::ib::rnr_timer(s & PARLEY_IB_SYNDROME_VALUE);
    rnr_times_ |= std::uint32_t{1} << (s & PARLEY_IB_SYNDROME_VALUE);
    return;
  }
  if (acknowledges && s == (PARLEY_IB_SYNDROME_NAK | static_cast<std::uint8_t>(wire::ib::Nak::psn_sequence_error))) {
    // Only for a captured request: one that was lost before the capture point may be lost there again.
    if (covering(place) != seen_.end()) gap_ = Gap{place, {p.frame, p.at}, {}, 0};
    return;
  }
  if (acknowledges && kind != PARLEY_IB_SYNDROME_ACK) return;
  if (place >= rnr_.place) rnr_ = {};
  if (gap_ && place >= gap_->place) gap_.reset();
}

/// Counts a request. `again`: it was sent before.
void RequestFlow::count_retries(const RocePacket& p, ExtendedPsn place, bool again, const FlowTerms& terms) {
  if (!terms.set_up_seen) return;
  if (gap_ && (again || place <= gap_->place)) gap_.reset();
  // The NAK may be lost behind the capture point. Then the requester retransmits after its ACK timeout, which may last
  // up to four times its nominal value.
  if (gap_ && terms.ack_timeout > Duration{0} && p.at - gap_->nak.at >= paths_apart + 4 * terms.ack_timeout) {
    if (gap_->went_on++ == 0) gap_->first = {p.frame, p.at};
    if (gap_->went_on == went_on_min)
      findings_.report(
          IbRule::ib_nak_ignored, gap_->first.frame, requester_,
          fmt::format(" goes on behind the NAK of frame {}, and never sends PSN {:#08x} again, which it asked for",
                      gap_->nak.frame, psn_of(gap_->place)));
  }
  if (!again) {
    newest_ = {place, 0, p.at};
    return;
  }
  if (rnr_.pending && rnr_.place == place) return count_rnr_retries(p, terms);
  count_timeouts(p, place, terms);
}

void RequestFlow::count_rnr_retries(const RocePacket& p, const FlowTerms& terms) {
  rnr_.pending = false;
  ++rnr_.again;
  // The NAK may be lost behind the capture point. Then the requester waits only for its ACK timeout.
  const Duration since = p.at - rnr_.ref.at;
  const Duration due = terms.ack_timeout > Duration{0} ? std::min(rnr_.timer, terms.ack_timeout) : rnr_.timer;
  if (since >= Duration{0} && since + paths_apart < least(due))
    findings_.report(IbRule::ib_rnr_wait, p.frame, requester_,
                     fmt::format(" sent PSN {:#08x} again {} after an RNR NAK (frame {}) that asks for {}",
                                 p.packet.bth.psn, duration_text(since), rnr_.ref.frame, duration_text(rnr_.timer)));
  if (!terms.rnr_retries || *terms.rnr_retries >= endless || rnr_.again != *terms.rnr_retries + std::uint64_t{1})
    return;
  findings_.report(IbRule::ib_rnr_retries, p.frame, requester_,
                   fmt::format(" sent PSN {:#08x} again {} times after RNR NAKs; its peer's RNR retry count is {}",
                               p.packet.bth.psn, rnr_.again, *terms.rnr_retries));
}

/// Counts retransmissions because of an ACK timeout.
void RequestFlow::count_timeouts(const RocePacket& p, ExtendedPsn place, const FlowTerms& terms) {
  if (answers_ == 0) return;  // the capture may lack all answers
  if (retry_.count == 0 || place < retry_.place) retry_ = {place, 0, p.at};
  if (place != retry_.place) return;
  const Instant last = retry_.count > 0 ? retry_.at : newest_.place == place ? newest_.at : Instant{};
  if (p.at - last < least(terms.ack_timeout)) return;  // a duplicate in the capture
  retry_.at = p.at;
  ++retry_.count;
  if (!terms.retries || terms.ack_timeout == Duration{0} || retry_.count != *terms.retries + std::uint64_t{1}) return;
  if (*terms.retries == endless)
    findings_.departs(wire::ib::Departure::retries_for_ever, p.frame, requester_,
                      fmt::format(" sent PSN {:#08x} again {} times", p.packet.bth.psn, retry_.count));
  else
    findings_.report(IbRule::ib_retries, p.frame, requester_,
                     fmt::format(" sent PSN {:#08x} again {} times without an answer between; its retry count is {}",
                                 p.packet.bth.psn, retry_.count, *terms.retries));
}

std::string RequestFlow::rnr_times() const {
  constexpr std::size_t rnr_words = std::string_view("RNR NAK, ").size();
  std::string out;
  for (std::uint8_t code = 0; code < 32; ++code)
    if ((rnr_times_ >> code & 1) != 0)
      out += (out.empty() ? "" : ", ") + wire::ib::syndrome_text(PARLEY_IB_SYNDROME_RNR_NAK | code).substr(rnr_words);
  return out;
}

}  // namespace parley::capture
