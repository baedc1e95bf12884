// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The parameters of a node of the tree: what it is, its timers and its bounds. docs/ssa.md has the table of the timers.
#pragma once
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "parley/time.hpp"
#include "wire/mad/ssa.hpp"

namespace parley::ssa {

struct NodeTimers {
  Duration join_spread = std::chrono::seconds(5);       ///< the first hello goes at a random time within it
  Duration hello_first = std::chrono::seconds(1);       ///< without an answer: the next hello; doubled each time
  Duration hello_max = std::chrono::seconds(60);        ///< the doubling ends here
  Duration handover_spread = std::chrono::seconds(30);  ///< consumers greet a new master within it; others sooner
  Duration hello_refresh =
      std::chrono::seconds(600);  ///< with parent and backup: greets, so that the master's table is right
  Duration backup_wait = std::chrono::seconds(60);  ///< connected without backup: asks the master; doubled each time
  Duration backup_wait_max = std::chrono::seconds(600);    ///< the doubling ends here
  Duration heartbeat = std::chrono::seconds(2);            ///< of this node's children; its own is the parent's
  Duration report_delay = std::chrono::milliseconds(100);  ///< lost children are collected for so long
  Duration report_first = std::chrono::milliseconds(500);  ///< without an answer: the next report; doubled each time
};

struct NodeOptions {
  std::uint64_t seed = 1;  ///< of jitter and transaction IDs: different for each port
  std::uint64_t key = 0;   ///< SSA_Key: that of the whole tree; a message with another one is dropped
  Gid gid{};               ///< of the port
  std::uint64_t node_guid = 0;
  std::uint8_t roles = wire::mad::ssa_roles::consumer;  ///< bits of PARLEY_SSA_ROLES
  std::uint16_t level = PARLEY_SSA_LEVEL_ANY;
  std::vector<std::uint16_t> p_keys{0xFFFF};  ///< at most 32
  std::string tree;                           ///< at most 32 octets
  wire::mad::SsaEndpoint endpoint;            ///< where this node takes connections; its GID is that of the port
  bool is_root = false;                       ///< the node next to the master: it has no parent
  std::size_t children_max = 512;             ///< with those that have it as backup; a further one is refused
  NodeTimers timers;
};

/// As the messages have times.
inline std::uint32_t whole_milliseconds(Duration d) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(d).count());
}
/// A random time up to `spread`.
inline Duration within(Rng& rng, Duration spread) {
  return Duration(static_cast<Duration::rep>(rng.below(static_cast<std::uint64_t>(spread.count()) + 1)));
}
/// A transaction ID of a request, never 0: Message::transaction_id.
inline std::uint32_t draw_transaction_id(Rng& rng) { return static_cast<std::uint32_t>(rng.next()) | 1; }
/// A random time from half of `middle` to one and a half.
inline Duration jittered(Rng& rng, Duration middle) {
  const auto ns = static_cast<std::uint64_t>(middle.count());
  return Duration(static_cast<Duration::rep>(ns / 2 + rng.below(ns + 1)));
}
/// `first` doubled `times` times, at most `limit`.
inline Duration doubled(Duration first, unsigned times, Duration limit) {
  Duration out = first;
  for (; times > 0 && out < limit; --times) out *= 2;
  return out < limit ? out : limit;
}

}  // namespace parley::ssa
