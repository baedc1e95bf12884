// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: RFC 5044 §7.1.2 rules 2 and 3: a rejection leaves TCP to the ULP. If the peers go on with another Request,
// that is another set-up, with all rules and with a report of its own.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "capture/rules/mpa/connection.hpp"

namespace parley::capture {
namespace {

// A misspelt key is told as such. Where the capture lacks the Request that was rejected, or octets behind it,
// an Rtr frame or private data may stand there, and only a whole key is believed.
constexpr std::string_view request_key = "MPA ID Req Frame";

}  // namespace

// A Reply acknowledges the Request that it answers. Where the capture lacks octets, that may be a later one than the one
// that is known: rejections were lost, or Requests.
void MpaConnection::find_answered_request(const Half& responder, Half& initiator) {
  const std::uint64_t heard = responder.head.first.peer_received;
  if (!facts_.request || initiator.phase != StreamPhase::after_request || heard <= initiator.startup_length) return;
  if (responder.head.at == responder.base && initiator.counts.missing_octets == 0) return;
  initiator.extra.octets = 0;
  while (initiator.startup_length < heard && take_kept_request(initiator, heard)) {
  }
  if (initiator.startup_length == heard) return;
  facts_.request.reset();
  initiator.early.clear();
  initiator.head.octets.clear();
  set_up(SetUpInput::request_replaced);
  initiator.move(StreamInput::request_replaced);
}

/// The next octets that were kept may be a Request that ends at `until` or before.
bool MpaConnection::take_kept_request(Half& initiator, std::uint64_t until) {
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

// What stood behind the Request before its rejection was read goes on as if it came now.
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
  if (h.index == initiator_ && h.read_to - in.size() < h.startup_length) {  // some of the Request itself, captured late
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
    left_mpa_ = h.lost_behind == 0;  // the ULP may use TCP for what it likes
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
  // Nothing of the initiator stands between the two, so that this answers no second Request.
  if (side_of(h) == Side::responder && facts_.request && all_seen && ref.peer_received == initiator.startup_length)
    findings_.add(ref.frame, Side::responder, Rule::mpa_second_reply,
                  fmt::format("the responder sent a second Reply after that of frame {}", facts_.reply->frame));
}

/// A startup frame of the initiator; or one of the responder, if of what it answers only part came, or the capture lacks
/// it.
bool MpaConnection::may_begin_again(const Half& h, const SegmentRef& ref) const {
  const Half &initiator = halves_[initiator_], &responder = halves_[1 - initiator_];
  if (h.index == initiator_) return octets_behind(responder) == 0;
  return (initiator.lost_behind > 0 || !initiator.head.octets.empty()) && ref.peer_received > initiator.startup_length;
}

/// What came of the stream behind the startup frame of the set-up that was rejected.
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
  // What the capture lacks of it may only have shown later, behind the set-up itself.
  for (Finding& f : r.findings) f.frame = std::min(f.frame, r.last_frame);
  r.end = fmt::format("another Request on the same TCP connection (frame {})", next);
  return r;
}

/// `in` is the last of the octets that begin a startup frame of `h`; those before are in its head.
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
