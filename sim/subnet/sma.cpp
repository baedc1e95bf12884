// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/sma.hpp"

#include "sim/subnet/sma_impl.hpp"

namespace parley::sim::subnet {

namespace {

using namespace wire::mad;

std::uint16_t answer_node_info(const State& state, const AgentRequest& request, MutBytes data) {
  if (request.set) return status_unsupported_attribute;
  const Port& port = state.port(request.port);
  const Node& node = state.node_of(port);
  NodeInfo info;
  info.set(NodeInfo::base_version, 1).set(NodeInfo::class_version, 1).set(NodeInfo::node_type, node.type);
  info.set(NodeInfo::num_ports, node.ports).set(NodeInfo::system_image_guid, node.plan->system_guid);
  info.set(NodeInfo::node_guid, node.plan->guid).set(NodeInfo::port_guid, state.port_guid(port));
  info.set(NodeInfo::partition_cap, node.is_switch() ? switch_p_keys_max : p_keys_max);
  info.set(NodeInfo::device_id, static_cast<std::uint16_t>(node.plan->device)).set(NodeInfo::revision, 0xA1);
  info.set(NodeInfo::local_port_num, port.number).set(NodeInfo::vendor_id, node.plan->vendor);
  put(data, info);
  return 0;
}

std::uint16_t answer_node_description(const State& state, const AgentRequest& request, MutBytes data) {
  if (request.set) return status_unsupported_attribute;
  put(data,
      NodeDescription{}.set(NodeDescription::node_string, state.node_of(state.port(request.port)).plan->description));
  return 0;
}

/// IBA §14.2.5.14: there is nothing to diagnose.
std::uint16_t answer_vendor_diag(const AgentRequest& request, MutBytes data) {
  if (request.set) return status_unsupported_attribute;
  put(data, VendorDiag{});
  return 0;
}

}  // namespace

KeyCheck check_m_key(const State& state, std::uint32_t port, bool set, std::uint64_t key) {
  const PortInfo& info = state.port(state.end_port(port)).info;
  const std::uint64_t own = info.get(PortInfo::m_key);
  if (own == 0 || key == own) return {true, true};
  return {!set && info.get(PortInfo::m_key_protect_bits) < 2, false};
}

std::uint16_t answer_subn(State& state, const AgentRequest& request, MutBytes data) {
  switch (request.attribute) {
    case NodeDescription::attribute: return answer_node_description(state, request, data);
    case NodeInfo::attribute: return answer_node_info(state, request, data);
    case SwitchInfo::attribute: return answer_switch_info(state, request, data);
    case GuidInfo::attribute: return answer_guid_info(state, request, data);
    case PortInfo::attribute: return answer_port_info(state, request, data);
    case PKeyTable::attribute: return answer_p_keys(state, request, data);
    case SlToVlMappingTable::attribute: return answer_sl_to_vl(state, request, data);
    case VlArbitrationTable::attribute: return answer_vl_arbitration(state, request, data);
    case LinearForwardingTable::attribute: return answer_linear_fdb(state, request, data);
    case MulticastForwardingTable::attribute: return answer_multicast_fdb(state, request, data);
    case VendorDiag::attribute: return answer_vendor_diag(request, data);
    default: return status_unsupported_attribute;
  }
}

}  // namespace parley::sim::subnet
