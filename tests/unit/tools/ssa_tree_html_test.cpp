// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The page of a distribution tree: what is drawn and what only listed, text that is no HTML, and parents in a circle.
#include "tools/ssa/tree_html.hpp"

#include <gtest/gtest.h>

#include <map>
#include <regex>
#include <set>

namespace parley::tools {
namespace {

std::string page(std::vector<TreeNode> nodes, const std::string& asked) {
  std::string out;
  tree_page(std::move(nodes), asked, {}, [&out](std::string_view piece) { out += piece; });
  return out;
}
std::size_t count(const std::string& text, const std::string& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}
/// The vertical places of the nodes, from the top.
std::set<int> rows(const std::string& text) {
  std::set<int> out;
  const std::regex place("<rect x=\"[0-9]+\" y=\"([0-9]+)\"");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), place); at != std::sregex_iterator(); ++at)
    out.insert(std::stoi((*at)[1]));
  return out;
}

TEST(SsaTreeHtml, EachLevelIsARowWithTheLinesOfParentsAndBackups) {
  const std::string text = page({{.gid = "r", .is_root = true},
                                 {.gid = "a", .roles = "access", .parent = "r"},
                                 {.gid = "b", .roles = "access", .parent = "r", .backup = "a"},
                                 {.gid = "c", .roles = "consumer", .parent = "a", .backup = "b"}},
                                "r");
  EXPECT_EQ(rows(text).size(), 3U);
  EXPECT_EQ(count(text, "<line class=\"parent\""), 3U);
  EXPECT_EQ(count(text, "<line class=\"backup\""), 2U);
  EXPECT_EQ(count(text, "<tr id="), 4U);
  EXPECT_NE(text.find("all have parents"), std::string::npos);
  EXPECT_EQ(count(text, "data-bad class"), 0U);
}

TEST(SsaTreeHtml, ChildrenOfOneParentStandTogether) {
  const std::string text = page({{.gid = "r", .is_root = true},
                                 {.gid = "a", .parent = "r"},
                                 {.gid = "b", .parent = "r"},
                                 {.gid = "w", .parent = "b"},
                                 {.gid = "x", .parent = "a"},
                                 {.gid = "y", .parent = "b"},
                                 {.gid = "z", .parent = "a"}},
                                "r");
  std::map<int, std::string> lowest;  // by horizontal place
  const std::regex drawn("<rect x=\"([0-9]+)\" y=\"([0-9]+)\"[^>]*><text[^>]*>(.)<");
  for (auto at = std::sregex_iterator(text.begin(), text.end(), drawn); at != std::sregex_iterator(); ++at)
    if (std::stoi((*at)[2]) == *rows(text).rbegin()) lowest[std::stoi((*at)[1])] = (*at)[3];
  std::string in_order;
  for (const auto& [x, gid] : lowest) in_order += gid;
  EXPECT_EQ(in_order, "xzwy");
}

TEST(SsaTreeHtml, ANodeWithoutAParentIsMarkedAndOnlyTheRootKnowsTheWholeTree) {
  const std::string text = page({{.gid = "r", .is_root = true}, {.gid = "a", .roles = "access"}}, "r");
  EXPECT_EQ(count(text, "data-bad class"), 1U);
  EXPECT_NE(text.find("1 node without a parent"), std::string::npos);
  const std::string partial = page({{.gid = "a", .parent = "p", .backup = "q"}, {.gid = "c", .parent = "a"}}, "a");
  EXPECT_NE(partial.find("Not the whole tree"), std::string::npos);
  EXPECT_EQ(count(partial, "<tr id="), 4U) << "with the parent and the backup";
  EXPECT_EQ(count(partial, "data-bad class"), 0U) << "their parents are unknown";
}

TEST(SsaTreeHtml, OfALargeTreeOnlyParentsAreDrawn) {
  std::vector<TreeNode> nodes{{.gid = "r", .is_root = true}, {.gid = "a", .roles = "access", .parent = "r"}};
  for (int i = 0; i < 500; ++i) nodes.push_back({.gid = "c" + std::to_string(i), .roles = "consumer", .parent = "a"});
  const std::string text = page(nodes, "r");
  EXPECT_EQ(count(text, "<rect "), 2U);
  EXPECT_EQ(count(text, "<tr id="), 502U);
  EXPECT_NE(text.find("children: 500"), std::string::npos);
  nodes.resize(2);
  for (int i = 0; i < 300; ++i) {
    nodes.push_back({.gid = "d" + std::to_string(i), .parent = "r"});
    nodes.push_back({.gid = "e" + std::to_string(i), .parent = "d" + std::to_string(i)});
  }
  const std::string many = page(nodes, "r");
  EXPECT_EQ(count(many, "<rect "), drawn_tree_nodes_max);
  EXPECT_NE(many.find("201 more parents are not drawn"), std::string::npos);
}

TEST(SsaTreeHtml, TextIsNoHtmlAndParentsInACircleEnd) {
  const std::string text = page({{.gid = "<b>\"x", .roles = "<i>", .stage = "</td>", .parent = "y&"},
                                 {.gid = "y&", .parent = "<b>\"x"},
                                 {.gid = "z", .parent = "z"}},
                                "<script>");
  EXPECT_EQ(text.find("<b>"), std::string::npos);
  EXPECT_EQ(text.find("<i>"), std::string::npos);
  EXPECT_EQ(text.find("</td>"), std::string::npos);
  EXPECT_EQ(count(text, "<rect "), 3U);
  EXPECT_EQ(count(text, "<script>"), 1U) << "the page's own";
  EXPECT_NE(text.find("&lt;b&gt;&quot;x"), std::string::npos);
  EXPECT_EQ(count(text, "<tr id="), 3U);
  EXPECT_NE(page({}, "").find("0 nodes"), std::string::npos);
}

}  // namespace
}  // namespace parley::tools
