// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs conformance cases one after the other against a live peer. A silent or dead peer ends a case but not the run:
// each wait has a limit, and so has each case.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "conform/core/tester.hpp"

namespace parley::conform {

struct Result {
  const Case* what = nullptr;
  Observation finding;
  Duration took{};
  Instant began{};
  std::vector<Exchange> exchanges;
  std::string output;  ///< of the program started for it
};

/// Counts of a run. A SHOULD or MAY that is not met is a failure only when strict; else it is counted separately.
struct Tally {
  std::size_t passed = 0, failed = 0, should_failed = 0, may_failed = 0, inconclusive = 0, not_run = 0;
};
bool counts_as_failed(const Result& result, bool strict);
Tally tally(const std::vector<Result>& results, bool strict);

/// Returns why a case is not run; empty: it is run.
using Selection = std::function<std::string(const Case&)>;

struct Hooks {
  std::function<void(const Case&)> before;    ///< starts the peer's program
  std::function<std::string()> after;         ///< waits for its end, with a limit; returns its output
  std::function<void(const Result&)> result;  ///< called with each result
  std::function<bool()> stopped;              ///< polled between cases: true stops the run (see also interrupt())
};

class Run {
 public:
  Run(tester::ScriptedPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks);

  /// The script to start on the peer. An initiator's tester is already listening.
  Task<> script();
  /// Abandons the script, even in the middle of a case: that case and those after it count as not run. The caller must
  /// then drive the ScriptedPeer a little further so that it resets the connections.
  void interrupt();
  const std::vector<Result>& results() const { return results_; }
  /// The peer was never reached.
  bool unreachable() const { return !reached_ && tried_ && !interrupted_; }
  /// The peer was no longer reachable, and cases were not run because of that.
  bool gave_up() const { return gave_up_; }
  const std::string& why_unreachable() const { return why_; }
  /// Why the peer could not be judged: it was reachable but never set up a connection. Empty: it did.
  std::string why_foreign() const;
  /// The peer answered with Replies, even if only with rejecting ones.
  bool spoke_mpa() const { return tester_.spoke_mpa(); }
  /// The probe for a set-up was not possible, since the peer accepted no further connection.
  bool gone() const { return tester_.gone(); }
  /// Cases were not run because interrupt() was called or Hooks::stopped returned true.
  bool interrupted() const { return interrupted_; }

 private:
  std::string left_out(const Case& what) const;
  std::string why_not_now(unsigned refused, unsigned ran);
  void add(Result result);
  Task<Result> one(const Case& what);
  /// Starts the peer's program for one or several connections, if Hooks::before is set.
  Task<> begin(const Case& what);
  Task<std::string> end();
  Task<> ask_for_set_up(const Case& what);
  Task<Result> judged(const Case& what);
  Task<> close();

  tester::ScriptedPeer& peer_;
  Settings settings_;
  std::vector<const Case*> list_;
  Selection selection_;
  Hooks hooks_;
  Tester tester_;
  std::vector<Result> results_;  // one for each of list_
  const Case* running_ = nullptr;
  Instant began_{};  // start of the running case
  bool reached_ = false, tried_ = false, interrupted_ = false, gave_up_ = false;
  bool asked_for_set_up_ = false;
  std::string why_;
};

}  // namespace parley::conform
