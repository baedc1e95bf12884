// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/sweep/hand_out.hpp"

#include <algorithm>

namespace parley::sim {

std::uint64_t HandOut::size_of_next() const {
  const std::uint64_t left_less_one = options_.last - next_;  // the number left may be 2^64
  std::uint64_t size =
      run_ns_ > 0 ? static_cast<std::uint64_t>(std::clamp(static_cast<double>(options_.chunk_time.count()) / run_ns_,
                                                          1.0, static_cast<double>(options_.chunk_max)))
                  : 1;
  size = std::min(size, left_less_one / (std::uint64_t{4} * options_.workers) + 1);
  return std::min(size, options_.window - (next_ - delivered_));
}

std::optional<Chunk> HandOut::next(std::uint32_t worker) {
  Chunk chunk;
  if (!returned_.empty()) {
    chunk = returned_.front();
    returned_.pop_front();
  } else {
    if (all_given_ || next_ - delivered_ >= options_.window) return std::nullopt;
    chunk = {next_, size_of_next()};
    next_ += chunk.count;
    all_given_ = chunk.first + (chunk.count - 1) == options_.last;
  }
  held_[chunk.first] = {chunk.count, worker};
  return chunk;
}

bool HandOut::finished(const Chunk& chunk, Duration took) {
  if (const auto held = held_.find(chunk.first); held != held_.end() && held->second.count == chunk.count) {
    held_.erase(held);
  } else if (const auto back = std::find(returned_.begin(), returned_.end(), chunk); back != returned_.end()) {
    returned_.erase(back);  // the worker was not lost after all
  } else {
    return false;
  }
  const double each = static_cast<double>(std::max<Duration::rep>(took.count(), 1)) / static_cast<double>(chunk.count);
  run_ns_ = run_ns_ > 0 ? run_ns_ * 0.9 + each * 0.1 : each;
  return true;
}

std::uint64_t HandOut::lost(std::uint32_t worker) {
  std::uint64_t runs = 0;
  for (auto held = held_.begin(); held != held_.end();) {
    if (held->second.worker != worker) {
      ++held;
      continue;
    }
    runs += held->second.count;
    returned_.push_back({held->first, held->second.count});
    held = held_.erase(held);
  }
  return runs;
}

}  // namespace parley::sim
