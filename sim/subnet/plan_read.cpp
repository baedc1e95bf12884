// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <charconv>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "sim/subnet/plan.hpp"

namespace parley::sim::subnet {

namespace {

using Text = std::string_view;
using Taken = tl::expected<void, std::string>;

tl::unexpected<std::string> wrong(std::string text) { return tl::unexpected(std::move(text)); }

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
void skip_blanks(Text& text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

/// Decimal, or hexadecimal after 0x or if `base` is 16.
bool parse_number(Text& text, std::uint64_t& value, int base = 10) {
  if (text.starts_with("0x") || text.starts_with("0X")) {
    text.remove_prefix(2);
    base = 16;
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// "name"
bool parse_quoted(Text& text, std::string& value) {
  skip_blanks(text);
  if (!text.starts_with('"')) return false;
  const std::size_t end = text.find('"', 1);
  if (end == text.npos) return false;
  value = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  return true;
}

/// The number after the first unquoted `word` of a comment: "lid 5".
bool find_number(Text comment, Text word, std::uint64_t& value) {
  bool quoted = false;
  for (std::size_t i = 0; i < comment.size(); ++i) {
    if (comment[i] == '"') quoted = !quoted;
    if (quoted || !comment.substr(i).starts_with(word) || (i > 0 && !is_blank(comment[i - 1]))) continue;
    Text rest = comment.substr(i + word.size());
    skip_blanks(rest);
    return parse_number(rest, value);
  }
  return false;
}

struct LinkSpeed {
  Text text;
  std::uint8_t speeds, speeds_ext;
};
constexpr LinkSpeed link_speeds[] = {{"SDR", 1, 0}, {"DDR", 3, 0}, {"QDR", 7, 0}, {"FDR10", 7, 0},
                                     {"FDR", 7, 1}, {"EDR", 7, 3}, {"HDR", 7, 7}, {"NDR", 7, 15}};
struct LinkWidth {
  unsigned lanes;
  std::uint8_t widths;
};
constexpr LinkWidth link_widths[] = {{1, 1}, {2, 16}, {4, 3}, {8, 4}, {12, 11}};

/// "4xQDR", the last word of ibnetdiscover's comments.
Taken parse_rate(Text comment, PlanPort& port) {
  while (!comment.empty() && is_blank(comment.back())) comment.remove_suffix(1);
  Text word = comment.substr(comment.find_last_of(" \t\"") + 1);
  std::uint64_t lanes = 0;
  Text rest = word;
  if (!parse_number(rest, lanes) || !rest.starts_with('x')) return {};
  rest.remove_prefix(1);
  const LinkWidth* width = nullptr;
  for (const LinkWidth& row : link_widths)
    if (row.lanes == lanes) width = &row;
  const LinkSpeed* speed = nullptr;
  for (const LinkSpeed& row : link_speeds)
    if (row.text == rest) speed = &row;
  if (width == nullptr || speed == nullptr)
    return wrong(fmt::format("'{}' is not a width and speed of a link", printable(word, false)));
  port.widths = width->widths;
  port.speeds = speed->speeds;
  port.speeds_ext = speed->speeds_ext;
  return {};
}

struct Reference {
  std::uint32_t node;
  std::uint8_t port, peer_port;
  std::string peer;
  std::size_t line;
};

class PlanReader {
 public:
  Planned<Plan> read(Text text);

 private:
  Taken parse_line(Text line);
  Taken parse_assignment(Text name, Text value);
  Taken parse_node(Text line, NodeType type);
  void parse_node_comment(Text comment, PlanNode& node);
  Taken parse_port(Text line);
  Taken parse_peer(Text& line, Reference& reference, PlanNode& node);
  Taken parse_options(Text options, PlanPort& port);
  Taken link(const Reference& reference);

  Plan plan_;
  std::vector<Reference> references_;
  std::unordered_map<std::string, std::uint32_t> names_;
  std::unordered_map<std::uint64_t, std::uint32_t> guids_;
  std::uint64_t next_guid_[4] = {0, 0x100000, 0x200000, 0x300000};
  std::uint64_t system_guid_ = 0;
  std::uint32_t vendor_ = 0, device_ = 0;
  PlanPort fresh_;  ///< template for ports of the following nodes
  bool in_node_ = false;
  std::size_t line_ = 0;
};

Planned<Plan> PlanReader::read(Text text) {
  while (!text.empty()) {
    ++line_;
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto taken = parse_line(text.substr(0, end)); !taken) return tl::unexpected(PlanError{line_, taken.error()});
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  for (const Reference& reference : references_)
    if (auto taken = link(reference); !taken) return tl::unexpected(PlanError{reference.line, taken.error()});
  if (plan_.nodes.empty()) return tl::unexpected(PlanError{0, "there are no nodes"});
  return std::move(plan_);
}

Taken PlanReader::parse_line(Text line) {
  skip_blanks(line);
  while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
  if (line.empty()) {
    in_node_ = false;
    return {};
  }
  if (line.front() == '#') return {};
  if (line.front() == '[') return parse_port(line);
  if (line.front() == '@') return wrong("aliases are not read");
  constexpr std::pair<Text, NodeType> kinds[] = {{"Switch", NodeType::switch_},
                                                 {"Hca", NodeType::channel_adapter},
                                                 {"Ca", NodeType::channel_adapter},
                                                 {"Rt", NodeType::router}};
  for (const auto& [word, type] : kinds)
    if (line.starts_with(word) && line.size() > word.size() && is_blank(line[word.size()]))
      return parse_node(line.substr(word.size()), type);
  const std::size_t sign = line.find_first_of("=+");
  if (sign == line.npos)
    return wrong(
        fmt::format("'{}' does not start a node, port, assignment or comment", printable(line.substr(0, 40), false)));
  return parse_assignment(line.substr(0, sign), line.substr(sign + 1));
}

Taken PlanReader::parse_assignment(Text name, Text value) {
  while (!name.empty() && is_blank(name.back())) name.remove_suffix(1);
  skip_blanks(value);
  std::uint64_t number = 0;
  if (!parse_number(value, number)) return wrong(fmt::format("{} has no number", printable(name, false)));
  const auto guid_of = [&](NodeType type) -> Taken {
    next_guid_[static_cast<unsigned>(type)] = number;
    return {};
  };
  if (name == "switchguid") return guid_of(NodeType::switch_);
  if (name == "caguid" || name == "hcaguids") return guid_of(NodeType::channel_adapter);
  if (name == "rtguid") return guid_of(NodeType::router);
  if (name == "vendid" && number <= 0xFFFFFF) return vendor_ = static_cast<std::uint32_t>(number), Taken();
  if (name == "devid" && number <= 0xFFFF) return device_ = static_cast<std::uint32_t>(number), Taken();
  if (name == "sysimgguid") return system_guid_ = number, Taken();
  if (name == "width" && number >= 1 && number <= 31) return fresh_.widths = static_cast<std::uint8_t>(number), Taken();
  if (name == "speed" && number >= 1 && number <= 7) return fresh_.speeds = static_cast<std::uint8_t>(number), Taken();
  if (name == "extspeed" && number <= 15) return fresh_.speeds_ext = static_cast<std::uint8_t>(number), Taken();
  return wrong(fmt::format("'{}' cannot be set to {}", printable(name, false), number));
}

Taken PlanReader::parse_node(Text line, NodeType type) {
  std::uint64_t ports = 0;
  skip_blanks(line);
  PlanNode node{.type = type, .line = line_};
  if (!parse_number(line, ports) || ports < 1 || ports > ports_max)
    return wrong(fmt::format("a node has 1 to {} ports", ports_max));
  if (!parse_quoted(line, node.name) || node.name.empty() || node.name.size() > name_max)
    return wrong(
        fmt::format("the number of ports must be followed by the node's name in quotes, 1 to {} octets", name_max));
  if (const auto known = names_.find(node.name); known != names_.end())
    return wrong(fmt::format("the node '{}' is already in line {}", printable(node.name, false),
                             plan_.nodes[known->second].line));
  if (plan_.nodes.size() >= nodes_max) return wrong(fmt::format("more than {} nodes", nodes_max));
  node.description = node.name;
  node.ports.assign(ports, fresh_);
  node.vendor = std::exchange(vendor_, 0);
  node.device = device_;
  std::uint64_t& next = next_guid_[static_cast<unsigned>(type)];
  node.guid = next;
  next += type == NodeType::switch_ ? 1 : ports + 1;
  const std::uint64_t system = std::exchange(system_guid_, 0);
  node.system_guid = system == 0 ? node.guid : system;
  const auto index = static_cast<std::uint32_t>(plan_.nodes.size());
  if (const auto [other, fresh] = guids_.emplace(node.guid, index); !fresh)
    return wrong(fmt::format("the GUID {:#x} belongs to '{}' in line {}", node.guid,
                             printable(plan_.nodes[other->second].name, false), plan_.nodes[other->second].line));
  if (const std::size_t comment = line.find('#'); comment != line.npos)
    parse_node_comment(line.substr(comment + 1), node);
  names_.emplace(node.name, index);
  plan_.nodes.push_back(std::move(node));
  in_node_ = true;
  return {};
}

void PlanReader::parse_node_comment(Text comment, PlanNode& node) {
  Text rest = comment;
  std::string description;
  if (parse_quoted(rest, description) && !description.empty()) node.description = description.substr(0, name_max);
  node.enhanced_port0 = rest.find("enhanced port 0") != rest.npos;
  std::uint64_t number = 0;
  if (node.type != NodeType::switch_) return;
  if (find_number(rest, "lid", number) && number < 0xC000) node.lid = static_cast<std::uint16_t>(number);
  if (find_number(rest, "lmc", number) && number < 8) node.lmc = static_cast<std::uint8_t>(number);
}

Taken PlanReader::parse_port(Text line) {
  if (!in_node_) return wrong("a port outside a node");
  PlanNode& node = plan_.nodes.back();
  std::uint64_t number = 0;
  line.remove_prefix(1);
  if (!parse_number(line, number) || !line.starts_with(']')) return wrong("a port's number must be in [ ]");
  if (number < 1 || number > node.ports.size())
    return wrong(
        fmt::format("'{}' has ports 1 to {}, and no port {}", printable(node.name, false), node.ports.size(), number));
  line.remove_prefix(1);
  PlanPort& port = node.ports[number - 1];
  if (port.line != 0)
    return wrong(fmt::format("port {} of '{}' is already in line {}", number, printable(node.name, false), port.line));
  port.line = line_;
  if (line.starts_with('(')) {
    line.remove_prefix(1);
    if (!parse_number(line, port.guid, 16) || !line.starts_with(')'))
      return wrong("( ) after a port must contain its GUID");
    line.remove_prefix(1);
  }
  Reference reference{
      static_cast<std::uint32_t>(plan_.nodes.size() - 1), static_cast<std::uint8_t>(number), 1, {}, line_};
  if (auto taken = parse_peer(line, reference, node); !taken) return taken;
  references_.push_back(std::move(reference));
  const std::size_t comment = std::min(line.find('#'), line.size());
  if (auto taken = parse_options(line.substr(0, comment), port); !taken) return taken;
  if (comment == line.size()) return {};
  line.remove_prefix(comment + 1);
  if (node.type != NodeType::switch_) {
    std::uint64_t lid = 0, lmc = 0;
    if (find_number(line, "lid", lid) && find_number(line, "lmc", lmc) && lid < 0xC000 && lmc < 8) {
      port.lid = static_cast<std::uint16_t>(lid);
      port.lmc = static_cast<std::uint8_t>(lmc);
    }
  }
  return parse_rate(line, port);
}

Taken PlanReader::parse_peer(Text& line, Reference& reference, PlanNode& node) {
  if (!parse_quoted(line, reference.peer) || reference.peer.empty())
    return wrong(fmt::format("port {} of '{}' must be followed by the node at the other end in quotes", reference.port,
                             printable(node.name, false)));
  std::uint64_t number = 1;
  if (line.starts_with('[')) {
    line.remove_prefix(1);
    if (!parse_number(line, number) || !line.starts_with(']') || number < 1 || number > ports_max)
      return wrong(fmt::format("the port at the other end must be a number from 1 to {} in [ ]", ports_max));
    line.remove_prefix(1);
  }
  reference.peer_port = static_cast<std::uint8_t>(number);
  if (line.starts_with('(')) line.remove_prefix(std::min(line.find(')'), line.size() - 1) + 1);
  return {};
}

Taken PlanReader::parse_options(Text options, PlanPort& port) {
  for (skip_blanks(options); !options.empty(); skip_blanks(options)) {
    const char name = options.front();
    std::uint64_t value = 0;
    if (options.size() < 3 || options[1] != '=')
      return wrong("only w=, s= and e= with a number may follow the other end");
    options.remove_prefix(2);
    if (!parse_number(options, value)) return wrong(fmt::format("{}= has no number", name));
    if (name == 'w' && value >= 1 && value <= 31)
      port.widths = static_cast<std::uint8_t>(value);
    else if (name == 's' && value <= 7)
      port.speeds = static_cast<std::uint8_t>(value == 0 ? 4 : value);
    else if (name == 'e' && value <= 15)
      port.speeds_ext = static_cast<std::uint8_t>(value);
    else
      return wrong(fmt::format("{}={} is out of range", name, value));
  }
  return {};
}

Taken PlanReader::link(const Reference& reference) {
  PlanNode& node = plan_.nodes[reference.node];
  PlanPort& port = node.ports[reference.port - 1U];
  const auto found = names_.find(reference.peer);
  if (found == names_.end()) return wrong(fmt::format("there is no node '{}'", printable(reference.peer, false)));
  PlanNode& peer = plan_.nodes[found->second];
  if (reference.peer_port > peer.ports.size())
    return wrong(fmt::format("'{}' has ports 1 to {}, and no port {}", printable(peer.name, false), peer.ports.size(),
                             reference.peer_port));
  PlanPort& other = peer.ports[reference.peer_port - 1U];
  if (&other == &port)
    return wrong(fmt::format("port {} of '{}' is linked to itself", reference.port, printable(node.name, false)));
  if (port.peer == found->second && port.peer_port == reference.peer_port) return {};  // set by the other end
  const auto twice = [&](const PlanNode& of, std::size_t number, const PlanPort& linked) {
    return wrong(fmt::format("port {} of '{}' is already linked to port {} of '{}'", number, printable(of.name, false),
                             linked.peer_port, printable(plan_.nodes[linked.peer].name, false)));
  };
  if (port.peer != nowhere) return twice(node, reference.port, port);
  if (other.peer != nowhere) return twice(peer, reference.peer_port, other);
  port.peer = found->second;
  port.peer_port = reference.peer_port;
  other.peer = reference.node;
  other.peer_port = reference.port;
  return {};
}

}  // namespace

Planned<Plan> read_plan(std::string_view text) { return PlanReader().read(text); }

}  // namespace parley::sim::subnet
