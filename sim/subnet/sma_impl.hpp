// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parts of the agents.
#pragma once
#include "sim/subnet/sma.hpp"

namespace parley::sim::subnet {

/// The attribute, padded with zeros.
template <class Info>
void put(MutBytes data, const Info& info) {
  std::fill(data.begin(), data.end(), std::uint8_t{0});
  info.emit(data);
}
template <class Info, class... Members>
void copy_members(Info& to, const Info& from, Members... members) {
  (to.set(members, from.get(members)), ...);
}

std::uint16_t answer_port_info(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_switch_info(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_linear_fdb(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_multicast_fdb(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_p_keys(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_sl_to_vl(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_vl_arbitration(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_guid_info(State& state, const AgentRequest& request, MutBytes data);

}  // namespace parley::sim::subnet
