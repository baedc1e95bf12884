// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: how each side reacted to the other's faults. The octets prove a fault. The reaction is inferred from
// what the peer acknowledged, sent and closed, so most of these rules are warnings.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {
namespace {

bool is_terminate(const WalkedFpdu& f) {
  const auto h = wire::DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  return h && h->opcode == wire::RdmapOpcode::terminate && !h->tagged;
}

std::string deserved(const Complaint& c) {
  return c.any_code ? std::string("a Terminate is expected")
                    : describe_terminate(c.layer, c.etype, c.code) + " is expected";
}

bool answers(const Complaint& terminate, const Complaint& fault) {
  if (fault.any_code) return true;
  // Chelsio and Intel hardware sends MPA errors with type 3. RdmapCheck reports this.
  const bool same_type = terminate.etype == fault.etype || terminate.layer == PARLEY_RDMAP_LAYER_LLP;
  return terminate.layer == fault.layer && same_type && terminate.code == fault.code;
}

// Errors that the captured octets prove or disprove. Errors of STags, buffers and resources are known only to the peer.
constexpr std::array<Complaint, 10> visible{
    Complaint{PARLEY_RDMAP_LAYER_LLP, 0, 2},   Complaint{PARLEY_RDMAP_LAYER_LLP, 0, 3},
    Complaint{PARLEY_RDMAP_LAYER_DDP, 1, 3},   Complaint{PARLEY_RDMAP_LAYER_DDP, 1, 4},
    Complaint{PARLEY_RDMAP_LAYER_DDP, 2, 1},   Complaint{PARLEY_RDMAP_LAYER_DDP, 2, 3},
    Complaint{PARLEY_RDMAP_LAYER_DDP, 2, 4},   Complaint{PARLEY_RDMAP_LAYER_DDP, 2, 6},
    Complaint{PARLEY_RDMAP_LAYER_RDMAP, 2, 5}, Complaint{PARLEY_RDMAP_LAYER_RDMAP, 2, 6}};

bool checkable(const Complaint& said) {
  return std::any_of(visible.begin(), visible.end(), [&](const Complaint& c) {
    return c.layer == said.layer && c.code == said.code && (c.etype == said.etype || c.layer == PARLEY_RDMAP_LAYER_LLP);
  });
}

}  // namespace

void MpaConnection::remember_fpdu(Half& h, const WalkedFpdu& f) {
  const std::uint64_t stream_end = h.fed_at + f.position + f.wire_octets;
  h.received.by_fpdus = std::max(h.received.by_fpdus, f.last.peer_received);
  if (h.received.fault_end == 0 && !rdmap_->faults(side_of(h)).empty()) h.received.fault_end = stream_end;
  if (h.received.terminate_end == 0 && rdmap_->terminated(side_of(h))) {  // by this very FPDU
    h.received.by_terminate = f.first.peer_received;
    h.received.terminate_end = stream_end;
  }
}

// RFC 5044 §7.1.2 rules 3, 5 and 9: the initiator closes after an invalid Reply.
void MpaConnection::check_after_reply(const WalkedFpdu& f) {
  if (!facts_.reply || is_terminate(f)) return;
  if (invalid_reply(*facts_.reply))
    findings_.add(
        f.last.frame, Side::initiator, Rule::mpa_after_invalid_reply,
        fmt::format("the initiator went on with FPDUs after the invalid Reply of frame {}", facts_.reply->frame));
  const auto* q = facts_.request && facts_.request->enhanced ? &*facts_.request->enhanced : nullptr;
  const auto* r = facts_.reply->enhanced ? &*facts_.reply->enhanced : nullptr;
  if (q != nullptr && r != nullptr && q->a && !r->a)
    findings_.add(f.last.frame, Side::initiator, Rule::mpa_went_on_without_a,
                  "the initiator, which asked for A=1, went on although the Reply has A=0: no RTR was agreed, and it "
                  "must terminate (layer 2, code 7)");
}

// Checks a Reply that was sent while the Request was not whole.
void MpaConnection::check_reply_in_time(Half& initiator, const StartupSeen& reply, const SegmentRef& carrier) {
  const auto v = wire::MpaFrameView::parse(initiator.head.octets);
  const bool all_seen = initiator.tcp.from_syn() && initiator.counts.missing_octets == 0 && !initiator.tcp.holding() &&
                        carrier.peer_received <= initiator.tcp.position();
  if (!all_seen) {
    findings_.remark(reply.frame, Side::initiator,
                     "the Request is not whole in the capture: what it asked for is not known");
    return;
  }
  if (v) check_request(read_startup(initiator, *v), findings_);  // its header is whole
  // RFC 5044 §7.1.2 rule 9: the receiver compares PD_Length with the received octets.
  findings_.add(reply.frame, Side::responder, Rule::mpa_reply_early,
                fmt::format("the responder answered a Request when only {} of {} octets had arrived",
                            initiator.head.octets.size(), v ? v->frame_size() : std::size_t{PARLEY_MPA_HEADER_LEN}));
  // The rest of the Request is not an FPDU. PD_Length does not prove where it ends or whether it is sent.
  if (v) initiator.request_due = v->frame_size() - initiator.head.octets.size();
  rdmap_->lost(Side::initiator);
}

void MpaConnection::judge_reactions() {
  if (!rdmap_ || phase_ == SetUpPhase::failed) return;
  for (const Side side : {Side::initiator, Side::responder}) {
    judge_reaction(side);
    judge_terminate_without_cause(side);
    judge_end_of_terminated(half_of(side));
  }
}

void MpaConnection::judge_reaction(Side culprit) {
  const auto& faults = rdmap_->faults(culprit);
  const Half &bad = half_of(culprit), &good = half_of(other(culprit));
  if (faults.empty()) return;
  const Complaint& first = faults.front();
  const std::uint64_t fault_end = first.end != 0 ? bad.fed_at + first.end : bad.received.fault_end;
  if (fault_end == 0) return;
  const auto& others = rdmap_->faults(other(culprit));
  // No report if the other side's own stream has an earlier fault, or is not wholly captured.
  if ((!others.empty() && others.front().frame <= first.frame) || good.counts.missing_octets > 0 ||
      rdmap_->lossy(other(culprit)))
    return;
  if (rdmap_->terminate_of(other(culprit)))
    judge_answer(culprit, fault_end);
  else
    judge_silence(culprit, fault_end);
}

void MpaConnection::judge_answer(Side culprit, std::uint64_t fault_end) {
  const auto& faults = rdmap_->faults(culprit);
  const Complaint& said = *rdmap_->terminate_of(other(culprit));
  const bool fits = std::any_of(faults.begin(), faults.end(), [&](const Complaint& c) { return answers(said, c); });
  if (fits || half_of(other(culprit)).received.by_terminate < fault_end) return;
  findings_.add(said.frame, other(culprit), Rule::rdmap_other_terminate,
                fmt::format("the {} answered the fault of frame {} with a Terminate that says {}; {}",
                            to_string(other(culprit)), faults.front().frame,
                            describe_terminate(said.layer, said.etype, said.code), deserved(faults.front())));
}

// Until a side closes, its Terminate may still follow. A side need not send one if it closed before it received the
// fault, or after the other side's Terminate or RST.
void MpaConnection::judge_silence(Side culprit, std::uint64_t fault_end) {
  const Complaint& first = rdmap_->faults(culprit).front();
  const Half &bad = half_of(culprit), &good = half_of(other(culprit));
  const std::uint64_t ended = good.fin_frame != 0 ? good.fin_frame : good.rst_frame;
  const auto before_end = [&](std::uint64_t frame) { return frame != 0 && frame < ended; };
  if (ended == 0 || good.end_heard < fault_end || rdmap_->terminated(other(culprit)) ||
      before_end(rdmap_->terminate_frame(culprit)) || before_end(bad.rst_frame))
    return;
  const std::string_view did = good.received.by_fpdus >= fault_end ? "went on"
                               : good.fin_frame != 0               ? "closed"
                                                                   : "reset the connection";
  findings_.add(ended, other(culprit), Rule::rdmap_no_terminate,
                fmt::format("the {} received the fault of frame {} and {} without a Terminate; {}",
                            to_string(other(culprit)), first.frame, did, deserved(first)));
}

void MpaConnection::judge_terminate_without_cause(Side terminator) {
  const auto& said = rdmap_->terminate_of(terminator);
  const Half& peer = half_of(other(terminator));
  if (!said || !rdmap_->faults(other(terminator)).empty()) return;
  const auto& weak = rdmap_->cause(other(terminator));
  if (weak && answers(*said, *weak)) return;
  // Octets that the capture lacks may have been the cause.
  if (peer.counts.missing_octets > 0 || peer.noted.cut_segments > 0 || rdmap_->lossy(other(terminator))) return;
  if (!checkable(*said)) return;
  const bool of_crc = said->layer == PARLEY_RDMAP_LAYER_LLP && said->code == 2;
  if (of_crc && facts_.request && facts_.reply && facts_.agreement.crc == Known::no) {
    // RFC 5044 §4.4: if neither side sets C, the CRC field is not checked.
    findings_.add(said->frame, terminator, Rule::mpa_crc_complaint,
                  fmt::format("the {} complains of a CRC although neither side asked for CRCs", to_string(terminator)));
    return;
  }
  findings_.add(said->frame, terminator, Rule::rdmap_no_cause,
                fmt::format("the {} complains of {}, and nothing that the {} sent gives cause", to_string(terminator),
                            describe_terminate(said->layer, said->etype, said->code), to_string(other(terminator))));
}

// RFC 5040 §6.2.1: a side that sent a Terminate closes the stream so that the Terminate arrives; a RST may prevent it.
void MpaConnection::judge_end_of_terminated(const Half& h) {
  if (h.received.terminate_end == 0 || h.rst_frame == 0 || h.tcp.acked_position() >= h.received.terminate_end) return;
  const Half& peer = halves_[1 - h.index];
  if (peer.rst_frame != 0 && peer.rst_frame < h.rst_frame) return;
  findings_.add(h.rst_frame, side_of(h), Rule::rdmap_reset_early,
                fmt::format("the {} reset the connection before its Terminate was acknowledged: it may never arrive",
                            to_string(side_of(h))));
}

}  // namespace parley::capture
