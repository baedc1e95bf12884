// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/topology_html.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/ladder_page.hpp"
#include "mad/topology_print.hpp"
#include "tools/searchable_page.hpp"

namespace parley::tools {

namespace {

using mad::no_node;
using mad::Topology;
using mad::TopologyNode;
using mad::TopologyPort;
using wire::mad::NodeType;

class Page {
 public:
  Page(const DiscoveredSubnet& subnet, const std::vector<mad::TopologyFinding>& findings,
       const std::function<void(std::string_view)>& take)
      : subnet_(subnet), topology_(subnet.found.topology), findings_(findings), take_(take) {
    for (const mad::TopologyFinding& finding : findings) {
      note(finding.node, finding.port, finding.text);
      const TopologyPort& port = topology_.port(finding.node, finding.port);
      if (finding.port != 0 && port.peer != no_node) note(port.peer, port.peer_port, finding.text);
    }
  }

  void write(const draw::Provenance& report) {
    head();
    map();
    take_("<h2>Switches</h2>\n");
    each(NodeType::switch_, [this](std::uint32_t i) { switch_part(i); });
    take_(
        "<h2>Channel adapters and routers</h2>\n<table><tr><th>name<th>GUID<th>port<th>LID<th>linked "
        "to<th>link<th>state<th></tr>\n");
    for (const NodeType type : {NodeType::channel_adapter, NodeType::router})
      each(type, [this](std::uint32_t i) { adapter_rows(i); });
    take_("</table>\n");
    take_(draw::footer_html(report));
    take_(fmt::format("<script>{}</script>\n</html>\n", searchable_script));
  }

 private:
  using Key = std::pair<std::uint32_t, std::uint8_t>;

  void note(std::uint32_t node, std::uint8_t port, const std::string& text) {
    std::string& all = why_[{node, port}];
    all += (all.empty() ? "" : "; ") + text;
  }
  bool is_bad(std::uint32_t node) const {
    const auto first = why_.lower_bound({node, 0});
    return first != why_.end() && first->first.first == node;
  }
  std::string why(std::uint32_t node, std::uint8_t port) const {
    const auto found = why_.find({node, port});
    return found != why_.end() ? found->second : std::string();
  }
  template <class Take>
  void each(NodeType type, const Take& take) const {
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i)
      if (topology_.nodes()[i].type == type) take(i);
  }
  std::string name(std::uint32_t node) const {
    const std::string_view text = topology_.description(topology_.nodes()[node]);
    return html_text(text.empty() ? mad::node_name(topology_.nodes()[node]) : text);
  }

  void head() {
    const bool whole = subnet_.cut_by.empty();
    const auto doubts = doubts_about(subnet_);
    const bool good = whole && findings_.empty() && doubts.empty();
    const std::string_view badge =
        !whole ? "partial" : (good ? "no findings" : (findings_.empty() ? "doubtful" : "findings"));
    take_(
        fmt::format("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                    "content=\"width=device-width\"><title>InfiniBand subnet</title>\n<style>{}{}</style>\n",
                    draw::ladder_style, searchable_style));
    take_(
        fmt::format("<div class=\"top\"><h1>InfiniBand subnet</h1><span class=\"badge {}\">{}</span></div>\n<p "
                    "class=\"sub\">{}</p>\n",
                    good ? "good" : (whole && !findings_.empty() ? "bad" : "warn"), badge, summary_text(topology_)));
    if (!whole) take_(fmt::format("<div class=\"doubts\">Not the whole subnet: {}</div>\n", html_text(subnet_.cut_by)));
    for (const std::string& doubt : doubts) take_(fmt::format("<div class=\"doubts\">{}</div>\n", html_text(doubt)));
    if (!findings_.empty()) {
      take_("<div class=\"broken\">What is wrong<ul>\n");
      for (const mad::TopologyFinding& finding : findings_)
        take_(fmt::format("<li><a href=\"#n{}\">{}</a>: {}\n", finding.node,
                          html_text(mad::port_text(topology_, finding.node, finding.port)), html_text(finding.text)));
      take_("</ul></div>\n");
    }
    take_(
        "<div class=\"tools\"><input type=\"search\" id=\"find\" placeholder=\"name, GUID, LID\" aria-label=\"Search "
        "nodes\">"
        "<label><input type=\"checkbox\" id=\"only\">only with findings</label><output></output></div>\n");
  }

  /// Distance of each switch from the nearest node that is not a switch. Switches without such a node are drawn at the
  /// top.
  std::vector<std::size_t> levels() const {
    std::vector<std::size_t> level(topology_.nodes().size(), 0);
    std::vector<std::uint32_t> now, next;
    std::vector<bool> seen(topology_.nodes().size());
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i)
      if (topology_.nodes()[i].type != NodeType::switch_) seen[i] = true, now.push_back(i);
    std::size_t depth = 0;
    for (; !now.empty(); now.swap(next), next.clear(), ++depth)
      for (const std::uint32_t node : now) {
        level[node] = depth;
        for (const TopologyPort& port : topology_.ports_of(topology_.nodes()[node]))
          if (port.peer != no_node && !seen[port.peer]) seen[port.peer] = true, next.push_back(port.peer);
      }
    for (std::size_t i = 0; i < level.size(); ++i)
      if (!seen[i]) level[i] = depth;
    return level;
  }

  void map() {
    const std::size_t switches = topology_.count(NodeType::switch_);
    if (switches == 0) return;
    if (switches > drawn_switches_max)
      return take_(fmt::format("<p class=\"sub\">More than {} switches are not drawn.</p>\n", drawn_switches_max));
    constexpr std::size_t wide = 86, high = 90;
    std::map<std::size_t, std::vector<std::uint32_t>, std::greater<>> rows;
    const auto level = levels();
    each(NodeType::switch_, [&](std::uint32_t i) { rows[level[i]].push_back(i); });
    std::size_t most = 0;
    for (auto& [depth, row] : rows) {
      std::sort(row.begin(), row.end(), [&](std::uint32_t a, std::uint32_t b) {
        return topology_.description(topology_.nodes()[a]) < topology_.description(topology_.nodes()[b]);
      });
      most = std::max(most, row.size());
    }
    std::map<std::uint32_t, std::pair<std::size_t, std::size_t>> at;
    std::size_t y = 24;
    for (const auto& [depth, row] : rows) {
      for (std::size_t i = 0; i < row.size(); ++i) at[row[i]] = {(2 * i + 1) * wide * most / (2 * row.size()), y};
      y += high;
    }
    take_(
        fmt::format("<svg class=\"map\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"switches and their links\">\n",
                    most * wide, y - high + 24));
    draw_links(at);
    for (const auto& [node, place] : at) draw_switch(node, place.first, place.second);
    take_("</svg>\n");
  }

  void draw_links(const std::map<std::uint32_t, std::pair<std::size_t, std::size_t>>& at) {
    struct Trunk {
      std::size_t links = 0;
      bool bad = false;
    };
    std::map<std::pair<std::uint32_t, std::uint32_t>, Trunk> trunks;
    for (const auto& [node, place] : at)
      for (unsigned p = 1; p <= topology_.nodes()[node].ports; ++p) {
        const TopologyPort& port = topology_.port(node, static_cast<std::uint8_t>(p));
        if (port.peer == no_node || !at.contains(port.peer) || port.peer < node) continue;
        Trunk& trunk = trunks[{node, port.peer}];
        ++trunk.links;
        trunk.bad = trunk.bad || why_.contains({node, static_cast<std::uint8_t>(p)});
      }
    for (const auto& [ends, trunk] : trunks) {
      const auto& [x1, y1] = at.at(ends.first);
      const auto& [x2, y2] = at.at(ends.second);
      take_(fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}><title>{} - {}: {}</title></line>\n", x1, y1,
                        x2, y2, trunk.bad ? " class=\"bad\"" : "", name(ends.first), name(ends.second),
                        counted(trunk.links, "link")));
    }
  }

  void draw_switch(std::uint32_t node, std::size_t x, std::size_t y) {
    std::size_t adapters = 0;
    for (const TopologyPort& port : topology_.ports_of(topology_.nodes()[node]))
      if (port.peer != no_node && topology_.nodes()[port.peer].type != NodeType::switch_) ++adapters;
    const std::string text = html_text(clip(std::string(topology_.description(topology_.nodes()[node])), 12));
    take_(
        fmt::format("<a href=\"#n{}\"{}><rect x=\"{}\" y=\"{}\" width=\"76\" height=\"36\" rx=\"5\"/><text x=\"{}\" "
                    "y=\"{}\">{}</text>",
                    node, is_bad(node) ? " class=\"bad\"" : "", x - 38, y - 18, x, adapters > 0 ? y - 3 : y + 4, text));
    if (adapters > 0) take_(fmt::format("<text x=\"{}\" y=\"{}\">{}</text>", x, y + 11, counted(adapters, "adapter")));
    take_(fmt::format("<title>{}</title></a>\n", name(node)));
  }

  std::string link_cells(std::uint32_t node, std::uint8_t number) const {
    const TopologyPort& port = topology_.port(node, number);
    std::string peer = port.peer_lost ? "? (did not answer)" : "";
    if (port.peer != no_node)
      peer = fmt::format("<a href=\"#n{}\">{}</a> port {}", port.peer, name(port.peer), port.peer_port);
    return fmt::format(
        "<td>{}<td>{}<td>{}<td class=\"why\">{}", peer, port.known && port.peer != no_node ? mad::link_text(port) : "",
        port.known ? std::string(wire::mad::name_of(wire::mad::Kind::port_state, port.state)) : std::string("unknown"),
        html_text(why(node, number)));
  }

  void switch_part(std::uint32_t i) {
    const TopologyNode& node = topology_.nodes()[i];
    const std::string_view bad = is_bad(i) ? " data-bad" : "";
    std::string text = fmt::format(
        "<details id=\"n{}\" data-node{}><summary{}>{} <small>{} &middot; LID {} &middot; {}</small></summary>", i, bad,
        is_bad(i) ? " class=\"bad\"" : "", name(i), mad::guid_text(node.guid), topology_.port(i, 0).lid,
        counted(node.ports, "port"));
    if (const std::string own = why(i, 0); !own.empty()) text += fmt::format("<p class=\"why\">{}</p>", html_text(own));
    text += "<table><tr><th>port<th>linked to<th>link<th>state<th></tr>\n";
    for (unsigned p = 1; p <= node.ports; ++p) {
      const auto number = static_cast<std::uint8_t>(p);
      const TopologyPort& port = topology_.port(i, number);
      if (port.peer == no_node && !port.peer_lost && !why_.contains({i, number})) continue;
      text += fmt::format("<tr{}><td>{}{}</tr>\n", why_.contains({i, number}) ? " class=\"bad\"" : "", p,
                          link_cells(i, number));
    }
    take_(text + "</table></details>\n");
  }

  void adapter_rows(std::uint32_t i) {
    const TopologyNode& node = topology_.nodes()[i];
    for (unsigned p = 1; p <= node.ports; ++p) {
      const auto number = static_cast<std::uint8_t>(p);
      const TopologyPort& port = topology_.port(i, number);
      if (!port.known && !port.lost && port.peer == no_node) continue;
      const bool bad = is_bad(i);
      take_(fmt::format("<tr{} data-node{}{}><td>{}<td>{}<td>{}<td>{}{}</tr>\n",
                        number == node.reached_port ? fmt::format(" id=\"n{}\"", i) : "", bad ? " data-bad" : "",
                        bad ? " class=\"bad\"" : "", name(i), mad::guid_text(node.guid), p, port.lid,
                        link_cells(i, number)));
    }
  }

  const DiscoveredSubnet& subnet_;
  const Topology& topology_;
  const std::vector<mad::TopologyFinding>& findings_;
  const std::function<void(std::string_view)>& take_;
  std::map<Key, std::string> why_;
};

}  // namespace

void topology_page(const DiscoveredSubnet& subnet, const std::vector<mad::TopologyFinding>& findings,
                   const draw::Provenance& report, const std::function<void(std::string_view)>& take) {
  Page(subnet, findings, take).write(report);
}

}  // namespace parley::tools
