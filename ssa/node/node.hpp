// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One port's membership in the tree: it greets the master, connects to the parent and the backup that the master assigns,
// and accepts children. A machine as defined in base/machine.hpp. Every state with every event: tests/states/ssa_node.txt.
//
//   idle         the port is down, or the node has left
//   joining      it has no parent: Set(SsaHello) is sent, or will be
//   orphan       the master has answered, and waits for a place
//   have_parent  it has a parent, and delays the hook-up
//   connecting   Set(SsaHookup) is sent
//   connected    the parent has answered; has_backup(): so has the backup
//
// The data connection belongs to the driver: it opens it at parent_connected and reports its end by handle_parent_lost().
#pragma once
#include "ssa/message.hpp"
#include "ssa/node/children.hpp"
#include "ssa/node/lost_report.hpp"
#include "ssa/node/options.hpp"
#include "ssa/node/output.hpp"
#include "ssa/node/uplink.hpp"

namespace parley::ssa {

enum class NodeState : std::uint8_t { idle, joining, orphan, have_parent, connecting, connected };

struct NodeEvent {
  enum class Kind : std::uint8_t {
    parent_connected,  ///< open the data connection to `endpoint`
    parent_lost,       ///< it is silent, or refuses
    parent_released,   ///< the master has assigned another one: close the data connection
    backup_connected,
    backup_lost,
    /// The parent has the version `epoch`: pull it. Once for each version, again after handle_pull_failed() and after
    /// each parent_connected.
    new_epoch,
    child_connected,  ///< `endpoint` is the child's
    child_lost,
    child_left,
  };
  Kind kind{};
  Gid gid{};  ///< of the parent, backup or child
  wire::mad::SsaEndpoint endpoint;
  Epoch epoch;
};

/// Messages, unless the comment says otherwise.
struct NodeCounters {
  std::uint64_t malformed = 0;     ///< parse_message() refused them
  std::uint64_t wrong_key = 0;     ///< with another SSA_Key
  std::uint64_t wrong_master = 0;  ///< a master's message from a port that is not the master's
  /// A message of a parent from a node that is neither parent nor backup; the node, or its child, as its parent.
  std::uint64_t wrong_parent = 0;
  std::uint64_t wrong_child = 0;  ///< a child's message from another port than the one where it has hooked up
  std::uint64_t wrong_node = 0;   ///< for another port
  std::uint64_t replayed = 0;     ///< an epoch or a ticket that is older than one before
  std::uint64_t unexpected = 0;   ///< answers without a request, messages that a node does not take
  std::uint64_t refused = 0;      ///< answers with a status
  std::uint64_t children_refused = 0;
  std::uint64_t parents_lost = 0, backups_lost = 0, children_lost = 0;  ///< events
};

class Node {
 public:
  explicit Node(NodeOptions options);

  /// The port is active. No-op if it was. `master`: QP1 of the port with the master (the subnet manager's).
  void start(Instant now, const mad::Address& master);
  void handle_port_down(Instant now);
  /// The master is at another port, or has restarted: a node with a parent keeps it, and greets the master within
  /// NodeTimers::handover_spread; an access node within a sixth of it, a distribution node within a thirtieth.
  void handle_master(Instant now, const mad::Address& master);
  void handle_message(Instant now, const mad::Address& from, ConstBytes mad);
  /// The data connection has ended. No-op for a GID that is not the parent's or the backup's.
  void handle_parent_lost(Instant now, const Gid& parent);
  void handle_child_lost(Instant now, const Gid& child);
  /// The node answers from this version now: children are accepted from the first one on, and learn of each further one.
  void handle_database(Instant now, Epoch epoch);
  /// Only at the root, where it is true at first: whether the database is known to be what the subnet is.
  void set_root_current(bool current) { root_current_ = current; }
  /// The version of new_epoch was not loaded: the next heartbeat of the parent, within two seconds by default, makes a new
  /// event. No-op for a GID that is not the parent's.
  void handle_pull_failed(const Gid& parent);
  /// Sends one message to the master and to each parent, and does not wait for answers. If one is lost, the parent reports
  /// the child when it has been silent for 3.5 heartbeats.
  void leave(Instant now);
  void handle_deadline(Instant now);

  /// At most 64 + NodeOptions::children_max wait.
  std::optional<Transmit> poll_transmit() { return transmits_.pop(); }
  /// At most 16 + 2 * NodeOptions::children_max wait.
  std::optional<NodeEvent> poll_event() { return events_.pop(); }
  Instant next_deadline() const;

  NodeState state() const;
  bool has_backup() const { return backup_.is_up(); }
  const Uplink& parent() const { return parent_; }
  const Uplink& backup() const { return backup_; }
  const Children& children() const { return children_; }
  /// Whether the database is known to be the newest one: the parent, and each node above it, had said so at the last
  /// heartbeat, up to a root that is current.
  bool is_current() const;
  /// The newest that the master itself has named. Parents name newer ones of its incarnation before it does.
  Epoch master_epoch() const { return master_epoch_; }
  const NodeCounters& counters() const { return counters_; }
  std::uint64_t dropped() const { return transmits_.dropped() + events_.dropped(); }

 private:
  struct Hello {
    std::uint32_t transaction = 0;  // 0: no answer is expected
    unsigned tries = 0;
    Instant deadline = never;
  };

  void take(const Received& r, const wire::mad::SsaHello& body);
  void take(const Received& r, const wire::mad::SsaParent& body);
  void take(const Received& r, const wire::mad::SsaHookup& body);
  void take(const Received& r, const wire::mad::SsaChildLost& body);
  void take(const Received& r, const wire::mad::SsaLeave& body);
  bool take_master(const Received& r, Epoch epoch);
  AnswerStatus take_assignment(const Received& r, const wire::mad::SsaParent& body);
  void take_hookup_answer(const Received& r, const wire::mad::SsaHookup& body);
  void take_push(const Received& r, const wire::mad::SsaHookup& body);
  void take_child(const Received& r, const wire::mad::SsaHookup& body);
  AnswerStatus hook_child(const Received& r, const wire::mad::SsaHookup& body);
  void take_epoch(Instant now, Epoch epoch);
  void announce();
  Uplink* uplink_of(const Received& r, const wire::mad::SsaHookup& body);
  bool is_ready() const;
  Epoch epoch_for(const wire::mad::SsaHookup& child) const;

  void assign(Instant now, const wire::mad::SsaEndpoint& parent, const wire::mad::SsaEndpoint& backup);
  void release(Uplink& uplink);
  void run(Instant now, Uplink& uplink);
  void lose(Instant now, Uplink& uplink, const Gid& gid);
  void connected(Instant now, Uplink& uplink);
  void join(Instant now, Duration spread);
  void plan_hello(Instant now);
  void greet_successor(Instant now);
  void send_hello(Instant now);
  void send_report();
  wire::mad::SsaHookup hookup_to(const Uplink& uplink) const;
  wire::mad::SsaParent parents() const;
  std::uint8_t flags() const;
  void notify(NodeEvent::Kind kind, const Gid& gid, const wire::mad::SsaEndpoint& endpoint = {}, Epoch epoch = {});

  template <wire::mad::Method M, class A>
  void send(const mad::Address& to, A body, std::uint32_t transaction) {
    body.set(A::ssa_key, options_.key);
    transmits_.push({to, wire::mad::request<wire::mad::MgmtClass::ssa, M>(body, {.transaction_id = transaction})});
  }

  NodeOptions options_;
  Rng rng_;
  bool running_ = false, greeted_ = false, handover_ = false, root_current_ = true;
  mad::Address master_;
  Hello hello_;
  unsigned backup_rounds_ = 0;
  std::uint64_t ticket_ = 0;
  std::uint16_t level_;
  std::uint32_t hinted_incarnation_ = 0;  // a greater one that a parent has named
  Epoch master_epoch_, database_, announced_;
  Gid bad_parent_{};
  Uplink parent_, backup_;
  Children children_;
  LostReport report_;
  NodeCounters counters_;
  OutputQueue<Transmit> transmits_;
  OutputQueue<NodeEvent> events_;
};

}  // namespace parley::ssa
