// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The thread of rank 0 that reports results. Its standard output may have a slow reader, and a failed run is repeated for
// its capture. Meanwhile the thread of MPI goes on to answer the other ranks.
#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "sim/sweep/leader.hpp"
#include "tools/sim/sim_ranks.hpp"

namespace parley::tools {

class RankReport {
 public:
  /// Calls `take` for each record and `idle` at least every 100 ms, both on its thread.
  RankReport(const RankedSweep& ranked, const Ranks::Take& take, const Ranks::Idle& idle, Output& out);
  ~RankReport();
  RankReport(const RankReport&) = delete;
  RankReport& operator=(const RankReport&) = delete;

  /// Whether there is room for another record.
  bool room();
  void put(sim::ranks::Leader::Record record);
  void note(std::string text);
  /// Ends it before the last record.
  void stop();
  /// The last record was taken, `take` or `idle` ended the sweep, or stop() did.
  bool ended();
  /// Once it ended: prints the notes that are left. Returns what is wrong with a record; empty if nothing is. Rethrows
  /// exceptions of `take` and `idle`.
  std::string finish();

 private:
  void serve();
  void report_all();
  /// Whether the sweep goes on.
  bool report(const sim::ranks::Leader::Record& record);
  void print_notes();
  std::optional<sim::ranks::Leader::Record> next();

  const RankedSweep& ranked_;
  const Ranks::Take& take_;
  const Ranks::Idle& idle_;
  Output& out_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<sim::ranks::Leader::Record> records_;
  std::size_t octets_ = 0;  ///< of records_
  std::deque<std::string> notes_;
  bool stop_ = false, ended_ = false;
  // Used by the thread alone until it ended:
  std::string wrong_record_;
  std::exception_ptr error_;
  std::thread thread_;
};

}  // namespace parley::tools
