// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Files of subnets, what is wrong with them, and regular networks.
#include <gtest/gtest.h>

#include "sim/subnet/plan.hpp"

namespace parley::sim::subnet {
namespace {

struct Refusal {
  const char* text;
  std::size_t line;
  const char* says;
};

TEST(SubnetPlan, RefusesWhatIsWrongInItsLine) {
  const Refusal refusals[] = {
      {"Switch 8 \"A\"\n[1] \"B\"[1]\n", 2, "there is no node 'B'"},
      {"Switch 8 \"A\"\n[9] \"B\"[1]\n\nCa 1 \"B\"\n", 2, "'A' has ports 1 to 8, and no port 9"},
      {"Switch 8 \"A\"\n[1] \"B\"[2]\n\nCa 1 \"B\"\n", 2, "'B' has ports 1 to 1, and no port 2"},
      {"Switch 8 \"A\"\n[1] \"B\"[1]\n[2] \"B\"[1]\n\nCa 1 \"B\"\n", 3,
       "port 1 of 'B' is already linked to port 1 of 'A'"},
      {"Switch 8 \"A\"\n[1] \"B\"[1]\n\nCa 1 \"B\"\n[1] \"A\"[2]\n", 5,
       "port 1 of 'B' is already linked to port 1 of 'A'"},
      {"Switch 8 \"A\"\n[1] \"B\"[1]\n[1] \"B\"[1]\n\nCa 1 \"B\"\n", 3, "port 1 of 'A' is already in line 2"},
      {"Switch 8 \"A\"\n[1] \"A\"[1]\n", 2, "linked to itself"},
      {"Switch 8 \"A\"\n\nSwitch 8 \"A\"\n", 3, "the node 'A' is already in line 1"},
      {"Switch 255 \"A\"\n", 1, "1 to 254 ports"},
      {"Switch 0 \"A\"\n", 1, "1 to 254 ports"},
      {"Switch 8 A\n", 1, "in quotes"},
      {"[1] \"A\"[1]\n", 1, "outside a node"},
      {"switchguid=5\nSwitch 8 \"A\"\n\nswitchguid=5\nSwitch 8 \"B\"\n", 5, "the GUID 0x5 belongs to 'A' in line 2"},
      {"Switch 8 \"A\"\n[1] \"B\"[1] w=99\n\nCa 1 \"B\"\n", 2, "w=99"},
      {"Switch 8 \"A\"\n[1] \"B\"[1] # \"B\" lid 1 5xQDR\n\nCa 1 \"B\"\n", 2, "'5xQDR' is not a width and speed"},
      {"include \"x\"\n", 1, "does not start a node"},
      {"module=4\n", 1, "'module' cannot be set"},
      {"# nothing\n", 0, "there are no nodes"},
  };
  for (const Refusal& refusal : refusals) {
    const auto plan = read_plan(refusal.text);
    ASSERT_FALSE(plan.has_value()) << refusal.text;
    EXPECT_EQ(plan.error().line, refusal.line) << refusal.text << plan.error().text;
    EXPECT_NE(plan.error().text.find(refusal.says), std::string::npos) << refusal.text << plan.error().text;
  }
}

TEST(SubnetPlan, ReadsWhatIbnetdiscoverPrints) {
  const auto plan = read_plan(R"(# Topology file: generated on Thu Nov 26 01:00:00 2026
#
vendid=0x2c9
devid=0xbd36
sysimgguid=0x2c902400a1b10
switchguid=0x2c902400a1b18(2c902400a1b18)
Switch	36 "S-0002c902400a1b18"		# "leaf one" enhanced port 0 lid 7 lmc 0
[3]	"H-0002c90300001490"[1](2c90300001491) 		# "host one" lid 4 4xQDR

vendid=0x2c9
devid=0x673c
sysimgguid=0x2c90300001493
caguid=0x2c90300001490
Ca	2 "H-0002c90300001490"		# "host one"
[1](2c90300001491) 	"S-0002c902400a1b18"[3]		# lid 4 lmc 0 "leaf one" lid 7 4xQDR
)");
  ASSERT_TRUE(plan.has_value()) << plan.error().text;
  ASSERT_EQ(plan->nodes.size(), 2U);
  const PlanNode &leaf = plan->nodes[0], &host = plan->nodes[1];
  EXPECT_EQ(leaf.description, "leaf one");
  EXPECT_EQ(leaf.guid, 0x2c902400a1b18U);
  EXPECT_EQ(leaf.system_guid, 0x2c902400a1b10U);
  EXPECT_TRUE(leaf.enhanced_port0);
  EXPECT_EQ(leaf.lid, 7);
  EXPECT_EQ(leaf.vendor, 0x2c9U);
  EXPECT_EQ(host.guid, 0x2c90300001490U);
  EXPECT_EQ(host.ports[0].guid, 0x2c90300001491U);
  EXPECT_EQ(host.ports[0].lid, 4);
  EXPECT_EQ(host.ports[0].peer, 0U);
  EXPECT_EQ(host.ports[0].peer_port, 3);
  EXPECT_EQ(host.ports[0].speeds, 7);
  EXPECT_EQ(host.ports[1].peer, nowhere);
}

TEST(SubnetPlan, GivesTheGuidsThatIbsimGives) {
  const auto plan =
      read_plan("Hca 2 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"S\"[2]\n\nSwitch 8 \"S\"\n\nSwitch 8 \"T\"\n");
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->nodes[0].guid, 0x100000U);
  EXPECT_EQ(plan->nodes[1].guid, 0x100003U);
  EXPECT_EQ(plan->nodes[2].guid, 0x200000U);
  EXPECT_EQ(plan->nodes[3].guid, 0x200001U);
}

std::size_t links_of(const Plan& plan) {
  std::size_t ends = 0;
  for (const PlanNode& node : plan.nodes)
    for (const PlanPort& port : node.ports) ends += port.peer != nowhere ? 1 : 0;
  return ends / 2;
}

TEST(SubnetPlan, MakesRegularNetworksThatReadTheSame) {
  struct Shape {
    Planned<Plan> plan;
    std::size_t nodes, links;
  };
  const Shape shapes[] = {
      {make_plan(FatTree{2, 8, 4, 4, 1}), 24, 32},
      {make_plan(FatTree{2, 36, 36, 18, 1}), 702, 1296},
      {make_plan(FatTree{3, 36, 6, 18, 6}), 2214, 5832},
      {make_plan(Torus{{4, 4, 4}, 2, 1}), 64 * 3, 64 * 5},
      {make_plan(Torus{{2, 3}, 1, 2}), 12, 6 + 2 * 9},
      {make_plan(Dragonfly{4, 2, 2, 0}), 9 * 12, 9 * (6 + 8) + 36},
      {make_plan(Dragonfly{4, 2, 2, 3}), 36, 3 * (6 + 8) + 3},
  };
  for (const Shape& shape : shapes) {
    ASSERT_TRUE(shape.plan.has_value()) << shape.plan.error().text;
    EXPECT_EQ(shape.plan->nodes.size(), shape.nodes);
    EXPECT_EQ(links_of(*shape.plan), shape.links);
    const std::string text = write_plan(*shape.plan);
    const auto again = read_plan(text);
    ASSERT_TRUE(again.has_value()) << again.error().line << again.error().text;
    EXPECT_EQ(write_plan(*again), text);
  }
  EXPECT_FALSE(make_plan(FatTree{4, 8, 4, 4, 1}).has_value());
  EXPECT_FALSE(make_plan(FatTree{2, 8, 4, 5, 1}).has_value());
  EXPECT_FALSE(make_plan(FatTree{2, 256, 2, 1, 1}).has_value());
  EXPECT_FALSE(make_plan(FatTree{3, 8, 4, 4, 3}).has_value());
  EXPECT_FALSE(make_plan(Torus{{65535, 65535}, 1, 1}).has_value());
  EXPECT_FALSE(make_plan(Dragonfly{4, 2, 2, 10}).has_value());
}

}  // namespace
}  // namespace parley::sim::subnet
