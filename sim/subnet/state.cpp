// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/state.hpp"

#include <initializer_list>
#include <utility>

namespace parley::sim::subnet {

namespace {

using wire::mad::LinkDownState;
using wire::mad::Mtu;
using wire::mad::VlCap;
namespace capability = wire::mad::port_capability;

constexpr std::uint8_t widths_supported = 0x1F, speeds_supported = 7;

/// The highest bit that both have.
std::uint8_t best(std::uint8_t mine, std::uint8_t theirs, std::initializer_list<std::uint8_t> order) {
  for (const std::uint8_t bit : order)
    if ((mine & theirs & bit) != 0) return bit;
  return 0;
}
constexpr std::initializer_list<std::uint8_t> width_order = {8, 4, 2, 16, 1};
constexpr std::initializer_list<std::uint8_t> speed_order = {8, 4, 2, 1};

}  // namespace

State::State(Plan plan) : plan_(std::move(plan)) {
  std::size_t ports = 0;
  for (const PlanNode& node : plan_.nodes) ports += node.ports.size() + (node.type == NodeType::switch_ ? 1 : 0);
  ports_.resize(ports);
  traffic_.resize(ports);
  errors_.resize(ports);
  nodes_.resize(plan_.nodes.size());
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const PlanNode& planned = plan_.nodes[i];
    Node& node = nodes_[i];
    node.type = planned.type;
    node.ports = static_cast<std::uint8_t>(planned.ports.size());
    node.first_port = next;
    node.plan = &planned;
    names_.emplace(planned.name, i);
    descriptions_.emplace(planned.description, i);
    for (unsigned number = node.first_number(); number <= node.ports; ++number, ++next) {
      ports_[next].node = i;
      ports_[next].number = static_cast<std::uint8_t>(number);
    }
  }
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    const Port& port = ports_[i];
    if (port.number == 0) continue;
    const PlanPort& of = plan_.nodes[port.node].ports[port.number - 1U];
    if (of.peer != nowhere) ports_[i].peer = port_of(of.peer, of.peer_port);
  }
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) reset_node(i);
  changed_.clear();
  for (Node& node : nodes_) node.port_state_change = false;
  std::fill(errors_.begin(), errors_.end(), Errors{});
}

std::uint32_t State::port_of(std::uint32_t node, std::uint32_t number) const {
  const Node& at = nodes_[node];
  return number < at.first_number() || number > at.ports ? nowhere : at.first_port + number - at.first_number();
}

std::uint32_t State::end_port(std::uint32_t port) const {
  const Node& node = nodes_[ports_[port].node];
  return node.is_switch() ? node.first_port : port;
}

std::optional<std::uint32_t> State::find_node(std::string_view name) const {
  if (const auto found = names_.find(name); found != names_.end()) return found->second;
  if (const auto found = descriptions_.find(name); found != descriptions_.end()) return found->second;
  return std::nullopt;
}

std::uint64_t State::port_guid(const Port& port) const {
  const PlanNode& plan = *nodes_[port.node].plan;
  if (plan.type == NodeType::switch_) return plan.guid;
  const PlanPort& of = plan.ports[port.number - 1U];
  return of.guid != 0 ? of.guid : plan.guid + port.number;
}

bool State::carries(std::uint32_t index, bool data) const {
  const Port& port = ports_[index];
  if (port.peer == nowhere) return false;
  const PortState here = port.info.get(PortInfo::port_state), there = ports_[port.peer].info.get(PortInfo::port_state);
  if (data) return here == PortState::active && there >= PortState::armed;
  return here >= PortState::initialize && there >= PortState::initialize;
}

const Baseline* State::find_baseline(std::uint32_t port) const {
  const auto found = baselines_.find(port);
  return found == baselines_.end() ? nullptr : &found->second;
}

/// IBA §14.2.5.6: the initial values of a port, before a subnet manager configures it.
void State::set_up_port(std::uint32_t index) {
  Port& port = ports_[index];
  const Node& node = nodes_[port.node];
  const bool end = !node.is_switch() || port.number == 0;
  PortInfo info;
  info.set(PortInfo::link_width_supported, widths_supported).set(PortInfo::link_speed_supported, speeds_supported);
  info.set(PortInfo::link_width_enabled, 2).set(PortInfo::link_speed_enabled, 1);
  info.set(PortInfo::link_width_active, 2).set(PortInfo::link_speed_active, 1);
  info.set(PortInfo::link_down_default_state, LinkDownState::polling);
  info.set(PortInfo::neighbor_mtu, Mtu::m2048).set(PortInfo::mtu_cap, Mtu::m2048);
  info.set(PortInfo::vl_cap, VlCap::vl0_7).set(PortInfo::operational_vls, VlCap::vl0_7);
  info.set(PortInfo::vl_arbitration_high_cap, 8).set(PortInfo::vl_arbitration_low_cap, 8);
  if (end) {
    info.set(PortInfo::gid_prefix, 0xFE80000000000000);
    info.set(PortInfo::subnet_time_out, 18).set(PortInfo::resp_time_value, 16);
    info.set(PortInfo::guid_cap, node.is_switch() ? 1 : guids_max);
    std::uint32_t mask = capability::trap | capability::sl_mapping | capability::capability_mask_notice |
                         capability::client_reregistration | capability::system_image_guid;
    if (node.is_switch() && node.plan->enhanced_port0) mask |= capability::optional_ipd;
    info.set(PortInfo::capability_mask, mask);
  }
  if (port.number == 0) {
    info.set(PortInfo::port_state, PortState::active).set(PortInfo::port_physical_state, PortPhysicalState::link_up);
    info.set(PortInfo::lid, node.plan->lid).set(PortInfo::lmc, node.plan->lmc);
  } else {
    const PlanPort& plan = node.plan->ports[port.number - 1U];
    info.set(PortInfo::port_state, PortState::down).set(PortInfo::port_physical_state, PortPhysicalState::polling);
    info.set(PortInfo::link_width_enabled, plan.widths).set(PortInfo::link_speed_enabled, plan.speeds);
    if (plan.speeds_ext != 0) {
      info.set(PortInfo::capability_mask,
               info.get(PortInfo::capability_mask) | (end ? capability::extended_speeds : 0));
      info.set(PortInfo::link_speed_ext_supported, 15).set(PortInfo::link_speed_ext_enabled, plan.speeds_ext);
    }
    if (end) info.set(PortInfo::lid, plan.lid).set(PortInfo::lmc, plan.lmc);
  }
  port.info = info;
}

void State::reset_node(std::uint32_t index) {
  Node& node = nodes_[index];
  node.port_state_change = false;
  node.linear_fdb = {};
  node.multicast_fdb = {};
  if (node.is_switch()) {
    node.switch_info = SwitchInfo{};
    node.switch_info.set(SwitchInfo::linear_fdb_cap, linear_fdb_cap)
        .set(SwitchInfo::multicast_fdb_cap, multicast_fdb_cap);
    node.switch_info.set(SwitchInfo::partition_enforcement_cap, p_keys_max);
    node.switch_info.set(SwitchInfo::inbound_enforcement_cap, true).set(SwitchInfo::outbound_enforcement_cap, true);
    node.switch_info.set(SwitchInfo::enhanced_port0, node.plan->enhanced_port0);
  }
  const std::uint32_t end = node.ports_end();
  std::erase_if(tables_,
                [&](const auto& entry) { return entry.first >> 16 >= node.first_port && entry.first >> 16 < end; });
  for (std::uint32_t port = node.first_port; port < end; ++port) set_up_port(port);
  for (std::uint32_t port = node.first_port; port < end; ++port)
    if (ports_[port].number != 0) retrain(port, index);
}

void State::note_change(std::uint32_t port, std::uint32_t quiet) {
  const std::uint32_t node = ports_[port].node;
  if (node == quiet || !nodes_[node].is_switch()) return;
  nodes_[node].port_state_change = true;
  if (std::find(changed_.begin(), changed_.end(), node) == changed_.end()) changed_.push_back(node);
}

void State::train(std::uint32_t index, std::uint32_t peer, bool up) {
  PortInfo& info = ports_[index].info;
  if (!up) {
    if (info.get(PortInfo::port_state) != PortState::down) add_one(errors_[index].link_downed);
    info.set(PortInfo::port_state, PortState::down);
    if (info.get(PortInfo::port_physical_state) == PortPhysicalState::link_up)
      info.set(PortInfo::port_physical_state, PortPhysicalState::polling);
    return;
  }
  const PortInfo& other = ports_[peer].info;
  info.set(PortInfo::port_state, PortState::initialize).set(PortInfo::port_physical_state, PortPhysicalState::link_up);
  const auto both = [&](auto member, std::initializer_list<std::uint8_t> order) {
    return best(info.get(member), other.get(member), order);
  };
  info.set(PortInfo::link_width_active, both(PortInfo::link_width_enabled, width_order));
  info.set(PortInfo::link_speed_active, both(PortInfo::link_speed_enabled, speed_order));
  info.set(PortInfo::link_speed_ext_active, both(PortInfo::link_speed_ext_enabled, speed_order));
}

void State::retrain(std::uint32_t index, std::uint32_t quiet) {
  const std::uint32_t peer = ports_[index].peer;
  if (peer == nowhere) return;
  const auto tries = [&](std::uint32_t port) {
    const PortPhysicalState state = ports_[port].info.get(PortInfo::port_physical_state);
    return !ports_[port].unplugged && state != PortPhysicalState::disabled && state != PortPhysicalState::sleep;
  };
  const PortInfo &mine = ports_[index].info, &theirs = ports_[peer].info;
  const bool match =
      best(mine.get(PortInfo::link_width_enabled), theirs.get(PortInfo::link_width_enabled), width_order) != 0 &&
      best(mine.get(PortInfo::link_speed_enabled), theirs.get(PortInfo::link_speed_enabled), speed_order) != 0;
  const bool up = match && tries(index) && tries(peer);
  if (!up && mine.get(PortInfo::port_state) == PortState::down && theirs.get(PortInfo::port_state) == PortState::down)
    return;
  train(index, peer, up);
  train(peer, index, up);
  note_change(index, quiet);
  note_change(peer, quiet);
}

void State::plug(std::uint32_t port, bool plugged) {
  if (ports_[port].peer == nowhere || ports_[port].unplugged == !plugged) return;
  ports_[port].unplugged = ports_[ports_[port].peer].unplugged = !plugged;
  retrain(port);
}

State::Block State::read_table(Table table, std::uint32_t port, std::uint8_t block) const {
  if (const auto found = tables_.find(key_of(table, port, block)); found != tables_.end()) return found->second;
  Block out{};
  if (table == Table::p_keys && block == 0) out[0] = out[1] = 0xFF;
  if (table == Table::sl_to_vl)
    for (std::uint8_t i = 0; i < 8; ++i)
      out[i] = static_cast<std::uint8_t>(i < 4 ? (2 * i) << 4 | (2 * i + 1) : (2 * i - 8) << 4 | (2 * i - 7));
  if (table == Table::vl_arbitration)
    for (std::uint8_t i = 0; i < 8; ++i) {
      out[2 * i] = i;
      out[2 * i + 1U] = block == 1 ? 4 : 0;
    }
  return out;
}

void State::write_table(Table table, std::uint32_t port, std::uint8_t block, const Block& octets) {
  tables_.insert_or_assign(key_of(table, port, block), octets);
}

}  // namespace parley::sim::subnet
