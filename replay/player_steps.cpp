// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Player: turns recorded steps into octets for the live connection.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "mpa/framer.hpp"
#include "replay/player.hpp"

namespace parley::replay {

using capture::Side;
using wire::RdmapOpcode;

namespace {

std::uint16_t echoed(std::uint16_t answered, std::uint16_t asked, std::uint16_t live, bool at_most) {
  if (answered == PARLEY_MPA_ENH_NOT_NEGOTIATED) return answered;
  if (live == asked) return answered;
  if (answered == asked) return live;
  return at_most ? std::min(answered, live) : answered;
}

}  // namespace

const Item* Player::item_of_step(std::size_t step) const {
  const std::size_t index = item_[step];
  return index < mine().items.size() ? &mine().items[index] : nullptr;
}

void Player::play(Instant now, const Step& step) {
  const std::size_t index = next_step_ - 1;
  const Item* item = item_of_step(index);
  const bool first_of_item = item != nullptr && item->first_step == index;
  switch (step.kind) {
    case Step::Kind::startup:
      report_zeros(step);
      play_startup(step);
      break;
    case Step::Kind::rtr_frame:
    case Step::Kind::raw: send(step.octets); break;
    case Step::Kind::fpdu:
      if (!play_fpdu(step)) return;
      break;
    case Step::Kind::gap:
      left_out(fmt::format("frame {}: {} octets before it are not in the recording and are not played", step.last.frame,
                           step.lost));
      return pass_lost();
    case Step::Kind::fin: close_ = Close::shutdown; break;
    case Step::Kind::rst: close_ = Close::reset; break;
  }
  ++result_.steps_played;
  if (item == nullptr || first_of_item) log(now, true, step.last.frame, item != nullptr ? describe(*item) : "");
  if (step.kind == Step::Kind::rst) {
    ended_ = true;
    log(now, true, step.last.frame, "the stream is gone");
  }
}

void Player::play_startup(const Step& step) {
  Bytes frame = step.octets;
  auto own = decode_startup(frame);
  const auto& asked = recording_.report.request;
  // RFC 6581 §9.1: a Reply answers the IRD and ORD of its Request. Values that echoed the recorded Request echo the
  // live one.
  if (side_ == Side::responder && own && own->enhanced && asked && asked->enhanced && live_startup_ &&
      live_startup_->enhanced) {
    wire::MpaEnhanced& e = *own->enhanced;
    e.ird = echoed(e.ird, asked->enhanced->ord, live_startup_->enhanced->ord, false);
    e.ord = echoed(e.ord, asked->enhanced->ird, live_startup_->enhanced->ird, true);
    e.emit(MutBytes(frame).subspan(PARLEY_MPA_HEADER_LEN, PARLEY_MPA_ENH_LEN));
  }
  send(frame);
  own_startup_ = own;
  if (live_startup_) settle();
}

// Notes the octets that the recording lacks of a step that is played with zeros for them.
void Player::report_zeros(const Step& step) {
  if (step.known >= step.octets.size()) return;
  left_out(fmt::format("frame {}: {} of {} octets of the {} are not in the recording; zeros are played",
                       step.last.frame, step.octets.size() - step.known, step.octets.size(), to_string(step.kind)));
}

// Handles missing octets: each request whose answer was among them gets zeros.
void Player::pass_lost() {
  ++gaps_;
  const auto owed = answers_.owed_at.find(next_step_ - 1);
  if (owed == answers_.owed_at.end()) return;
  for (const std::size_t request : owed->second) answer_lost(request);
}

// Whether the live side may have announced this STag where the recording has a gap.
bool Player::name_lost(std::uint32_t stag, const Step& step) const {
  return step.first.peer_received >= lost_of_other_ && !map_.knows(stag);
}

// Why a message is not played; empty if it is. Half a message would block everything after it. A message with zeros
// instead of a memory name would be refused. The recorded side sent neither.
std::string Player::why_left_out(const Item& item, const Step& step) const {
  if (item.kind == Item::Kind::gap) return "its header is not in the recording";
  if (item.kind != Item::Kind::message) return "";
  if (item.headless) return "its beginning is not in the recording";
  if (item.cut && !item.header.tagged) return "its end is not in the recording";
  if (item.is(RdmapOpcode::terminate) && !item.unknown.empty() && item.unknown.front().first < 4)
    return "what it says is not in the recording";
  if (item.whole && !item.header.tagged && names_lost(item)) return "the memory that it names is not in the recording";
  constexpr const char* lost = "the recording lacks the place where the live side names that memory";
  if (item.is(RdmapOpcode::rdma_write) && item.length > 0 && name_lost(item.header.stag, step)) return lost;
  if (const auto q = wire::ReadRequest::parse(item.payload); q && item.is(RdmapOpcode::read_request))
    if (q->size > 0 && name_lost(q->source_stag, step)) return lost;
  if (const auto a = wire::AtomicRequest::parse(item.payload); a && item.is(RdmapOpcode::atomic_request))
    if (name_lost(a->stag, step)) return lost;
  return "";
}

// True if the step must not be played.
bool Player::leave_out(const Step& step, const Item& item) {
  const std::size_t index = next_step_ - 1;
  if (item.first_step != index) return left_item_ == item_[index];
  const std::string why = why_left_out(item, step);
  if (why.empty()) return false;
  left_item_ = item_[index];
  left_out(fmt::format("frame {}: {}: {}; it is not played", step.last.frame, describe(item), why));
  if (item.kind == Item::Kind::gap) {
    pass_lost();
  } else if (!item.header.tagged && !item.headless) {  // a message without its beginning is counted at the next one
    wire::DdpHeader h = item.header;
    number(h, true);
    ++numbering_[h.qn].less;
  }
  return true;
}

// RFC 5041 §5.3: the messages of a queue are numbered in sequence. If the MSN jumps after a gap, the jump is the number
// of messages lost in it. A jump elsewhere is the recorded side's own fault and is played.
void Player::number(wire::DdpHeader& h, bool first) {
  Numbering& n = numbering_[h.qn];
  if (first) {
    constexpr std::uint32_t behind = 1U << 31;
    if (n.gaps != gaps_ && h.msn - n.next < behind) n.less += h.msn - n.next;
    n.gaps = gaps_;
    n.next = h.msn + 1;
  }
  h.msn -= n.less;
}

bool Player::play_fpdu(const Step& step) {
  const Item* item = item_of_step(next_step_ - 1);
  const auto h = wire::DdpHeader::parse(step.octets);
  if (item != nullptr && item->kind != Item::Kind::bad_crc) {
    if (leave_out(step, *item)) return false;
    const bool response = item->is(RdmapOpcode::read_response) || item->is(RdmapOpcode::atomic_response);
    if (h && response)
      if (const auto played = answer(step, *item)) return *played;
  }
  report_zeros(step);
  Bytes ulpdu = step.octets;
  if (h && step.known >= h->size()) map_header(ulpdu, step);
  frame(ulpdu, step);
  return true;
}

// If the step begins the answer to a request, requests before it are answered first, provided that their answers are
// known to be lost. False: there are none.
bool Player::queue_zeros_before(const Step& step) {
  const Item* item = item_of_step(next_step_);
  if (gaps_ == 0 || item == nullptr || item->first_step != next_step_) return false;
  const auto paired = answers_.request_of.find(item_[next_step_]);
  if (paired == answers_.request_of.end() || !why_left_out(*item, step).empty()) return false;
  const RequestKind kind = item->is(RdmapOpcode::atomic_response) ? RequestKind::atomic : RequestKind::read;
  const auto& asked = asked_[static_cast<std::size_t>(kind)];
  std::size_t upto = answered_[static_cast<std::size_t>(kind)];
  while (upto < asked.size() && asked[upto].recorded != none && asked[upto].recorded < paired->second) ++upto;
  if (upto == answered_[static_cast<std::size_t>(kind)]) return false;
  owed_answers_.push_back({kind, upto});
  return true;
}

// Sends one segment of an answer that the live side still needs.
void Player::continue_response(Instant now) {
  last_made_ = now;
  progress(now);
  if (making_) return make_segment();
  const ZeroResponses owed = owed_answers_.front();
  if (answered_[static_cast<std::size_t>(owed.kind)] < owed.upto) return make_answer(owed.kind);
  owed_answers_.pop_front();
}

// The oldest unanswered request of the kind.
Player::LiveRequest& Player::pop_request(RequestKind kind) {
  const auto k = static_cast<std::size_t>(kind);
  LiveRequest& asked = asked_[k][answered_[k]++];
  if (asked.recorded == none) --unrecorded_[k];
  return asked;
}

// Answers the oldest request of the kind with zeros.
void Player::make_answer(RequestKind kind) {
  const LiveRequest& asked = pop_request(kind);
  left_out(
      kind == RequestKind::read
          ? fmt::format("the answer to a Read of {} octets is not in the recording: zeros are played", asked.read.size)
          : fmt::format("the answer to Atomic {} is not in the recording: zeros are played", asked.id));
  if (kind == RequestKind::read) {
    making_ = PartialResponse{.read = asked.read, .parts = {}};
    return;
  }
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::atomic_response;
  h.qn = PARLEY_DDP_QN_ATOMIC_RESPONSE;
  Numbering& n = numbering_[h.qn];
  h.msn = n.next - n.less;
  ++n.next;  // the recorded one had this number
  Bytes ulpdu(h.size() + PARLEY_RDMAP_ATOMIC_RESPONSE_LEN);
  h.emit(ulpdu);
  Writer(MutBytes(ulpdu).subspan(h.size())).be32(asked.id);
  frame(ulpdu, {});
}

// The answer to this recorded request is among missing octets. The live request, and those before it, get zeros, so
// that they do not wait for ever.
void Player::answer_lost(std::size_t request) {
  const RequestKind kind =
      other().items[request].is(RdmapOpcode::read_request) ? RequestKind::read : RequestKind::atomic;
  const auto& asked = asked_[static_cast<std::size_t>(kind)];
  const auto mine = std::find_if(asked.begin() + static_cast<std::ptrdiff_t>(answered_[static_cast<std::size_t>(kind)]),
                                 asked.end(), [request](const LiveRequest& a) { return a.recorded == request; });
  if (mine == asked.end()) {
    owed_.insert(request);  // it has not arrived yet
    return;
  }
  owed_answers_.push_back({kind, static_cast<std::size_t>(mine - asked.begin()) + 1});
}

// Sends a response in full to the live request that it answers, with zeros for octets that the recording lacks. Returns
// nullopt if the response must be played segment by segment as recorded; else whether the step was played.
std::optional<bool> Player::answer(const Step& step, const Item& item) {
  const std::size_t index = next_step_ - 1;
  if (made_item_ == item_[index]) return true;
  if (item.first_step != index) return {};
  if (answers_.rests.contains(item_[index])) {
    left_item_ = item_[index];
    return false;  // played with the part before it
  }
  const bool atomic = item.is(RdmapOpcode::atomic_response);
  const RequestKind kind = atomic ? RequestKind::atomic : RequestKind::read;
  std::size_t& answering = answering_[static_cast<std::size_t>(kind)];
  if (!item.whole && !item.cut) {  // the recorded side itself aborted it, so it does not answer the request
    answering = answered_[static_cast<std::size_t>(kind)];
    return {};
  }
  answering = none;
  if (answered_[static_cast<std::size_t>(kind)] >= asked_[static_cast<std::size_t>(kind)].size()) {
    // An answer without a request is the recorded side's own fault, unless the request may be in a gap or was omitted.
    if (!result_.left_out && step.first.peer_received < lost_of_other_) return {};
    left_item_ = item_[index];
    left_out(fmt::format("frame {}: {}: the live side did not ask for it; it is not played", step.last.frame,
                         describe(item)));
    return false;
  }
  answering = answered_[static_cast<std::size_t>(kind)];
  const LiveRequest& asked = pop_request(kind);
  if (atomic) return {};
  const wire::ReadRequest& live = asked.read;
  const auto paired = answers_.request_of.find(item_[index]);
  std::optional<wire::ReadRequest> q;
  if (paired != answers_.request_of.end())
    if (const auto asking = wire::ReadRequest::parse(other().items[paired->second].payload)) q = *asking;
  const bool partial = item.cut || (item.after_gap && q && item.header.to != q->sink_to);
  if (live.size > Item::payload_max || (live.size == item.length && !partial)) return {};
  made_item_ = item_[index];
  if (!partial) {
    note(fmt::format("frame {}: the live side reads {} octets where {} were recorded: the recorded ones are {}",
                     item.last.frame, live.size, item.length, live.size < item.length ? "cut" : "repeated"));
    making_ = PartialResponse{.read = live, .repeats = !item.payload.empty(), .parts = {{0, item.payload}}};
    return true;
  }
  making_ = PartialResponse{.read = live, .parts = {}};
  const auto place = [&](const Item& part) {
    making_->parts.emplace_back(part.header.to - (q ? q->sink_to : item.header.to), part.payload);
  };
  place(item);
  if (const auto rest = answers_.rest_of.find(item_[index]); rest != answers_.rest_of.end())
    place(mine().items[rest->second]);
  left_out(fmt::format("frame {}: {}: not all of it is in the recording; zeros are played in place of the rest",
                       item.last.frame, describe(item)));
  return true;
}

// Sends as many octets in total as the live side asked for: the recorded ones, cut or repeated; zeros if there are
// none.
void Player::make_segment() {
  PartialResponse& m = *making_;
  const std::size_t step = std::max<std::size_t>(mpa::mulpdu_of(emss_, tx_markers_), 128) - PARLEY_DDP_TAGGED_LEN;
  const std::uint64_t size = std::min<std::uint64_t>(m.read.size, Item::payload_max);
  const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(step, size - m.at));
  wire::DdpHeader h;
  h.tagged = true;
  h.opcode = RdmapOpcode::read_response;
  h.stag = m.read.sink_stag;
  h.to = m.read.sink_to + m.at;
  h.last = m.at + n == size;
  Bytes ulpdu(h.size() + n);
  h.emit(ulpdu);
  const MutBytes body = MutBytes(ulpdu).subspan(h.size());
  if (m.repeats) {
    const ConstBytes content = m.parts.front().second;
    for (std::size_t done = 0; done < n;) {
      const ConstBytes rest = content.subspan(static_cast<std::size_t>((m.at + done) % content.size()));
      const std::size_t some = std::min(rest.size(), n - done);
      std::copy_n(rest.begin(), some, body.subspan(done).begin());
      done += some;
    }
  } else {
    for (const auto& part : m.parts) {
      const std::uint64_t begin = std::max(part.first, m.at), end = std::min(part.first + part.second.size(), m.at + n);
      if (begin >= end || part.first + part.second.size() < part.first) continue;
      const ConstBytes from = part.second.subspan(static_cast<std::size_t>(begin - part.first));
      std::copy_n(from.begin(), static_cast<std::size_t>(end - begin),
                  body.subspan(static_cast<std::size_t>(begin - m.at)).begin());
    }
  }
  m.at += n;
  const bool over = h.last;
  frame(ulpdu, {});
  if (over) making_.reset();
}

void Player::map_header(Bytes& ulpdu, const Step& step) {
  auto h = *wire::DdpHeader::parse(ulpdu);
  const wire::DdpHeader was = h;
  const Item* item = item_of_step(next_step_ - 1);
  if (h.opcode == RdmapOpcode::rdma_write && h.tagged) {
    h.stag = map_.stag(was.stag);
    h.to = map_.to(was.stag, was.to);
  }
  const auto& [reads, atomics] = asked_;
  const bool of_message = item != nullptr && item->kind == Item::Kind::message;
  if (h.opcode == RdmapOpcode::read_response && h.tagged && of_message && answering_.front() < reads.size()) {
    const wire::ReadRequest& live = reads[answering_.front()].read;
    h.stag = live.sink_stag;
    h.to = live.sink_to + (was.to - item->header.to);
  }
  if ((h.opcode == RdmapOpcode::send_inv || h.opcode == RdmapOpcode::send_se_inv) && !h.tagged)
    h.stag = map_.stag(was.stag);
  if (!h.tagged) number(h, of_message && item->first_step == next_step_ - 1);
  std::uint8_t control = ConstBytes(ulpdu).front();
  // After a segment that is not the last of its message, only the next one may follow (RFC 5041 §5.2). So the recorded
  // part of a Write is played as a separate Write.
  if (h.tagged && item != nullptr && item->cut && item->last_step == next_step_ - 1) control |= PARLEY_DDP_L;
  h.emit(ulpdu);
  // The control octet keeps reserved bits that were set on the wire.
  Writer(MutBytes(ulpdu)).u8(control);
  MutBytes body = MutBytes(ulpdu).subspan(h.size());
  if (h.opcode == RdmapOpcode::read_request && !h.tagged) {
    if (auto q = wire::ReadRequest::parse(body); q && step.known >= h.size() + PARLEY_RDMAP_READ_REQUEST_LEN) {
      const std::uint32_t source = q->source_stag;
      q->source_stag = map_.stag(source);
      q->source_to = map_.to(source, q->source_to);
      q->emit(body);
    }
  }
  if (h.opcode == RdmapOpcode::atomic_request && !h.tagged) {
    if (auto a = wire::AtomicRequest::parse(body)) {
      const std::uint32_t target = a->stag;
      a->stag = map_.stag(target);
      a->to = map_.to(target, a->to);
      Writer w(body.subspan(8, 12));
      w.be32(a->stag);
      w.be64(a->to);
    }
  }
  if (h.opcode == RdmapOpcode::atomic_response && !h.tagged && answering_.back() < atomics.size() &&
      body.size() >= PARLEY_RDMAP_ATOMIC_RESPONSE_LEN)
    Writer(body).be32(atomics[answering_.back()].id);
}

// Frames the ULPDU (RFC 5044 §4.1 to §4.4) and applies the recorded faults.
void Player::frame(ConstBytes ulpdu, const Step& step) {
  mpa::Framer framer({.crc = tx_crc_, .markers = tx_markers_, .emss = emss_}, tx_position_);
  const std::size_t size = framer.wire_size(ulpdu.size());
  Bytes out(size);
  if (framer.frame(ulpdu, {}, out) == 0) return;
  const MutBytes body = MutBytes(out).first(size - PARLEY_MPA_CRC_LEN);
  bool changed = false;
  if (step.bad_pad) {
    // The pad ends where the CRC begins or, if a marker is just before the CRC, where the marker begins.
    const bool marker_last = tx_markers_ && (tx_position_ + body.size() - PARLEY_MPA_MARKER_LEN) % 512 == 0;
    body.last(marker_last ? PARLEY_MPA_MARKER_LEN + 1 : 1).front() = 0xFF;
    changed = true;
  }
  if (step.bad_marker && tx_markers_) {
    const std::uint64_t ahead = (0 - tx_position_) & (PARLEY_MPA_MARKER_INTERVAL - 1);
    if (ahead + PARLEY_MPA_MARKER_LEN <= body.size()) {
      body.subspan(static_cast<std::size_t>(ahead) + 3, 1).front() ^= 4;  // FPDUPTR, off by a word
      changed = true;
    }
  }
  if (step.bad_marker && !changed)
    note(fmt::format("frame {}: its wrong marker is not played: the live connection has none there", step.last.frame));
  MutBytes crc = MutBytes(out).last(PARLEY_MPA_CRC_LEN);
  if (changed && tx_crc_) Writer(crc).le32(mpa::crc32c(body));
  if (step.bad_crc) {
    Reader r(crc);
    const std::uint32_t right = r.le32();
    Writer(crc).le32(right ^ (step.crc_error != 0 ? step.crc_error : 1));
  }
  tx_position_ += size;
  send(out);
}

}  // namespace parley::replay
