// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of the distribution tree in a process: its control messages by a port's management datagrams, its data by TCP, and
// at the root the collection of the subnet. All decisions are those of ssa/member.hpp; here are sockets and the clock.
//
// When the port gets another LID or GID, or the subnet manager comes to this port or leaves it, the node begins again and
// keeps its database. A core node is the root as long as the master's LID is its own.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "drivers/asio/machine_loop.hpp"
#include "drivers/ssa/class_split.hpp"
#include "drivers/ssa/current.hpp"
#include "drivers/ssa/root_times.hpp"
#include "drivers/ssa/subnet_database.hpp"
#include "drivers/ssa/subnet_places.hpp"
#include "mad/discover.hpp"
#include "mad/pump.hpp"
#include "ssa/member.hpp"
#include "ssa/paths.hpp"

struct pollfd;

namespace parley::ssa_driver {

struct DaemonOptions {
  std::uint8_t roles = wire::mad::ssa_roles::consumer;  ///< bits of PARLEY_SSA_ROLES
  std::uint64_t key = 0;                                ///< SSA_Key, of the whole tree
  std::string tree;                                     ///< at most 32 octets
  std::uint16_t level = PARLEY_SSA_LEVEL_ANY;
  std::uint16_t master_lid = 0;  ///< 0: the subnet manager's
  std::size_t children_max = 512;
  Duration heartbeat = std::chrono::seconds(2);  ///< all times of the tree are in proportion to it
  Duration collect_every = std::chrono::seconds(60);
  Duration stale_after = std::chrono::hours(1);              ///< Freshness; 0: never
  bool route_sls = false;                                    ///< CollectOptions
  Address data = Address::loopback(Address::Family::v4, 0);  ///< where data connections are taken
  /// Where the node with this GID takes them; its port is not used.
  std::function<Result<Address>(const Gid&)> host_of;
  std::uint32_t incarnation = 0;  ///< of the first master here; 0: the seconds since 1970
  /// Which of PARLEY_SSA_ROLES the port with this GID may have, at the root. None: any.
  std::function<std::uint8_t(const Gid&)> roles_of;
};

/// A default time of the tree, in proportion to this heartbeat.
Duration scaled(Duration time, Duration heartbeat);

/// The last collection of a subnet.
struct Survey {
  mad::Discovery found;
  SubnetTables tables;
};

struct SurveyFacts {
  std::uint64_t done = 0, failed = 0;
  Duration took{};                     ///< the last one
  std::size_t asked = 0;               ///< requests of the last one
  std::string error;                   ///< why the last one failed; empty: it did not
  std::set<std::uint16_t> sl_unknown;  ///< as of SubnetTables, of the last good one
};

/// How old a node's database is.
struct Freshness {
  bool has_database = false;
  bool current = false;  ///< it is known to be the newest: so say all nodes above, and the root has a good collection
  Duration age{};        ///< since it was last known to be the newest
  bool stale = false;    ///< it is not current, and its age is more than DaemonOptions::stale_after
};

class Daemon {
 public:
  /// Errors: the address of data connections cannot be used; the transport brings no requests of the class.
  static Result<std::unique_ptr<Daemon>> open(DaemonOptions options, std::unique_ptr<mad::Transport> transport);
  ~Daemon();

  /// One turn without waiting. True: there may be more to do at once. Errors: of the transport; wrong_state: there is a
  /// newer master, so this one must end.
  Result<bool> turn();
  /// Adds what poll(2) has to wait for until next_deadline().
  void add_to(std::vector<pollfd>& polls) const;
  Instant next_deadline() const;
  /// Leaves the tree: it informs the parents and the master.
  void leave();

  std::optional<ssa::MemberNote> poll_note() { return notes_.pop(); }
  /// Null: the port has no LID yet, or there is no subnet manager.
  const ssa::Member* member() const { return member_.get(); }
  const mad::LocalPort& local() const { return transport_->local(); }
  const ssa::DataServer& server() const { return server_; }
  const ssa::DataPuller& puller() const { return *puller_; }
  const SurveyFacts& surveys() const { return surveys_; }
  const DaemonOptions& options() const { return options_; }
  Freshness freshness(Instant now) const;
  /// For readers in other threads; null before the first version.
  const Current& current() const { return current_; }
  /// That of current(). Null before the first version.
  const std::shared_ptr<const ssa::PathMap>& paths() const { return paths_; }

 private:
  Daemon(DaemonOptions options, std::unique_ptr<mad::Transport> transport);
  Result<void> listen();
  Result<void> serve_class();

  std::uint16_t master_lid() const;
  bool is_root() const;
  Result<void> follow_port(Instant now);
  Result<void> make_member(Instant now);
  ssa::NodeOptions node_options(const mad::LocalPort& local) const;
  mad::Address master_address() const;
  Result<void> accept(const ssa::SnapshotPtr& snapshot);
  Result<bool> send_all();
  bool take_notes();
  void meet_newer_master(std::uint32_t incarnation);

  Instant current_at() const;

  void survey(Instant now);
  void end_survey(Instant now);
  Result<void> publish_survey(Instant now);
  ssa::MasterOptions master_options(ssa::Epoch epoch);

  DaemonOptions options_;
  std::unique_ptr<mad::Transport> transport_;
  ClassSplit split_;
  mad::Port port_;
  ssa::DataServer server_;
  std::unique_ptr<ssa::DataPuller> puller_;  // made again with the member: it has the port's GID
  std::unique_ptr<asio_driver::MachineLoop> server_loop_, puller_loop_;
  std::unique_ptr<ssa::Member> member_;
  mad::LocalPort followed_;  // that of the member
  bool was_root_ = false;
  std::uint16_t followed_master_ = 0;
  std::optional<ssa::Transmit> held_;  // the transport had no room for it
  bool newer_master_ = false;          // this process must end
  bool begins_again_ = false;          // the root leads again, above the incarnation that it has met
  bool has_met_ = false;               // it has done so
  ssa::OutputQueue<ssa::MemberNote> notes_{1024};

  Current current_;
  Instant current_at_{};  // while there is no member with a database
  std::shared_ptr<const ssa::PathMap> paths_;

  std::uint32_t incarnation_ = 0, met_ = 0;  // that of the last master here; the greatest that a hello has named
  std::optional<SubnetDatabase> database_;   // only at the root
  std::shared_ptr<const SubnetPlaces> places_;
  bool unknown_port_ = false;  // a node has greeted from a port that the last collection has not found
  std::unique_ptr<Survey> survey_;
  std::optional<mad::Running<mad::Task<void>>> surveying_;
  Instant survey_began_{};
  SurveyTimes times_{options_.collect_every};
  SurveyFacts surveys_;
};

}  // namespace parley::ssa_driver
