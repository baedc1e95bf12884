// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs the cases of InfiniBand's CM and transport one after the other against a live peer. First it sets up one plain
// connection; if that fails, the peer is not judged.
#pragma once
#include "conform/core/run.hpp"
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

class Run {
 public:
  Run(tester::PacketPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks);

  Task<> script();
  /// Abandons the script: the running case and those after it count as not run.
  void interrupt();
  const std::vector<Result>& results() const { return results_; }
  bool interrupted() const { return interrupted_; }
  /// No packet came from the peer; why() has the reason.
  bool unreachable() const { return unreachable_; }
  /// The peer was no longer reachable, and cases were not run because of that.
  bool gave_up() const { return gave_up_; }
  /// The peer answered, but the plain connection was not set up.
  bool refused() const { return refused_; }
  const std::string& why() const { return why_; }

 private:
  Task<> begin(const Case& what);
  Task<std::string> end();
  Task<Result> one(const Case& what);
  /// Sets up a plain connection, in the peer's role; sets unreachable_ or refused_ if that fails.
  Task<> probe(const Case& what);
  std::string left_out(const Case& what) const;
  std::string why_not_now();
  void add(Result result);

  tester::PacketPeer& peer_;
  Settings settings_;
  std::vector<const Case*> list_;
  Selection selection_;
  Hooks hooks_;
  Tester tester_;
  std::vector<Result> results_;  // one for each of list_
  const Case* running_ = nullptr;
  Instant began_{};
  bool probed_ = false, unreachable_ = false, refused_ = false, gave_up_ = false, interrupted_ = false;
  unsigned silent_ = 0;  // cases in a row in which nothing came
  std::string why_;
};

}  // namespace parley::conform::ibcm
