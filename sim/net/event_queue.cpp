// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/event_queue.hpp"

#include <algorithm>

namespace parley::sim {

EventKey EventHeap::pop() {
  const EventKey result = keys_.front();
  const EventKey last = keys_.back();
  keys_.pop_back();
  const std::size_t size = keys_.size();
  if (size == 0) return result;
  std::size_t i = 0;
  for (;;) {
    const std::size_t first = i * 4 + 1;
    if (first >= size) break;
    const std::size_t end = std::min(first + 4, size);
    std::size_t least = first;
    EventKey key = keys_[first];
    for (std::size_t child = first + 1; child < end; ++child) {  // written to compile to conditional moves
      const bool less = keys_[child] < key;
      key = less ? keys_[child] : key;
      least = less ? child : least;
    }
    if (last <= key) break;
    keys_[i] = key;
    i = least;
  }
  keys_[i] = last;
  return result;
}

EventQueue::EventQueue() { head_.fill(none); }

void EventQueue::into_present(EventKey key) {
  if (run_at_ == run_.size()) {
    run_.clear();
    run_at_ = 0;
    run_.push_back(key);
    return;
  }
  if (key < run_.back()) {
    late_.push(key);
    return;
  }
  // In a run that never ends (events that push others at the same time), remove executed events.
  if (run_at_ >= 4096 && run_at_ >= run_.size() / 2) {
    run_.erase(run_.begin(), run_.begin() + static_cast<std::ptrdiff_t>(run_at_));
    run_at_ = 0;
  }
  run_.push_back(key);
}

std::uint64_t EventQueue::next_bucket() const {
  if (used_words_ == 0) return ~0ull;
  const std::size_t from = (present_ + 1) % buckets;
  const std::size_t word = from / 64;
  const std::uint64_t rest = used_[word] & (~0ull << (from % 64));
  std::size_t found = 0;
  if (rest != 0) {
    found = word * 64 + static_cast<std::size_t>(std::countr_zero(rest));
  } else {
    const std::uint64_t later = word == 63 ? 0 : used_words_ & (~0ull << (word + 1));
    const auto next = static_cast<std::size_t>(std::countr_zero(later != 0 ? later : used_words_));
    found = next * 64 + static_cast<std::size_t>(std::countr_zero(used_[next]));
  }
  return present_ + 1 + (found + buckets - from) % buckets;
}

/// The run is empty: takes the next bucket, unless a heap has an event for an earlier one.
void EventQueue::turn() {
  const std::uint64_t bucket = next_bucket();
  EventKey heaps = late_.empty() ? end_key : late_.top();
  if (!far_.empty()) heaps = std::min(heaps, far_.top());
  const std::uint64_t heap_bucket = heaps == end_key ? ~0ull : bucket_of(heaps);
  if (heap_bucket < bucket) {
    present_ = std::max(present_, heap_bucket);  // so that the wheel covers events pushed from there
    return;
  }
  if (bucket == ~0ull) return;
  present_ = bucket;
  load(bucket % buckets);
}

/// Turns the bucket into the run: in push order, then sorted.
void EventQueue::load(std::size_t bucket) {
  std::size_t count = 0;
  for (std::uint32_t c = head_[bucket]; c != none; c = chunks_[c].next) count += chunks_[c].count;
  run_.resize(count);
  run_at_ = 0;
  std::size_t place = count;
  for (std::uint32_t c = head_[bucket]; c != none;) {  // the chunk filled last comes first
    Chunk& chunk = chunks_[c];
    place -= chunk.count;
    std::copy_n(chunk.keys, chunk.count, run_.begin() + static_cast<std::ptrdiff_t>(place));
    const std::uint32_t next = chunk.next;
    chunk.next = free_chunk_;
    free_chunk_ = c;
    c = next;
  }
  head_[bucket] = none;
  used_[bucket / 64] &= ~(1ull << (bucket % 64));
  if (used_[bucket / 64] == 0) used_words_ &= ~(1ull << (bucket / 64));
  sort_run();
}

void EventQueue::sort_run() {
  if (run_.size() <= 24) {
    for (std::size_t i = 1; i < run_.size(); ++i) {
      const EventKey key = run_[i];
      std::size_t j = i;
      for (; j != 0 && key < run_[j - 1]; --j) run_[j] = run_[j - 1];
      run_[j] = key;
    }
    return;
  }
  // Push order is the order of sequence numbers, so a stable sort by time alone sorts by key.
  std::array<std::uint32_t, bucket_ns + 1> begin{};
  const auto nanosecond = [](EventKey key) { return static_cast<std::size_t>(key >> 64) % bucket_ns; };
  for (const EventKey key : run_) ++begin[nanosecond(key) + 1];
  for (std::size_t i = 1; i < begin.size(); ++i) begin[i] += begin[i - 1];
  unsorted_.swap(run_);
  run_.resize(unsorted_.size());
  for (const EventKey key : unsorted_) run_[begin[nanosecond(key)]++] = key;
}

}  // namespace parley::sim
