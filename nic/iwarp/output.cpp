// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/iwarp/output.hpp"

#include <algorithm>
#include <cstring>

namespace parley::nic::iwarp {
bool Output::add(ConstBytes header, std::span<const ConstBytes> payload, std::size_t length) {
  const std::size_t ulpdu = header.size() + length;
  if (payload.size() <= 1 && length <= inline_max) {
    const std::size_t size = framer_->wire_size(ulpdu);
    if (!make_room(size, 1)) return false;
    const MutBytes out(arena_.data() + arena_used_, size);
    const std::size_t written = framer_->frame(header, length > 0 ? payload[0] : ConstBytes{}, out);
    arena_used_ += written;
    framed_ += written;
    const ConstBytes piece = out.first(written);
    append({&piece, 1});
    return true;
  }
  const std::size_t side = mpa::Framer::side_size(header.size(), ulpdu);
  const std::size_t wanted = mpa::Framer::gather_pieces(payload.size(), ulpdu);
  if (!make_room(side, wanted)) return false;
  const MutBytes out(arena_.data() + arena_used_, side);
  const std::span<ConstBytes> list(list_.data() + tail_, list_.size() - tail_);
  std::size_t octets = 0;
  const std::size_t used = framer_->gather(header, payload, out, list, octets);
  if (used == 0) return false;
  framed_ += octets;
  arena_used_ += octets - length;
  append(list.first(used));
  return true;
}

// The pieces may already stand at tail_. The end of one FPDU and the start of the next are neighbours in the arena and
// become one piece, which spares TCP a third of its list.
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

bool Output::make_room(std::size_t side, std::size_t pieces) {
  if (empty()) head_ = tail_ = arena_used_ = 0;
  if (list_.size() - tail_ < pieces) {
    const std::size_t size = std::max({pieces_first, list_.size() * 2, tail_ + pieces});
    if (size > pieces_max && tail_ + pieces > pieces_max) return false;
    list_.resize(std::min(size, pieces_max));
  }
  if (arena_.size() - arena_used_ < side) {
    grow_arena_ = true;
    if (!empty()) return false;
  }
  // Pieces point into the arena: it grows only when there are none.
  if (grow_arena_ && empty()) {
    grow_arena_ = false;
    arena_.resize(std::min(std::max({arena_first, arena_.size() * 2, side}), arena_max));
  }
  return arena_.size() - arena_used_ >= side;
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
  head_ = tail_ = arena_used_ = 0;
  if (arena_.empty()) arena_.resize(arena_first);
  if (owned_.empty()) return;
  list_[tail_++] = ConstBytes(owned_);
}

void Output::clear() {
  head_ = tail_ = arena_used_ = 0;
  framed_ = sent_;
}

}  // namespace parley::nic::iwarp
