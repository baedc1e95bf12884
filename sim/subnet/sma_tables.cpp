// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/sma_impl.hpp"

namespace parley::sim::subnet {

namespace {

constexpr std::size_t block_octets = 64;

/// Returns or sets a block of a table; `used` octets of it exist, the rest is zero.
std::uint16_t answer_block(State& state, const AgentRequest& request, State::Table table, std::uint32_t port,
                           std::uint8_t block, std::size_t used, MutBytes data) {
  if (request.set) {
    State::Block octets{};
    std::copy_n(data.begin(), used, octets.begin());
    state.write_table(table, port, block, octets);
  }
  const State::Block octets = state.read_table(table, port, block);
  std::fill(std::copy_n(octets.begin(), used, data.begin()), data.end(), std::uint8_t{0});
  return 0;
}

/// The port in a modifier; for channel adapters always the ingress port of the request.
std::uint32_t named_port(const State& state, const AgentRequest& request, std::uint32_t number) {
  const Port& entry = state.port(request.port);
  return state.node_of(entry).is_switch() ? state.port_of(entry.node, number) : request.port;
}

}  // namespace

std::uint16_t answer_switch_info(State& state, const AgentRequest& request, MutBytes data) {
  Node& node = state.node_of(state.port(request.port));
  if (!node.is_switch()) return status_unsupported_attribute;
  SwitchInfo& info = node.switch_info;
  if (request.set) {
    const SwitchInfo asked = *SwitchInfo::parse(data);
    if (asked.get(SwitchInfo::linear_fdb_top) >= linear_fdb_cap) return status_invalid;
    copy_members(info, asked, SwitchInfo::linear_fdb_top, SwitchInfo::default_port,
                 SwitchInfo::default_multicast_primary_port, SwitchInfo::default_multicast_not_primary_port,
                 SwitchInfo::life_time_value, SwitchInfo::multicast_fdb_top);
    if (asked.get(SwitchInfo::port_state_change))
      node.port_state_change = false;  // IBA §14.2.5.4: writing a one
                                       // clears it
  }
  SwitchInfo out = info;
  out.set(SwitchInfo::port_state_change, node.port_state_change);
  put(data, out);
  return 0;
}

std::uint16_t answer_linear_fdb(State& state, const AgentRequest& request, MutBytes data) {
  Node& node = state.node_of(state.port(request.port));
  if (!node.is_switch()) return status_unsupported_attribute;
  if (request.modifier >= linear_fdb_cap / block_octets) return status_invalid;
  const std::size_t begin = request.modifier * block_octets, end = begin + block_octets;
  std::vector<std::uint8_t>& table = node.linear_fdb;
  if (request.set) {
    if (table.size() < end) table.resize(end, 0xFF);
    std::copy_n(data.begin(), block_octets, table.begin() + static_cast<std::ptrdiff_t>(begin));
  } else if (table.size() < end) {
    std::fill(data.begin(), data.end(), std::uint8_t{0xFF});
  } else {
    std::copy_n(table.begin() + static_cast<std::ptrdiff_t>(begin), block_octets, data.begin());
  }
  return 0;
}

std::uint16_t answer_multicast_fdb(State& state, const AgentRequest& request, MutBytes data) {
  Node& node = state.node_of(state.port(request.port));
  if (!node.is_switch()) return status_unsupported_attribute;
  constexpr std::size_t masks = block_octets / 2;
  const std::size_t positions = node.ports / 16U + 1U;
  const std::size_t position = request.modifier >> 28, block = request.modifier & 0x1FF;  // IBA §14.2.5.12
  if (block >= multicast_fdb_cap / masks) return status_invalid;
  if (position >= positions) {
    std::fill(data.begin(), data.end(), std::uint8_t{0});
    return 0;
  }
  const std::size_t begin = (block * positions + position) * masks;
  std::vector<std::uint16_t>& table = node.multicast_fdb;
  if (request.set && table.size() < begin + masks) table.resize(begin + masks);
  for (std::size_t i = 0; i < masks; ++i) {
    if (request.set) table[begin + i] = static_cast<std::uint16_t>(read_bits(data, i * 16, 16));
    write_bits(data, i * 16, 16, begin + i < table.size() ? table[begin + i] : 0U);
  }
  return 0;
}

std::uint16_t answer_p_keys(State& state, const AgentRequest& request, MutBytes data) {
  const std::uint32_t block = request.modifier & 0xFFFF;
  const std::uint32_t port = named_port(state, request, request.modifier >> 16);
  if (port == nowhere) return status_invalid;
  const std::size_t keys = state.port(port).number == 0 ? switch_p_keys_max : p_keys_max;
  if (block * block_octets / 2 >= keys) return status_invalid;
  return answer_block(state, request, State::Table::p_keys, port, static_cast<std::uint8_t>(block), block_octets, data);
}

std::uint16_t answer_sl_to_vl(State& state, const AgentRequest& request, MutBytes data) {
  const std::uint32_t in = request.modifier >> 8 & 0xFF, out = request.modifier & 0xFF;
  const bool is_switch = state.node_of(state.port(request.port)).is_switch();
  const std::uint32_t port = named_port(state, request, out);
  if (port == nowhere || (is_switch && named_port(state, request, in) == nowhere)) return status_invalid;
  return answer_block(state, request, State::Table::sl_to_vl, port, is_switch ? static_cast<std::uint8_t>(in) : 0, 8,
                      data);
}

std::uint16_t answer_vl_arbitration(State& state, const AgentRequest& request, MutBytes data) {
  // IBA §14.2.5.9: blocks 1 and 2 belong to the low table, 3 and 4 to the high one; each table has eight entries here, so
  // one block.
  const std::uint32_t block = request.modifier >> 16;
  const std::uint32_t port = named_port(state, request, request.modifier & 0xFFFF);
  if (port == nowhere || (block != 1 && block != 3)) return status_invalid;
  return answer_block(state, request, State::Table::vl_arbitration, port, static_cast<std::uint8_t>(block), 16, data);
}

std::uint16_t answer_guid_info(State& state, const AgentRequest& request, MutBytes data) {
  const std::uint32_t port = state.end_port(request.port);
  const std::uint32_t blocks = (state.port(port).info.get(PortInfo::guid_cap) + 7U) / 8U;
  if (request.modifier >= blocks) return status_invalid;
  const auto status = answer_block(state, request, State::Table::guids, port,
                                   static_cast<std::uint8_t>(request.modifier), block_octets, data);
  if (request.modifier == 0)
    write_bits(data, 0, 64, state.port_guid(state.port(port)));  // the first one is assigned by the manufacturer
  return status;
}

}  // namespace parley::sim::subnet
