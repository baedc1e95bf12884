// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// NegConnection: TCP, and extraction of messages. negotiation_order.cpp checks their order, negotiation_finish.cpp
// makes the verdict.
#include "capture/rules/neg/negotiation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.hpp"
#include "capture/read/tcp/tcp_pair.hpp"

namespace parley::capture {

NegConnection::~NegConnection() {
  for (Half& h : halves_) h.tcp.forget(budget_);
}

bool NegConnection::may_begin_with(ConstBytes payload) {
  return payload.size() >= PARLEY_NEG_HEADER_LEN && wire::may_become_neg_magic(payload) &&
         NegHead::read(payload).oddities() == 0;
}

bool NegConnection::is_new_syn(unsigned from, const wire::TcpSegmentView& t) const {
  return wired_ && is_another_syn(halves_, from, t);
}

bool NegConnection::closed() const { return capture::closed(halves_); }
bool NegConnection::settled() const { return capture::settled(halves_); }
bool NegConnection::whole() const { return capture::whole(halves_); }

void NegConnection::tcp_flags(Half& h, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  if (t.syn()) {
    if (!t.has_ack() && opener_ == unknown_side) opener_ = h.index;
    if (t.has_ack() && opener_ == unknown_side) opener_ = 1 - h.index;
    if (h.syn_frame == 0) {
      h.syn_frame = frame;
      h.syn_at = at;
    } else if (t.seq != h.tcp.syn_seq() && h.tcp.position() == 0 && !h.tcp.holding()) {
      // A listener that dropped the half-open connection, or was restarted, answers the SYN again with another ISN.
      h.tcp.syn(t.seq);
    }
  }
  if (t.rst() && h.rst_frame == 0) h.rst_frame = frame;
  if (t.fin() && h.fin_frame == 0) h.fin_frame = frame;
  if ((t.fin() || t.rst()) && !h.ends_at) h.ends_at = h.tcp.position_of(t.seq + t.length);
}

TappedStream NegConnection::tapped(const Half& h) const {
  return {first_frame_, h.address, halves_[1 - h.index].address, h.first_seq, 0, Known::no};
}

void NegConnection::packet(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  if (is_ == Kind::other) return;
  Half& h = halves_[from];
  Half& peer = halves_[1 - from];
  if (!wired_) {
    wired_ = true;
    first_frame_ = frame;
    earliest_ = latest_ = at;
    likely_initiator_ = t.syn() && t.has_ack() ? 1 - from : from;
    for (unsigned i = 0; i < 2; ++i) halves_[i].owner = this, halves_[i].index = i;
    h.address = t.source;
    peer.address = t.destination;
  }
  last_frame_ = frame;
  last_at_ = at;
  earliest_ = std::min(earliest_, at);
  latest_ = std::max(latest_, at);
  if (t.syn() && h.syn_frame == 0) h.tcp.syn(t.seq, peer.tcp.position() > 0 || peer.tcp.holding());
  tcp_flags(h, t, frame, at);
  SegmentRef ref{frame, at, 0};
  if (t.has_ack()) {
    peer.tcp.acked(t.ack);
    ref.peer_received = peer.tcp.position_of(t.ack).value_or(0);
  }
  if (tap_ != nullptr) note_sequence(h, t);
  h.tcp.heard(peer.tcp.position());
  const SegmentClass c = h.tcp.segment(t, ref, budget_, h);
  if (c == SegmentClass::retransmission && h.counts.retransmissions++ == 0) h.first_again_frame = frame;
  if (c == SegmentClass::out_of_order) ++h.counts.out_of_order;
  if (t.payload.size() < t.length) ++h.cut_segments;
  peer.tcp.tick(ref, budget_, peer);
  if (h.tcp.holding() || peer.tcp.holding()) deliver_both(halves_, closed() && is_ == Kind::undecided, ref, budget_);
  if (is_ == Kind::other)
    for (Half& each : halves_) each.tcp.forget(budget_);
}

void NegConnection::stop_waiting() {
  if (std::exchange(flushed_, true) || is_ == Kind::other) return;
  const SegmentRef end{last_frame_, last_at_, 0};
  settle_waits_of(halves_, end, budget_);
  for (Half& h : halves_) h.tcp.flush(end, budget_, h);
}

void NegConnection::refute(bool may_lack_begin) {
  is_ = Kind::other;
  may_lack_begin_ = may_lack_begin;
  for (Half& h : halves_) h.pending = {};
}

// Decides by the first octets of a stream whether this is a negotiation, once there are enough. At the certain
// beginning of a stream, the header may have one fault.
bool NegConnection::decide(Half& h) {
  if (is_ != Kind::undecided) return confirmed();
  const bool first = h.tcp.from_syn() && h.pending_at == 0;
  if (!wire::may_become_neg_magic(h.pending)) {
    refute(!first);
    return false;
  }
  if (h.pending.size() < PARLEY_NEG_HEADER_LEN) return false;
  if (NegHead::read(h.pending).oddities() > (first ? 1 : 0)) {
    refute(!first);
    return false;
  }
  is_ = Kind::negotiation;
  for (const Half& each : halves_) pass_to_tap(each, each.before_hole_at, each.before_hole);
  for (Half& each : halves_)
    if (!each.tcp.from_syn()) {  // its first octets may be missing from the capture
      if (each.begun == Tristate::no) each.begun = Tristate::unknown;
      each.gap = each.holes = true;
      // The next octets of the other side may be the middle of a message.
      if (&each != &h && each.pending.empty() && each.state == State::follow) each.state = State::lost;
    }
  return true;
}

bool NegConnection::began_like_one() const {
  return std::any_of(std::begin(halves_), std::end(halves_),
                     [](const Half& h) { return !h.before_hole.empty() || !h.pending.empty(); });
}

void NegConnection::Half::octets(ConstBytes in, const SegmentRef& ref, bool start) {
  if (owner->is_ == Kind::other) return;
  counts.octets += in.size();
  if (state == State::over) return;
  if (state == State::lost) {
    if (!start || !may_begin_with(in)) {
      if (owner->is_ == Kind::undecided && !owner->began_like_one()) owner->refute(true);
      return;
    }
    state = State::follow;
  }
  if (skip > 0) owner->skip_body(*this, in, ref);
  if (in.empty()) return;
  if (pending.empty()) pending_at = tcp.position() - in.size();
  pending.insert(pending.end(), in.begin(), in.end());
  if (owner->decide(*this)) owner->handle_messages(*this, ref);
}

void NegConnection::Half::missing(std::uint64_t n, const SegmentRef& ref, bool) {
  if (owner->is_ == Kind::other) return;
  counts.missing_octets += n;
  if (lost_places++ == 0) first_lost_frame = ref.frame;
  if (state == State::over) return;
  if (owner->is_ == Kind::undecided && !pending.empty()) {
    before_hole = std::move(pending);
    before_hole_at = pending_at;
  } else {
    owner->pass_to_tap(*this, pending_at, pending);
  }
  pending.clear();
  skip = 0;
  state = State::lost;
  gap = holes = true;
  begun = Tristate::unknown;
}

void NegConnection::handle_messages(Half& h, const SegmentRef& ref) {
  while (h.state == State::follow && take_message(h, ref)) continue;
  if (h.state != State::follow) h.pending = {};
}

// Takes one message from `pending`. False: it is not whole yet, or the messages cannot be followed any longer.
bool NegConnection::take_message(Half& h, const SegmentRef& ref) {
  if (h.pending.empty() || h.skip > 0) return false;
  if (!wire::may_become_neg_magic(h.pending)) {
    other_protocol(h, ref);
    return false;
  }
  if (h.pending.size() < PARLEY_NEG_HEADER_LEN) return false;
  Message m{.head = NegHead::read(h.pending), .body = {}, .ref = ref, .end = h.pending_at};
  if (!m.head.followable()) {
    message(h, m);
    h.state = State::over;
    return false;
  }
  const std::size_t whole = m.head.size();
  const bool kept = m.head.length <= body_max;
  if (!kept && h.pending.size() < whole) {
    h.skip = whole - h.pending.size();
    h.pending.resize(PARLEY_NEG_HEADER_LEN);
    return false;
  }
  if (h.pending.size() < whole) return false;
  m.body = ConstBytes(h.pending).subspan(PARLEY_NEG_HEADER_LEN, kept ? m.head.length : 0);
  m.body_kept = kept;
  m.end = h.pending_at + whole;
  message(h, m);
  h.pending.erase(h.pending.begin(), h.pending.begin() + static_cast<std::ptrdiff_t>(whole));
  h.pending_at += whole;
  return true;
}

// Skips the rest of a body that is too long.
void NegConnection::skip_body(Half& h, ConstBytes& in, const SegmentRef& ref) {
  const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(h.skip, in.size()));
  in = in.subspan(n);
  h.skip -= n;
  if (h.skip > 0) return;
  const NegHead head = NegHead::read(h.pending);
  message(h, {.head = head, .body = {}, .body_kept = false, .ref = ref, .end = h.pending_at + head.size()});
  h.pending.clear();
}

void NegConnection::other_protocol(Half& h, const SegmentRef& ref) {
  constexpr std::size_t shown = 16;
  const ConstBytes head = ConstBytes(h.pending).first(std::min(h.pending.size(), shown));
  constexpr std::string_view magic = PARLEY_NEG_MAGIC;
  const auto same = std::mismatch(magic.begin(), magic.end(), h.pending.begin(), h.pending.end()).first;
  pass_to_tap(h, h.pending_at, ConstBytes(h.pending).first(static_cast<std::size_t>(same - magic.begin())));
  violated_ = h.holes = true;
  h.state = State::over;
  findings_.add(ref.frame, place_of(h), Rule::neg_magic,
                fmt::format("the peer speaks another protocol: {} ('{}')", hex_text(head), readable_text(head, shown)));
}

void NegConnection::message(Half& h, const Message& m) {
  learn_roles(h, m.head);
  ++h.counts.messages;
  judge(h, m);
  pass_to_tap(h, h.pending_at, ConstBytes(h.pending).first(PARLEY_NEG_HEADER_LEN + m.body.size()));
}

void NegConnection::judge(Half& h, const Message& m) {
  if (const auto fault = m.head.fault()) {
    error(h, m, fault->rule, fault->text);
    h.gap = h.holes = true;  // a session ends here; the order of later messages is not judged
    if (h.begun == Tristate::no) h.begun = Tristate::unknown;
    return;
  }
  if (!m.body_kept)
    findings_.add(
        m.ref.frame, place_of(h), Rule::neg_body,
        fmt::format("a message of {} octets; a session accepts at most {} by default", m.head.length, body_max));
  const bool turn = m.head.is(wire::NegType::turn);
  if (turn) count_turn(h, m);
  if (turn && qp_ == QpTurns::unknown && like_qp_info(m.body)) qp_ = QpTurns::likely;
  if (!judge_order(h, m))
    h.holes = true;  // a side that breaks the order proves nothing about its peer
  else if (m.body_kept)
    judge_body(h, m);
  if (turn) read_attributes(h, m);
}

void NegConnection::pass_to_tap(const Half& h, std::uint64_t at, ConstBytes octets) const {
  if (tap_ == nullptr) return;
  const bool known_qp = qp_ == QpTurns::yes || qp_ == QpTurns::likely;
  if (!octets.empty()) tap_->negotiation(tapped(h), at, octets, known_qp);
}

// Determines the initiator: by a Hello, else by the SYN, else by a Welcome.
void NegConnection::learn_roles(const Half& h, const NegHead& head) {
  if (initiator_ != unknown_side) return;
  if (head.is(wire::NegType::hello))
    initiator_ = h.index;
  else if (opener_ != unknown_side)
    initiator_ = opener_;
  else if (head.is(wire::NegType::welcome))
    initiator_ = 1 - h.index;
}

}  // namespace parley::capture
