// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A scenario: topology, workload, faults, expectations and bounds as data, read from and written to TOML. The keys are
// documented in docs/simulator-scenarios.md; scenario_keys.cpp has the only table of them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mpa/startup_options.hpp"
#include "parley/sim.hpp"

namespace parley::sim {

struct ScenarioHost {
  std::string name;
  bool is_switch = false;
  /// In files: that many hosts, name1, name2, ... parse_scenario makes each of them a host of its own, with count 1.
  std::uint32_t count = 1;
  HostOptions options{};
  SwitchOptions switching{};
  int line = 0;  ///< in the file; 0: not from a file
};

struct ScenarioLink {
  std::string name;  ///< default: "a-b"
  std::string ends[2];
  std::string nics[2];  ///< at ends that are hosts with a list of NICs; empty: the first NIC without a link
  LinkOptions options{};
  int line = 0;
};

/// The RDMA engine behind the host's NICs: from its list, or `engine`.
NicEngine engine_of(const ScenarioHost& host);

/// The address of a host that a connection uses.
enum class AddressKind : std::uint8_t { v4, v6, link_local };
std::string_view to_string(AddressKind kind);

/// RoCE: the transport service of a connection.
enum class QpKind : std::uint8_t {
  rc,
  ud,   ///< no connection: a SIDR_REQ gets the queue pair that receives the service's datagrams
  xrc,  ///< an INI queue pair, and a TGT queue pair that the processes of the listener's node share
};
std::string_view to_string(QpKind kind);

/// A listener and its reaction to requests.
struct ScenarioListen {
  std::string host;
  std::uint16_t port = 7471;
  AddressKind address = AddressKind::v4;
  QpKind qp = QpKind::rc;
  mpa::StartupOptions mpa{};
  Instant at{};                    ///< when it starts to listen
  Duration accept_after{};         ///< models a slow ULP
  std::uint32_t reject_every = 0;  ///< every n-th request is rejected; 1: all; 0: none
  std::string private_data;        ///< in the Reply
  std::uint32_t pending_max = 1024;
  std::uint32_t processes = 1;  ///< XRC: processes of the node, each with a shared receive queue
  bool relisten = true;         ///< listens again after a restart of the host
  int line = 0;
  int mpa_line = 0;  ///< line of its table `mpa` in the file; 0: it has none
};

enum class Transfer : std::uint8_t { send, write, read };
std::string_view to_string(Transfer transfer);
enum class ClosingSide : std::uint8_t { initiator, responder, both, nobody };
std::string_view to_string(ClosingSide closer);
enum class Expect : std::uint8_t {
  established,  ///< established on both ends, all data transferred, closed as specified
  rejected,     ///< the initiator gets Rejected, with the private data
  failed,       ///< an event with a reason at every end that knew of the connection
  settled,      ///< any of the three, the same at both ends
};
std::string_view to_string(Expect expect);

/// Connections and their transfers.
struct ScenarioConnect {
  static constexpr std::uint32_t xrc_octets_min = 8,
                                 xrc_octets_max = 65536;  ///< octets_min: the header that identifies a message
  std::string from, to;
  std::string from_nic, to_nic;      ///< empty: the first pair that reaches each other
  std::vector<std::string> backups;  ///< NICs of `to` whose addresses are tried in turn (cm::ConnectOptions::backups)
  std::uint16_t port = 7471;
  AddressKind address = AddressKind::v4;
  QpKind qp = QpKind::rc;
  mpa::StartupOptions mpa{};
  Duration transport_timeout = std::chrono::seconds(10);
  Duration timeout{};  ///< for the whole set-up (cm::ConnectOptions::timeout); 0: none
  std::string private_data;
  Instant at{};
  std::uint32_t count = 1;
  Duration interval{};  ///< between the starts of two connections
  // Once established. The initiator transfers first if RFC 5044 §7.1.2 requires it.
  Transfer transfer = Transfer::send;
  std::uint32_t messages = 1;  ///< in each direction for Sends; from the initiator for writes and reads; 0: none
  std::uint32_t octets = 64;   ///< per message
  bool both_ways = true;       ///< the responder sends too
  std::uint32_t srq = 0;       ///< XRC: the process, from 1, whose queue gets the messages; 0: each in turn
  ClosingSide closer = ClosingSide::initiator;  ///< UD, where the peer does not notice: each end, unless `nobody`
  Duration close_after{};                       ///< after the last transfer
  Expect expect = Expect::established;
  Duration established_within{};  ///< with `established`: longest time from start to established, at either end; 0: any
  /// How often the workload retries a connection that failed or was cut. Each attempt is judged by the invariants;
  /// `expect` applies to the last one.
  std::uint32_t retries = 0;
  Duration retry_after = std::chrono::milliseconds(100);
  int line = 0;
  int mpa_line = 0;  ///< as in ScenarioListen
};

/// RoCE: a host that receives datagrams to a multicast group, on a separate UD queue pair.
struct ScenarioMember {
  std::string host;
  Address group{};  ///< IPv4 or IPv6, without port
  Instant at{};     ///< when it joins
  Instant until = never;
  bool rejoin = true;                     ///< joins again after a restart of the host
  std::optional<std::uint32_t> expect{};  ///< number of datagrams that it must get; none: each one that is sent
                                          ///< meanwhile
  int line = 0;
};

/// Datagrams to a multicast group. Their sender need not be a member.
struct ScenarioSend {
  static constexpr std::uint32_t octets_min = 8;  ///< so that each can be identified
  std::string from;
  Address group{};
  Instant at{};
  std::uint32_t messages = 1;
  std::uint32_t octets = 64;  ///< per datagram
  Duration interval{};        ///< between two of them; 0: as fast as the link allows
  int line = 0;
};
/// The UDP-space port at which hosts of a scenario with groups listen to hold their address; that of mckey(1).
inline constexpr std::uint16_t group_port = 7174;

/// XRC: how a process of a listener ends.
enum class ExitKind : std::uint8_t { kill, leave };
std::string_view to_string(ExitKind kind);
struct ScenarioExit {
  std::string host;
  std::uint16_t port = 7471;
  std::uint32_t process = 1;
  Instant at{};
  ExitKind how = ExitKind::kill;
  int line = 0;
};

struct ScenarioFault {
  std::string link;  ///< empty for host actions with a time
  LinkDirection way = LinkDirection::both;
  std::string toward;  ///< the TOML key `to`: the end of the link that receives the affected frames; sets `way`
  std::string host;    ///< host actions
  FaultRule rule{};
  bool may_miss = false;  ///< the run may pass even if the fault hits nothing
  int line = 0;
};

/// Bounds that can be set. Invariants that always hold need no key.
struct ScenarioBounds {
  Duration time = std::chrono::seconds(120);     ///< of virtual time; a run that takes longer has failed
  std::optional<std::uint64_t> events{};         ///< none: a number that grows with the scenario (bounds_of)
  Duration converge = std::chrono::seconds(60);  ///< after the last fault has healed, everything must settle within
                                                 ///< this time
  std::size_t send_queue = 1 << 20;              ///< octets of one TCP connection, buffered and in flight
  std::size_t reassembly = 1 << 20;
  std::optional<std::size_t> frames{};  ///< in flight in the whole world; none: as of events
  bool fence = true;  ///< the responder is silent before the first FPDU (RFC 5044 §7.1.2 rule 4); off for quirks
};

struct Scenario {
  std::string name, description;
  std::string file;  ///< origin, for messages
  std::uint64_t seed = 1;
  Neighbours neighbours = Neighbours::discovered;
  std::vector<ScenarioHost> hosts;  ///< includes switches
  std::vector<ScenarioLink> links;
  std::vector<ScenarioListen> listens;
  std::vector<ScenarioConnect> connects;
  std::vector<ScenarioMember> members;
  std::vector<ScenarioSend> sends;
  std::vector<ScenarioExit> exits;
  std::vector<ScenarioFault> faults;
  ScenarioBounds bounds{};
};

/// Hosts of a scenario that may discover each other without bounds of its own.
inline constexpr std::size_t discovered_hosts_max = 4096;
/// The bounds of a run: `events` and `frames` grow with the hosts and connections unless the scenario sets them.
ScenarioBounds bounds_of(const Scenario& scenario);

/// "file:line: key 'conect' is unknown; did you mean 'connect'?"
struct ScenarioError {
  std::string file;
  int line = 0, column = 0;
  std::string key;
  std::string text;
  std::string to_string() const;
};

/// Reads and checks: all errors that can be detected before a run are found here (names, ports, rates, loops, faults on
/// links that do not exist). Returns all errors, in file order; at most 50.
tl::expected<Scenario, std::vector<ScenarioError>> parse_scenario(std::string_view toml, std::string_view file_name);
/// Whether the host of that name has a RoCE engine.
bool has_roce(const Scenario& scenario, std::string_view host);
/// Only the checks, for scenarios built in code.
std::vector<ScenarioError> check_scenario(const Scenario& scenario);
/// A file that parse_scenario reads back as the same scenario; defaults are omitted.
std::string to_toml(const Scenario& scenario);
/// The key tables of docs/simulator-scenarios.md.
std::string scenario_keys_markdown();

/// --swarm: draws other delays, rates, MTUs, faults, revisions, RTR forms, CRC, markers, depths, counts and sizes from
/// the seed. Topology, names and the kind of workload stay. `drawn` gets one line per changed parameter.
Scenario draw_swarm(const Scenario& base, std::uint64_t seed, std::vector<std::string>* drawn = nullptr);

/// Makes a failing scenario smaller while `fails` still holds: fewer faults, connections, messages, octets, hosts,
/// links, milder parameters, rounder numbers; at most `tries_max` runs. Deterministic.
struct ShrinkStep {
  std::uint32_t tries = 0;
  std::string what;  ///< "fault 3 removed"
};
Scenario shrink(const Scenario& failing, const std::function<bool(const Scenario&)>& fails, std::uint32_t tries_max,
                const std::function<void(const ShrinkStep&)>& progress = {});

/// "239.1.2.3", "ff0e::7174".
std::string group_text(const Address& group);

/// "host", or "host/nic".
inline std::string end_text(const std::string& node, const std::string& nic) {
  return nic.empty() ? node : node + "/" + nic;
}

}  // namespace parley::sim
