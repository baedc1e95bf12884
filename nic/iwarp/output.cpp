// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/iwarp/output.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "nic/iwarp/fpdu_event.hpp"

namespace parley::nic::iwarp {

// `header` may contain the whole ULPDU.
void Output::trace_fpdu(ConstBytes header, std::size_t length) const {
  const auto h = wire::DdpHeader::parse(header);
  if (h) trace_->record(fpdu_event(true, *h, header.size() - h->size() + length));
}

bool Output::add(ConstBytes header, std::span<const ConstBytes> payload, std::size_t length) {
  if (!add_pieces(header, payload, length)) return false;
  if (trace_ != nullptr) [[unlikely]]
    trace_fpdu(header, length);
  return true;
}

bool Output::add_pieces(ConstBytes header, std::span<const ConstBytes> payload, std::size_t length) {
  if (payload.size() <= 1 && length <= inline_max)
    return add_whole(arena_, header, length > 0 ? payload[0] : ConstBytes{});
  const std::size_t ulpdu = header.size() + length;
  const std::size_t side = mpa::Framer::side_size(header.size(), ulpdu);
  if (!make_room(arena_, side, mpa::Framer::gather_pieces(payload.size(), ulpdu))) return false;
  const std::span<ConstBytes> list(list_.data() + tail_, list_.size() - tail_);
  std::size_t octets = 0;
  const std::size_t used = framer_->gather(header, payload, arena_.next(side), list, octets);
  if (used == 0) return false;
  framed_ += octets;
  arena_.used += octets - length;
  append(list.first(used));
  return true;
}

bool Output::add_copy(ConstBytes header, ConstBytes payload) {
  if (!crc_) return add(header, {&payload, payload.empty() ? 0U : 1U}, payload.size());
  if (!add_whole(payload.size() <= inline_max ? arena_ : copies_, header, payload)) return false;
  if (trace_ != nullptr) [[unlikely]]
    trace_fpdu(header, payload.size());
  return true;
}

bool Output::add_whole(Arena& arena, ConstBytes header, ConstBytes payload) {
  const std::size_t size = framer_->wire_size(header.size() + payload.size());
  if (!make_room(arena, size, 1)) return false;
  const MutBytes out = arena.next(size);
  const std::size_t written = framer_->frame(header, payload, out);
  arena.used += written;
  framed_ += written;
  const ConstBytes piece = out.first(written);
  append({&piece, 1});
  return true;
}

// The pieces may already be in place at tail_. The end of one FPDU and the start of the next are adjacent in the arena
// and become one piece, which saves TCP a third of its list.
void Output::append(std::span<const ConstBytes> more) {
  if (tail_ > head_) {
    ConstBytes& last = list_[tail_ - 1];
    if (last.data() + last.size() == more.front().data()) {
      last = ConstBytes(last.data(), last.size() + more.front().size());
      more = more.subspan(1);
    }
  }
  if (!more.empty() && more.data() != list_.data() + tail_)
    std::memmove(list_.data() + tail_, more.data(), more.size_bytes());
  tail_ += more.size();
}

bool Output::make_room(Arena& arena, std::size_t size, std::size_t pieces) {
  if (empty()) rewind();
  if (list_.size() - tail_ < pieces) {
    const std::size_t wanted = std::max({pieces_first, list_.size() * 2, tail_ + pieces});
    if (wanted > pieces_max && tail_ + pieces > pieces_max) return false;
    list_.resize(std::min(wanted, pieces_max));
  }
  return arena.make_room(size, empty());
}

bool Output::Arena::make_room(std::size_t size, bool unused) {
  if (octets.size() - used < size) {
    grow = true;
    if (!unused) return false;
  }
  if (grow && unused) {
    grow = false;
    octets.resize(std::min(std::max({first, octets.size() * 2, size}), max));
  }
  return octets.size() - used >= size;
}

std::size_t Output::gather(std::span<ConstBytes> out) const {
  const std::size_t n = std::min(out.size(), pieces());
  std::copy_n(list_.begin() + static_cast<std::ptrdiff_t>(head_), n, out.begin());
  return n;
}

void Output::sent(std::size_t n) {
  n = std::min(n, octets());
  sent_ += n;
  while (n > 0) {
    ConstBytes& first = list_[head_];
    if (n < first.size()) {
      first = first.subspan(n);
      return;
    }
    n -= first.size();
    ++head_;
  }
}

void Output::own_all() {
  Bytes copy;
  copy.reserve(octets());
  for (std::size_t i = head_; i < tail_; ++i) copy.insert(copy.end(), list_[i].begin(), list_[i].end());
  owned_ = std::move(copy);
  rewind();
  // A Terminate follows, and must find room even while octets are unsent.
  if (arena_.octets.empty()) arena_.octets.resize(arena_.first);
  if (owned_.empty()) return;
  list_[tail_++] = ConstBytes(owned_);
}

void Output::clear() {
  rewind();
  framed_ = sent_;
}

}  // namespace parley::nic::iwarp
