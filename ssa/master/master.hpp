// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The master of the tree, next to the subnet manager: it knows the members, gives each a parent and a backup, and learns from
// the parents which children are lost. A machine as defined in base/machine.hpp. Every state of a member with every event:
// tests/states/ssa_master.txt.
//
//   waiting    it has greeted, and is in line for a place; or the parent that it names is not known yet; or no parent has
//              room, or it has refused three parents: without a further hello it is lost after 36 s
//   asked      Set(SsaParent) or Get(SsaParent) is sent, 6 times: after 0.5, 1, 2, 2, 2 s; then it is lost
//   assigned   it has answered Set(SsaParent): is asked after 5 to 10 s whether it has connected
//   confirmed  it has connected
//
// Assignments of consumers are paced: a backlog is spread over 4 s, and at most 64 have no answer. Distribution nodes are
// placed at once; access nodes and consumers from 6 s after the start on, when all nodes that booted together are known. If
// members wait for a parent, and the first distribution or the first access node greets, they are placed 6 s later.
//
// Who has the SSA_Key is trusted: a hello makes its port that of the member. With a GRH, it must be the GID in the hello.
#pragma once
#include <array>
#include <deque>
#include <map>
#include <string>

#include "base/deadline_queue.hpp"
#include "base/rng.hpp"
#include "ssa/master/placement.hpp"
#include "ssa/message.hpp"
#include "ssa/node/output.hpp"

namespace parley::ssa {

struct MasterTimers {
  Duration settle = std::chrono::seconds(6);  ///< after the start: access nodes and consumers are not placed before
  Duration shape_grace = std::chrono::seconds(45);         ///< after the start: waits for the parent that a node names
  Duration spread = std::chrono::seconds(4);               ///< a backlog of assignments takes so long
  Duration answer_first = std::chrono::milliseconds(500);  ///< without an answer; doubled, at most 4 times it
  Duration confirm = std::chrono::seconds(5);     ///< asks after it, to twice it, whether the node has connected
  Duration rebalance = std::chrono::seconds(30);  ///< interval; members without a backup get one, too
  Duration unpark = std::chrono::seconds(1);      ///< members without a place are tried again so often at most
};

struct MasterOptions {
  std::uint64_t seed = 1;  ///< of jitter and transaction IDs
  std::uint64_t key = 0;   ///< SSA_Key
  std::string tree;        ///< a hello for another tree is refused
  Epoch epoch{1, 1};       ///< the incarnation is greater than that of each master before
  Gid root{};              ///< the core node next to the master
  std::uint8_t root_roles = wire::mad::ssa_roles::core;
  wire::mad::SsaEndpoint root_endpoint;
  TreeTopology topology;
  PlacementOptions placement;
  /// Which of PARLEY_SSA_ROLES a port may have. None: any.
  std::function<std::uint8_t(const Gid&)> roles_of;
  /// Whether the SM has given the port this P_Key. None: any.
  std::function<bool(const Gid&, std::uint16_t)> has_p_key;
  std::size_t members_max = 65536;
  std::size_t window = 64;     ///< requests of the master without an answer
  std::size_t moves_max = 16;  ///< of each rebalance
  MasterTimers timers;
};

enum class MemberStage : std::uint8_t { waiting, asked, assigned, confirmed };

struct MemberFacts {
  Gid gid{}, parent{}, backup{};  ///< of parent and backup; 0: none
  std::uint8_t roles = 0;         ///< bits of PARLEY_SSA_ROLES
  MemberStage stage{};
  std::size_t children = 0;
};

struct MasterEvent {
  enum class Kind : std::uint8_t {
    joined,
    left,
    lost,
    newer_master,  ///< a hello that is right otherwise has a greater incarnation: this master should stop
  };
  Kind kind{};
  Gid gid{};                      ///< of the member
  std::uint32_t incarnation = 0;  ///< newer_master
};

/// Messages, unless the comment says otherwise.
struct MasterCounters {
  std::uint64_t hellos = 0, answers = 0, reports = 0;  ///< accepted ones
  std::uint64_t malformed = 0, wrong_key = 0, unexpected = 0;
  std::uint64_t future_epochs = 0;   ///< hellos with an epoch of this master that does not exist yet
  std::uint64_t newer_masters = 0;   ///< hellos with an epoch of a later master
  std::uint64_t wrong_node = 0;      ///< not from the member's port; a hello whose GRH has another GID
  std::uint64_t denied = 0;          ///< hellos: roles, tree
  std::uint64_t foreign_p_keys = 0;  ///< hellos with a P_Key that is not the port's own
  std::uint64_t full = 0;            ///< hellos of new nodes beyond members_max
  std::uint64_t assignments = 0, probes = 0, retransmitted = 0;  ///< sent
  std::uint64_t lost = 0, moved = 0;                             ///< members
};

/// Whether a message on a port with a master and a node is the master's: hello, leave and report, and answers to SsaParent.
bool is_for_master(const Message& message);

class Master {
 public:
  explicit Master(MasterOptions options);

  void start(Instant now);
  /// The next version of the database; its incarnation stays.
  void set_counter(std::uint32_t counter) { options_.epoch.counter = counter; }
  void handle_message(Instant now, const mad::Address& from, ConstBytes mad);
  void handle_deadline(Instant now);

  /// At most 1,024 wait.
  std::optional<Transmit> poll_transmit() { return transmits_.pop(); }
  /// At most 4,096 wait; the oldest stay.
  std::optional<MasterEvent> poll_event() { return events_.pop(); }
  Instant next_deadline() const;

  std::size_t members() const { return by_gid_.size(); }
  std::size_t count(MemberStage stage) const;
  std::optional<MemberStage> stage_of(const Gid& gid) const;
  /// GIDs of parent and backup; 0: none.
  std::pair<Gid, Gid> parents_of(const Gid& gid) const;
  std::size_t children_of(const Gid& gid) const;
  /// Calls `take(MemberFacts)` for each member, in the order of their GIDs; the root is none.
  template <class Take>
  void each(Take&& take) const {
    for (const auto& [gid, id] : by_gid_) take(facts_of(id));
  }
  const MasterCounters& counters() const { return counters_; }
  std::uint64_t dropped() const { return transmits_.dropped() + events_.dropped(); }

 private:
  using Id = Placement::Id;
  static constexpr Duration wait_margin = std::chrono::seconds(2);  // of the wait in the answer to a hello
  struct Record {
    Gid gid{}, wanted{};  // wanted: the parent that it named, and that is not known yet
    mad::Address address;
    wire::mad::SsaEndpoint endpoint;
    MemberStage stage = MemberStage::waiting;
    bool used = false, in_line = false, parked = false, probes = false, reassign = false, joined = false;
    std::uint8_t roles = 0;
    unsigned tries = 0, rounds = 0;
    std::uint64_t first_ticket = 0, ticket = 0;  // of this membership
    std::uint32_t transaction = 0;
    Instant unplaced_until = never;  // then it is lost
    Id bad = Placement::none;
  };

  void take(const Received& r, const wire::mad::SsaHello& body);
  void take(const Received& r, const wire::mad::SsaParent& body);
  void take(const Received& r, const wire::mad::SsaHookup& body);
  void take(const Received& r, const wire::mad::SsaChildLost& body);
  void take(const Received& r, const wire::mad::SsaLeave& body);
  AnswerStatus check_hello(const Received& r, const wire::mad::SsaHello& body);
  Id member_of(const wire::mad::SsaHello& body);
  void greet(Instant now, Id id, const wire::mad::SsaHello& body);
  void parent_greets(Instant now, Id id, bool is_new);
  void adopt(Instant now, Id id, Id parent, bool has_backup);
  void adopt_waiting(Instant now, Id parent);
  void confirm(Id id);
  void probe_later(Instant now, Id id);
  Duration wait_of(Instant now, Id id) const;
  void take_assigned(Instant now, Id id, const Message& message);
  void take_probed(Instant now, Id id, const wire::mad::SsaParent& body);
  void lose_child(Instant now, Id child, Id parent);

  Id find(const Gid& gid) const;
  MemberFacts facts_of(Id id) const;
  Id new_slot();
  void remove(Instant now, Id id, MasterEvent::Kind why);
  void repair(Instant now, Id gone);
  void park(Instant now, Id id);
  void leave_parked(Id id);
  void wait_for_hello(Instant now, Id id);
  void unpark(Instant now);
  bool is_first_of_layer(Id id) const;
  void line_up(Instant now, Id id);
  void advance(Instant now);
  bool place(Id id);
  void ask(Instant now, Id id, bool probes);
  void send_request(Instant now, Id id);
  void answered(Id id);
  void handle_member(Instant now, Id id);
  void rebalance(Instant now);

  MasterOptions options_;
  Rng rng_;
  Placement placement_;
  Instant started_{}, settled_{};
  std::vector<Record> records_;  // at most members_max + 1: the first is the root's
  std::vector<Id> free_;
  std::map<Gid, Id> by_gid_;                    // without the root
  std::map<std::uint32_t, Id> by_transaction_;  // requests without an answer: at most `window`
  std::array<std::deque<Id>, 4> lines_;         // by layer; each member at most once
  std::vector<Id> parked_;                      // no parent has room; each member at most once
  std::size_t outstanding_ = 0, in_lines_ = 0;
  Instant next_assignment_{}, next_rebalance_ = never, unpark_at_ = never, unparked_{};
  Duration pace_{};
  std::uint64_t tickets_ = 0;
  DeadlineQueue deadlines_;  // by member
  MasterCounters counters_;
  OutputQueue<Transmit> transmits_{1024};
  OutputQueue<MasterEvent> events_{4096};
};

}  // namespace parley::ssa
