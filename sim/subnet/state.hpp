// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The state of the nodes of a simulated subnet: settings of subnet management, link states, counters. Compact: a subnet
// of 13,000 nodes takes some tens of megabytes, and unset tables take no memory.
#pragma once
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sim/subnet/plan.hpp"

namespace parley::sim::subnet {

using wire::mad::PortInfo;
using wire::mad::PortPhysicalState;
using wire::mad::PortState;
using wire::mad::SwitchInfo;

inline constexpr std::uint16_t linear_fdb_cap = 0xC000;
inline constexpr std::uint16_t multicast_fdb_cap = 1024;
inline constexpr std::uint16_t p_keys_max = 64;         ///< of a port, except
inline constexpr std::uint16_t switch_p_keys_max = 32;  ///< a switch's port 0
inline constexpr std::uint8_t guids_max = 32;
inline constexpr std::uint32_t packet_words =
    72;  ///< octets of a MAD from LRH to ICRC, as PortXmitData counts it (IBA §16.1.3.5)

struct Port {
  PortInfo info;
  std::uint32_t node = nowhere, peer = nowhere;  ///< peer: the port at the other end of the cable
  std::uint8_t number = 0;
  bool unplugged = false;  ///< manually or by a fault
};

/// Packets since the beginning; Baseline has the values at the last PerformanceSet that reset counters.
struct Traffic {
  std::uint64_t sent = 0, received = 0;
};
struct Errors {
  std::uint16_t xmit_discards = 0, rcv_errors = 0, relay_errors = 0, vl15_dropped = 0;
  std::uint8_t link_downed = 0, link_recovered = 0, link_integrity = 0, overruns = 0;
};
/// IBA §16.1.3.5: counters saturate at their maximum.
template <class Number>
void add_one(Number& counter) {
  if (counter != static_cast<Number>(-1)) ++counter;
}
struct Baseline {
  std::array<std::uint64_t, 4> counters{}, extended{};  ///< words sent, words received, packets sent, packets received
};

struct Node {
  NodeType type = NodeType::channel_adapter;
  std::uint8_t ports = 0;
  bool port_state_change = false;
  std::uint32_t first_port = 0;  ///< of a switch port 0, else port 1
  const PlanNode* plan = nullptr;
  SwitchInfo switch_info;
  std::vector<std::uint8_t> linear_fdb;  ///< up to the highest LID that was set; later LIDs have no port
  std::vector<std::uint16_t> multicast_fdb;

  bool is_switch() const { return type == NodeType::switch_; }
  std::uint8_t first_number() const { return is_switch() ? 0 : 1; }
  /// One past its last port.
  std::uint32_t ports_end() const { return first_port + ports + 1U - first_number(); }
  /// The egress port of a switch for the LID; 255: none.
  std::uint8_t out_port(std::uint16_t lid) const {
    const bool known = lid < linear_fdb.size() && lid <= switch_info.get(SwitchInfo::linear_fdb_top);
    return known ? linear_fdb[lid] : std::uint8_t{255};
  }
};

class State {
 public:
  /// Every link is up and waits for a subnet manager.
  explicit State(Plan plan);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  std::vector<Node>& nodes() { return nodes_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  Port& port(std::uint32_t index) { return ports_[index]; }
  const Port& port(std::uint32_t index) const { return ports_[index]; }
  std::size_t ports() const { return ports_.size(); }
  Node& node_of(const Port& port) { return nodes_[port.node]; }
  const Node& node_of(const Port& port) const { return nodes_[port.node]; }
  /// nowhere if the node has no such port.
  std::uint32_t port_of(std::uint32_t node, std::uint32_t number) const;
  /// The port whose LID, M_Key and SM apply: port 0 of a switch, else the port itself.
  std::uint32_t end_port(std::uint32_t port) const;
  /// By name, otherwise by node description.
  std::optional<std::uint32_t> find_node(std::string_view name) const;
  std::uint64_t port_guid(const Port& port) const;

  /// Whether a packet gets from the port to its peer. Data requires a higher link state than management (IBA §7.2.7).
  bool carries(std::uint32_t port, bool data) const;
  void count_hop(std::uint32_t from) {
    ++traffic_[from].sent;
    ++traffic_[ports_[from].peer].received;
  }
  Traffic& traffic(std::uint32_t port) { return traffic_[port]; }
  Errors& errors(std::uint32_t port) { return errors_[port]; }
  Baseline& baseline(std::uint32_t port) { return baselines_[port]; }
  const Baseline* find_baseline(std::uint32_t port) const;

  /// The link trains again and waits for a subnet manager (both ends Initialize), or is down, according to the cable
  /// and the PortPhysicalState of both ends. Its previous state is lost. Switches at it have notices to send, except
  /// the node `quiet`, which requested the change.
  void retrain(std::uint32_t port, std::uint32_t quiet = nowhere);
  void plug(std::uint32_t port, bool plugged);
  /// As after a power cycle.
  void reset_node(std::uint32_t node);
  /// Returns and clears the list of nodes whose ports changed state and that must send notices.
  std::vector<std::uint32_t> take_changed() { return std::exchange(changed_, {}); }
  bool has_changed() const { return !changed_.empty(); }

  /// Tables in wire format, allocated when they are set.
  using Block = std::array<std::uint8_t, 64>;
  enum class Table : std::uint8_t { p_keys, sl_to_vl, vl_arbitration, guids };
  Block read_table(Table table, std::uint32_t port, std::uint8_t block) const;
  void write_table(Table table, std::uint32_t port, std::uint8_t block, const Block& octets);

 private:
  void set_up_port(std::uint32_t index);
  void train(std::uint32_t port, std::uint32_t peer, bool up);
  void note_change(std::uint32_t port, std::uint32_t quiet);
  static std::uint64_t key_of(Table table, std::uint32_t port, std::uint8_t block) {
    return std::uint64_t{port} << 16 | static_cast<std::uint64_t>(table) << 8 | block;
  }

  Plan plan_;
  std::vector<Node> nodes_;
  std::vector<Port> ports_;
  std::vector<Traffic> traffic_;
  std::vector<Errors> errors_;
  std::unordered_map<std::uint32_t, Baseline> baselines_;
  std::unordered_map<std::uint64_t, Block> tables_;
  std::unordered_map<std::string_view, std::uint32_t> names_, descriptions_;
  std::vector<std::uint32_t> changed_;
};

}  // namespace parley::sim::subnet
