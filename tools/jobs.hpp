// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs work on several threads and delivers the results in order, so that output does not depend on thread timing.
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

namespace parley::tools {

/// Per thread, the results that may wait for an earlier one. This bounds memory when one piece of work takes very long.
inline constexpr std::uint64_t results_waiting_max = 64;

/// The threads of one in_order call and what they share.
template <class Result>
class OrderedJobs {
 public:
  explicit OrderedJobs(std::uint64_t last, unsigned jobs) : last_(last), window_(results_waiting_max * jobs) {}
  ~OrderedJobs() { end(); }
  OrderedJobs(const OrderedJobs&) = delete;
  OrderedJobs& operator=(const OrderedJobs&) = delete;

  template <class Work>
  void start(unsigned jobs, const Work& work) {
    for (unsigned i = 0; i < jobs; ++i) threads_.emplace_back([this, &work] { serve(work); });
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
    ++taken_;
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
  void serve(const Work& work) {
    for (;;) {
      std::uint64_t index = 0;
      {
        std::unique_lock lock(mutex_);
        // The timeout covers an end() between the check of stop_ and the wait.
        while (!stop_ && !all_given_ && next_ - taken_ >= window_) room_.wait_for(lock, std::chrono::milliseconds(50));
        if (stop_ || all_given_) return;
        index = next_++;
        all_given_ = index == last_;
      }
      try {
        Result result = work(index, stop_);
        const std::lock_guard lock(mutex_);
        done_.emplace(index, std::move(result));
      } catch (...) {
        const std::lock_guard lock(mutex_);
        error_ = std::current_exception();
      }
      came_.notify_one();
    }
  }

  const std::uint64_t last_, window_;
  std::mutex mutex_;
  std::condition_variable came_, room_;
  std::map<std::uint64_t, Result> done_;  ///< at most window_ entries
  std::uint64_t next_ = 0, taken_ = 0;
  bool all_given_ = false;
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
