// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The threads of a rank that do runs. They take chunks that rank 0 assigned and make messages to it; both are queues, so
// that one other thread can wait for MPI and for these.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "sim/sweep/rank_messages.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"
#include "tools/sim/sim_once.hpp"

namespace parley::tools {

class RankWorker {
 public:
  /// Each of `jobs` threads does one chunk at a time.
  explicit RankWorker(unsigned jobs);
  ~RankWorker();
  RankWorker(const RankWorker&) = delete;
  RankWorker& operator=(const RankWorker&) = delete;

  /// A message of rank 0.
  void put(const Bytes& message);
  /// The next message to rank 0. Waits for it as long as `patience`.
  std::optional<Bytes> take(std::chrono::milliseconds patience);

 private:
  void serve();
  std::optional<sim::Chunk> next_chunk();
  void send(const sim::ranks::RankMessage& message);
  void handle(const sim::ranks::Work& work);
  void handle(const sim::Chunk& chunk);

  std::mutex mutex_;
  std::condition_variable arrived_, made_;
  std::deque<sim::Chunk> input_;
  std::deque<Bytes> output_;
  std::atomic<bool> stop_{false};
  // Set before the first chunk:
  std::optional<sim::Sweep> sweep_;
  sim::Shard shard_;
  std::optional<ScenarioFile> file_;
  std::vector<std::thread> threads_;
};

}  // namespace parley::tools
