// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: another set-up after a rejection. A rejection leaves the TCP connection to the ULP (RFC 5044 §7.1.2
// rules 2 and 3). If the peers continue with another Request, this is another set-up. All rules apply to it, and it has
// its own report.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {
namespace {

// Used where the capture lacks the rejected Request, or octets behind it. There the octets may be an Rtr frame or
// private data, so only a whole Request key is accepted. Elsewhere a misspelt key is accepted and reported.
constexpr std::string_view request_key = "MPA ID Req Frame";

}  // namespace

// Finds the Request that a Reply answers, by its acknowledgment. If the capture lacks rejections or Requests, this may
// be a later Request than the known one.
void MpaConnection::find_answered_request(const Half& responder, Half& initiator) {
  const std::uint64_t heard = responder.head.first.peer_received;
  if (!facts_.request || initiator.phase != StreamPhase::after_request || heard <= initiator.startup_length) return;
  if (responder.head.at == responder.base && initiator.counts.missing_octets == 0) return;
  initiator.extra.octets = 0;
  while (initiator.startup_length < heard && handle_kept_request(initiator, heard)) {
  }
  if (initiator.startup_length == heard) return;
  facts_.request.reset();
  initiator.early.clear();
  initiator.head.octets.clear();
  set_up(SetUpInput::request_replaced);
  initiator.move(StreamInput::request_replaced);
}

/// Takes the next kept octets as a Request if they are one that ends at or before `until`.
bool MpaConnection::handle_kept_request(Half& initiator, std::uint64_t until) {
  constexpr std::size_t longest = PARLEY_MPA_HEADER_LEN + PARLEY_MPA_PD_MAX;
  const Bytes head = initiator.early.head(longest).octets;
  const auto v = wire::MpaFrameView::parse(head);
  if (!v || v->key != wire::MpaKey::req || head.size() < v->frame_size()) return false;
  const std::uint64_t at = initiator.early.at(), end = at + v->frame_size();
  if (at != initiator.startup_length || end > until) return false;
  if (tap_ != nullptr) tap_->startup(tapped(initiator), at, ConstBytes(head).first(v->frame_size()));
  initiator.head.last = initiator.early.front().ref;
  initiator.head.known = ~std::size_t{0};
  request_seen(initiator, read_startup(initiator, *v));
  initiator.startup_length = end;
  initiator.early.drop(v->frame_size());
  return true;
}

// Reads the octets that were kept behind the Request until its rejection.
void MpaConnection::kept_after_rejection(Half& initiator) {
  std::vector<KeptPiece> kept;
  while (auto piece = initiator.early.take()) kept.push_back(std::move(*piece));
  left_mpa_ = initiator.early.dropped() > 0;
  for (const KeptPiece& piece : kept) initiator.lost_behind += piece.missing;
  const std::uint64_t read_to = initiator.read_to;
  for (const KeptPiece& piece : kept) {
    initiator.read_to = piece.at + piece.data.size() + piece.missing;
    if (piece.missing > 0)
      initiator.read_missing(piece.missing, piece.ref, piece.cut);
    else
      initiator.read(piece.data, piece.ref, piece.start);
  }
  initiator.read_to = read_to;
}

void MpaConnection::after_rejection(Half& h, ConstBytes in, const SegmentRef& ref, bool start) {
  const bool next_octet = facts_.request && h.lost_behind == 0;
  const std::string_view key = next_octet || h.index != initiator_ ? key_head : request_key;
  if (left_mpa_ || h.head.octets.size() >= key.size()) return;
  if (h.index == initiator_ && h.read_to - in.size() < h.startup_length) {  // octets of the Request, captured late
    const std::uint64_t late = h.startup_length - (h.read_to - in.size());
    in = in.subspan(std::min<std::uint64_t>(in.size(), late));
    start = false;
  }
  if (in.empty()) return;
  if (h.head.octets.empty()) {
    h.head.first = ref;
    h.head.at = h.read_to - in.size();
    before_again_ = before_packet_;
  }
  Bytes head = h.head.octets;
  head.insert(head.end(), in.begin(), in.end());
  if (!begins_like(head, key)) {
    h.head.octets.clear();
    left_mpa_ = h.lost_behind == 0;  // the ULP may use TCP for any protocol
    return;
  }
  const bool whole = head.size() >= key.size();
  if (whole && may_begin_again(h, ref)) return begin_again(h, in, ref, start);
  h.head.octets = std::move(head);
  h.head.last = ref;
  if (whole) check_second_reply(h, ref);
}

void MpaConnection::check_second_reply(const Half& h, const SegmentRef& ref) {
  const Half& initiator = halves_[1 - h.index];
  const bool all_seen = initiator.counts.missing_octets == 0 && h.counts.missing_octets == 0;
  // The initiator sent nothing between the two Replies, so this is not an answer to a second Request.
  if (side_of(h) == Side::responder && facts_.request && all_seen && ref.peer_received == initiator.startup_length)
    findings_.add(ref.frame, Side::responder, Rule::mpa_second_reply,
                  fmt::format("the responder sent a second Reply after that of frame {}", facts_.reply->frame));
}

/// Whether a startup frame of `h` may begin another set-up: one of the initiator, or a Reply of the responder whose
/// Request is missing from the capture or only partly read.
bool MpaConnection::may_begin_again(const Half& h, const SegmentRef& ref) const {
  const Half &initiator = halves_[initiator_], &responder = halves_[1 - initiator_];
  if (h.index == initiator_) return octets_behind(responder) == 0;
  return (initiator.lost_behind > 0 || !initiator.head.octets.empty()) && ref.peer_received > initiator.startup_length;
}

/// Octets of the stream behind the startup frame of the rejected set-up.
std::uint64_t MpaConnection::octets_behind(const Half& h) {
  const std::uint64_t accounted = h.startup_length + h.lost_behind;
  return h.tcp.position() - std::min(h.tcp.position(), accounted);
}

ConnectionReport MpaConnection::rejected_report(std::uint64_t next) {
  for (Half& h : halves_) {
    h.counts.octets -= octets_behind(h);
    h.counts.missing_octets -= h.lost_behind;
  }
  ConnectionReport r = report();
  // A finding on missing octets may have a frame after the end of this set-up.
  for (Finding& f : r.findings) f.frame = std::min(f.frame, r.last_frame);
  r.end = fmt::format("another Request on the same TCP connection (frame {})", next);
  return r;
}

/// `in` has the last octets of the key of `h`'s startup frame; the earlier ones are in h.head.
void MpaConnection::begin_again(Half& h, ConstBytes in, const SegmentRef& ref, bool start) {
  const Half& peer = peer_of(h);
  const SegmentRef first = peer.head.octets.empty() ? h.head.first : peer.head.first;
  const std::uint64_t rejected = facts_.reply->frame;
  HalfState next[2];
  for (const Half& each : halves_) {
    HalfState& s = next[each.index];
    s.base = each.startup_length;
    s.counts.octets = octets_behind(each);
    s.counts.missing_octets = each.lost_behind;
    s.head.octets = each.head.octets;
    s.head.at = each.head.at;
    s.head.first = each.head.first;
    s.head.last = each.head.last;
    if (each.lost_behind > 0) s.noted.lost_places = 1, s.noted.lost_frame = ref.frame;
    s.data_frame = seen_.frame;
    s.data_at = last_at_;
  }
  const LastSeen now = seen_;
  seen_ = {std::max(before_again_.frame, rejected), std::max(before_again_.at, facts_.reply->at)};
  ConnectionReport report = rejected_report(first.frame);
  const bool whole = std::all_of(std::begin(halves_), std::end(halves_), [](const Half& each) {
    return each.tcp.from_syn() && each.counts.missing_octets == 0;
  });
  seen_ = now;
  rdmap_.reset();
  static_cast<SetUpState&>(*this) = SetUpState{};
  for (Half& each : halves_) static_cast<HalfState&>(each) = std::move(next[each.index]);
  first_frame_ = first.frame;
  earliest_ = first.at;
  after_reject_ = rejected;
  collect(set_ups_.set_up_rejected(*this, std::move(report), whole, first.frame));
  startup_octets(h, in, ref, start);
}

}  // namespace parley::capture
