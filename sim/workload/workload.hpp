// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The workload of a scenario: one App per host that listens, accepts or rejects after a while, connects, transfers,
// closes, retries, and continues after a restart. The actions and events of every user are recorded in check/history.
//
// Users of this workload have a time limit: an end that has made no progress for half of bounds.converge (plus the
// connection's own pauses) after the last fault closes by itself, as programs with their own keepalive do. If no fault
// explains it, that is a violation.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"
#include "sim/net/stream_name.hpp"
#include "sim/scenario/scenario_route.hpp"
#include "sim/workload/workload_groups.hpp"
#include "sim/workload/workload_xrc.hpp"

namespace parley::sim {

class HostApp;

/// One connection of the scenario, over all its attempts.
struct PlannedConnection {
  std::uint32_t connect = 0, index = 0;
  std::uint32_t tries = 0;
  bool done = false;
  check::Attempt* attempt = nullptr;  ///< the current or last one
};

class Workload {
 public:
  Workload(const Scenario& scenario, World& world, check::Judge& judge);
  ~Workload();
  Workload(const Workload&) = delete;
  Workload& operator=(const Workload&) = delete;

  /// Creates the App of every host. Errors: a connection between hosts without a path.
  Checked<void> attach();
  /// Every requested connection has ended, and no end is open, except on hosts that stay paused and in processes that
  /// stay stopped.
  bool settled();
  /// Records those ends as such (check::End::stopped).
  void leave_halted();
  /// No event is left in the world: hosts that are down stay down, and halted ones stay halted.
  void nothing_left() { nothing_left_ = true; }
  /// No end is open, or a host is halted: only then can settled() be true, and is the call worth its cost.
  bool quiet() const { return ends_open_ == 0 || halts_; }
  /// A host is paused, or a process stopped.
  bool halts() const { return halts_; }
  /// The nodes of XRC whose hosts are up.
  std::vector<check::XrcState> xrc_states() const;
  std::vector<XrcOutcome> xrc_outcomes() const;
  GroupWork& groups() { return groups_; }
  const GroupWork& groups() const { return groups_; }
  /// Open ends and steps, as text; at most `max`.
  std::vector<std::string> pending(std::size_t max);
  /// When the workload last started an action: a connection, a decision, a close.
  Instant last_intent() const { return last_intent_; }
  const std::deque<check::Attempt>& attempts() const { return attempts_; }
  std::deque<check::Attempt>& attempts() { return attempts_; }
  const PlannedConnection& wanted(std::size_t index) const { return wanted_[index]; }
  /// Whether no later attempt belongs to the same connection.
  bool is_last(const check::Attempt& attempt) const;
  /// How many endpoints a host should still have: its listeners, and connections that neither side closes.
  std::size_t endpoints_expected(const std::string& host) const;
  std::size_t resting(const std::string& host) const;
  /// Labels of all streams whose attempts are known.
  std::map<StreamName, std::string> stream_labels() const;
  /// Streams to or from this host that have not ended at both ends.
  std::vector<StreamName> open_streams(const std::string& host) const;
  /// The same, with the number of the attempt.
  std::map<StreamName, std::size_t> stream_attempts() const;

  /// A fault touched the host or its process (crash, pause), or something that cannot be attributed.
  void touch_host(const std::string& host);
  /// A fault changed address resolution: later connections may also be misled.
  void mislead() { misled_ = true; }
  /// A fault touched a RoCE frame between these two hosts, which has no port to attribute it. `forged`: the receiver
  /// may accept the changed frame.
  void touch_hosts(const Address& a, const Address& b, bool forged);
  /// A fault touched a frame between these two; `corrupted`: it changed octets of MPA.
  void touch_stream(const Address& a, const Address& b, bool corrupted);
  void fault_seen(Instant at) { last_fault_ = at; }

 private:
  friend class HostApp;
  struct Touch {
    bool corrupted = false;
  };

  check::Attempt& new_attempt(std::uint32_t wanted, HostApp& app);
  check::Attempt* find_attempt(const Address& initiator, const Address& responder);
  check::Attempt& stray(const Address& peer, HostApp& app, const ScenarioListen& listen);
  void bind(const Address& local, const Address& peer, check::Attempt& attempt);
  void attempt_over(check::Attempt& attempt);
  void attempt_rests(check::Attempt& attempt);
  bool wants_retry(const PlannedConnection& wanted) const;
  /// The host runs its program, or a fault that has yet to happen changes that it does not.
  bool comes_back(const std::string& host) const;
  /// It is paused or its process stopped, and no fault that has yet to happen changes that.
  bool stays_halted(const HostApp& app) const;
  /// Open ends on such hosts.
  std::uint64_t ends_halted() const;
  Duration patience(const ScenarioConnect& spec) const;
  /// How long a fault of the scenario may delay a frame, and the frames after it.
  Duration longest_delay() const;
  void know_hosts();
  void index_by_host();
  HostApp* find_app(std::string_view host) const;
  void touch_process(const ScenarioExit& exit);
  /// A pending step that is not a connection; empty: none.
  std::string open_step();
  bool is_of(const Address& peer, const ScenarioConnect& spec) const;
  void intend(Instant now) { last_intent_ = std::max(last_intent_, now); }

  const Scenario& scenario_;
  World& world_;
  check::Judge& judge_;
  GroupWork groups_;                            // before the apps, which write into it
  XrcWork xrc_;                                 // likewise
  std::vector<std::unique_ptr<HostApp>> apps_;  // by number of the host
  std::map<std::string_view, HostApp*> app_of_;
  // By number of the host: the connects and listens that begin at it, and the faults that act on it.
  std::vector<std::vector<std::size_t>> connects_of_, listens_of_, faults_of_;
  std::set<std::size_t> learning_;            // hosts with initiators whose address is not known yet
  std::vector<Route> routes_;                 // by connect
  std::vector<std::uint32_t> next_index_;     // by connect: the next of its connections to start
  std::vector<std::uint32_t> requests_seen_;  // by listen: for reject_every
  std::deque<PlannedConnection> wanted_;
  std::deque<check::Attempt> attempts_;
  std::vector<std::uint32_t> attempt_wanted_;        // by number of the attempt; ~0 for strays
  std::map<StreamName, check::Attempt*> by_stream_;  // the newest one of each stream
  std::map<StreamName, Touch> touched_;              // streams whose attempt is not known yet
  std::uint64_t wanted_open_ = 0, ends_open_ = 0;
  std::uint64_t wanted_total_ = 0;
  std::size_t all_started_ = 0, all_done_ = 0;  // connects, and planned connections, before which nothing is left to do
  bool nothing_left_ = false, misled_ = false;
  bool halts_ = false;  // a host is paused, or its process stopped
  Instant last_intent_{}, last_fault_{};
  bool holds_up_ = false;      // a delayed frame also delays the frames after it, of any connection
  Instant last_host_fault_{};  // time that the scenario sets
};

}  // namespace parley::sim
