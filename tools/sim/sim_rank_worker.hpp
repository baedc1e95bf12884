// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The thread of a rank that does runs. It takes messages of rank 0 and makes messages to it; both are queues, so that one
// other thread can wait for MPI and for this one.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "sim/sweep/rank_messages.hpp"
#include "sim/sweep/shard.hpp"
#include "sim/sweep/sweep.hpp"
#include "tools/sim/sim_once.hpp"

namespace parley::tools {

class RankWorker {
 public:
  /// `jobs` threads do the runs of a chunk.
  explicit RankWorker(unsigned jobs);
  ~RankWorker();
  RankWorker(const RankWorker&) = delete;
  RankWorker& operator=(const RankWorker&) = delete;

  void put(Bytes message);
  /// The next message to rank 0. Waits for it as long as `patience`.
  std::optional<Bytes> take(std::chrono::milliseconds patience);

 private:
  void serve();
  std::optional<Bytes> next_input();
  void send(const sim::ranks::RankMessage& message);
  void handle(const sim::ranks::Work& work);
  void handle(const sim::Chunk& chunk);

  const unsigned jobs_;
  std::mutex mutex_;
  std::condition_variable arrived_, made_;
  std::deque<Bytes> input_, output_;
  std::atomic<bool> stop_{false};
  // Used by the thread alone:
  std::optional<sim::Sweep> sweep_;
  sim::Shard shard_;
  std::optional<ScenarioFile> file_;
  std::thread thread_;
};

}  // namespace parley::tools
