// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A topology that is filled by hand: its bounds, and the graph that is printed of it.
#include <gtest/gtest.h>

#include <array>

#include "mad/topology_print.hpp"

namespace parley::mad {
namespace topology_test {
namespace {

using wire::mad::NodeInfo;

TEST(MadTopology, PortNumbersEndAt254) {
  Topology topology;
  NodeInfo info;
  for (const std::uint8_t said : std::array<std::uint8_t, 3>{253, 254, 255}) {
    info.set(NodeInfo::node_guid, said).set(NodeInfo::num_ports, said);
    EXPECT_EQ(topology.node(topology.add(info, no_node, 0).node).ports, std::min<unsigned>(said, 254));
  }
}

TEST(MadTopology, ALinkOfTheGraphIsRedWhereOneOfItsEndsIsBad) {
  Topology topology;
  NodeInfo info;
  for (const std::uint8_t guid : std::array<std::uint8_t, 3>{1, 2, 3})
    topology.add(info.set(NodeInfo::node_guid, guid).set(NodeInfo::num_ports, 4), no_node, 0);
  ASSERT_TRUE(topology.link(0, 1, 1, 2));
  ASSERT_TRUE(topology.link(1, 3, 2, 4));
  const auto red = [&](std::uint32_t node, std::uint8_t port) {
    std::string out;
    const BadPort bad = [=](std::uint32_t n, std::uint8_t p) { return n == node && p == port; };
    print_dot(topology, bad, [&](std::string_view piece) {
      if (piece.find("color=red") != std::string_view::npos) out += piece.substr(piece.find("taillabel"), 28);
    });
    return out;
  };
  EXPECT_EQ(red(1, 3), "taillabel=\"3\", headlabel=\"4\"");
  EXPECT_EQ(red(2, 4), "taillabel=\"3\", headlabel=\"4\"");
  EXPECT_EQ(red(1, 2), "taillabel=\"1\", headlabel=\"2\"");
  EXPECT_EQ(red(1, 4), "");
}

}  // namespace
}  // namespace topology_test
}  // namespace parley::mad
