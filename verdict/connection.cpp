// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// TCP side and startup frames; connection_data.cpp follows the FPDUs, connection_finish.cpp makes the verdict.
#include "verdict/connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "verdict/fields.hpp"
#include "verdict/text.hpp"

namespace parley::verdict {
namespace {

constexpr std::string_view key_head = "MPA ID ";  // all keys begin so, and a misspelt one is still worth a finding

bool begins_like_key(ConstBytes head, std::string_view text) {
  const std::size_t n = std::min(head.size(), text.size());
  return std::equal(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(n), text.begin(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

}  // namespace

LadderEvent* Connection::event(std::uint64_t frame, Instant at, unsigned from, LadderEvent::Kind kind,
                               std::string text) {
  if (!with_events_ || protocol_ == Protocol::other) return nullptr;
  if (events_.size() >= events_max_) {
    ++events_dropped_;
    return nullptr;
  }
  // Until roles are known, `from` says which end; finish() turns it into a side.
  events_.push_back({frame, at, from == 0 ? Side::initiator : Side::responder, kind, std::move(text), 0, {}});
  return &events_.back();
}

void Connection::tcp_event(Half& h, LadderEvent::Kind kind, const wire::TcpSegmentView& t, std::uint64_t frame,
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

void Connection::startup_event(const Half& h, const StartupSeen& seen, std::string_view name) {
  if (!with_events_) return;
  LadderEvent* e = event(seen.frame, seen.at, h.index, LadderEvent::Kind::startup,
                         fmt::format("{} {}", name, describe_startup(seen)));
  if (e == nullptr) return;
  e->name = name.size();
  if (!with_fields_) return;
  e->fields.emplace_back(std::string(name), "");
  startup_fields(seen, e->fields);
}

bool Connection::is_new_syn(unsigned from, const wire::TcpSegmentView& t) const {
  if (!t.syn() || t.has_ack() || !wired_) return false;
  const Half& h = halves_[from];
  if (h.syn_frame != 0) return t.seq != h.tcp.syn_seq();
  return h.tcp.position() > 0 || halves_[1 - from].tcp.position() > 0;
}

bool Connection::closed() const {
  return halves_[0].rst_frame != 0 || halves_[1].rst_frame != 0 ||
         (halves_[0].fin_frame != 0 && halves_[1].fin_frame != 0);
}

bool Connection::settled() const {
  if (halves_[0].tcp.holding() || halves_[1].tcp.holding()) return false;
  if (halves_[0].rst_frame != 0 || halves_[1].rst_frame != 0) return true;
  // RFC 9293 §3.4: a FIN takes a place in the sequence.
  const auto all_acked = [](const Half& h) { return h.tcp.acked_position() == h.tcp.position() + 1; };
  return closed() && all_acked(halves_[0]) && all_acked(halves_[1]);
}

void Connection::tcp_flags(Half& h, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  using Kind = LadderEvent::Kind;
  if (t.syn()) {
    if (h.syn_frame == 0) {
      h.tcp.syn(t.seq);
      h.syn_frame = frame;
      h.syn_at = at;
      h.mss = t.mss;
      if (with_events_)
        tcp_event(h, Kind::tcp, t, frame, at,
                  fmt::format("SYN{}{}", t.has_ack() ? " ACK" : "", t.mss != 0 ? fmt::format(" mss={}", t.mss) : ""));
    } else {
      // A listener that forgot the half-open connection, or lived again, answers the same SYN with another number.
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
    h.fin_at = at;
  }
}

void Connection::classify(Half& h, SegmentClass c, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  using Kind = LadderEvent::Kind;
  if (c == SegmentClass::retransmission) {
    if (h.counts.retransmissions++ == 0) h.first_again_frame = frame;
    tcp_event(h, Kind::repeated, t, frame, at, fmt::format("{} again", counted(t.length, "octet")));
  }
  if (c == SegmentClass::out_of_order) {
    ++h.counts.out_of_order;
    tcp_event(h, Kind::tcp, t, frame, at,
              fmt::format("{} ahead of {} turn", counted(t.length, "octet"), t.length == 1 ? "its" : "their"));
  }
  if (h.tcp.differed() && h.first_differing_frame == 0) h.first_differing_frame = frame;
  if (t.payload.size() < t.length) ++h.cut_segments;
}

// The number of stream position 0, from a number that is surely ahead of what was delivered.
void Connection::note_sequence(Half& h, const wire::TcpSegmentView& t) const {
  const std::uint32_t seq = t.syn() ? t.seq + 1 : t.seq;
  const std::uint32_t ahead = seq + (1u << 30);
  if (!h.tcp.synchronised())
    h.first_seq = seq;
  else if (const auto at = h.tcp.position_of(ahead))
    h.first_seq = ahead - static_cast<std::uint32_t>(*at);
}

TappedStream Connection::tapped(const Half& h) const {
  return {first_frame_, h.address, halves_[1 - h.index].address, h.first_seq, h.fed_at, h.walker.markers()};
}

void Connection::Half::feed(ConstBytes in, std::uint64_t n, const SegmentRef& ref, bool start, std::uint64_t at) {
  if (!fed) fed_at = at - pick_up_phase;
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

void Connection::packet(unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at) {
  if (protocol_ == Protocol::other) return;
  Half& h = halves_[from];
  Half& peer = halves_[1 - from];
  if (!wired_) {
    wired_ = true;
    first_frame_ = frame;
    first_at_ = earliest_ = latest_ = at;
    // Until a startup frame tells, the end that opened TCP; which address is the lower one must not matter.
    initiator_ = t.syn() && t.has_ack() ? 1 - from : from;
    for (unsigned i = 0; i < 2; ++i) halves_[i].owner = this, halves_[i].index = i;
    h.address = t.source;
    peer.address = t.destination;
  }
  last_frame_ = frame;
  last_at_ = at;
  earliest_ = std::min(earliest_, at);
  latest_ = std::max(latest_, at);
  if (t.syn() && h.syn_frame == 0) h.tcp.syn(t.seq);
  tcp_flags(h, t, frame, at);
  SegmentRef ref{frame, at, 0};
  if (t.has_ack()) {
    peer.tcp.acked(t.ack);
    ref.peer_received = peer.tcp.position_of(t.ack).value_or(0);
  }
  if (t.length > 0) {
    h.data_frame = frame;
    h.data_at = at;
  }
  const bool repeated_fin = t.fin() && h.fin_frame != frame;
  if (tap_ != nullptr) note_sequence(h, t);
  const SegmentClass c = h.tcp.segment(t, ref, budget_, h);
  classify(h, c, t, frame, at);
  peer.tcp.tick(ref, budget_, peer);
  if (t.fin())
    tcp_event(h, repeated_fin ? LadderEvent::Kind::repeated : LadderEvent::Kind::tcp, t, frame, at,
              repeated_fin ? "FIN again" : "FIN");
  if (protocol_ == Protocol::other) {
    for (Half& each : halves_) each.tcp.forget(budget_);
    events_ = {};
    if (picked_up_ && tap_ != nullptr) tap_->judged(first_frame_, frame);
  }
}

void Connection::Half::octets(ConstBytes in, const SegmentRef& ref, bool start) {
  if (owner->protocol_ == Protocol::other) return;
  counts.octets += in.size();
  switch (phase) {
    case Phase::startup: return owner->startup_octets(*this, in, ref, start);
    case Phase::after_request:
      owner->keep_early(*this, in, 0, ref, false, start);
      return owner->extra_octets(*this, in.size(), ref);
    case Phase::rtr_or_fpdu: owner->keep_early(*this, in, 0, ref, false, start); return owner->rtr_or_fpdu(*this);
    case Phase::fpdus:
      if (owner->picked_up_ && start) owner->look_for_markers(*this, in, tcp.position() - in.size());
      return feed(in, 0, ref, start, tcp.position() - in.size());
    case Phase::over:
    case Phase::blind: return;
  }
}

void Connection::Half::missing(std::uint64_t n, const SegmentRef& ref, bool cut) {
  if (owner->protocol_ == Protocol::other) return;
  counts.missing_octets += n;
  if (lost_places++ == 0) first_lost_frame = ref.frame;
  if (owner->protocol_ == Protocol::mpa && !cut)
    owner->event(ref.frame, ref.at, index, LadderEvent::Kind::gap, fmt::format("{} octets are not in the capture", n));
  switch (phase) {
    case Phase::startup:
      if (head.empty() && !cut) return;                   // perhaps the whole startup frame; what follows will show
      if (cut && head.size() >= PARLEY_MPA_HEADER_LEN) {  // only private data is cut
        head.resize(head.size() + n);
        owner->startup_octets(*this, {}, ref, false);
        return;
      }
      if (owner->protocol_ == Protocol::undecided && head.size() < key_head.size()) return;
      phase = Phase::blind;
      blind_octets = n;
      blind_frame = ref.frame;
      return;
    case Phase::after_request: return owner->keep_early(*this, {}, n, ref, cut, false);
    case Phase::rtr_or_fpdu: owner->keep_early(*this, {}, n, ref, cut, false); return owner->rtr_or_fpdu(*this);
    case Phase::fpdus:
      if (walker.markers() == Known::unknown) {  // its first octets would have told
        phase = Phase::blind;
        return;
      }
      feed({}, n, ref, false, tcp.position() - n);
      if (walker.lost()) owner->rdmap_->lost(owner->side_of(*this));
      return;
    case Phase::over:
    case Phase::blind: return;
  }
}

bool Connection::identify(Half& h) {
  if (!begins_like_key(h.head, key_head)) {
    if (protocol_ == Protocol::undecided) protocol_ = Protocol::other;
    if (protocol_ == Protocol::mpa) h.phase = Phase::blind;
    return false;
  }
  if (h.head.size() >= key_head.size() && protocol_ == Protocol::undecided) {
    protocol_ = Protocol::mpa;
    for (Half& each : halves_) each.tcp.keep_history();
  }
  return true;
}

void Connection::startup_octets(Half& h, ConstBytes in, const SegmentRef& ref, bool start) {
  if (h.head.empty()) h.head_at = h.tcp.position() - in.size();
  if (h.head.empty())
    h.head_first = ref;
  else if (!in.empty())
    h.head_split = true;
  const std::size_t before = h.head.size();
  h.head.insert(h.head.end(), in.begin(), in.end());
  if (!in.empty()) h.head_last = ref;
  if (before < key_head.size() && !identify(h)) {
    if (h.phase == Phase::blind) no_startup_frame(h, ref, start);
    return;
  }
  const auto v = wire::MpaFrameView::parse(h.head);
  if (!v || h.head.size() < v->frame_size()) return;
  const std::size_t size = v->frame_size();
  const Bytes rest(h.head.begin() + static_cast<std::ptrdiff_t>(size), h.head.end());
  h.startup_length = h.tcp.position() - rest.size();
  h.head_told = true;
  if (tap_ != nullptr) tap_->startup(tapped(h), h.head_at, ConstBytes(h.head).first(size));
  startup_frame(h, size);
  if (rest.empty()) return;
  // The rest came in the segment that completed the frame.
  if (h.phase == Phase::after_request || h.phase == Phase::rtr_or_fpdu) {
    keep_early(h, rest, 0, ref, false, false);
    if (h.phase == Phase::after_request)
      extra_octets(h, rest.size(), ref);
    else
      rtr_or_fpdu(h);
  } else if (h.phase == Phase::fpdus) {
    h.feed(rest, 0, ref, false, h.tcp.position() - rest.size());
  }
}

// Octets that are no startup frame where one is due. If octets before them are missing, the frame was among those, and
// an accepting Reply is likely: the peers go on.
void Connection::no_startup_frame(Half& h, const SegmentRef& ref, bool start) {
  if (h.counts.missing_octets == 0) {
    findings_.error(ref.frame, side_of(h), "RFC 5044 §7.1.1",
                    "octets that are no startup frame stand where one is due");
    return;
  }
  if (!request_ || reply_ || side_of(h) == Side::initiator) return;
  findings_.note(ref.frame, Side::responder, "",
                 "the Reply is not in the capture: what was agreed is known from the Request only");
  reply_lost_ = true;
  agreement_ = agree(request_, {});
  begin_data();
  Half& initiator = peer_of(h);
  h.startup_length = h.tcp.position() - h.head.size();
  h.walker.start(agreement_.crc, Known::no);
  const std::uint64_t head_at = h.tcp.position() - h.head.size();
  h.head_told = h.head_told || !request_->m();  // the walker gets it
  h.feed({}, 4, ref, false, head_at - 4);       // where its FPDUs begin is a guess
  rdmap_->lost(Side::responder);
  initiator.walker.start(agreement_.crc, Known::unknown);
  initiator.phase = Phase::fpdus;
  replay(initiator);
  // With markers, positions count from the end of the Reply, and how long that was is not known.
  h.phase = request_->m() ? Phase::blind : Phase::fpdus;
  if (h.phase == Phase::fpdus) h.feed(h.head, 0, ref, start, head_at);
}

void Connection::begin_data() {
  rdmap_->count_into(half_of(Side::initiator).counts, half_of(Side::responder).counts);
  rdmap_->set_read_limit(Side::initiator, agreement_.initiator_reads);
  rdmap_->set_read_limit(Side::responder, agreement_.responder_reads);
  if (with_events_)
    rdmap_->set_events([this](const WalkedFpdu& f, Side side, LadderEvent::Kind kind, std::string text) {
      fpdu_event(half_of(side), f, kind, std::move(text));
    });
}

void Connection::fpdu_event(const Half& h, const WalkedFpdu& f, LadderEvent::Kind kind, std::string text) {
  LadderEvent* e = event(f.last.frame, f.last.at, h.index, kind, std::move(text));
  const auto header = wire::DdpHeader::parse(f.ulpdu.first(std::min(f.known, f.ulpdu.size())));
  if (e == nullptr || !header) return;
  const std::string_view name = to_string(header->opcode);
  if (e->text.starts_with(name)) e->name = name.size();
  if (!with_fields_) return;
  e->fields.emplace_back(fmt::format("FPDU {}", h.fpdus), "");
  e->fields.emplace_back("Frames", f.first.frame == f.last.frame
                                       ? fmt::format("{}", f.last.frame)
                                       : fmt::format("{} to {}", f.first.frame, f.last.frame));
  e->fields.emplace_back("Octets on the wire", fmt::format("{}", f.wire_octets));
  fpdu_fields(f, *header, e->fields);
}

StartupSeen Connection::read_startup(const Half& h, const wire::MpaFrameView& v) const {
  StartupSeen s = verdict::read_startup(v);
  s.frame = h.head_last.frame;
  s.at = h.head_last.at;
  s.private_data_whole = h.counts.missing_octets == 0;
  return s;
}

void Connection::startup_frame(Half& h, std::size_t size) {
  const auto v = wire::MpaFrameView::parse(ConstBytes(h.head).first(size));
  StartupSeen seen = read_startup(h, *v);
  const bool rtr = seen.key == wire::MpaKey::rtr || seen.key == wire::MpaKey::rtr_hex;
  if (rtr && !roles_known_ && !h.tcp.from_syn()) {
    protocol_ = Protocol::other;  // the capture begins behind Request and Reply: nothing can be judged
    return;
  }
  if (!roles_known_) {
    const Half& peer = peer_of(h);
    // A Reply as the first frame: its Request was sent before the capture began, or is lost. If the other side is known
    // to have sent nothing, this one claims the wrong role; unless it is of an earlier connection, without a SYN here.
    const bool peer_silent =
        h.tcp.from_syn() && peer.tcp.from_syn() && peer.tcp.position() == 0 && h.head_last.peer_received <= 0;
    const bool is_reply = seen.key == wire::MpaKey::rep && !peer_silent;
    roles_known_ = true;
    initiator_ = is_reply ? 1 - h.index : h.index;
  }
  if (!rdmap_) rdmap_.emplace(findings_);
  if (side_of(h) == Side::initiator) return request_seen(h, std::move(seen));
  reply_seen(h, std::move(seen));
}

void Connection::request_seen(Half& h, StartupSeen seen) {
  check_request(seen, findings_);
  startup_event(h, seen, seen.key == wire::MpaKey::req ? "MPA Request" : "MPA startup frame");
  h.phase = reply_ ? Phase::fpdus : Phase::after_request;
  request_ = std::move(seen);
  if (reply_) {  // captured the wrong way round
    agreement_ = agree(request_, reply_);
    h.walker.start(agreement_.crc, agreement_.markers_to_responder);
  }
}

void Connection::reply_seen(Half& h, StartupSeen seen) {
  Half& initiator = peer_of(h);
  const bool lost_request = !request_ && initiator.phase == Phase::startup;
  if (lost_request && !initiator.head.empty())
    check_reply_in_time(initiator, seen, h.head_first);
  else if (lost_request)
    findings_.note(seen.frame, Side::initiator, "",
                   "the Request is not in the capture: what it asked for is not known");
  check_reply(request_, seen, findings_);
  startup_event(h, seen, seen.key == wire::MpaKey::rep ? "MPA Reply" : "MPA startup frame");
  setup_failed_ = seen.key != wire::MpaKey::rep;
  const bool enhanced_refused = request_ && request_->s() && request_->revision >= 2 && !seen.s();
  initiator_may_refuse_ = seen.m() || seen.revision > 2 || seen.pd_length > PARLEY_MPA_PD_MAX || enhanced_refused ||
                          (request_ && seen.revision != request_->revision);
  reply_ = std::move(seen);
  agreement_ = agree(request_, reply_);
  if (!agreement_.accepted) {
    h.phase = initiator.phase = Phase::over;
    return;
  }
  operational_ = !agreement_.peer_to_peer && !agreement_.rtr_frame && !setup_failed_;
  begin_data();
  if (reply_->revision == 0) rdmap_->set_version(0);
  h.phase = Phase::fpdus;
  h.walker.start(agreement_.crc, agreement_.markers_to_initiator);
  initiator.walker.start(agreement_.crc, agreement_.markers_to_responder);
  if (lost_request) {
    initiator.startup_length = initiator.tcp.position();
    if (initiator.tcp.holding() || initiator.counts.missing_octets > 0) rdmap_->lost(Side::initiator);
  }
  // The Request may also come late, when the capture has packets out of order.
  initiator.phase = agreement_.revision <= 1 || lost_request ? Phase::rtr_or_fpdu : Phase::fpdus;
  if (initiator.phase == Phase::fpdus) return replay(initiator);
  if (!initiator.early.empty()) rtr_or_fpdu(initiator);
}

void Connection::keep_early(Half& h, ConstBytes in, std::uint64_t missing, const SegmentRef& ref, bool cut,
                            bool start) {
  if (h.early_octets + in.size() > early_max) {
    h.early_dropped += in.size() + missing;
    return;
  }
  h.early_octets += in.size() + 64;
  h.early.push_back({Bytes(in.begin(), in.end()), missing, cut, start, ref, h.tcp.position() - in.size() - missing});
}

void Connection::replay(Half& h) {
  while (!h.early.empty()) {
    const Early e = std::move(h.early.front());
    h.early.pop_front();
    if (e.missing > 0 && h.walker.markers() == Known::unknown) {
      h.phase = Phase::blind;
      h.early.clear();
      return;
    }
    if (e.missing > 0) {
      h.feed({}, e.missing, e.ref, false, e.at);
      if (h.walker.lost()) rdmap_->lost(side_of(h));
    } else {
      h.feed(e.data, 0, e.ref, e.start, e.at);
    }
  }
  h.early_octets = 0;
}

void Connection::extra_octets(Half& h, std::size_t n, const SegmentRef& ref) {
  // RFC 5044 §7.1.2 rule 3: the initiator receives and validates the Reply before it sends anything more. Had it
  // received some of the Reply, the capture would only lack that.
  if (ref.peer_received == 0) {
    if (h.extra_after_startup == 0)
      findings_.error(
          ref.frame, Side::initiator, "RFC 5044 §7.1.2",
          fmt::format("the initiator sent {} after its Request before the Reply came", counted(n, "octet")));
    h.extra_after_startup += n;
  }
}

void Connection::rtr_or_fpdu(Half& h) {
  Bytes head;
  for (const Early& e : h.early) {
    if (e.missing > 0) break;
    head.insert(head.end(), e.data.begin(), e.data.end());
  }
  constexpr std::string_view rtr_head = "MPA ID R";
  const bool may_be = begins_like_key(head, rtr_head);
  const bool whole_story = !h.early.empty() && h.early.back().missing > 0;
  if (may_be && head.size() < PARLEY_MPA_HEADER_LEN && !whole_story) return;
  if (!may_be || head.size() < PARLEY_MPA_HEADER_LEN) {
    // RFC 5044 §4.3: positions count from the end of the Request, and how long that was is not known.
    const bool unknown_positions =
        !request_ && h.walker.markers() == Known::yes && (h.tcp.from_syn() || h.counts.missing_octets > 0);
    if (unknown_positions) h.early.clear(), rdmap_->lost(side_of(h));
    h.phase = unknown_positions ? Phase::blind : Phase::fpdus;
    return replay(h);
  }
  const auto v = wire::MpaFrameView::parse(head);
  if (!v || head.size() < v->frame_size()) return;
  const SegmentRef carrier = h.early.back().ref;
  if (tap_ != nullptr) tap_->startup(tapped(h), h.early.front().at, ConstBytes(head).first(v->frame_size()));
  const auto drop_frame = [&h](std::size_t skip) {
    while (skip > 0 && !h.early.empty()) {
      Early& e = h.early.front();
      const std::size_t n = std::min(skip, e.data.size());
      e.data.erase(e.data.begin(), e.data.begin() + static_cast<std::ptrdiff_t>(n));
      e.start = false;
      e.at += n;
      skip -= n;
      if (e.data.empty()) h.early.pop_front();
    }
  };
  h.head_last = carrier;
  StartupSeen seen = read_startup(h, *v);
  if (v->key == wire::MpaKey::req && !request_) {
    h.startup_length += v->frame_size();
    drop_frame(v->frame_size());
    request_seen(h, std::move(seen));
    h.phase = agreement_.revision <= 1 ? Phase::rtr_or_fpdu : Phase::fpdus;
    if (h.phase == Phase::fpdus) return replay(h);
    if (!h.early.empty()) rtr_or_fpdu(h);
    return;
  }
  rtr_frame_ = std::move(seen);
  const bool rtr_key = v->key == wire::MpaKey::rtr || v->key == wire::MpaKey::rtr_hex;
  LadderEvent* e =
      event(rtr_frame_->frame, rtr_frame_->at, h.index, LadderEvent::Kind::startup,
            rtr_key ? fmt::format("MPA Rtr frame ({})", to_string(v->key).substr(7, 3)) : "a second startup frame");
  if (e != nullptr && with_fields_) startup_fields(*rtr_frame_, e->fields);
  if (!rtr_key) {
    findings_.error(rtr_frame_->frame, Side::initiator, "RFC 5044 §7.1.2", "the initiator sent a second startup frame");
  } else if (request_ && !agreement_.rtr_frame) {
    findings_.error(rtr_frame_->frame, Side::initiator, "OFA 2007-10 Rtr §2",
                    "the initiator sent an Rtr frame that was not agreed (S)");
  } else {
    // What a Request that is not in the capture offered is not known.
    findings_.note(rtr_frame_->frame, Side::initiator, "OFA 2007-10 Rtr §2",
                   fmt::format("the initiator sent the Rtr frame, spelt \"{}\"{}", to_string(v->key),
                               request_ ? "" : "; whether it was agreed is not known without the Request"));
    operational_ = true;
  }
  rtr_seen_ = mpa::Rtr::frame;
  first_fpdu_at_ = rtr_frame_->at;
  // To a responder that does not know the frame, its octets are an FPDU whose RDMAP version is 0.
  rdmap_->complaint(Side::initiator, {PARLEY_RDMAP_LAYER_RDMAP, 2, 5, rtr_frame_->frame}, true);
  drop_frame(v->frame_size());
  h.phase = Phase::fpdus;
  replay(h);
}

}  // namespace parley::verdict
