// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_rank_worker.hpp"

#include <exception>

#include <fmt/format.h>

#include "tools/jobs.hpp"
#include "tools/sim/sim_sweep.hpp"

namespace parley::tools {

RankWorker::RankWorker(unsigned jobs) : jobs_(jobs), thread_([this] { serve(); }) {}

RankWorker::~RankWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void RankWorker::put(Bytes message) {
  const std::lock_guard lock(mutex_);
  input_.push_back(std::move(message));
  arrived_.notify_one();
}

std::optional<Bytes> RankWorker::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  made_.wait_for(lock, patience, [this] { return !output_.empty(); });
  if (output_.empty()) return std::nullopt;
  Bytes first = std::move(output_.front());
  output_.pop_front();
  return first;
}

std::optional<Bytes> RankWorker::next_input() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return stop_ || !input_.empty(); });
  if (stop_) return std::nullopt;
  Bytes first = std::move(input_.front());
  input_.pop_front();
  return first;
}

void RankWorker::send(const sim::ranks::RankMessage& message) {
  Bytes octets = sim::ranks::encode_message(message);
  const std::lock_guard lock(mutex_);
  output_.push_back(std::move(octets));
  made_.notify_one();
}

void RankWorker::serve() {
  while (const auto input = next_input()) {
    try {
      const auto message = sim::ranks::decode_message(*input);
      if (!message) {
        send(sim::ranks::Failure{"rank 0 sent a message that is not expected"});
        continue;
      }
      if (const auto* work = std::get_if<sim::ranks::Work>(&*message)) handle(*work);
      if (const auto* assignment = std::get_if<sim::ranks::Assignment>(&*message)) handle(assignment->chunk);
    } catch (const std::exception& error) {
      send(sim::ranks::Failure{error.what()});
    }
  }
}

void RankWorker::handle(const sim::ranks::Work& work) {
  sweep_ = sim::decode_sweep(work.sweep);
  shard_ = {work.shard_number, work.shard_count};
  if (!sweep_) return send(sim::ranks::Failure{"rank 0 sent a sweep that is not possible"});
  auto file = scenario_in(*sweep_);
  if (!file) return send(sim::ranks::Failure{file.error().text});
  file_ = std::move(*file);
}

void RankWorker::handle(const sim::Chunk& chunk) {
  if (!file_) return;  // already reported
  const auto began = std::chrono::steady_clock::now();
  sim::ranks::Results results{chunk, {}, {}};
  const auto once = [&](std::uint64_t i, const std::atomic<bool>& stop) {
    return carry_out(run_of(*sweep_, *file_, shard_.run_at(chunk.first + i)), {}, stop);
  };
  const auto keep = [&](const SimResult& result) {
    if (result.stopped()) return false;
    results.records.push_back(record_of(result));
    return true;
  };
  if (jobs_ == 1 || chunk.count == 1) {
    for (std::uint64_t i = 0; i < chunk.count; ++i)
      if (!keep(once(i, stop_))) return;
  } else {
    in_order<SimResult>(
        chunk.count - 1, jobs_, once, [&](std::uint64_t, SimResult&& result) { return keep(result); },
        [this] { return !stop_; });
  }
  if (results.records.size() != chunk.count) return;  // stopped
  results.took = std::chrono::steady_clock::now() - began;
  send(results);
}

}  // namespace parley::tools
