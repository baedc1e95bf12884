// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which NICs lead from one host to another: links, and links joined by switches; hosts do not forward.
#include <gtest/gtest.h>

#include "sim/scenario/scenario_route.hpp"

namespace parley::sim {
namespace {

/// "a s" is a link from a to s; nodes are hosts but for s and t, and have the NICs n1 and n2 if written as "a/n1".
Scenario joined(std::initializer_list<std::pair<std::string_view, std::string_view>> links) {
  Scenario out;
  for (const char* name : {"a", "b", "c", "s", "t"})
    out.hosts.push_back({.name = name, .is_switch = name[0] == 's' || name[0] == 't'});
  for (const auto& [x, y] : links) {
    ScenarioLink link;
    for (std::size_t end = 0; end < 2; ++end) {
      const std::string_view text = end == 0 ? x : y;
      const std::size_t slash = text.find('/');
      link.ends[end] = text.substr(0, slash);
      if (slash == std::string_view::npos) continue;
      link.nics[end] = text.substr(slash + 1);
      for (ScenarioHost& host : out.hosts)
        if (host.name == link.ends[end] && host.options.nics.empty())
          host.options.nics = {{.name = "n1"}, {.name = "n2"}, {.name = "n3", .engine = NicEngine::none}};
    }
    out.links.push_back(link);
  }
  return out;
}

/// "0 > 1", or why there is none; backups behind a comma.
std::string route(const Scenario& scenario, std::string from = "a", std::string to = "b",
                  std::vector<std::string> backups = {}) {
  ScenarioConnect connect;
  const auto split = [](std::string& name, std::string& nic) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos) return;
    nic = name.substr(slash + 1);
    name.resize(slash);
  };
  split(from, connect.from_nic);
  split(to, connect.to_nic);
  connect.from = from;
  connect.to = to;
  connect.backups = std::move(backups);
  const auto found = find_route(scenario, link_segments(scenario), connect);
  if (!found) return found.error();
  std::string out = std::to_string(found->from_port) + " > " + std::to_string(found->to_port);
  for (const std::uint16_t port : found->backup_ports) out += ", " + std::to_string(port);
  return out;
}

TEST(SimRoute, IsTheFirstPairOfNicsInOneNetwork) {
  EXPECT_EQ(route(joined({{"a", "b"}})), "0 > 0");
  EXPECT_EQ(route(joined({{"b", "a"}})), "0 > 0");
  EXPECT_EQ(route(joined({{"a", "c"}, {"a", "b"}})), "1 > 0");
  EXPECT_EQ(route(joined({{"c", "b"}, {"a", "b"}})), "0 > 1");
  EXPECT_EQ(route(joined({{"a", "c"}, {"c", "b"}, {"b", "a"}})), "1 > 1");
  EXPECT_EQ(route(joined({{"a", "b"}, {"a", "b"}})), "0 > 0");
}

TEST(SimRoute, LinksJoinedBySwitchesAreOneSegment) {
  EXPECT_EQ(link_segments(joined({})), Segments{});
  EXPECT_EQ(link_segments(joined({{"a", "c"}, {"a", "s"}, {"c", "t"}, {"s", "t"}, {"b", "t"}, {"b", "c"}})),
            (Segments{0, 1, 1, 1, 1, 5}));
  EXPECT_EQ(link_segments(joined({{"a", "s"}, {"b", "t"}, {"c", "s"}})), (Segments{0, 1, 0}));
  EXPECT_EQ(link_segments(joined({{"a", "x"}, {"x", "b"}})), (Segments{0, 1}))
      << "a name that nobody has joins nothing";
}

TEST(SimRoute, LeadsThroughSwitchesAndNotThroughHosts) {
  EXPECT_EQ(route(joined({{"a", "s"}, {"s", "b"}})), "0 > 0");
  EXPECT_EQ(route(joined({{"a", "s"}, {"t", "b"}, {"s", "t"}})), "0 > 0");
  EXPECT_EQ(route(joined({{"a", "c"}, {"a", "s"}, {"c", "t"}, {"s", "t"}, {"b", "t"}})), "1 > 0");
  const std::string none = "no links and switches join 'a' and 'b'";
  EXPECT_EQ(route(joined({{"a", "c"}, {"c", "b"}})), none);
  EXPECT_EQ(route(joined({{"a", "s"}, {"t", "b"}})), none);
  EXPECT_EQ(route(joined({})), none);
}

TEST(SimRoute, JoinsHostsAndNoSwitches) {
  const Scenario s = joined({{"a", "s"}, {"s", "b"}});
  EXPECT_EQ(route(s, "a", "s"), "no links and switches join 'a' and 's'");
  EXPECT_EQ(route(s, "s", "b"), "no links and switches join 's' and 'b'");
  EXPECT_EQ(route(s, "a", "a"), "no links and switches join 'a' and 'a'");
  EXPECT_EQ(route(s, "a", "x"), "no links and switches join 'a' and 'x'");
}

TEST(SimRoute, KeepsToTheNicsThatAreNamed) {
  const Scenario s = joined({{"a/n1", "s"}, {"a/n2", "t"}, {"b/n2", "s"}, {"b/n1", "t"}});
  EXPECT_EQ(route(s), "0 > 1");
  EXPECT_EQ(route(s, "a/n2"), "1 > 0");
  EXPECT_EQ(route(s, "a", "b/n1"), "1 > 0");
  EXPECT_EQ(route(s, "a/n1", "b/n2"), "0 > 1");
  EXPECT_EQ(route(s, "a/n1", "b/n1"), "no links and switches join 'a/n1' and 'b/n1'");
  EXPECT_EQ(route(s, "a/n9", "b"), "no links and switches join 'a/n9' and 'b'");
}

TEST(SimRoute, AHostWithoutNamedNicsHasNoneOfAnyName) {
  const Scenario s = joined({{"a", "b/n1"}});
  EXPECT_EQ(route(s), "0 > 0");
  EXPECT_EQ(route(s, "a/n1", "b"), "no links and switches join 'a/n1' and 'b'");
  EXPECT_EQ(route(s, "b/n1", "a"), "0 > 0");
  EXPECT_EQ(route(s, "b", "a/n1"), "no links and switches join 'b' and 'a/n1'");
  EXPECT_EQ(route(s, "b", "a", {"n1"}), "no links and switches join 'b' and 'a/n1'");
}

TEST(SimRoute, AnUnnamedLinkTakesTheFirstNicThatHasNone) {
  EXPECT_EQ(route(joined({{"a/n1", "c"}, {"a", "b"}})), "1 > 0");
  EXPECT_EQ(route(joined({{"a", "c"}, {"a/n2", "b"}})), "1 > 0");
}

TEST(SimRoute, UsesNoNicWithoutRdma) {
  EXPECT_EQ(route(joined({{"a/n3", "b"}})), "NIC 'a/n3' has engine = \"none\", so no connection uses it");
  EXPECT_EQ(route(joined({{"a/n3", "b"}, {"a/n2", "b"}})), "1 > 1");
  EXPECT_EQ(route(joined({{"b/n3", "a"}}), "a", "b/n3"), "NIC 'b/n3' has engine = \"none\", so no connection uses it");
  EXPECT_EQ(route(joined({{"a", "b"}, {"b/n3", "a"}}), "a", "b", {"n3"}),
            "NIC 'b/n3' has engine = \"none\", so no connection uses it");
}

TEST(SimRoute, BackupsAreOtherNicsOfTheResponder) {
  const Scenario s = joined({{"a/n1", "s"}, {"a/n2", "t"}, {"b/n1", "s"}, {"b/n2", "t"}, {"c", "b/n3"}});
  EXPECT_EQ(route(s, "a", "b", {"n2"}), "0 > 0, 1");
  EXPECT_EQ(route(s, "a", "b/n2", {"n1", "n2"}), "1 > 1, 0, 1");
  EXPECT_EQ(route(s, "a", "b", {"n2", "n3"}), "no links and switches join 'a' and 'b/n3'");
}

}  // namespace
}  // namespace parley::sim
