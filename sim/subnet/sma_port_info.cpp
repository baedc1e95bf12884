// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/sma_impl.hpp"

namespace parley::sim::subnet {

namespace {

using wire::mad::LinkDownState;
using wire::mad::Mtu;
using wire::mad::VlCap;

/// IBA §14.2.5.6: a new state can only be requested in this order; Down from every state.
bool may_become(PortState now, PortState asked) {
  switch (asked) {
    case PortState::no_change:
    case PortState::down: return true;
    case PortState::armed: return now == PortState::initialize || now == PortState::armed;
    case PortState::active: return now == PortState::armed || now == PortState::active;
    default: return false;
  }
}

bool is_valid(const State& state, std::uint32_t index, const PortInfo& asked) {
  const Port& port = state.port(index);
  const PortInfo& now = port.info;
  const PortPhysicalState physical = asked.get(PortInfo::port_physical_state);
  if (physical > PortPhysicalState::disabled) return false;
  if (port.number != 0 && !may_become(now.get(PortInfo::port_state), asked.get(PortInfo::port_state))) return false;
  if (asked.get(PortInfo::operational_vls) > now.get(PortInfo::vl_cap)) return false;
  if (asked.get(PortInfo::link_down_default_state) > LinkDownState::polling) return false;
  if (asked.get(PortInfo::neighbor_mtu) > now.get(PortInfo::mtu_cap)) return false;
  const auto supported = [&](auto enabled, auto supported_bits, unsigned all) {
    const unsigned bits = asked.get(enabled);
    return bits == all || (bits & ~unsigned{now.get(supported_bits)}) == 0;
  };
  if (!supported(PortInfo::link_width_enabled, PortInfo::link_width_supported, 0xFF)) return false;
  if (!supported(PortInfo::link_speed_enabled, PortInfo::link_speed_supported, 0x0F)) return false;
  const bool end = state.end_port(index) == index;
  const std::uint16_t lid = asked.get(PortInfo::lid), sm_lid = asked.get(PortInfo::master_sm_lid);
  return !end || (lid < 0xC000 && sm_lid < 0xC000);
}

/// Members that only exist at an end port; those of a switch's other ports stay unchanged.
void set_end(PortInfo& info, const PortInfo& asked) {
  copy_members(info, asked, PortInfo::m_key, PortInfo::gid_prefix, PortInfo::lid, PortInfo::master_sm_lid,
               PortInfo::m_key_lease_period, PortInfo::m_key_protect_bits, PortInfo::lmc, PortInfo::master_sm_sl,
               PortInfo::subnet_time_out, PortInfo::multicast_p_key_trap_suppression_enabled);
  if (asked.get(PortInfo::m_key_violations) == 0) info.set(PortInfo::m_key_violations, 0);
}

void set_link(PortInfo& info, const PortInfo& asked) {
  // Zero leaves these unchanged.
  const auto take_given = [&](auto member) {
    if (asked.get(member) != decltype(asked.get(member)){}) info.set(member, asked.get(member));
  };
  copy_members(info, asked, PortInfo::vl_high_limit, PortInfo::vl_stall_count, PortInfo::hoq_life,
               PortInfo::partition_enforcement_inbound, PortInfo::partition_enforcement_outbound,
               PortInfo::filter_raw_inbound, PortInfo::filter_raw_outbound, PortInfo::local_phy_errors,
               PortInfo::overrun_errors);
  take_given(PortInfo::link_down_default_state);
  take_given(PortInfo::neighbor_mtu);
  take_given(PortInfo::operational_vls);
  take_given(PortInfo::link_width_enabled);
  take_given(PortInfo::link_speed_enabled);
  take_given(PortInfo::link_speed_ext_enabled);
  if (info.get(PortInfo::link_width_enabled) == 0xFF)
    info.set(PortInfo::link_width_enabled, info.get(PortInfo::link_width_supported));
  if (info.get(PortInfo::link_speed_enabled) == 0x0F)
    info.set(PortInfo::link_speed_enabled, info.get(PortInfo::link_speed_supported));
  if (asked.get(PortInfo::p_key_violations) == 0) info.set(PortInfo::p_key_violations, 0);
  if (asked.get(PortInfo::q_key_violations) == 0) info.set(PortInfo::q_key_violations, 0);
}

void set_states(State& state, std::uint32_t index, const PortInfo& asked) {
  Port& port = state.port(index);
  const PortPhysicalState physical = asked.get(PortInfo::port_physical_state);
  if (physical != PortPhysicalState::no_change && physical != port.info.get(PortInfo::port_physical_state)) {
    port.info.set(PortInfo::port_physical_state, physical);
    state.retrain(index, port.node);
    return;
  }
  const PortState to = asked.get(PortInfo::port_state);
  if (to == PortState::down)
    state.retrain(index, port.node);
  else if (to != PortState::no_change)
    port.info.set(PortInfo::port_state, to);
}

std::uint16_t set_port_info(State& state, std::uint32_t index, const PortInfo& asked) {
  if (!is_valid(state, index, asked)) return status_invalid;
  Port& port = state.port(index);
  if (state.end_port(index) == index) set_end(port.info, asked);
  set_link(port.info, asked);
  if (port.number != 0) set_states(state, index, asked);
  return 0;
}

}  // namespace

std::uint16_t answer_port_info(State& state, const AgentRequest& request, MutBytes data) {
  const Port& entry = state.port(request.port);
  const Node& node = state.node_of(entry);
  // Bit 31: the subnet manager supports extended speeds.
  const std::uint32_t number = request.modifier & 0x7FFFFFFF;
  const bool own = number == 0 && !node.is_switch();
  const std::uint32_t index = own ? request.port : state.port_of(entry.node, number);
  if (index == nowhere) return status_invalid;
  if (request.set && !node.is_switch() && index != request.port) return status_invalid;
  const PortInfo asked = *PortInfo::parse(data);
  const std::uint16_t status = request.set ? set_port_info(state, index, asked) : 0;
  PortInfo out = state.port(index).info;
  out.set(PortInfo::local_port_num, entry.number);
  if (request.set && status == 0) out.set(PortInfo::client_reregister, asked.get(PortInfo::client_reregister));
  if (!request.key_fits && out.get(PortInfo::m_key_protect_bits) != 0) out.set(PortInfo::m_key, 0);
  out.emit(data);
  return status;
}

}  // namespace parley::sim::subnet
