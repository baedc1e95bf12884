// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs work on several threads and delivers the results in order, so that output does not depend on thread timing. What
// hands out the work is what hands it out to ranks too (sim/sweep/hand_out.hpp).
// Pieces of work must be independent of each other. Simulated worlds are: none of the code that they consist of has a
// global variable.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sim/sweep/hand_out.hpp"

namespace parley::tools {

/// Per thread, the results that may wait for an earlier one. This bounds memory when one piece of work takes very long.
inline constexpr std::uint64_t results_waiting_max = 64;

/// The threads of one in_order call and what they share.
template <class Result>
class OrderedJobs {
 public:
  explicit OrderedJobs(std::uint64_t last, unsigned jobs)
      : hand_out_({.last = last, .workers = jobs, .window = results_waiting_max * jobs}) {}
  ~OrderedJobs() { end(); }
  OrderedJobs(const OrderedJobs&) = delete;
  OrderedJobs& operator=(const OrderedJobs&) = delete;

  template <class Work>
  void start(unsigned jobs, const Work& work) {
    for (unsigned i = 0; i < jobs; ++i) threads_.emplace_back([this, i, &work] { serve(i, work); });
  }
  /// The next result in order, or nothing if it did not arrive within `patience`. Rethrows exceptions of the work.
  std::optional<Result> next(std::chrono::milliseconds patience) {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, patience, [this] { return error_ != nullptr || done_.contains(taken_); });
    if (error_ != nullptr) std::rethrow_exception(error_);
    const auto found = done_.find(taken_);
    if (found == done_.end()) return std::nullopt;
    std::optional<Result> result(std::move(found->second));
    done_.erase(found);
    hand_out_.delivered_up_to(++taken_);
    room_.notify_all();
    return result;
  }
  void end() {
    stop_ = true;
    room_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  template <class Work>
  void serve(unsigned thread, const Work& work) {
    for (;;) {
      std::optional<sim::Chunk> chunk;  // of one piece
      {
        std::unique_lock lock(mutex_);
        // The timeout covers an end() between the check of stop_ and the wait.
        while (!stop_ && !hand_out_.all_handed_out() && !(chunk = hand_out_.next(thread)))
          room_.wait_for(lock, std::chrono::milliseconds(50));
        if (!chunk) return;
      }
      try {
        Result result = work(chunk->first, stop_);
        const std::lock_guard lock(mutex_);
        hand_out_.finished(*chunk, Duration{});
        done_.emplace(chunk->first, std::move(result));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
      }
      came_.notify_one();
    }
  }

  std::mutex mutex_;
  sim::HandOut hand_out_;
  std::condition_variable came_, room_;
  std::map<std::uint64_t, Result> done_;  ///< at most as many as the hand-out's window
  std::uint64_t taken_ = 0;
  std::exception_ptr error_;
  std::atomic<bool> stop_{false};
  std::vector<std::thread> threads_;
};

/// Runs work(i, stop) for each i of 0..last (inclusive, so that all 2^64 values are possible) on `jobs` threads; it
/// should return early once `stop` is set. take(i, result) receives the results in order on the calling thread. idle()
/// is called at least every 100 ms. Either ends everything by returning false. Returns how many results were taken.
template <class Result, class Work, class Take, class Idle>
std::uint64_t in_order(std::uint64_t last, unsigned jobs, const Work& work, Take take, Idle idle) {
  OrderedJobs<Result> pool(last, jobs);
  pool.start(jobs, work);
  for (std::uint64_t i = 0;;) {
    if (!idle()) return i;
    auto result = pool.next(std::chrono::milliseconds(100));
    if (!result) continue;
    const bool go_on = take(i, std::move(*result));
    if (!go_on || i == last) return i + 1;
    ++i;
  }
}

}  // namespace parley::tools
