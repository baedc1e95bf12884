// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/topology_check.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "mad/topology_print.hpp"

namespace parley::mad {

namespace {

using wire::mad::PortCounters;
using wire::mad::PortState;

/// A counter and its threshold. The thresholds are those of ibcheckerrors.
struct CounterLimit {
  std::string_view name;
  std::uint32_t limit;
  std::uint32_t (*get)(const PortCounters&);
};
constexpr CounterLimit limits[] = {
#define PARLEY_LIMIT(name, limit)                                                                \
  {                                                                                              \
#name, limit, [](const PortCounters& c) { return std::uint32_t{c.get(PortCounters::name)}; } \
  }
    PARLEY_LIMIT(symbol_error_counter, 10),
    PARLEY_LIMIT(link_error_recovery_counter, 10),
    PARLEY_LIMIT(link_downed_counter, 10),
    PARLEY_LIMIT(port_rcv_errors, 10),
    PARLEY_LIMIT(port_rcv_remote_physical_errors, 100),
    PARLEY_LIMIT(port_rcv_switch_relay_errors, 100),
    PARLEY_LIMIT(port_xmit_discards, 100),
    PARLEY_LIMIT(port_xmit_constraint_errors, 100),
    PARLEY_LIMIT(port_rcv_constraint_errors, 100),
    PARLEY_LIMIT(local_link_integrity_errors, 10),
    PARLEY_LIMIT(excessive_buffer_overrun_errors, 10),
    PARLEY_LIMIT(vl15_dropped, 100),
#undef PARLEY_LIMIT
};

/// Lanes of each bit of a link width (IBA §14.2.5.6): 1x, 4x, 8x, 12x, 2x.
unsigned lanes(unsigned width) {
  constexpr std::array<unsigned, 5> of_bit{1, 4, 8, 12, 2};
  unsigned most = 0;
  for (unsigned bit = 0; bit < of_bit.size(); ++bit)
    if ((width >> bit & 1) != 0) most = std::max(most, of_bit[bit]);
  return most;
}

/// All speeds as one bit mask; the lowest bit is the slowest.
unsigned speeds(unsigned old, unsigned extended, unsigned extended2) {
  return (old & 7) | (extended & 15) << 3 | (extended2 & 1) << 7;
}
unsigned enabled(const TopologyPort& p) { return speeds(p.speed_enabled, p.ext_enabled, p.ext2_enabled); }
/// If an extended speed is active, the old field has 10 Gb/s or nothing.
unsigned active(const TopologyPort& p) { return speeds(p.speed_active, p.ext_active, p.ext2_active); }
std::string_view speed_name(unsigned row) {
  constexpr std::string_view names[] = {"?", "SDR", "DDR", "QDR", "FDR", "EDR", "HDR", "NDR", "XDR"};
  return names[std::min<unsigned>(static_cast<unsigned>(std::bit_width(row)), 8)];
}

class Check {
 public:
  explicit Check(const Topology& topology) : topology_(topology) {}

  std::vector<TopologyFinding> run() {
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i) {
      const TopologyNode& node = topology_.nodes()[i];
      if (node.lost) add(i, 0, TopologyFault::lost, "some queries to this node were not answered");
      for (unsigned p = 0; p <= node.ports; ++p) check_port(i, static_cast<std::uint8_t>(p));
    }
    check_lids();
    return std::move(out_);
  }

 private:
  void add(std::uint32_t node, std::uint8_t port, TopologyFault fault, std::string text) {
    out_.push_back({node, port, fault, std::move(text)});
  }

  void check_port(std::uint32_t node, std::uint8_t number) {
    const TopologyPort& port = topology_.port(node, number);
    const bool is_switch = topology_.nodes()[node].type == wire::mad::NodeType::switch_;
    if (port.lost) add(node, number, TopologyFault::lost, "no answer for its PortInfo");
    if (port.peer == no_node && port.peer_lost)
      add(node, number, TopologyFault::lost, "the node behind it did not answer");
    const bool has_lid = is_switch ? number == 0 : number != 0;
    if (port.known && has_lid && port.lid == 0 && (is_switch || port.link_up()))
      add(node, number, TopologyFault::no_lid, "no LID");
    if (number == 0 || port.peer == no_node || !port.known) return;
    if (port.state != static_cast<std::uint8_t>(PortState::active))
      add(node, number, TopologyFault::state,
          fmt::format("the link is up, but the port's state is {}",
                      wire::mad::name_of(wire::mad::Kind::port_state, port.state)));
    if (topology_.is_first_end(node, number)) check_link(node, number);
  }

  void check_link(std::uint32_t node, std::uint8_t number) {
    const TopologyPort& a = topology_.port(node, number);
    const TopologyPort& b = topology_.port(a.peer, a.peer_port);
    if (!b.known) return;
    const std::string other = port_text(topology_, a.peer, a.peer_port);
    if (lanes(a.width_active) < lanes(a.width_enabled & b.width_enabled))
      add(node, number, TopologyFault::width,
          fmt::format("the link to {} is {}x, but both ends have {}x enabled", other, lanes(a.width_active),
                      lanes(a.width_enabled & b.width_enabled)));
    if (std::bit_width(active(a)) < std::bit_width(enabled(a) & enabled(b)))
      add(node, number, TopologyFault::speed,
          fmt::format("the link to {} is {}, but both ends have {} enabled", other, speed_name(active(a)),
                      speed_name(enabled(a) & enabled(b))));
  }

  void check_lids() {
    std::unordered_map<std::uint16_t, std::pair<std::uint32_t, std::uint8_t>> seen;
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i) {
      const TopologyNode& node = topology_.nodes()[i];
      const bool is_switch = node.type == wire::mad::NodeType::switch_;
      for (unsigned p = is_switch ? 0 : 1; p <= (is_switch ? 0U : node.ports); ++p) {
        const auto number = static_cast<std::uint8_t>(p);
        const TopologyPort& port = topology_.port(i, number);
        for (unsigned lid = port.lid; port.lid != 0 && lid < port.lid + (1U << port.lmc); ++lid) {
          const auto [first, is_new] = seen.emplace(static_cast<std::uint16_t>(lid), std::pair(i, number));
          if (is_new) continue;
          add(i, number, TopologyFault::double_lid,
              fmt::format("LID {} also belongs to {}", lid,
                          port_text(topology_, first->second.first, first->second.second)));
          break;
        }
      }
    }
  }

  const Topology& topology_;
  std::vector<TopologyFinding> out_;
};

}  // namespace

std::string_view name_of(TopologyFault fault) {
  switch (fault) {
#define PARLEY_X(name) \
  case TopologyFault::name: return #name;
    PARLEY_TOPOLOGY_FAULTS(PARLEY_X)
#undef PARLEY_X
  }
  return "?";
}

std::vector<TopologyFinding> check_links(const Topology& topology) { return Check(topology).run(); }

std::string check_counters(const PortCounters& counters, std::uint32_t factor) {
  std::string out;
  for (const CounterLimit& limit : limits) {
    const std::uint64_t most = std::uint64_t{limit.limit} * factor;
    if (limit.get(counters) <= most) continue;
    out += fmt::format("{}{} is {} (threshold {})", out.empty() ? "" : ", ", limit.name, limit.get(counters), most);
  }
  return out;
}

}  // namespace parley::mad
