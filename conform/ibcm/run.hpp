// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs the cases of InfiniBand's CM and transport one after the other against a live peer. First a plain REQ: a peer that
// does not answer it, or accepts no connection, is not judged.
#pragma once
#include "conform/core/run.hpp"
#include "conform/ibcm/case.hpp"

namespace parley::conform::ibcm {

class Run {
 public:
  Run(tester::PacketPeer& peer, Settings settings, std::vector<const Case*> list, Selection selection, Hooks hooks);

  Task<> script();
  /// Drops the script where it is: that case and those after it are not run.
  void interrupt();
  const std::vector<Result>& results() const { return results_; }
  bool interrupted() const { return interrupted_; }
  /// Not one packet came from the peer; why.
  bool unreachable() const { return unreachable_; }
  /// It was no longer there, and cases were left out because of that.
  bool gave_up() const { return gave_up_; }
  /// It answered, but accepted no plain REQ.
  bool refused() const { return refused_; }
  const std::string& why() const { return why_; }

 private:
  Task<> begin(const Case& what);
  Task<std::string> end();
  Task<Result> one(const Case& what);
  /// Whether the peer accepts a plain REQ.
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
