// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/tcp/tcp_buffers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "sim/tcp/tcp_sequence.hpp"

namespace parley::sim {

std::uint8_t* TcpBuffers::take(std::uint32_t capacity) {
  out_ += capacity;
  peak_ = std::max(peak_, out_);
  auto& free = free_[static_cast<std::size_t>(std::bit_width(capacity))];
  if (free.empty()) {
    ++made_;
    return std::make_unique_for_overwrite<std::uint8_t[]>(capacity).release();
  }
  kept_ -= capacity;
  std::uint8_t* block = free.back().release();
  free.pop_back();
  return block;
}

void TcpBuffers::give_back(std::uint8_t* block, std::uint32_t capacity) {
  out_ -= capacity;
  std::unique_ptr<std::uint8_t[]> owned(block);
  if (kept_ + capacity > free_max) return;
  kept_ += capacity;
  free_[static_cast<std::size_t>(std::bit_width(capacity))].push_back(std::move(owned));
}

void TcpRing::grow(TcpBuffers& buffers, std::uint32_t first, std::uint32_t used, std::uint32_t size) {
  TcpRing bigger;
  bigger.capacity_ = std::bit_ceil(std::max(size, TcpBuffers::block_min));
  bigger.data_ = buffers.take(bigger.capacity_);
  if (data_ != nullptr) {
    const auto pieces = view(first, used);
    bigger.put(first, pieces[0]);
    bigger.put(first + static_cast<std::uint32_t>(pieces[0].size()), pieces[1]);
  }
  std::swap(data_, bigger.data_);
  std::swap(capacity_, bigger.capacity_);
  bigger.release(buffers);
}

void TcpRing::put(std::uint32_t seq, ConstBytes octets) {
  if (octets.empty()) return;
  const std::uint32_t at = seq & (capacity_ - 1);
  const std::size_t before_end = std::min<std::size_t>(octets.size(), capacity_ - at);
  std::memcpy(data_ + at, octets.data(), before_end);
  if (before_end < octets.size()) std::memcpy(data_, octets.data() + before_end, octets.size() - before_end);
}

void TcpReassembly::insert(TcpRange range) {
  const auto first =
      std::find_if(ranges.begin(), ranges.end(), [&](const TcpRange& r) { return !seq_lt(r.right, range.left); });
  auto last = first;  // one past the ranges that touch the new one
  while (last != ranges.end() && !seq_lt(range.right, last->left)) {
    range.left = seq_lt(last->left, range.left) ? last->left : range.left;
    range.right = seq_lt(range.right, last->right) ? last->right : range.right;
    ++last;
  }
  if (first == last) {
    if (ranges.size() >= ranges_max) return;
    ranges.insert(first, range);
  } else {
    *first = range;
    ranges.erase(first + 1, last);
  }
  newest = range.left;
}

}  // namespace parley::sim
