// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of the tree with its data: what the node's machine says is carried out on the data connections, and what they
// bring is given to the node. The node next to the subnet manager has the master, too; datagrams to the own port do not
// leave it. A machine as defined in base/machine.hpp, over the machines that it is given.
//
//   NodeEvent        then
//   new_epoch        the version is pulled from the parent
//   parent_lost      the data connection is given up; a new parent comes with its own new_epoch
//   parent_released  the same
//
//   PullEvent        then
//   loaded           MemberOptions::accept judges it; if it is good, it is what this node answers from and passes on
//   failed           the parent is asked again; after failures_max in a row it is lost
//   parent_lost      the node goes to its backup
#pragma once
#include <functional>
#include <memory>

#include "ssa/data/puller.hpp"
#include "ssa/data/server.hpp"
#include "ssa/master/master.hpp"
#include "ssa/node/node.hpp"

namespace parley::ssa {

struct MemberOptions {
  NodeOptions node;
  /// Where a parent takes data connections; its port comes from the endpoint. Errors: no address is known.
  std::function<Result<Address>(const Gid&)> host_of;
  /// Judges a version before anybody gets it. None: all are good.
  std::function<Result<void>(const SnapshotPtr&)> accept;
  unsigned failures_max = 3;  ///< pulls in a row that a parent may fail
};

/// Something that an administrator may want to read.
struct MemberNote {
  enum class Kind : std::uint8_t {
    parent,       ///< connected to `gid`
    parent_lost,  ///< `text`: why, if the data connection says so
    backup,
    backup_lost,
    child,
    child_lost,
    child_left,
    database,       ///< `epoch` is what this node answers from
    pull_failed,    ///< `text`: why
    member_joined,  ///< this and those below: of the master
    member_left,
    member_lost,
    newer_master,  ///< there is one with the incarnation of `epoch`, whose counter is 0
  };
  Kind kind{};
  Gid gid{};
  Epoch epoch;
  std::string text;
};
std::string_view name_of(MemberNote::Kind kind);

class Member {
 public:
  /// The server and the puller must outlive this, and be driven elsewhere. `snapshot`: what the node has already, which was
  /// last known to be the newest version at `current_at`.
  Member(MemberOptions options, DataServer& server, DataPuller& puller, SnapshotPtr snapshot = nullptr,
         Instant current_at = {});
  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void start(Instant now, const mad::Address& master);
  void handle_master(Instant now, const mad::Address& master);
  void leave(Instant now);
  void handle_datagram(Instant now, const mad::Address& from, ConstBytes mad);
  /// Deadlines, and what the data connections have brought: after each turn of theirs.
  void run(Instant now);
  /// Only at the root: Node::set_root_current().
  void set_root_current(bool current) { node_.set_root_current(current); }
  /// Only at the root: the master's next version.
  void publish(Instant now, SnapshotPtr snapshot);
  /// This node has the master from now on. The members of `options` that name the root are set here.
  void lead(Instant now, MasterOptions options);

  std::optional<Transmit> poll_transmit() { return transmits_.pop(); }
  std::optional<MemberNote> poll_note() { return notes_.pop(); }
  /// Without those of the server and the puller.
  Instant next_deadline() const;

  const Node& node() const { return node_; }
  const Master* master() const { return master_.get(); }  ///< null: another node has it
  const SnapshotPtr& snapshot() const { return snapshot_; }
  /// Node::is_current(). At the root it needs the master, too.
  bool is_current() const;
  /// When the snapshot was last known to be the newest version.
  Instant current_at() const { return current_at_; }
  std::uint64_t malformed() const { return malformed_; }

 private:
  void settle(Instant now);
  void take(Instant now, const NodeEvent& event);
  void take(Instant now, PullEvent event);
  void take_loaded(Instant now, const PullEvent& event);
  void pull(Instant now, const Gid& parent, const wire::mad::SsaEndpoint& endpoint, Epoch epoch);
  void pull_failed(Instant now, const Gid& parent, std::string why);
  void route(Instant now, const Transmit& sent);
  void use(Instant now, SnapshotPtr snapshot);
  void note(MemberNote::Kind kind, const Gid& gid, Epoch epoch = {}, std::string text = {});
  mad::Address own() const;

  MemberOptions options_;
  DataServer& server_;
  DataPuller& puller_;
  Node node_;
  std::unique_ptr<Master> master_;
  SnapshotPtr snapshot_;
  Instant current_at_{};
  unsigned failures_ = 0;
  std::uint64_t malformed_ = 0;
  OutputQueue<Transmit> transmits_{4096};
  OutputQueue<MemberNote> notes_{1024};
};

}  // namespace parley::ssa
