// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: Request and Reply. connection_behind.cpp reads the octets behind the Request.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {
namespace {

constexpr std::string_view reply_head = "MPA ID Rep";

}  // namespace

bool MpaConnection::identify(Half& h) {
  if (!begins_like(h.head.octets, key_head)) {
    if (protocol_ == Protocol::undecided) protocol_ = Protocol::other;
    return false;
  }
  if (h.head.octets.size() >= key_head.size() && protocol_ == Protocol::undecided) {
    protocol_ = Protocol::mpa;
    for (Half& each : halves_) each.tcp.keep_history();
  }
  return true;
}

// If the capture lacks earlier octets, payload may be in the place of a startup frame and look like one.
bool MpaConnection::may_be_startup(const Half& h, const wire::MpaFrameView& v) {
  if (h.tcp.from_syn() && h.counts.missing_octets == 0) return true;
  const bool known = v.key == wire::MpaKey::req || v.key == wire::MpaKey::rep || v.key == wire::MpaKey::rtr ||
                     v.key == wire::MpaKey::rtr_hex;
  return known && v.revision <= 2 && v.pd_length <= PARLEY_MPA_PD_MAX;
}

// If the first frame is a Reply, its Request was sent before the capture began, or is lost: the other side is the
// initiator. But if the capture has both SYNs and proves that the other side has sent nothing, the sender is an
// initiator with a wrong key.
void MpaConnection::settle_roles(const Half& h) {
  if (std::exchange(roles_known_, true)) return;
  const Half& peer = peer_of(h);
  const bool peer_silent =
      h.tcp.from_syn() && peer.tcp.from_syn() && peer.tcp.position() == 0 && h.head.last.peer_received == 0;
  const bool is_reply =
      h.head.octets.size() >= reply_head.size() && begins_like(h.head.octets, reply_head) && !peer_silent;
  initiator_ = is_reply ? 1 - h.index : h.index;
}

// Whether the capture may lack a rejection. After it, the ULP may begin again (RFC 5044 §7.1.2 rule 2). Missing octets
// of the responder before its Reply may have been one.
bool MpaConnection::rejection_may_be_lost() const {
  const Half& responder = halves_[1 - initiator_];
  return phase_ == SetUpPhase::reply_lost || responder.head.at > responder.base ||
         halves_[initiator_].counts.missing_octets > 0;
}

// Whether the lost Reply may have been a rejection (RFC 5044 §7.1.2 rule 2), followed by another Request and Reply that
// are lost, too. Requires that the capture lacks the octets right behind the last Request, and at least two Replies'
// headers of the responder.
bool MpaConnection::set_up_may_be_lost(const Half& responder, const SegmentRef& ref) const {
  const Half& initiator = halves_[initiator_];
  const bool not_yet_seen = initiator.phase == StreamPhase::rtr_or_fpdu && initiator.early.empty() &&
                            ref.peer_received > initiator.startup_length;
  return (initiator.behind_lost || not_yet_seen) &&
         responder.counts.missing_octets >= std::uint64_t{2} * PARLEY_MPA_HEADER_LEN;
}

void MpaConnection::startup_missing(Half& h, std::uint64_t n, const SegmentRef& ref, bool cut) {
  if (h.head.octets.empty()) return;  // perhaps the whole startup frame; the next octets will show
  if (cut && h.head.octets.size() >= PARLEY_MPA_HEADER_LEN) {  // only private data is cut
    h.head.known = std::min(h.head.known, h.head.octets.size());
    h.head.octets.resize(h.head.octets.size() + n);
    return startup_octets(h, {}, ref, false);
  }
  if (protocol_ == Protocol::undecided && h.head.octets.size() < key_head.size()) return;
  h.move(StreamInput::no_startup_frame);
  h.noted.blind_octets = n;
  h.noted.blind_frame = ref.frame;
  if (roles_known_ && side_of(h) == Side::responder && phase_ == SetUpPhase::requested) reply_is_lost(h, ref.frame);
}

void MpaConnection::startup_octets(Half& h, ConstBytes in, const SegmentRef& ref, bool start) {
  const std::size_t before = h.head.octets.size();
  if (before == 0) h.head.at = h.read_to - in.size();
  h.head.add(in, ref);
  if (before < key_head.size() && !identify(h)) {
    if (protocol_ == Protocol::mpa) no_startup_frame(h, ref, start);
    return;
  }
  const auto v = wire::MpaFrameView::parse(h.head.octets);
  if (v && !may_be_startup(h, *v)) return payload_like_startup(h, ref, start);
  if (v && h.head.octets.size() >= v->frame_size()) whole_startup_frame(h, v->frame_size(), ref);
}

void MpaConnection::payload_like_startup(Half& h, const SegmentRef& ref, bool start) {
  const bool peer_began = peer_of(h).phase != StreamPhase::startup || !peer_of(h).head.octets.empty();
  if (!peer_began) protocol_ = Protocol::other;
  if (peer_began && roles_known_) return no_startup_frame(h, ref, start);
  h.move(StreamInput::no_startup_frame);
}

void MpaConnection::whole_startup_frame(Half& h, std::size_t size, const SegmentRef& ref) {
  const Bytes rest(h.head.octets.begin() + static_cast<std::ptrdiff_t>(size), h.head.octets.end());
  h.startup_length = h.read_to - rest.size();
  h.head.tapped = true;
  if (tap_ != nullptr) tap_->startup(tapped(h), h.head.at, ConstBytes(h.head.octets).first(size));
  if (!roles_known_ && !h.tcp.from_syn() && !rest.empty()) {
    protocol_ = Protocol::other;  // payload of a connection that began earlier can look like this
    return;
  }
  startup_frame(h, size);
  // The rest arrived in the segment that completed the frame.
  if (!rest.empty()) h.read(rest, ref, false);
}

// Octets other than a startup frame where one must be. If earlier octets are missing, the frame was among them. It was
// probably an accepting Reply, because the peers continue.
void MpaConnection::no_startup_frame(Half& h, const SegmentRef& ref, bool start) {
  h.move(StreamInput::no_startup_frame);
  if (h.counts.missing_octets == 0 && h.tcp.from_syn()) {
    findings_.add(ref.frame, side_of(h), Rule::mpa_startup_frame,
                  "octets that are not a startup frame where one is expected");
    return;
  }
  if (!facts_.request || facts_.reply || side_of(h) == Side::initiator) return;
  reply_is_lost(h, ref.frame);
  h.evidence.needed = set_up_may_be_lost(h, ref);
  if (h.evidence.needed) h.walker.never_doubt();
  const std::uint64_t head_at = h.read_to - h.head.octets.size();
  h.startup_length = head_at;
  h.head.tapped = h.head.tapped || !facts_.request->m();  // the walker gets it
  // Marker positions count from the end of the Reply, whose length is not known.
  if (facts_.request->m()) return;
  h.move(StreamInput::reply_not_seen);
  h.feed(h.head.octets, 0, ref, start, head_at);
}

// The capture lacks the Reply or a part of it, and the connection continued.
void MpaConnection::reply_is_lost(Half& responder, std::uint64_t frame) {
  findings_.remark(frame, Side::responder,
                   "the Reply is not in the capture: what was agreed is known from the Request only");
  set_up(SetUpInput::reply_not_seen);
  facts_.agreement = agree(facts_.request, {});
  begin_data();
  Half& initiator = peer_of(responder);
  responder.walker.start_inside(facts_.agreement.crc, false, 0);  // it is not known where its FPDUs begin
  rdmap_->lost(Side::responder);
  initiator.walker.start(facts_.agreement.crc, Known::unknown);
  initiator.move(StreamInput::answered);  // or a second Request, if the Reply was a rejection
  if (!initiator.early.empty()) rtr_or_fpdu(initiator);
}

void MpaConnection::begin_data() {
  if (facts_.request && facts_.reply) rdmap_->set_up_known();
  rdmap_->count_into(half_of(Side::initiator).counts, half_of(Side::responder).counts);
  rdmap_->set_read_limit(Side::initiator, facts_.agreement.initiator_reads,
                         facts_.agreement.peer_to_peer && facts_.agreement.rtr.read);
  rdmap_->set_read_limit(Side::responder, facts_.agreement.responder_reads);
  if (with_events_)
    rdmap_->set_events([this](const WalkedFpdu& f, Side side, LadderEvent::Kind kind, std::string text) {
      fpdu_event(half_of(side), f, kind, std::move(text));
    });
}

StartupSeen MpaConnection::read_startup(const Half& h, const wire::MpaFrameView& v) const {
  const std::size_t known = std::min(h.head.known, v.frame_size());
  StartupSeen s = capture::read_startup(v, known - std::min<std::size_t>(known, PARLEY_MPA_HEADER_LEN));
  // RFC 5044 §7.1.1: a frame that announces more than 512 octets is wrong already at its header.
  const SegmentRef& ref = v.pd_length > PARLEY_MPA_PD_MAX ? h.head.header : h.head.last;
  s.frame = ref.frame;
  s.at = ref.at;
  s.private_data_whole = s.private_data_whole && h.counts.missing_octets == 0;
  return s;
}

void MpaConnection::startup_frame(Half& h, std::size_t size) {
  const auto v = wire::MpaFrameView::parse(ConstBytes(h.head.octets).first(size));
  StartupSeen seen = read_startup(h, *v);
  const bool rtr = seen.key == wire::MpaKey::rtr || seen.key == wire::MpaKey::rtr_hex;
  if (rtr && !roles_known_ && (!h.tcp.from_syn() || h.counts.missing_octets > 0)) {
    // The capture has neither Request nor Reply, or only a part of the Reply: the set-up cannot be judged.
    if (peer_of(h).head.octets.empty()) protocol_ = Protocol::other;
    settle_roles(h);
    return h.move(StreamInput::no_startup_frame);
  }
  settle_roles(h);
  if (!rdmap_) rdmap_.emplace(findings_);
  if (side_of(h) == Side::initiator) return request_seen(h, std::move(seen));
  reply_seen(h, std::move(seen));
}

void MpaConnection::request_seen(Half& h, StartupSeen seen) {
  if (after_reject_ != 0 && !facts_.reply)
    findings_.add(seen.frame, Side::initiator, Rule::mpa_request_again,
                  fmt::format("another Request on this TCP connection, after the reject of frame {}: what was agreed "
                              "before is void",
                              after_reject_));
  check_request(seen, findings_);
  startup_event(h, seen, seen.key == wire::MpaKey::req ? "MPA Request" : "MPA startup frame");
  facts_.request = std::move(seen);
  set_up(SetUpInput::request);
  h.move(StreamInput::request);
}

void MpaConnection::reply_seen(Half& h, StartupSeen seen) {
  Half& initiator = peer_of(h);
  find_answered_request(h, initiator);
  const bool lost_request = !facts_.request && initiator.phase == StreamPhase::startup;
  if (lost_request && !initiator.head.octets.empty())
    check_reply_in_time(initiator, seen, h.head.first);
  else if (lost_request)
    findings_.remark(seen.frame, Side::initiator, "the Request is not in the capture: what it asked for is not known");
  check_reply(facts_.request, seen, findings_);
  startup_event(h, seen, seen.key == wire::MpaKey::rep ? "MPA Reply" : "MPA startup frame");
  facts_.may_refuse = may_refuse(facts_.request, seen);
  facts_.reply = std::move(seen);
  if (initiator.extra.octets > 0 && initiator.extra.ref.peer_received <= h.head.at) report_extra_octets(initiator);
  facts_.agreement = agree(facts_.request, facts_.reply);
  if (facts_.agreement.accepted)
    accepted(h, initiator);
  else
    rejected(h, initiator);
}

void MpaConnection::rejected(Half& responder, Half& initiator) {
  set_up(SetUpInput::reply_rejects);
  for (Half& each : halves_) each.move(StreamInput::rejection);
  tap_head(initiator);
  responder.head.octets.clear();
  initiator.head.octets.clear();
  if (!facts_.request)
    initiator.startup_length = std::max(initiator.tcp.position(), responder.head.first.peer_received);
  kept_after_rejection(initiator);
}

void MpaConnection::accepted(Half& responder, Half& initiator) {
  set_up(facts_.reply->key == wire::MpaKey::rep ? input_of_agreement() : SetUpInput::reply_of_other_key);
  begin_data();
  if (facts_.reply->revision == 0) rdmap_->set_version(0);
  responder.move(StreamInput::reply);
  responder.walker.start(facts_.agreement.crc, facts_.agreement.markers_to_initiator);
  initiator.walker.start(facts_.agreement.crc, facts_.agreement.markers_to_responder);
  if (!facts_.request) begin_without_request(initiator);
  // The Request may also be captured late.
  const bool startup_may_come = facts_.agreement.revision <= 1 || !facts_.request || rejection_may_be_lost();
  initiator.move(startup_may_come ? StreamInput::answered : StreamInput::answered_for_good);
  if (!startup_may_come) return replay(initiator);
  if (!initiator.early.empty()) rtr_or_fpdu(initiator);
}

// Without the Request, its end is assumed at the present position of the stream, and may be wrong.
void MpaConnection::begin_without_request(Half& initiator) {
  initiator.walker.start_inside(facts_.agreement.crc, facts_.agreement.markers_to_responder == Known::yes, 0);
  initiator.startup_length = initiator.tcp.position();
  if (initiator.tcp.holding() || initiator.counts.missing_octets > 0 || initiator.phase == StreamPhase::blind)
    rdmap_->lost(Side::initiator);
}

}  // namespace parley::capture
