// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parts of the subnet management agent.
#pragma once
#include "sim/subnet/sma.hpp"

namespace parley::sim::subnet {

std::uint16_t answer_port_info(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_switch_info(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_linear_fdb(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_multicast_fdb(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_p_keys(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_sl_to_vl(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_vl_arbitration(State& state, const AgentRequest& request, MutBytes data);
std::uint16_t answer_guid_info(State& state, const AgentRequest& request, MutBytes data);

}  // namespace parley::sim::subnet
