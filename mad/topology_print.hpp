// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A topology as text: in the format of ibnetdiscover, as a graph for Graphviz, and as JSON. Each function passes its
// document in pieces to `take`.
#pragma once
#include <functional>

#include "base/json.hpp"
#include "mad/topology.hpp"

namespace parley::mad {

using TakeText = std::function<void(std::string_view)>;

/// Each node with its linked ports, in the order of the discovery; switches come first. The lines of `head` are
/// comments at the top. A comment at a node or in place of a port says that there was no answer.
void print_ibnetdiscover(const Topology& topology, std::string_view head, const TakeText& take);
/// An undirected graph. Nodes and links without an answer are dashed. Links for which `bad` returns true are red.
using BadPort = std::function<bool(std::uint32_t node, std::uint8_t port)>;
void print_dot(const Topology& topology, const BadPort& bad, const TakeText& take);

/// {"event": "node", ...}; its ports are in the links.
Json node_json(const Topology& topology, std::uint32_t node);
/// {"event": "link", ...} for each link once, and for each port whose peer did not answer.
void each_link_json(const Topology& topology, const std::function<void(Json)>& take);

/// "S-0000000000200003", as ibnetdiscover names nodes.
std::string node_name(const TopologyNode& node);
/// "0x0000000000200003"
std::string guid_text(std::uint64_t guid);
/// "switch", "channel adapter", "router"; otherwise "?".
std::string_view type_text(wire::mad::NodeType type);
/// "\"L00003\" (S-0000000000200003) port 4", for messages.
std::string port_text(const Topology& topology, std::uint32_t node, std::uint8_t port);

}  // namespace parley::mad
