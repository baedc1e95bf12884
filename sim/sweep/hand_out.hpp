// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which worker does which runs of a sweep. Workers are the threads of one process, or ranks. They get chunks of
// consecutive runs while there are any: a worker that is fast gets more. The results are wanted in order, so no chunk is
// handed out that is too far ahead of the first result that is missing.
//
// A chunk has as many runs as take `chunk_time`, by the runs so far, but never more than an even share of a quarter of
// what is left, so that all workers end at about the same time.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "parley/time.hpp"

namespace parley::sim {

/// Consecutive runs, by their position in the sweep.
struct Chunk {
  std::uint64_t first = 0, count = 0;
  bool operator==(const Chunk&) const = default;
};

struct HandOutOptions {
  std::uint64_t last = 0;       ///< the positions are 0 to last
  std::uint32_t workers = 1;    ///< that will ask
  std::uint32_t chunk_max = 1;  ///< runs of one chunk
  std::uint64_t window = 64;    ///< runs that may be handed out from the first one whose result is missing on
  Duration chunk_time = std::chrono::milliseconds(100);
};

class HandOut {
 public:
  explicit HandOut(const HandOutOptions& options) : options_(options) {}

  /// Changes the number of workers that will ask, and the window.
  void set_workers(std::uint32_t workers, std::uint64_t window) {
    options_.workers = workers;
    options_.window = window;
  }
  /// The next chunk for a worker. Nothing while the window is full, and after the last.
  std::optional<Chunk> next(std::uint32_t worker);
  /// The results of a chunk arrived; they took `took`. False if the chunk is not expected: another worker had it again
  /// and delivered it, or it was never handed out.
  bool finished(const Chunk& chunk, Duration took);
  /// The worker is lost: its chunks are handed out again, before all others. Returns the number of their runs.
  std::uint64_t lost(std::uint32_t worker);
  /// The first position whose result is missing.
  void delivered_up_to(std::uint64_t position) { delivered_ = position; }
  /// Every position was handed out, and none was handed back.
  bool all_handed_out() const { return all_given_ && returned_.empty(); }

 private:
  struct Held {
    std::uint64_t count = 0;
    std::uint32_t worker = 0;
  };
  std::uint64_t size_of_next() const;

  HandOutOptions options_;
  std::uint64_t next_ = 0, delivered_ = 0;
  bool all_given_ = false;
  double run_ns_ = 0;                   ///< of one run, on average over the latest chunks; 0: unknown
  std::map<std::uint64_t, Held> held_;  ///< by first position; at most `window`
  std::deque<Chunk> returned_;
};

}  // namespace parley::sim
