// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MpaConnection: TCP. connection_startup.cpp reads Request and Reply, connection_behind.cpp the octets behind the
// Request, connection_again.cpp another set-up after a rejection, connection_data.cpp and connection_pick_up.cpp the
// FPDUs. connection_set_up.cpp runs the table of the set-up. connection_unanswered.cpp, connection_reaction.cpp and
// connection_finish.cpp make the report.
#include "capture/rules/mpa/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text.hpp"
#include "capture/read/tcp/tcp_pair.hpp"
#include "capture/rules/rdmap/fields.hpp"

namespace parley::capture {

void MpaConnection::collect(const EventLimits& events) {
  with_events_ = events.detail != EventDetail::none;
  with_fields_ = events.detail == EventDetail::fields;
  events_max_ = events.max;
}

LadderEvent* MpaConnection::event(std::uint64_t frame, Instant at, unsigned from, LadderEvent::Kind kind,
                                  std::string text) {
  if (!with_events_ || protocol_ == Protocol::other) return nullptr;
  if (events_.size() >= events_max_) {
    ++events_dropped_;
    return nullptr;
  }
  // Until the roles are known, Side is an index of halves_. report() converts it.
  events_.push_back({frame, at, from == 0 ? Side::initiator : Side::responder, kind, std::move(text), 0, {}});
  return &events_.back();
}

void MpaConnection::tcp_event(Half& h, LadderEvent::Kind kind, const wire::TcpSegmentView& t, std::uint64_t frame,
                              Instant at, std::string text) {
  LadderEvent* e = event(frame, at, h.index, kind, std::move(text));
  if (e == nullptr || !with_fields_) return;
  e->fields = {{"TCP", ""},
               {"Sequence number", fmt::format("{}", t.seq)},
               {"Acknowledgment", t.has_ack() ? fmt::format("{}", t.ack) : "none"},
               {"Window", fmt::format("{}", t.window)},
               {"Payload octets", fmt::format("{}", t.length)}};
  if (t.mss != 0) e->fields.emplace_back("Maximum segment size", fmt::format("{}", t.mss));
}

void MpaConnection::startup_event(const Half& h, const StartupSeen& seen, std::string_view name) {
  if (!with_events_) return;
  LadderEvent* e = event(seen.frame, seen.at, h.index, LadderEvent::Kind::startup,
                         fmt::format("{} {}", name, describe_startup(seen)));
  if (e == nullptr) return;
  e->name = name.size();
  if (!with_fields_) return;
  e->fields.emplace_back(std::string(name), "");
  startup_fields(seen, e->fields);
}

bool MpaConnection::is_new_syn(unsigned from, const wire::TcpSegmentView& t) const {
  return wired_ && is_another_syn(halves_, from, t);
}

bool MpaConnection::closed() const { return capture::closed(halves_); }
bool MpaConnection::settled() const { return capture::settled(halves_); }
bool MpaConnection::whole() const { return capture::whole(halves_); }

void MpaConnection::tcp_flags(Half& h, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  using Kind = LadderEvent::Kind;
  if (t.syn()) {
    if (h.syn_frame == 0) {
      h.syn_frame = frame;
      h.syn_at = at;
      h.mss = t.mss;
      if (with_events_)
        tcp_event(h, Kind::tcp, t, frame, at,
                  fmt::format("SYN{}{}", t.has_ack() ? " ACK" : "", t.mss != 0 ? fmt::format(" mss={}", t.mss) : ""));
    } else {
      // A listener that dropped the half-open connection, or was restarted, answers the SYN again with another ISN.
      if (t.seq != h.tcp.syn_seq() && h.tcp.position() == 0 && !h.tcp.holding()) h.tcp.syn(t.seq);
      tcp_event(h, Kind::repeated, t, frame, at, "SYN again");
    }
  }
  h.timestamps = h.timestamps || t.timestamps;
  if (t.rst() && h.rst_frame == 0) {
    h.rst_frame = frame;
    tcp_event(h, Kind::tcp, t, frame, at, "RST");
  }
  if (t.fin() && h.fin_frame == 0) {
    h.fin_frame = frame;
    h.fin_position = h.tcp.position_of(t.seq + t.length).value_or(0);
    h.fin_at = at;
  }
}

void MpaConnection::classify(Half& h, SegmentClass c, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  using Kind = LadderEvent::Kind;
  if (c == SegmentClass::retransmission) {
    if (h.counts.retransmissions++ == 0) h.noted.again_frame = frame;
    tcp_event(h, Kind::repeated, t, frame, at, fmt::format("{} again", counted(t.length, "octet")));
  }
  if (c == SegmentClass::out_of_order) {
    ++h.counts.out_of_order;
    tcp_event(h, Kind::tcp, t, frame, at,
              fmt::format("{} ahead of {} turn", counted(t.length, "octet"), t.length == 1 ? "its" : "their"));
  }
  if (h.tcp.differed() && h.noted.differing_frame == 0) h.noted.differing_frame = frame;
  if (t.payload.size() < t.length) ++h.noted.cut_segments;
}

TappedStream MpaConnection::tapped(const Half& h) const {
  return {tcp_first_frame_, h.address, halves_[1 - h.index].address, h.first_seq, h.fed_at, h.walker.markers()};
}

void MpaConnection::Half::feed(ConstBytes in, std::uint64_t n, const SegmentRef& ref, bool start, std::uint64_t at) {
  if (!fed) fed_at = at - evidence.phase;
  fed = true;
  if (n > 0) {
    const std::uint64_t begun = fed_at + walker.position();
    const bool open = walker.left() > 0;
    walker.missing(n, ref, *this);
    if (open && walker.lost() && owner->tap_ != nullptr) owner->tap_->lone_length(owner->tapped(*this), begun);
    return;
  }
  walker.octets(in, ref, start, *this);
}

void MpaConnection::packet(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  if (protocol_ == Protocol::other) return;
  Half& h = halves_[from];
  Half& peer = halves_[1 - from];
  if (!wired_) begin(from, t, frame, at);
  before_packet_ = seen_;
  seen_ = {frame, std::max(seen_.at, at)};
  last_at_ = at;
  earliest_ = std::min(earliest_, at);
  const bool repeated_fin = t.fin() && h.fin_frame != 0;
  if (t.syn() && h.syn_frame == 0) h.tcp.syn(t.seq, peer.tcp.position() > 0 || peer.tcp.holding());
  tcp_flags(h, t, frame, at);
  const SegmentRef ref = acknowledged(h, peer, t, {frame, at, 0});
  if (tap_ != nullptr) note_sequence(h, t);
  h.tcp.heard(peer.tcp.position());
  const SegmentClass c = h.tcp.segment(t, ref, budget_, h);
  classify(h, c, t, frame, at);
  peer.tcp.tick(ref, budget_, peer);
  if (h.tcp.holding() || peer.tcp.holding()) resume(ref);
  if (t.fin())
    tcp_event(h, repeated_fin ? LadderEvent::Kind::repeated : LadderEvent::Kind::tcp, t, frame, at,
              repeated_fin ? "FIN again" : "FIN");
  if (protocol_ == Protocol::other) forget(frame);
}

void MpaConnection::begin(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  wired_ = true;
  first_frame_ = tcp_first_frame_ = frame;
  earliest_ = seen_.at = at;
  // Until a startup frame shows the roles, the initiator is assumed: the end that sent the SYN, or else the first
  // packet. The choice must not depend on the order of the addresses.
  initiator_ = t.syn() && t.has_ack() ? 1 - from : from;
  for (unsigned i = 0; i < 2; ++i) halves_[i].owner = this, halves_[i].index = i;
  halves_[from].address = t.source;
  halves_[1 - from].address = t.destination;
}

/// Evaluates the acknowledgment of a packet of `h`. Returns `ref` with peer_received.
SegmentRef MpaConnection::acknowledged(Half& h, Half& peer, const wire::TcpSegmentView& t, SegmentRef ref) {
  if (t.has_ack()) {
    peer.tcp.acked(t.ack);
    ref.peer_received = peer.tcp.position_of(t.ack).value_or(0);
  }
  const bool ends = h.fin_frame == ref.frame || (h.fin_frame == 0 && h.rst_frame == ref.frame);
  if (ends) h.end_heard = peer.tcp.acked_position();
  if (t.length > 0) {
    h.data_frame = ref.frame;
    h.data_at = ref.at;
  }
  return ref;
}

/// Releases the memory of a connection that does not carry MPA.
void MpaConnection::forget(std::uint64_t frame) {
  for (Half& each : halves_) each.tcp.forget(budget_);
  events_ = {};
  if (picked_up() && tap_ != nullptr) tap_->judged(tcp_first_frame_, frame);
}

void MpaConnection::resume(const SegmentRef& ref) {
  const bool now = closed() && protocol_ == Protocol::undecided;  // its first octets are needed to decide
  deliver_both(halves_, now, ref, budget_);
}

void MpaConnection::Half::octets(ConstBytes in, const SegmentRef& ref, bool start) {
  if (owner->protocol_ == Protocol::other) return;
  counts.octets += in.size();
  if (request_due > 0) {
    const std::size_t rest = std::min<std::uint64_t>(request_due, in.size());
    request_due -= rest;
    startup_length += rest;
    in = in.subspan(rest);
    start = start && rest == 0;
    if (in.empty()) return;
  }
  read_to = tcp.position();
  read(in, ref, start);
}

void MpaConnection::Half::read(ConstBytes in, const SegmentRef& ref, bool start) {
  using Act = StreamAct;
  switch (step_of(phase, StreamInput::octets).act) {
    case Act::read_startup: return owner->startup_octets(*this, in, ref, start);
    case Act::keep:
      owner->keep_early(*this, in, 0, ref, false, start);
      return owner->extra_octets(*this, in.size(), ref);
    case Act::keep_and_look: owner->keep_early(*this, in, 0, ref, false, start); return owner->rtr_or_fpdu(*this);
    case Act::walk:
      if (evidence.needed && start) owner->look_for_markers(*this, in, read_to - in.size());
      return feed(in, 0, ref, start, read_to - in.size());
    case Act::look_for_key: return owner->after_rejection(*this, in, ref, start);
    case Act::none:
    case Act::hole_in_startup:
    case Act::hole_in_fpdus: return;
  }
}

void MpaConnection::Half::missing(std::uint64_t n, const SegmentRef& ref, bool cut) {
  if (owner->protocol_ == Protocol::other) return;
  counts.missing_octets += n;
  request_due -= std::min(request_due, n);
  if (noted.lost_places++ == 0) noted.lost_frame = ref.frame;
  if (owner->protocol_ == Protocol::mpa && !cut)
    owner->event(ref.frame, ref.at, index, LadderEvent::Kind::gap,
                 fmt::format("{} {} not in the capture", counted(n, "octet"), n == 1 ? "is" : "are"));
  if (phase == StreamPhase::over) lost_behind += n;
  read_to = tcp.position();
  read_missing(n, ref, cut);
}

void MpaConnection::Half::read_missing(std::uint64_t n, const SegmentRef& ref, bool cut) {
  using Act = StreamAct;
  switch (step_of(phase, StreamInput::hole).act) {
    case Act::hole_in_startup: return owner->startup_missing(*this, n, ref, cut);
    case Act::keep: return owner->keep_early(*this, {}, n, ref, cut, false);
    case Act::keep_and_look: owner->keep_early(*this, {}, n, ref, cut, false); return owner->rtr_or_fpdu(*this);
    case Act::hole_in_fpdus:
      // The first octets would have shown whether there are markers.
      if (walker.markers() == Known::unknown) return move(StreamInput::position_unknown);
      feed({}, n, ref, false, read_to - n);
      if (walker.lost()) owner->rdmap_->lost(owner->side_of(*this));
      return;
    case Act::none:
    case Act::read_startup:
    case Act::walk:
    case Act::look_for_key: return;
  }
}

}  // namespace parley::capture
