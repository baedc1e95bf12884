// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceConnection: the report.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/rules/roce/roce_connection.hpp"

namespace parley::capture {
namespace {

std::uint8_t lower(std::optional<std::uint8_t> a, std::optional<std::uint8_t> b) {
  if (!a || !b) return a.value_or(b.value_or(0));
  return std::min(*a, *b);
}

std::string times_text(const std::string& times) {
  return times.empty() ? std::string() : fmt::format(", and asks for {}", times);
}

}  // namespace

/// Whether the capture shows no reason for the fatal NAK: its code is invalid request (not a memory error, which the
/// wire does not show), and all requests were captured and are valid.
bool RoceConnection::groundless(Side requester) const {
  const RequestFlow& flow = *flows_[index_of(requester)];
  if (flow.fatal->code != static_cast<std::uint8_t>(wire::ib::Nak::invalid_request) || !set_up_seen()) return false;
  const auto& those = findings_.all().kept();
  return flow.missing == 0 && std::none_of(those.begin(), those.end(), [requester](const Finding& f) {
           return f.side == requester && f.severity != Severity::note;
         });
}

Outcome RoceConnection::outcome() const {
  if (!has_cm_) return Outcome::not_captured;
  if (seen_->reject) {
    const bool gave_up =
        !seen_->reject->sidr && seen_->reject->code == static_cast<std::uint16_t>(wire::ib::CmReject::timeout);
    return gave_up ? Outcome::failed : Outcome::rejected;
  }
  if (!seen_->gave_up.empty()) return Outcome::failed;
  if (seen_->sidr) return seen_->rep_frame != 0 ? Outcome::established : Outcome::incomplete;
  const bool data = !flows_[0]->empty() || !flows_[1]->empty();
  const bool set_up = seen_->rtu_frame != 0 || exchange_.ended() || data;
  if (!set_up) return Outcome::incomplete;
  return seen_->req_frame != 0 && seen_->rep_frame != 0 ? Outcome::established : Outcome::not_captured;
}

std::string RoceConnection::describe_end() const {
  std::vector<std::pair<std::uint64_t, std::string>> ends;
  for (const Side side : {Side::initiator, Side::responder})
    if (const FrameRef left = exchange_.left(side); left.frame != 0)
      ends.emplace_back(left.frame,
                        fmt::format("{} by the {} (frame {})", seen_->drep_frame == left.frame ? "DREP" : "DREQ",
                                    to_string(side), left.frame));
  if (seen_->reject)
    ends.emplace_back(seen_->reject->frame,
                      fmt::format("{} by the {} (frame {})", seen_->reject->sidr ? "refused" : "REJ",
                                  to_string(seen_->reject->from), seen_->reject->frame));
  std::sort(ends.begin(), ends.end());
  std::string out;
  for (const auto& [frame, text] : ends) out += (out.empty() ? "" : ", ") + text;
  if (!out.empty()) return out;
  if (!seen_->gave_up.empty()) return seen_->gave_up;
  return seen_->sidr ? "none: UD has no connection" : "open at the end of the capture";
}

void RoceConnection::report_facts() {
  report_absent_icrc();
  for (const Side requester : {Side::initiator, Side::responder}) {
    RequestFlow& flow = *flows_[index_of(requester)];
    flow.finish(exchange_.ended());
    const Side responder = other(requester);
    if (flow.retransmissions > 0)
      findings_.note(flow.first_again_frame, requester,
                     fmt::format("{} by the {}",
                                 flow.retransmissions == 1 ? std::string("1 packet sent again")
                                                           : fmt::format("{} packets sent again", flow.retransmissions),
                                 to_string(requester)));
    if (flow.rnr_naks > 0)
      findings_.note(flow.first_rnr_frame, responder,
                     fmt::format("{} by the {}: it had no receive posted{}", counted(flow.rnr_naks, "RNR NAK"),
                                 to_string(responder), times_text(flow.rnr_times())));
    if (flow.sequence_naks > 0)
      findings_.note(flow.first_sequence_frame, responder,
                     fmt::format("{} by the {}: packets had been lost", counted(flow.sequence_naks, "PSN sequence NAK"),
                                 to_string(responder)));
    if (flow.fatal)
      findings_.note(flow.fatal->frame, responder,
                     fmt::format("the {} refused a request: {}{}", to_string(responder),
                                 to_string(static_cast<wire::ib::Nak>(flow.fatal->code)),
                                 groundless(requester) ? "; nothing that the capture shows gives cause for it" : ""));
    if (flow.missing > 0)
      findings_.note(0, requester,
                     fmt::format("{} of the {} {} not in the capture", counted(flow.missing, "packet"),
                                 to_string(requester), flow.missing == 1 ? "is" : "are"));
    if (flow.fatal && !seen_->nak) seen_->nak = flow.fatal;
  }
  if (cnps_ > 0) findings_.note(0, {}, fmt::format("{} of congestion control", counted(cnps_, "CNP")));
  // IBA §12.9: the responder sends no data before it has received an RTU or data. Its first packet may cross these, and
  // the capture may lack them, so a captured RTU and a sufficient time between are required.
  const FrameRef first = first_data_[index_of(Side::responder)], asked = first_data_[index_of(Side::initiator)];
  const FrameRef rtu = exchange_.rtu();
  if (set_up_seen() && first.frame != 0 && rtu.frame != 0 && rtu.at - first.at >= paths_apart &&
      (asked.frame == 0 || asked.at - first.at >= paths_apart) && flows_[index_of(Side::initiator)]->missing == 0)
    findings_.report(IbRule::ib_early, first.frame, Side::responder,
                     fmt::format(" sent data before the initiator's RTU (frame {}) or data", rtu.frame));
}

void RoceConnection::count_sides(ConnectionReport& r) {
  for (const Side side : {Side::initiator, Side::responder}) {
    const RequestFlow& mine = *flows_[index_of(side)];
    DirectionCounts& counts = counts_[index_of(side)];
    counts.messages = mine.messages;
    counts.retransmissions = mine.retransmissions;
    IbDirection& end = seen_->ends[index_of(side)];
    end.missing_packets = mine.missing;
    end.rnr_naks = flows_[index_of(other(side))]->rnr_naks;
    end.sequence_naks = flows_[index_of(other(side))]->sequence_naks;
  }
  r.from_initiator = counts_[0];
  r.from_responder = counts_[1];
}

ConnectionReport RoceConnection::finish() {
  ConnectionReport r;
  report_facts();
  exchange_.finish(first_data_[index_of(Side::initiator)].frame != 0);
  count_sides(r);
  r.first_frame = first_frame_;
  r.last_frame = last_frame_;
  r.first_at = first_at_;
  r.last_at = last_at_;
  r.initiator = address_of_gid(gids_[0]);
  r.responder = address_of_gid(gids_[1]);
  const wire::ib::CmReq* const req = exchange_.req();
  const wire::ib::CmRep* const rep = exchange_.rep();
  using Depth = std::optional<std::uint8_t>;
  // A side may have as many outstanding as both its own depth and the peer's resources allow.
  r.ird = lower(req != nullptr ? Depth(req->responder_resources) : Depth(),
                rep != nullptr ? Depth(rep->initiator_depth) : Depth());
  r.ord = lower(req != nullptr ? Depth(req->initiator_depth) : Depth(),
                rep != nullptr ? Depth(rep->responder_resources) : Depth());
  r.depths_negotiated = req != nullptr && rep != nullptr;
  seen_->depths_known = req != nullptr || rep != nullptr;
  r.steps.reply = seen_->reply;
  r.outcome = outcome();
  r.end = describe_end();
  r.findings = findings_.list(last_frame_);
  r.events = std::move(drawn_);
  r.events_dropped = events_dropped_;
  r.ib = seen_;
  return r;
}

}  // namespace parley::capture
