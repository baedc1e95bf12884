// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/tree_html.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "draw/ladder_page.hpp"
#include "tools/searchable_page.hpp"

namespace parley::tools {

namespace {

constexpr std::size_t nowhere = ~std::size_t{0};

class TreePage {
 public:
  TreePage(std::vector<TreeNode> nodes, const std::function<void(std::string_view)>& take)
      : nodes_(std::move(nodes)), take_(take) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) by_gid_.emplace(nodes_[i].gid, i);
    const std::size_t known = nodes_.size();
    for (std::size_t i = 0; i < known; ++i) {
      name(std::string(nodes_[i].parent));
      name(std::string(nodes_[i].backup));
    }
    children_.resize(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (const std::size_t parent = at(nodes_[i].parent); parent != nowhere) children_[parent].push_back(i);
    find_levels();
  }

  void write(const std::string& asked, const draw::Provenance& report) {
    head(asked);
    drawing();
    table();
    take_(draw::footer_html(report));
    take_(fmt::format("<script>{}</script>\n</html>\n", searchable_script));
  }

 private:
  std::size_t at(const std::string& gid) const {
    const auto found = by_gid_.find(gid);
    return found == by_gid_.end() ? nowhere : found->second;
  }
  void name(const std::string& gid) {
    if (!gid.empty() && by_gid_.emplace(gid, nodes_.size()).second) nodes_.push_back({.gid = gid, .is_known = false});
  }
  bool is_lost(std::size_t i) const { return nodes_[i].is_known && !nodes_[i].is_root && nodes_[i].parent.empty(); }

  /// Steps from a node without a parent. Nodes in a circle of parents stay at level 0.
  void find_levels() {
    level_.assign(nodes_.size(), 0);
    std::vector<bool> has_place(nodes_.size());
    const auto place = [&](std::size_t i) {
      has_place[i] = true;
      order_.push_back(i);
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (at(nodes_[i].parent) == nowhere) place(i);
    for (std::size_t done = 0; done < order_.size(); ++done)
      for (const std::size_t child : children_[order_[done]]) {
        level_[child] = level_[order_[done]] + 1;
        place(child);
      }
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (!has_place[i]) place(i);
  }

  void head(const std::string& asked) {
    const std::size_t self = at(asked);
    const bool whole = self != nowhere && nodes_[self].is_root;
    std::size_t lost = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) lost += is_lost(i);
    take_(
        fmt::format("<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" "
                    "content=\"width=device-width\"><title>SSA tree</title>\n<style>{}{}</style>\n",
                    draw::ladder_style, searchable_style));
    take_(
        fmt::format("<div class=\"top\"><h1>SSA tree</h1><span class=\"badge {}\">{}</span></div>\n<p "
                    "class=\"sub\">{}, as {} knows them</p>\n",
                    lost > 0 ? "bad" : (whole ? "good" : "warn"),
                    lost > 0 ? fmt::format("{} without a parent", counted(lost, "node"))
                             : std::string(whole ? "all have parents" : "partial"),
                    counted(nodes_.size(), "node"), html_text(asked)));
    if (!whole)
      take_(
          "<div class=\"doubts\">Not the whole tree: only the root knows it. This node knows its parents and "
          "children.</div>\n");
    take_(
        "<div class=\"tools\"><input type=\"search\" id=\"find\" placeholder=\"GID, role\" aria-label=\"Search nodes\">"
        "<label><input type=\"checkbox\" id=\"only\">only without a parent</label><output></output></div>\n");
  }

  /// The nodes that are drawn, by level.
  std::map<std::size_t, std::vector<std::size_t>> rows(std::size_t& left_out) const {
    std::map<std::size_t, std::vector<std::size_t>> out;
    const bool all = nodes_.size() <= drawn_tree_nodes_max;
    std::size_t drawn = 0;
    for (const std::size_t i : order_) {
      if (!all && children_[i].empty() && !nodes_[i].is_root) continue;
      if (drawn == drawn_tree_nodes_max)
        ++left_out;
      else
        ++drawn, out[level_[i]].push_back(i);
    }
    return out;
  }

  void drawing() {
    constexpr std::size_t wide = 150, high = 90;
    std::size_t left_out = 0, most = 0, y = 24;
    const auto levels = rows(left_out);
    for (const auto& [level, row] : levels) most = std::max(most, row.size());
    if (most == 0) return;
    std::map<std::size_t, std::pair<std::size_t, std::size_t>> places;
    for (const auto& [level, row] : levels) {
      for (std::size_t i = 0; i < row.size(); ++i) places[row[i]] = {(2 * i + 1) * wide * most / (2 * row.size()), y};
      y += high;
    }
    take_(fmt::format(
        "<svg class=\"map\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"nodes, their parents and backups\">\n",
        most * wide, y - high + 24));
    for (const auto& [node, place] : places) {
      draw_line(places, place, nodes_[node].parent, "parent");
      draw_line(places, place, nodes_[node].backup, "backup");
    }
    for (const auto& [node, place] : places) draw_node(node, place.first, place.second);
    take_("</svg>\n<p class=\"sub\">Dashed: backups.");
    if (nodes_.size() > drawn_tree_nodes_max) take_(" Nodes without children are not drawn.");
    if (left_out > 0) take_(fmt::format(" {} more parents are not drawn.", left_out));
    take_("</p>\n");
  }

  void draw_line(const std::map<std::size_t, std::pair<std::size_t, std::size_t>>& places,
                 const std::pair<std::size_t, std::size_t>& from, const std::string& gid, std::string_view what) {
    const auto to = places.find(at(gid));
    if (to == places.end()) return;
    take_(fmt::format("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n", what, from.first, from.second,
                      to->second.first, to->second.second));
  }

  void draw_node(std::size_t i, std::size_t x, std::size_t y) {
    const TreeNode& node = nodes_[i];
    const std::string role = node.is_root ? "root" : node.roles;
    take_(
        fmt::format("<a href=\"#n{}\"{}><rect x=\"{}\" y=\"{}\" width=\"140\" height=\"36\" rx=\"5\"/><text x=\"{}\" "
                    "y=\"{}\">{}</text><text x=\"{}\" y=\"{}\">{}{}</text><title>{}</title></a>\n",
                    i, is_lost(i) ? " class=\"bad\"" : "", x - 70, y - 18, x, y - 3, html_text(clip(node.gid, 22)), x,
                    y + 11, html_text(clip(role, 12)),
                    children_[i].empty() ? std::string() : fmt::format(", children: {}", children_[i].size()),
                    html_text(node.gid)));
  }

  std::string link(const std::string& gid) const {
    const std::size_t to = at(gid);
    return to == nowhere ? std::string("none") : fmt::format("<a href=\"#n{}\">{}</a>", to, html_text(gid));
  }

  void table() {
    take_("<table><tr><th>GID<th>roles<th>stage<th>parent<th>backup<th>children</tr>\n");
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const TreeNode& node = nodes_[i];
      const bool unknown = node.is_root || !node.is_known;  // its parents
      take_(fmt::format("<tr id=\"n{}\" data-node{}><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>\n", i,
                        is_lost(i) ? " data-bad class=\"bad\"" : "", html_text(node.gid),
                        html_text(node.is_root ? "root" : node.roles), html_text(node.stage),
                        unknown ? std::string() : link(node.parent), unknown ? std::string() : link(node.backup),
                        children_[i].size()));
    }
    take_("</table>\n");
  }

  std::vector<TreeNode> nodes_;
  const std::function<void(std::string_view)>& take_;
  std::unordered_map<std::string, std::size_t> by_gid_;
  std::vector<std::vector<std::size_t>> children_;
  std::vector<std::size_t> level_, order_;  // order: by level; children of a node follow each other
};

}  // namespace

void tree_page(std::vector<TreeNode> nodes, const std::string& asked, const draw::Provenance& report,
               const std::function<void(std::string_view)>& take) {
  TreePage(std::move(nodes), take).write(asked, report);
}

}  // namespace parley::tools
