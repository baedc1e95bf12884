// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/topology_print.hpp"

#include <utility>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/json_text.hpp"

namespace parley::mad {

using wire::mad::NodeType;

namespace {

/// The words of ibnetdiscover for a type: its name, the letter of node names, and the word before the GUID.
struct TypeWords {
  std::string_view word, letter, guid, text;
};
TypeWords words_of(NodeType type) {
  switch (type) {
    case NodeType::switch_: return {"Switch", "S", "switchguid", "switch"};
    case NodeType::channel_adapter: return {"Ca", "H", "caguid", "channel adapter"};
    case NodeType::router: return {"Rt", "R", "rtguid", "router"};
    default: return {"??", "?", "guid", "?"};
  }
}

/// The node's description. Quotes are replaced, because they would end the text.
std::string label(const Topology& topology, const TopologyNode& node) {
  std::string out = printable(topology.description(node), true);
  for (char& c : out)
    if (c == '"') c = '\'';
  return out;
}

std::string switch_line(const Topology& topology, std::uint32_t index, std::uint8_t number) {
  const TopologyPort& port = topology.port(index, number);
  const TopologyNode& peer = topology.nodes()[port.peer];
  std::string line = fmt::format("[{}]\t\"{}\"[{}]", number, node_name(peer), port.peer_port);
  if (peer.type != NodeType::switch_) line += fmt::format("({:x}) ", topology.port(port.peer, port.peer_port).guid);
  return line + fmt::format("\t\t# \"{}\" lid {} {}", label(topology, peer), topology.lid_of(port.peer, port.peer_port),
                            link_text(port));
}

std::string adapter_line(const Topology& topology, std::uint32_t index, std::uint8_t number) {
  const TopologyPort& port = topology.port(index, number);
  const TopologyNode& peer = topology.nodes()[port.peer];
  std::string line = fmt::format("[{}]({:x}) \t\"{}\"[{}]", number, port.guid, node_name(peer), port.peer_port);
  if (peer.type != NodeType::switch_) line += fmt::format(" ({:x}) ", topology.port(port.peer, port.peer_port).guid);
  return line + fmt::format("\t\t# lid {} lmc {} \"{}\" lid {} {}", port.lid, port.lmc, label(topology, peer),
                            topology.lid_of(port.peer, port.peer_port), link_text(port));
}

void print_node(const Topology& topology, std::uint32_t index, const TakeText& take) {
  const TopologyNode& node = topology.nodes()[index];
  const TypeWords words = words_of(node.type);
  const bool is_switch = node.type == NodeType::switch_;
  std::string text = fmt::format("\nvendid=0x{:x}\ndevid=0x{:x}\nsysimgguid=0x{:x}\n{}=0x{:x}", node.vendor_id,
                                 node.device_id, node.system_image_guid, words.guid, node.guid);
  if (is_switch) text += fmt::format("({:x})", node.port_guid);
  text += fmt::format("\n{}\t{} \"{}\"\t\t# \"{}\"", words.word, node.ports, node_name(node), label(topology, node));
  if (is_switch)
    text += fmt::format(" {} port 0 lid {} lmc {}", node.enhanced_port0 ? "enhanced" : "base",
                        topology.port(index, 0).lid, topology.port(index, 0).lmc);
  text += "\n";
  if (node.lost) text += "# not everything that this node was asked was answered\n";
  for (unsigned i = 1; i <= node.ports; ++i) {
    const auto number = static_cast<std::uint8_t>(i);
    const TopologyPort& port = topology.port(index, number);
    if (port.peer != no_node)
      text += (is_switch ? switch_line(topology, index, number) : adapter_line(topology, index, number)) + "\n";
    else if (port.peer_lost)
      text += fmt::format("# [{}] the node behind this port did not answer\n", number);
  }
  take(text);
}

std::string known_word(std::string_view text) {
  return text.empty() || text == "?" ? std::string("unknown") : json_word(text);
}

Json end_json(const Topology& topology, std::uint32_t node, std::uint8_t port) {
  return {{"guid", guid_text(topology.nodes()[node].guid)},
          {"name", topology.description(topology.nodes()[node])},
          {"port", port}};
}

}  // namespace

std::string node_name(const TopologyNode& node) {
  return fmt::format("{}-{:016x}", words_of(node.type).letter, node.guid);
}
std::string guid_text(std::uint64_t guid) { return fmt::format("0x{:016x}", guid); }
std::string_view type_text(NodeType type) { return words_of(type).text; }

std::string port_text(const Topology& topology, std::uint32_t node, std::uint8_t port) {
  const TopologyNode& of = topology.nodes()[node];
  return fmt::format("\"{}\" ({}) port {}", label(topology, of), node_name(of), port);
}

void print_ibnetdiscover(const Topology& topology, std::string_view head, const TakeText& take) {
  std::string text = "#\n";
  while (!head.empty()) {
    const std::size_t end = std::min(head.find('\n'), head.size());
    text += fmt::format("# {}\n", head.substr(0, end));
    head.remove_prefix(std::min(end + 1, head.size()));
  }
  take(text + "#\n");
  const auto count = static_cast<std::uint32_t>(topology.nodes().size());
  for (const bool switches : {true, false})
    for (std::uint32_t i = 0; i < count; ++i)
      if ((topology.nodes()[i].type == NodeType::switch_) == switches) print_node(topology, i, take);
}

void print_dot(const Topology& topology, const BadPort& bad, const TakeText& take) {
  take("graph subnet {\n  node [fontname=\"sans-serif\"];\n  edge [fontsize=8];\n");
  const auto& nodes = topology.nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    const bool is_switch = nodes[i].type == NodeType::switch_;
    take(fmt::format("  \"{}\" [label=\"{}\", shape={}{}];\n", node_name(nodes[i]), label(topology, nodes[i]),
                     is_switch ? "box" : "ellipse", nodes[i].lost ? ", style=dashed" : ""));
  }
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    for (unsigned p = 1; p <= nodes[i].ports; ++p) {
      const auto number = static_cast<std::uint8_t>(p);
      const TopologyPort& port = topology.port(i, number);
      if (port.peer_lost && port.peer == no_node) {
        const std::string name = fmt::format("{}.{}", node_name(nodes[i]), p);
        take(fmt::format(
            "  \"{}\" [label=\"?\", shape=plaintext];\n  \"{}\" -- \"{}\" [taillabel=\"{}\", style=dashed];\n", name,
            node_name(nodes[i]), name, p));
      }
      if (port.peer == no_node || !topology.is_first_end(i, number)) continue;
      const bool red = bad && (bad(i, number) || bad(port.peer, port.peer_port));
      take(fmt::format("  \"{}\" -- \"{}\" [taillabel=\"{}\", headlabel=\"{}\", label=\"{}\"{}];\n",
                       node_name(nodes[i]), node_name(nodes[port.peer]), p, port.peer_port, link_text(port),
                       red ? ", color=red" : ""));
    }
  }
  take("}\n");
}

Json node_json(const Topology& topology, std::uint32_t index) {
  const TopologyNode& node = topology.nodes()[index];
  const auto route = topology.route_to(index);
  const std::uint8_t own = node.type == NodeType::switch_ ? std::uint8_t{0} : node.reached_port;
  Json hops = Json::array();
  if (route)
    for (const std::uint8_t port : route->path()) hops.push_back(port);
  return {{"event", "node"},
          {"guid", guid_text(node.guid)},
          {"type", node.type > NodeType::router ? std::string("unknown") : json_word(type_text(node.type))},
          {"name", topology.description(node)},
          {"system_image_guid", guid_text(node.system_image_guid)},
          {"port_guid", guid_text(node.port_guid)},
          {"vendor_id", fmt::format("0x{:06x}", node.vendor_id)},
          {"device_id", fmt::format("0x{:04x}", node.device_id)},
          {"ports", node.ports},
          {"lid", topology.port(index, std::min(own, node.ports)).lid},
          {"route", std::move(hops)},
          {"complete", !node.lost}};
}

void each_link_json(const Topology& topology, const std::function<void(Json)>& take) {
  const auto& nodes = topology.nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    for (unsigned p = 1; p <= nodes[i].ports; ++p) {
      const auto number = static_cast<std::uint8_t>(p);
      const TopologyPort& port = topology.port(i, number);
      const bool lost = port.peer == no_node && port.peer_lost;
      if (!lost && (port.peer == no_node || !topology.is_first_end(i, number))) continue;
      take({{"event", "link"},
            {"from", end_json(topology, i, number)},
            {"to", lost ? Json() : end_json(topology, port.peer, port.peer_port)},
            {"width", known_word(width_text(port.width_active))},
            {"speed", known_word(speed_text(port))},
            {"state", known_word(wire::mad::name_of(wire::mad::Kind::port_state, port.state))}});
    }
  }
}

}  // namespace parley::mad
