// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs conformance cases one after the other against a live peer. A peer that is silent or dead ends a case, never the
// run: each wait has a limit, and so has each case.
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

/// Why a case is not run; empty: it is.
using Selection = std::function<std::string(const Case&)>;

struct Hooks {
  std::function<void(const Case&)> before;    ///< starts the peer's program
  std::function<std::string()> after;         ///< waits for its end, with a limit; its output
  std::function<void(const Result&)> result;  ///< as they come
  std::function<bool()> stopped;              ///< asks to stop between cases; interrupt() also ends the running one
};

class Run {
 public:
  Run(tester::ScriptedPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks);

  /// The script to start on the peer. An initiator's tester is already listening.
  Task<> script();
  /// Drops the script where it is, even in the middle of a case: that one and those after it are not run. The peer
  /// must then be driven a little further for the connections to be reset.
  void interrupt();
  const std::vector<Result>& results() const { return results_; }
  /// The peer was never reached.
  bool unreachable() const { return !reached_ && tried_ && !interrupted_; }
  /// It was no longer there, and cases were left out because of that.
  bool gave_up() const { return gave_up_; }
  const std::string& why_unreachable() const { return why_; }
  /// It was there, but was never seen to set up a connection, so nothing can be said about it. Empty: it was.
  std::string why_foreign() const;
  /// It answered with Replies, even if only rejecting ones.
  bool spoke_mpa() const { return tester_.spoke_mpa(); }
  /// It could not be asked for a set-up, since it accepted no further connection.
  bool gone() const { return tester_.gone(); }
  /// Cases were left out because interrupt() was called or Hooks::stopped asked to stop.
  bool interrupted() const { return interrupted_; }

 private:
  std::string left_out(const Case& what) const;
  std::string why_not_now(unsigned refused, unsigned ran);
  void add(Result result);
  Task<Result> one(const Case& what);
  /// The program for one or several connections, if there is one to be started.
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
