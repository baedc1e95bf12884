// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a scenario in its own world and judges it. The checkers (sim/check/) see only what a user of both ends and an
// observer of the wire see: events, completions, memory, frames. They share no state with the code under test.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpa/startup_options.hpp"
#include "parley/trace.hpp"
#include "sim/net/stream_name.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {

/// A broken invariant.
struct Violation {
  std::string checker;  ///< "agreement", "fence", "delivery", "convergence", ...
  Instant at{};
  std::string connection;  ///< "a:40000 > b:7471 (2nd of connect 1)"; empty for the world
  std::string text;        ///< expected and observed values
  std::string rule;        ///< "RFC 5044 §7.1.2"; may be empty
};

enum class RunEnd : std::uint8_t {
  settled,
  time_bound,
  event_bound,
  converge_bound,  ///< not settled in ScenarioBounds::converge after the last fault
  stopped,
  exhausted,  ///< more events were pending than the world holds (WorldCounters::exhausted); no bound of the scenario
};

/// One attempt at a connection, as both ends saw it.
struct ConnectionOutcome {
  std::string label;
  std::string initiator, responder;  ///< "established", "rejected: ...", "failed: <words>", "unknown"
  Duration setup{};                  ///< from start to Established at the initiator; 0: never established
  std::uint64_t octets = 0;          ///< delivered, in both directions
};

/// A member of a multicast group, or a sender to it.
struct GroupOutcome {
  std::string label;  ///< "b in 239.1.2.3 (member 2)", "a to 239.1.2.3 (send 1)"
  bool sends = false;
  std::uint64_t datagrams = 0;  ///< received, each counted once; or sent
  std::uint64_t octets = 0;
};

/// The node behind a listener for XRC.
struct XrcOutcome {
  struct Process {
    bool exited = false;
    std::uint64_t messages = 0, octets = 0;  ///< received
  };
  std::string label;                                     ///< "b:7471"
  std::uint64_t created = 0, destroyed = 0, reaped = 0;  ///< TGT queue pairs
  std::vector<Process> processes;
};

struct RunReport {
  std::string scenario;
  std::uint64_t seed = 0;
  RunEnd end = RunEnd::settled;
  ScenarioBounds bounds{};                    ///< those that applied (bounds_of)
  std::vector<Violation> violations;          ///< at most 100
  std::vector<std::string> pending;           ///< connections still open at a bound, as text; at most 100
  std::vector<ConnectionOutcome> outcomes;    ///< at most 10,000
  std::vector<GroupOutcome> groups;           ///< members, then sends, in file order
  std::vector<XrcOutcome> xrc;                ///< in file order
  std::map<StreamName, std::size_t> streams;  ///< the outcome of a TCP stream: that of the last attempt that used it
  std::uint64_t established = 0, rejected = 0, failed = 0;  ///< connections, by the outcome of the last attempt
  std::uint64_t retries = 0;                                ///< attempts to connect beyond the first of each
  std::uint64_t faults_hit = 0;                             ///< frames and hosts touched by a fault
  std::uint64_t lost_at_hosts = 0;                          ///< of them, frames to a host that was down or full
  std::uint64_t queue_drops = 0;                            ///< frames that found a queue full
  Instant finished_at{};
  WorldCounters counters{};
  std::uint64_t cnp_sent = 0, cnp_held = 0, cnp_received = 0;  ///< totals of all hosts (HostCounters)
  bool passed() const { return violations.empty() && end == RunEnd::settled; }
};

/// Why a world is exhausted, and what to change in a scenario with such neighbours.
std::string exhausted_text(Neighbours neighbours);

/// "2 established, 1 failed"; empty if there was no connection.
std::string connections_text(const RunReport& report);

/// The frames to drop among the first 64 that have a message of a layer (World::set_drop_mask).
struct DropMask {
  std::uint64_t bits = 0;
  Layer layer = Layer::tcp;
};

struct RunOptions {
  std::uint64_t seed = 0;
  Tap* tap = nullptr;                   ///< gets every frame, in addition to the checkers
  std::optional<DropMask> drop_mask{};  ///< from the start
  /// For each host, by name: where its RNIC traces its connections; not owned. Null: no trace.
  std::function<trace::Sink*(const std::string& host)> trace{};
  /// Called once before the first step, with the world that will run: recorders get its interfaces and names.
  std::function<void(const World&)> on_world;
  /// Called every few thousand events; false ends the run at once as RunEnd::stopped (Ctrl-C, a time budget).
  std::function<bool()> keep_going;
};

RunReport run_scenario(const Scenario& scenario, const RunOptions& options);

// ---- storms: many nodes connecting at once (tools: parley sim storm) ------------------------------------------------

enum class StormPattern : std::uint8_t { alltoall, ring, incast };
struct StormOptions {
  std::uint32_t nodes = 16;
  std::uint32_t ppn = 1;  ///< processes per node, each with its own connections
  StormPattern pattern = StormPattern::alltoall;
  NicEngine engine = NicEngine::iwarp;
  mpa::StartupOptions mpa{};      ///< iWARP only
  cm::RoceProviderOptions hca{};  ///< RoCE only
  std::uint32_t in_setup = 8;     ///< connections that one process sets up concurrently
  Ratio loss{0, 1};
  LinkOptions link{};
  Neighbours neighbours = Neighbours::known;
  /// alltoall: to how many others each process connects, evenly spread over all; 0: to all.
  std::uint32_t sample = 0;
  bool keep_open = false;  ///< false: closed once both ends were established
  std::uint64_t seed = 1;
  Tap* tap = nullptr;
};
struct StormReport {
  std::uint64_t wanted = 0, established = 0, failed = 0, retried = 0;
  std::uint64_t alive_peak = 0;
  std::uint64_t cm_resent = 0;  ///< RoCE: retransmitted CM messages
  Duration virtual_time{};
  WorldCounters counters{};
  /// Virtual time per step over all connections: tcp, request, reply, established. Quantiles 0, 50, 90, 99, 100
  /// %.
  std::map<std::string, std::array<Duration, 5>> steps;
  std::vector<Violation> violations;
};
/// `progress` is called now and then with the number of finished connections; returning false ends the run.
StormReport run_storm(const StormOptions& options, const std::function<bool(std::uint64_t)>& progress = {});

}  // namespace parley::sim
