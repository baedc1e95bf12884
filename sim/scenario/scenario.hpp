// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A scenario: topology, workload, faults, expectations and bounds as data, read from and written to TOML. The keys are
// documented in docs/simulator-scenarios.md; scenario_keys.cpp holds the one table of them.
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
  HostOptions options{};
  SwitchOptions switching{};
  int line = 0;  ///< in the file; 0: not from a file
};

struct ScenarioLink {
  std::string name;  ///< "a-b" when not given
  std::string ends[2];
  std::string nics[2];  ///< at ends that are hosts with a list of NICs; empty: the first without a link
  LinkOptions options{};
  int line = 0;
};

/// What speaks RDMA behind the host's NICs: that of its list, or `engine`.
NicEngine engine_of(const ScenarioHost& host);

/// Which address of a host a connection uses.
enum class AddressKind : std::uint8_t { v4, v6, link_local };
std::string_view to_string(AddressKind kind);

/// RoCE: the transport service of a connection.
enum class QpKind : std::uint8_t {
  rc,
  ud,   ///< no connection: a service is asked for the queue pair that takes its datagrams (SIDR)
  xrc,  ///< an INI queue pair, and a TGT queue pair that the processes of the listener's node share
};
std::string_view to_string(QpKind kind);

/// A listener and what it does with requests.
struct ScenarioListen {
  std::string host;
  std::uint16_t port = 7471;
  AddressKind address = AddressKind::v4;
  QpKind qp = QpKind::rc;
  mpa::StartupOptions mpa{};
  Instant at{};                    ///< when it begins to listen
  Duration accept_after{};         ///< slow ULP
  std::uint32_t reject_every = 0;  ///< every n-th request is rejected; 1: all; 0: none
  std::string private_data;        ///< of the Reply
  std::uint32_t pending_max = 1024;
  std::uint32_t processes = 1;  ///< XRC: of the node, each with a shared receive queue
  bool relisten = true;         ///< after a restart of the host
  int line = 0;
  int mpa_line = 0;  ///< of its table `mpa` in the file; 0: it has none
};

enum class Transfer : std::uint8_t { send, write, read };
std::string_view to_string(Transfer transfer);
enum class Closer : std::uint8_t { initiator, responder, both, nobody };
std::string_view to_string(Closer closer);
enum class Expect : std::uint8_t {
  established,  ///< up on both ends, everything transferred, closed as asked
  rejected,     ///< the initiator is told so, with the private data
  failed,       ///< an event with a reason on every end that knew of the connection
  settled,      ///< any of the three, the same on both ends
};
std::string_view to_string(Expect expect);

/// Connections and what they transfer.
struct ScenarioConnect {
  static constexpr std::uint32_t xrc_octets_min = 8,
                                 xrc_octets_max = 65536;  ///< the least tells one message from another
  std::string from, to;
  std::string from_nic, to_nic;      ///< empty: the first that lead to each other
  std::vector<std::string> backups;  ///< NICs of `to` whose addresses are tried in turn (cm::ConnectOptions::backups)
  std::uint16_t port = 7471;
  AddressKind address = AddressKind::v4;
  QpKind qp = QpKind::rc;
  mpa::StartupOptions mpa{};
  Duration transport_timeout = std::chrono::seconds(10);
  Duration timeout{};  ///< of all of the set-up (cm::ConnectOptions::timeout); 0: none
  std::string private_data;
  Instant at{};
  std::uint32_t count = 1;
  Duration interval{};  ///< between the starts of two connections
  // After it is up. The initiator transfers first if RFC 5044 §7.1.2 requires it.
  Transfer transfer = Transfer::send;
  std::uint32_t messages = 1;  ///< each way for Sends; from the initiator for writes and reads; 0: none
  std::uint32_t octets = 64;   ///< of each
  bool both_ways = true;       ///< the responder sends too
  std::uint32_t srq = 0;       ///< XRC: of which process, from 1, the queue is that gets the messages; 0: each in turn
  Closer closer = Closer::initiator;  ///< UD, where nobody else hears of it: each end, unless nobody
  Duration close_after{};             ///< after the last transfer
  Expect expect = Expect::established;
  Duration established_within{};  ///< with `established`: longest time from start to up, on either end; 0: any
  /// How often the workload retries a connection that failed or was cut; each attempt is judged by the invariants,
  /// `expect` holds for the last.
  std::uint32_t retries = 0;
  Duration retry_after = std::chrono::milliseconds(100);
  int line = 0;
  int mpa_line = 0;  ///< as ScenarioListen's
};

/// RoCE: a host that receives what goes to a multicast group, by a UD queue pair of its own.
struct ScenarioMember {
  std::string host;
  Address group{};  ///< IPv4 or IPv6, without port
  Instant at{};     ///< when it joins
  Instant until = never;
  bool rejoin = true;                     ///< after a restart of the host
  std::optional<std::uint32_t> expect{};  ///< how many datagrams it gets; none: each that is sent meanwhile
  int line = 0;
};

/// Datagrams to a multicast group. Their sender need not be a member.
struct ScenarioSend {
  static constexpr std::uint32_t octets_min = 8;  ///< so that each is told from the others
  std::string from;
  Address group{};
  Instant at{};
  std::uint32_t messages = 1;
  std::uint32_t octets = 64;  ///< of each
  Duration interval{};        ///< between two of them; 0: as fast as they leave
  int line = 0;
};
/// The UD port at which hosts of a scenario with groups hold their address; that of mckey(1).
inline constexpr std::uint16_t group_port = 7174;

/// XRC: a process of a listener ends.
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
  std::string link;  ///< empty for host actions at a time
  Way way = Way::both;
  std::string toward;  ///< the TOML key `to`: the end of the link towards which it acts; sets `way`
  std::string host;    ///< host actions
  FaultRule rule{};
  bool may_miss = false;  ///< a run in which it hits nothing may pass
  int line = 0;
};

/// Invariants that always hold need no key. These can be set.
struct ScenarioBounds {
  Duration time = std::chrono::seconds(120);  ///< of virtual time; a run that is not over by then has failed
  std::uint64_t events = 50'000'000;
  Duration converge = std::chrono::seconds(60);  ///< after the last fault has healed, everything is settled within this
  std::size_t send_queue = 1 << 20;              ///< octets of one TCP connection, ours and in flight
  std::size_t reassembly = 1 << 20;
  std::size_t frames = 1 << 20;  ///< in flight in the whole world
  bool fence = true;  ///< the responder is silent before the first FPDU (RFC 5044 §7.1.2 rule 4); off for quirks
};

struct Scenario {
  std::string name, description;
  std::string file;  ///< where it came from, for messages
  std::uint64_t seed = 1;
  std::vector<ScenarioHost> hosts;  ///< and switches
  std::vector<ScenarioLink> links;
  std::vector<ScenarioListen> listens;
  std::vector<ScenarioConnect> connects;
  std::vector<ScenarioMember> members;
  std::vector<ScenarioSend> sends;
  std::vector<ScenarioExit> exits;
  std::vector<ScenarioFault> faults;
  ScenarioBounds bounds{};
};

/// "file:line: key 'conect' is unknown; did you mean 'connect'?"
struct ScenarioError {
  std::string file;
  int line = 0, column = 0;
  std::string key;
  std::string text;
  std::string to_string() const;
};

/// Reads and checks: everything that can be wrong before a run is found here (names, ports, rates, loops, faults on
/// links that are not there). All errors, in file order; at most 50.
tl::expected<Scenario, std::vector<ScenarioError>> parse_scenario(std::string_view toml, std::string_view file_name);
/// Whether the host of that name has a RoCE engine.
bool has_roce(const Scenario& scenario, std::string_view host);
/// The checks alone, for scenarios made in code.
std::vector<ScenarioError> check_scenario(const Scenario& scenario);
/// A file that parse_scenario reads back as the same scenario; defaults are left out.
std::string to_toml(const Scenario& scenario);
/// The tables of keys in docs/simulator-scenarios.md.
std::string scenario_keys_markdown();

/// --swarm: other delays, rates, MTUs, faults, revisions, RTR forms, CRC, markers, depths, counts and sizes, drawn from
/// the seed; topology, names and the kind of workload stay. `drawn` gets one line per parameter that changed.
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
