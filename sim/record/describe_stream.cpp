// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/record/describe_stream.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/rules/mpa/startup_check.hpp"
#include "capture/rules/rdmap/rdmap_check.hpp"
#include "wire/mpa.hpp"
#include "wire/rdmap.hpp"

namespace parley::sim {
namespace {

using capture::WalkedFpdu;
using wire::DdpHeader;
using wire::RdmapOpcode;

constexpr std::string_view key_head = "MPA ID ";  // all keys begin with it
constexpr std::string_view rtr_head = "MPA ID R";

/// Whether the octets are the text, or a prefix of it.
bool begins_like(ConstBytes octets, std::string_view text) {
  const std::size_t n = std::min(octets.size(), text.size());
  return std::equal(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n), text.begin(),
                    [](std::uint8_t a, char b) { return a == static_cast<std::uint8_t>(b); });
}

/// RFC 6581 §9.2: messages that may serve as "ready to receive".
bool is_zero_length(const DdpHeader& h, ConstBytes body) {
  if (!h.last) return false;
  if (h.opcode == RdmapOpcode::send) return !h.tagged && body.empty();
  if (h.opcode == RdmapOpcode::rdma_write) return h.tagged && body.empty();
  const auto q = wire::ReadRequest::parse(body);
  return h.opcode == RdmapOpcode::read_request && !h.tagged && q && q->size == 0;
}

}  // namespace

bool DescribedStream::syn(std::uint32_t seq) {
  if (synchronised_) return true;
  synchronised_ = true;
  first_seq_ = next_seq_ = seq + 1;
  return false;
}

bool DescribedStream::fin() { return std::exchange(fin_, true); }

std::uint64_t DescribedStream::acked(std::uint32_t ack) const {
  if (!synchronised_) return 0;
  const std::int64_t at = static_cast<std::int64_t>(position_) + static_cast<std::int32_t>(ack - next_seq_);
  return static_cast<std::uint64_t>(std::clamp<std::int64_t>(at, 0, static_cast<std::int64_t>(position_)));
}

DescribedStream::StreamRange DescribedStream::segment(std::uint32_t seq, ConstBytes payload, Instant at) {
  if (!synchronised_) {
    synchronised_ = true;
    first_seq_ = next_seq_ = seq;
  }
  const std::int64_t distance = static_cast<std::int32_t>(seq - next_seq_);
  const std::int64_t begin = static_cast<std::int64_t>(position_) + distance;
  StreamRange place;
  if (begin < 0 || distance > static_cast<std::int64_t>(absurd_distance)) return place;
  place.begin = static_cast<std::uint64_t>(begin);
  place.end = place.begin + payload.size();
  if (payload.empty()) return place;
  if (place.end <= position_) {
    place.repeated = true;
    return place;
  }
  if (place.begin > position_) {  // the simulator's senders leave no hole
    if (state_ == State::fpdus)
      walker_.missing(place.begin - position_, {0, at, 0}, *this);
    else
      state_ = State::other;
    next_seq_ += static_cast<std::uint32_t>(place.begin - position_);
    position_ = place.begin;
  }
  const ConstBytes fresh = payload.subspan(position_ - place.begin);
  octets(fresh, at);
  position_ += fresh.size();
  next_seq_ += static_cast<std::uint32_t>(fresh.size());
  return place;
}

void DescribedStream::octets(ConstBytes in, Instant at) {
  if (state_ == State::startup || state_ == State::rtr_or_fpdu)
    startup(in);
  else if (state_ == State::fpdus)
    walker_.octets(in, {0, at, 0}, true, *this);
}

/// Octets while startup frames are expected.
void DescribedStream::startup(ConstBytes in) {
  std::uint64_t from = position_ - head_.size();  // position of head_ in the stream
  head_.insert(head_.end(), in.begin(), in.end());
  for (;;) {
    const bool first = state_ == State::startup;
    if (!begins_like(head_, first ? key_head : rtr_head)) {
      state_ = first ? State::other : State::fpdus;
      break;
    }
    if (head_.size() < PARLEY_MPA_HEADER_LEN) return;
    const auto v = wire::MpaFrameView::parse(head_);
    if (!v || !v->complete()) return;
    const std::size_t size = v->frame_size();
    const bool again = handle_startup_frame();
    messages_.back().begin = from;
    messages_.back().end = from + size;
    from += size;
    head_.erase(head_.begin(), head_.begin() + static_cast<std::ptrdiff_t>(size));
    if (!again) break;
    if (head_.empty()) return;
  }
  fpdus_from_ = from;
  walker_.start(capture::Known::unknown, capture::Known::unknown);
  const Bytes rest = std::exchange(head_, {});
  if (state_ == State::fpdus && !rest.empty()) walker_.octets(rest, {}, true, *this);
}

/// Takes the whole startup frame at the beginning of head_; returns whether another may follow.
bool DescribedStream::handle_startup_frame() {
  const auto v = wire::MpaFrameView::parse(head_);
  const capture::StartupSeen s = capture::read_startup(*v);
  DescribedMessage m;
  m.layer = "mpa";
  m.detail = capture::describe_startup(s);
  switch (v->key) {
    case wire::MpaKey::req: m.text = "MPA Request"; break;
    case wire::MpaKey::rep: m.text = v->r() ? "MPA Reply: rejected" : "MPA Reply"; break;
    case wire::MpaKey::rtr: m.text = "MPA Rtr frame"; break;
    case wire::MpaKey::rtr_hex: m.text = "MPA Rtr frame"; break;
    case wire::MpaKey::unknown: m.text = "MPA startup frame, unknown key"; break;
  }
  m.fields.emplace_back(m.text, "");
  capture::startup_fields(s, m.fields);
  if (v->key == wire::MpaKey::unknown)
    m.fields[1].second = readable_text(ConstBytes(head_).first(PARLEY_MPA_KEY_LEN), 64);
  add(std::move(m));
  const bool first = state_ == State::startup;
  initiator_ = initiator_ || (first && v->key != wire::MpaKey::rep);
  state_ = first && initiator_ ? State::rtr_or_fpdu : State::fpdus;
  return state_ == State::rtr_or_fpdu;
}

void DescribedStream::add(DescribedMessage message) {
  if (messages_.size() < messages_max || message.fpdu == 0) messages_.push_back(std::move(message));
}

void DescribedStream::fpdu(const WalkedFpdu& f) {
  DescribedMessage m;
  m.begin = fpdus_from_ + f.position;
  m.end = m.begin + f.wire_octets;
  m.fpdu = ++fpdus_;
  m.layer = "rdmap";
  m.fields.emplace_back(fmt::format("FPDU {}", m.fpdu), "");
  if (const auto h = DdpHeader::parse(f.ulpdu)) {
    const std::string_view name = to_string(h->opcode);
    m.text = name;
    m.detail = capture::describe_segment(f, *h);
    if (m.detail.starts_with(name)) m.detail.erase(0, std::min(name.size() + 1, m.detail.size()));
    if (h->opcode == RdmapOpcode::terminate && !h->tagged) m.layer = "terminate";
    // RFC 6581 §9.2, and by configuration under revision 1: the initiator's first FPDU, if it carries nothing else.
    if (initiator_ && m.fpdu == 1 && is_zero_length(*h, f.ulpdu.subspan(h->size())))
      m.text = fmt::format("RTR: {}", name);
    capture::fpdu_fields(f, *h, m.fields);
  } else {
    m.text = "FPDU";
    m.detail = fmt::format("{} octets, no DDP header", f.ulpdu.size());
  }
  add(std::move(m));
}

void DescribedStream::bad_length(std::uint32_t length, const capture::SegmentRef&) {
  DescribedMessage m;
  m.begin = fpdus_from_ + walker_.position();
  m.end = m.begin + PARLEY_MPA_LEN_LEN;
  m.fpdu = ++fpdus_;
  m.layer = "rdmap";
  m.text = "FPDU";
  m.detail = fmt::format("ULPDU_Length {}, which none can have", length);
  add(std::move(m));
}

void DescribedStream::resynchronised(std::uint64_t, const capture::SegmentRef&) {}

std::vector<const DescribedMessage*> DescribedStream::messages(std::uint64_t begin, std::uint64_t end) const {
  std::vector<const DescribedMessage*> out;
  auto it = std::upper_bound(messages_.begin(), messages_.end(), begin,
                             [](std::uint64_t at, const DescribedMessage& m) { return at < m.end; });
  for (; it != messages_.end() && it->begin < end; ++it) out.push_back(&*it);
  return out;
}

}  // namespace parley::sim
