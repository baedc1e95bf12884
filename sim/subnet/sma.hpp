// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The agents of every node: subnet management (IBA §14) and performance management (IBA §16.1). They answer at once;
// changes that others notice are in State::take_changed().
#pragma once
#include "sim/subnet/state.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::sim::subnet {

/// A Get or Set that has arrived at a node.
struct AgentRequest {
  std::uint32_t port;  ///< ingress port
  bool set;
  bool key_fits;  ///< its M_Key matches the port's
  std::uint16_t attribute;
  std::uint32_t modifier;
};
inline constexpr std::uint16_t status_unsupported_method = 0x08;
inline constexpr std::uint16_t status_unsupported_attribute = 0x0C;
inline constexpr std::uint16_t status_invalid = 0x1C;

/// Whether the M_Key permits access (IBA §14.2.4.1).
struct KeyCheck {
  bool allowed, fits;
};
KeyCheck check_m_key(const State& state, std::uint32_t port, bool set, std::uint64_t key);

/// `data`: the 64 octets of the attribute, replaced by those of the answer. Returns the status of the answer.
std::uint16_t answer_subn(State& state, const AgentRequest& request, MutBytes data);
/// `data`: the 192 octets of the attribute.
std::uint16_t answer_perf(State& state, const AgentRequest& request, MutBytes data);

}  // namespace parley::sim::subnet
