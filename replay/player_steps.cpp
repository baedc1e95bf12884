// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Player: recorded steps made into octets for the live connection.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "mpa/crc32c.hpp"
#include "mpa/framer.hpp"
#include "replay/player.hpp"

namespace parley::replay {

using verdict::Side;
using wire::RdmapOpcode;

namespace {

/// An MSN of the recorded side, which counts from 1 for each queue (RFC 5041 §5.3).
bool numbered(const wire::DdpHeader& h) { return !h.tagged; }

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
  if (step.known < step.octets.size()) {
    result_.partial = true;
    note(fmt::format("frame {}: {} of {} octets of the {} are not in the recording; zeros are played", step.last.frame,
                     step.octets.size() - step.known, step.octets.size(), to_string(step.kind)));
  }
  switch (step.kind) {
    case Step::Kind::startup: play_startup(step); break;
    case Step::Kind::rtr_frame:
    case Step::Kind::raw: send(step.octets); break;
    case Step::Kind::fpdu: play_fpdu(step); break;
    case Step::Kind::gap:
      result_.partial = true;
      note(fmt::format("frame {}: {} octets before it are not in the recording and are not played", step.last.frame,
                       step.lost));
      return;
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
  // RFC 6581 §9.1: a Reply answers the IRD and ORD of its Request; what echoed the recorded one echoes the live one.
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

void Player::play_fpdu(const Step& step) {
  const std::size_t index = next_step_ - 1;
  const Item* item = item_of_step(index);
  const auto h = wire::DdpHeader::parse(step.octets);
  if (item != nullptr && item->kind == Item::Kind::message && !item->whole && h && !step.bad_crc &&
      !recording_.closed && numbered(*h)) {
    // Its end was lost: half a message would hold up everything after it.
    if (item->first_step == index) {
      ++skipped_[h->qn];
      result_.partial = true;
      note(
          fmt::format("frame {}: {}: its end is not in the recording; it is not played and what follows is numbered "
                      "anew",
                      step.last.frame, describe(*item)));
    }
    return;
  }
  if (h && item != nullptr && item->is(RdmapOpcode::read_response) && !step.bad_crc && item->whole &&
      answer_read(*item))
    return;
  Bytes ulpdu = step.octets;
  if (h && step.known >= h->size()) map_header(ulpdu, step);
  frame(ulpdu, step);
}

// The live Read Request that the response answers asks for another length: the whole message is made anew, of the
// recorded octets. True when nothing of the recorded segments is to be played.
bool Player::answer_read(const Item& item) {
  const std::size_t index = next_step_ - 1;
  if (item.first_step == index) ++reads_answered_;
  if (item_[index] == answered_item_) return true;
  if (item.first_step != index || reads_answered_ > live_reads_.size()) return false;
  const wire::ReadRequest& live = live_reads_[reads_answered_ - 1];
  if (live.size == item.length || live.size > Item::payload_max) return false;
  answered_item_ = item_[index];
  note(fmt::format("frame {}: the live side reads {} octets where {} were recorded: the recorded ones are {}",
                   item.last.frame, live.size, item.length, live.size < item.length ? "cut" : "repeated"));
  const std::size_t step = std::max<std::size_t>(mpa::mulpdu_of(emss_, tx_markers_), 128) - PARLEY_DDP_TAGGED_LEN;
  std::uint64_t at = 0;
  do {
    const std::size_t n = std::min<std::uint64_t>(step, live.size - at);
    wire::DdpHeader h = item.header;
    h.stag = live.sink_stag;
    h.to = live.sink_to + at;
    h.last = at + n == live.size;
    Bytes ulpdu(h.size() + n);
    h.emit(ulpdu);
    Writer w(MutBytes(ulpdu).subspan(h.size()));
    for (std::size_t i = 0; i < n; ++i)
      w.u8(item.payload.empty() ? std::uint8_t{0}
                                : ConstBytes(item.payload).subspan((at + i) % item.payload.size(), 1).front());
    Step plain;
    frame(ulpdu, plain);
    at += n;
  } while (at < live.size);
  return true;
}

// The live side's names in the headers of the played side.
void Player::map_header(Bytes& ulpdu, const Step& step) {
  auto h = *wire::DdpHeader::parse(ulpdu);
  const wire::DdpHeader was = h;
  const Item* item = item_of_step(next_step_ - 1);
  if (h.opcode == RdmapOpcode::rdma_write && h.tagged) {
    h.stag = map_.stag(was.stag);
    h.to = map_.to(was.stag, was.to);
  }
  if (h.opcode == RdmapOpcode::read_response && h.tagged && item != nullptr && reads_answered_ > 0 &&
      reads_answered_ <= live_reads_.size()) {
    const wire::ReadRequest& live = live_reads_[reads_answered_ - 1];
    h.stag = live.sink_stag;
    h.to = live.sink_to + (was.to - item->header.to);
  }
  if ((h.opcode == RdmapOpcode::send_inv || h.opcode == RdmapOpcode::send_se_inv) && !h.tagged)
    h.stag = map_.stag(was.stag);
  if (numbered(h))
    if (const auto it = skipped_.find(h.qn); it != skipped_.end()) h.msn -= it->second;
  const std::uint8_t control = ConstBytes(ulpdu).front();
  h.emit(ulpdu);
  // Reserved bits that were set on the wire stay set.
  Writer(MutBytes(ulpdu)).u8(static_cast<std::uint8_t>(control));
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
  if (h.opcode == RdmapOpcode::atomic_response && !h.tagged && atomics_answered_ < live_atomics_.size()) {
    Writer w(body);
    w.be32(live_atomics_[atomics_answered_++]);
  }
}

// RFC 5044 §4.1 to §4.4, and the recorded faults put back in.
void Player::frame(ConstBytes ulpdu, const Step& step) {
  mpa::Framer framer({.crc = tx_crc_, .markers = tx_markers_, .emss = emss_}, tx_position_);
  const std::size_t size = framer.wire_size(ulpdu.size());
  Bytes out(size);
  if (framer.frame(ulpdu, {}, out) == 0) return;
  const MutBytes body = MutBytes(out).first(size - PARLEY_MPA_CRC_LEN);
  const std::size_t pad = (0 - (PARLEY_MPA_LEN_LEN + ulpdu.size())) & 3;
  bool changed = false;
  if (step.bad_pad && pad > 0) {
    // The pad ends where the CRC begins, or where the marker before the CRC does.
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
