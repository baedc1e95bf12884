// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/sim/sim_rank_worker.hpp"

#include <exception>

#include <fmt/format.h>

#include "tools/sim/sim_sweep.hpp"

namespace parley::tools {

RankWorker::RankWorker(unsigned jobs) {
  for (unsigned i = 0; i < jobs; ++i) threads_.emplace_back([this] { serve(); });
}

RankWorker::~RankWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  arrived_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void RankWorker::put(const Bytes& octets) {
  const auto message = sim::ranks::decode_message(octets);
  if (!message) return send(sim::ranks::Failure{"rank 0 sent a message that is not expected"});
  if (const auto* work = std::get_if<sim::ranks::Work>(&*message)) handle(*work);
  const auto* assignment = std::get_if<sim::ranks::Assignment>(&*message);
  if (assignment == nullptr || !file_) return;  // without a scenario rank 0 got a Failure
  const std::lock_guard lock(mutex_);
  input_.push_back(assignment->chunk);
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

std::optional<sim::Chunk> RankWorker::next_chunk() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [this] { return stop_ || !input_.empty(); });
  if (stop_) return std::nullopt;
  const sim::Chunk first = input_.front();
  input_.pop_front();
  return first;
}

void RankWorker::send(const sim::ranks::RankMessage& message) {
  Bytes octets = sim::ranks::encode_message(message);
  if (octets.size() > sim::ranks::rank_message_max)
    octets = sim::ranks::encode_message(
        sim::ranks::Failure{fmt::format("the results of one chunk of runs take {} octets, and a message at most {}",
                                        octets.size(), sim::ranks::rank_message_max)});
  const std::lock_guard lock(mutex_);
  output_.push_back(std::move(octets));
  made_.notify_one();
}

void RankWorker::serve() {
  while (const auto chunk = next_chunk()) {
    try {
      handle(*chunk);
    } catch (const std::exception& error) {
      send(sim::ranks::Failure{error.what()});
    }
  }
}

void RankWorker::handle(const sim::ranks::Work& work) {
  if (file_) return;  // the threads use it
  sweep_ = sim::decode_sweep(work.sweep);
  shard_ = {work.shard_number, work.shard_count};
  if (!sweep_) return send(sim::ranks::Failure{"rank 0 sent a sweep that is not possible"});
  auto file = scenario_in(*sweep_);
  if (!file) return send(sim::ranks::Failure{file.error().text});
  file_ = std::move(*file);
}

void RankWorker::handle(const sim::Chunk& chunk) {
  const auto began = std::chrono::steady_clock::now();
  sim::ranks::Results results{chunk, {}, {}};
  for (std::uint64_t i = 0; i < chunk.count; ++i) {
    const SimResult result = carry_out(run_of(*sweep_, *file_, shard_.run_at(chunk.first + i)), {}, stop_);
    if (result.stopped()) return;
    results.records.push_back(record_of(result));
  }
  results.took = std::chrono::steady_clock::now() - began;
  send(results);
}

}  // namespace parley::tools
