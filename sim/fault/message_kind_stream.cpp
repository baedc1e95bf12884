// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/message_kind_stream.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes_io.hpp"
#include "mpa/fpdu.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::sim {
namespace {

constexpr std::uint32_t interval = PARLEY_MPA_MARKER_INTERVAL, marker_size = PARLEY_MPA_MARKER_LEN;
// The word at the start of an FPDU: ULPDU_Length and the two control octets of DDP and RDMAP. No marker splits it.
constexpr std::uint32_t word_size = 4;
constexpr std::uint32_t control_octet = 3;
constexpr std::uint32_t read_length = PARLEY_DDP_UNTAGGED_LEN + PARLEY_RDMAP_READ_REQUEST_LEN;
// RFC 5040 §4.4: SinkSTag(4), SinkTO(8), then the size.
constexpr std::uint32_t read_size_end = PARLEY_MPA_LEN_LEN + PARLEY_DDP_UNTAGGED_LEN + 12 + 4;

bool is_send(wire::RdmapOpcode opcode) {
  return opcode == wire::RdmapOpcode::send || opcode == wire::RdmapOpcode::send_inv ||
         opcode == wire::RdmapOpcode::send_se || opcode == wire::RdmapOpcode::send_se_inv;
}

MessageKind kind_of_message(wire::MpaKey key) {
  if (key == wire::MpaKey::req) return MessageKind::mpa_request;
  return key == wire::MpaKey::rep ? MessageKind::mpa_reply : MessageKind::mpa_rtr;
}

}  // namespace

MessageStream::MessageStream(std::uint32_t isn, bool active, StreamDepth depth)
    : isn_(isn), active_(active), depth_(depth) {}

std::int64_t MessageStream::position_of(std::uint32_t seq) const {
  // RFC 9293 §3.4: sequence numbers wrap; the difference from what is expected next is signed.
  const auto expected = static_cast<std::uint32_t>(isn_ + 1 + static_cast<std::uint32_t>(next_));
  const auto ahead = static_cast<std::int32_t>(seq - expected);
  if (ahead > absurd_distance || ahead < -absurd_distance) return -1;
  return static_cast<std::int64_t>(next_) + ahead;
}

MessageStream::Seen MessageStream::offer(std::uint64_t at, ConstBytes octets, StreamBudget& budget) {
  const std::uint64_t end = at + octets.size();
  if (end <= next_) return Seen::repeated;
  if (at > next_) {
    if (state_ < State::beyond) {
      const auto before = held_ ? held_->octets : 0;
      hold(at, octets, budget);
      return held_ && held_->octets == before && held_->pieces.contains(at) ? Seen::repeated : Seen::ahead;
    }
    next_ = at;  // the octets of the hole are not needed
  }
  walk(octets.subspan(next_ - at), budget);
  if (held_) drain(budget);
  return Seen::fresh;
}

void MessageStream::hold(std::uint64_t at, ConstBytes octets, StreamBudget& budget) {
  if (!held_) held_ = std::make_unique<OutOfOrderOctets>();
  if (held_->pieces.size() >= held_pieces_max || held_->octets + octets.size() > held_octets_max ||
      budget.held + octets.size() > StreamBudget::held_max)
    return;
  Bytes& piece = held_->pieces[at];
  if (piece.size() >= octets.size()) return;
  held_->octets += octets.size() - piece.size();
  budget.held += octets.size() - piece.size();
  piece.assign(octets.begin(), octets.end());
}

void MessageStream::drain(StreamBudget& budget) {
  auto& pieces = held_->pieces;
  while (!pieces.empty() && pieces.begin()->first <= next_) {
    const std::uint64_t at = pieces.begin()->first;
    const Bytes piece = std::move(pieces.begin()->second);
    pieces.erase(pieces.begin());
    held_->octets -= piece.size();
    budget.held -= piece.size();
    if (at + piece.size() > next_) walk(ConstBytes(piece).subspan(next_ - at), budget);
  }
  if (pieces.empty()) held_.reset();
}

void MessageStream::release(StreamBudget& budget) {
  if (held_) budget.held -= held_->octets;
  budget.log -= log_.size();
  held_.reset();
  log_.clear();
}

void MessageStream::walk(ConstBytes in, StreamBudget& budget) {
  while (!in.empty()) {
    if (state_ >= State::beyond) {
      next_ += in.size();
      return;
    }
    const bool skipping = next_ < skip_to_;
    if (!skipping && head_size_ == 0) open_message(budget);
    const std::uint64_t wanted = skipping ? skip_to_ - next_ : std::uint64_t{head_need_} - head_size_;
    const ConstBytes part = in.first(static_cast<std::size_t>(std::min<std::uint64_t>(in.size(), wanted)));
    next_ += part.size();
    in = in.subspan(part.size());
    if (skipping) continue;
    std::copy(part.begin(), part.end(), head_.begin() + head_size_);
    head_size_ = static_cast<std::uint8_t>(head_size_ + part.size());
    if (head_size_ == head_need_) examine(budget);
  }
}

void MessageStream::open_message(StreamBudget& budget) {
  head_need_ = 1;
  StreamMessage m;
  m.start = next_;
  if (state_ == State::fpdus) {
    m.message = MessageKind::fpdu;
    m.fpdu = ++fpdus_;
    log_message(m, budget);
    return;
  }
  // Certain only after the key; until then, the expected kind.
  m.message = state_ == State::second ? MessageKind::mpa_rtr
              : active_               ? MessageKind::mpa_request
                                      : MessageKind::mpa_reply;
  startup_[startup_size_++] = m;
  in_log_ = false;
}

void MessageStream::log_message(const StreamMessage& m, StreamBudget& budget) {
  constexpr std::size_t always = 4;  // even if other streams have used up the budget
  in_log_ = true;
  if (!ring_ && log_.size() < log_max && (log_.size() < always || budget.log < StreamBudget::log_max)) {
    log_.push_back(m);
    ++budget.log;
    newest_ = log_.size() - 1;
    return;
  }
  ring_ = true;
  newest_ = oldest_;
  log_[newest_] = m;
  oldest_ = (oldest_ + 1) % log_.size();
}

void MessageStream::examine(StreamBudget& budget) {
  if (state_ == State::fpdus)
    examine_fpdu();
  else
    examine_startup(budget);
}

void MessageStream::close_head(std::uint64_t next_start) {
  head_size_ = 0;
  skip_to_ = next_start;
}

void MessageStream::examine_startup(StreamBudget& budget) {
  const ConstBytes head = ConstBytes(head_).first(head_size_);
  const ConstBytes key = head.first(std::min<std::size_t>(head_size_, PARLEY_MPA_KEY_LEN));
  bool fits = wire::may_become_mpa_key(key);
  // After a Request only an Rtr frame may follow; an FPDU may begin with any octets.
  if (fits && state_ == State::second && key.size() == PARLEY_MPA_KEY_LEN) {
    const auto k = wire::classify_mpa_key(key);
    fits = k == wire::MpaKey::rtr || k == wire::MpaKey::rtr_hex;
  }
  if (!fits) {
    --startup_size_;
    if (state_ == State::second)
      become_fpdu(budget);
    else
      state_ = State::foreign;
    return;
  }
  if (head_size_ < PARLEY_MPA_HEADER_LEN) {
    head_need_ = static_cast<std::uint8_t>(head_size_ < PARLEY_MPA_KEY_LEN ? head_size_ + 1 : PARLEY_MPA_HEADER_LEN);
    return;
  }
  StreamMessage& m = current();
  const auto view = wire::MpaFrameView::parse(head);
  if (!view) return;  // impossible: the head is complete
  m.message = kind_of_message(view->key);
  m.whole = static_cast<std::uint32_t>(view->frame_size());
  close_head(m.start + m.whole);
  base_ = skip_to_;
  requested_ = requested_ || m.message == MessageKind::mpa_request;
  state_ = m.message == MessageKind::mpa_request ? State::second
           : depth_ == StreamDepth::startup      ? State::beyond
                                                 : State::fpdus;
}

void MessageStream::become_fpdu(StreamBudget& budget) {
  state_ = State::fpdus;
  StreamMessage m;
  m.start = base_;
  m.message = MessageKind::fpdu;
  m.fpdu = ++fpdus_;
  log_message(m, budget);
  examine_fpdu();
}

std::uint32_t MessageStream::lead(std::uint64_t start) const {
  return markers_ && (start - base_) % interval == 0 ? marker_size : 0;
}

void MessageStream::examine_fpdu() {
  StreamMessage& m = current();
  if (!markers_known_) {
    if (head_[0] == 0 && head_size_ < 2) {
      head_need_ = 2;
      return;
    }
    markers_known_ = true;
    markers_ = head_[0] == 0 && head_[1] == 0;
  }
  const std::uint32_t before = lead(m.start);
  if (head_size_ < before + word_size) {
    head_need_ = static_cast<std::uint8_t>(before + word_size);
    return;
  }
  Reader r(ConstBytes(head_).first(head_size_));
  r.skip(before);
  const std::uint16_t length = r.be16();
  const std::uint8_t ddp = r.u8(), rdmap = r.u8();
  if (!mpa::fpdu::length_allowed(length)) {  // RFC 5044 §3: the receiver loses the FPDU boundaries here too
    state_ = State::foreign;
    return;
  }
  m.ulpdu_length = length;
  m.whole = static_cast<std::uint32_t>(mpa::fpdu::wire_size(m.start - base_, length, markers_));
  const bool tagged = (ddp & PARLEY_DDP_T) != 0;
  const auto opcode = static_cast<wire::RdmapOpcode>(rdmap & PARLEY_RDMAP_OPCODE_MASK);
  if (!tagged && length >= PARLEY_DDP_UNTAGGED_LEN && opcode == wire::RdmapOpcode::terminate)
    m.named = MessageKind::terminate;
  m.named_at = static_cast<std::uint8_t>(before + control_octet);
  if (m.fpdu == 1 && requested_) {
    // RFC 6581 §9.2: the initiator's RTR is empty.
    if (!tagged && length == PARLEY_DDP_UNTAGGED_LEN && is_send(opcode)) m.named = MessageKind::mpa_rtr;
    if (tagged && length == PARLEY_DDP_TAGGED_LEN && opcode == wire::RdmapOpcode::rdma_write)
      m.named = MessageKind::mpa_rtr;
    if (!tagged && length == read_length && opcode == wire::RdmapOpcode::read_request) {
      if (head_size_ < before + read_size_end) {
        head_need_ = static_cast<std::uint8_t>(before + read_size_end);
        return;
      }
      r.skip(read_size_end - word_size - 4);
      if (r.be32() == 0) m.named = MessageKind::mpa_rtr;
      m.named_at = static_cast<std::uint8_t>(before + read_size_end - 1);
    }
  }
  close_head(m.start + m.whole);
  // With depth startup, continue to the first FPDU, which may be the RTR.
  if (depth_ == StreamDepth::startup) state_ = State::beyond;
}

std::size_t MessageStream::first_reaching(std::uint64_t begin) const {
  std::size_t low = 0, high = log_.size();
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (logged(middle).start < begin)
      low = middle + 1;
    else
      high = middle;
  }
  return low == 0 ? 0 : low - 1;
}

std::optional<StreamMessage> MessageStream::at(std::uint64_t start) const {
  std::optional<StreamMessage> out;
  each(start, start + 1, [&](const StreamMessage& m) {
    if (m.start == start) out = m;
  });
  return out;
}

std::uint32_t MessageStream::markers_in(const StreamMessage& m) const {
  if (!markers_) return 0;
  return static_cast<std::uint32_t>(mpa::fpdu::markers(m.start - base_, mpa::fpdu::bare_size(m.ulpdu_length)));
}

std::uint32_t MessageStream::field_size(const StreamMessage& m, MessageField field) const {
  const bool fpdu = m.fpdu != 0;
  if (fpdu != (field >= MessageField::length)) return 0;
  // The offset of these fields does not depend on the message's length.
  const bool fixed = field < MessageField::private_data || (field == MessageField::length && markers_known_);
  if (m.whole == 0 && !fixed) return 0;
  switch (field) {
    case MessageField::key: return PARLEY_MPA_KEY_LEN;
    case MessageField::flags:
    case MessageField::revision: return 1;
    case MessageField::pd_length:
    case MessageField::length: return 2;
    case MessageField::private_data: return m.whole - PARLEY_MPA_HEADER_LEN;
    case MessageField::payload: return m.ulpdu_length;
    case MessageField::marker: return 2 * markers_in(m);
    case MessageField::crc: return PARLEY_MPA_CRC_LEN;
    default: return 0;
  }
  return 0;
}

std::uint64_t MessageStream::field_octet(const StreamMessage& m, MessageField field, std::uint32_t octet) const {
  const std::uint64_t first_marker = m.start + (interval - (m.start - base_) % interval) % interval;
  switch (field) {
    case MessageField::key: return m.start + octet;
    case MessageField::flags: return m.start + PARLEY_MPA_FLAGS_OFF;
    case MessageField::revision: return m.start + PARLEY_MPA_REV_OFF;
    case MessageField::pd_length: return m.start + PARLEY_MPA_PD_LENGTH_OFF + octet;
    case MessageField::private_data: return m.start + PARLEY_MPA_HEADER_LEN + octet;
    case MessageField::length: return m.start + lead(m.start) + octet;
    case MessageField::crc: return m.start + m.whole - PARLEY_MPA_CRC_LEN + octet;
    case MessageField::marker: return first_marker + std::uint64_t{interval} * (octet / 2) + 2 + octet % 2;
    default: break;
  }
  std::uint64_t at = m.start + lead(m.start) + PARLEY_MPA_LEN_LEN;
  if (!markers_) return at + octet;
  std::uint64_t marker = first_marker < at ? first_marker + interval : first_marker;
  while (at + octet >= marker) {  // at most one turn for each marker of an FPDU
    octet -= static_cast<std::uint32_t>(marker - at);
    at = marker + marker_size;
    marker += interval;
  }
  return at + octet;
}

}  // namespace parley::sim
