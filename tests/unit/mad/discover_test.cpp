// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Discoveries of drawn subnets whose truth is known, with nodes that do not answer and with losses; how they are printed and judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "base/rng.hpp"
#include "mad/discover.hpp"
#include "mad/pump.hpp"
#include "mad/topology_check.hpp"
#include "mad/topology_print.hpp"

namespace parley::mad {
namespace discover_test {
namespace {

using testing::HasSubstr;
using wire::mad::LinkDownState;
using wire::mad::NodeDescription;
using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PortInfo;
using wire::mad::PortPhysicalState;
using wire::mad::PortState;
using wire::mad::SwitchInfo;

struct End {
  std::size_t node = 0;
  std::uint8_t port = 0;
};

/// A subnet in memory: directed routes and LIDs are followed, nothing else is done. It begins at node 0, a channel adapter.
class Subnet final : public Transport {
 public:
  struct Node {
    NodeType type;
    std::uint8_t ports;
    std::map<std::uint8_t, End> links = {};
    bool dead = false;
    std::size_t twin_of = 0;  // whose GUID it has; 0: its own
    std::uint8_t off = 0;     // added to what it says of its second port's number
  };
  std::vector<Node> nodes;
  unsigned lose_one_in = 0;
  std::function<bool(const End&, ConstBytes mad)> loses;  // what comes to a node
  std::uint16_t first_lid = 0;                            // of node 0; 0: there was no subnet manager
  bool all_lids_are_of_0 = false;
  std::size_t asked = 0, by_lid = 0;

  std::size_t add(NodeType type, std::uint8_t ports) {
    nodes.push_back({type, ports});
    return nodes.size() - 1;
  }
  void link(std::size_t a, std::uint8_t ap, std::size_t b, std::uint8_t bp) {
    nodes[a].links[ap] = {b, bp};
    nodes[b].links[bp] = {a, ap};
  }
  std::uint64_t guid(std::size_t node) const {
    return 0x1000 + (nodes[node].twin_of != 0 ? nodes[node].twin_of : node);
  }

  const TransportFacts& facts() const override { return facts_; }
  const LocalPort& local() const override { return local_; }
  bool poll_changed() override { return false; }
  int fd() const override { return -1; }
  bool wants_to_send() const override { return false; }
  Result<bool> send(const Address& to, ConstBytes mad) override {
    ++asked;
    if (lose_one_in != 0 && rng_.below(lose_one_in) == 0) return true;
    const bool directed = mad[1] == 0x81;
    if (!directed) ++by_lid;
    std::optional<End> at =
        directed ? walk(mad) : End{all_lids_are_of_0 ? std::size_t{0} : to.lid - std::size_t{first_lid}, 1};
    if (at && (nodes.at(at->node).dead || (loses && loses(*at, mad)))) return true;
    Bytes reply(mad.begin(), mad.end());
    reply[3] |= 0x80;
    if (directed) reply[4] |= 0x80;
    if (at) answer(*at, reply);
    waiting_.push_back({{to, {}, !at}, at ? reply : Bytes(mad.begin(), mad.end())});
    return true;
  }
  Result<std::optional<Received>> receive() override {
    if (waiting_.empty()) return std::nullopt;
    last_ = std::move(waiting_.front());
    waiting_.pop_front();
    last_.received.mad = last_.octets;
    return last_.received;
  }

 private:
  struct Waiting {
    Received received;
    Bytes octets;
  };

  std::optional<End> walk(ConstBytes mad) const {
    End at{0, 1};
    for (std::size_t hop = 1; hop <= mad[7]; ++hop) {
      const Node& node = nodes[at.node];
      if (hop > 1 && node.type != NodeType::switch_) return std::nullopt;
      const auto next = node.links.find(mad[128 + hop]);
      if (next == node.links.end()) return std::nullopt;
      at = next->second;
    }
    return at;
  }

  void answer(const End& at, Bytes& reply) const {
    const Node& node = nodes[at.node];
    const MutBytes body = MutBytes(reply).subspan(64, 64);
    const unsigned modifier = reply[23];
    const bool is_switch = node.type == NodeType::switch_;
    switch (reply[17]) {
      case NodeDescription::attribute:
        return NodeDescription().set(NodeDescription::node_string, "node " + std::to_string(at.node)).emit(body);
      case NodeInfo::attribute:
        return NodeInfo()
            .set(NodeInfo::node_type, node.type)
            .set(NodeInfo::num_ports, node.ports)
            .set(NodeInfo::node_guid, guid(at.node))
            .set(NodeInfo::port_guid, guid(at.node) + (is_switch ? 0 : 0x100000U * at.port))
            .set(NodeInfo::local_port_num, static_cast<std::uint8_t>(at.port + (at.port == 2 ? node.off : 0)))
            .emit(body.first(NodeInfo::size));
      case SwitchInfo::attribute: return;
      default: break;
    }
    const bool up = node.links.contains(static_cast<std::uint8_t>(modifier));
    const bool lid_here = first_lid != 0 && (is_switch ? modifier == 0 : true);
    PortInfo()
        .set(PortInfo::port_state, up ? PortState::active : PortState::down)
        .set(PortInfo::port_physical_state, up ? PortPhysicalState::link_up : PortPhysicalState::polling)
        .set(PortInfo::link_width_active, 2)
        .set(PortInfo::link_width_enabled, 3)
        .set(PortInfo::link_speed_active, 1)
        .set(PortInfo::link_speed_enabled, 1)
        .set(PortInfo::lid, static_cast<std::uint16_t>(lid_here ? first_lid + at.node : 0))
        .emit(body);
  }

  TransportFacts facts_;
  LocalPort local_;
  Rng rng_{99};
  std::deque<Waiting> waiting_;
  Waiting last_;
};

/// Switches in a tree with some more links across, and an adapter on each; node 0 is an adapter.
void draw(Subnet& out, Rng& rng, std::size_t switches) {
  out.add(NodeType::channel_adapter, 2);
  std::vector<std::uint8_t> used(1);
  for (std::size_t i = 1; i <= switches; ++i) {
    const std::size_t me = out.add(NodeType::switch_, 24);
    const std::size_t to = me == 1 ? 0 : 1 + rng.below(me - 1);
    used.push_back(1);
    if (to != 0 && used[to] >= 12) continue;  // full: this one stands alone, and nobody finds it
    out.link(me, 1, to, to == 0 ? 1 : ++used[to]);
  }
  for (std::size_t i = 0; i < switches; ++i) {
    const std::size_t a = 1 + rng.below(switches), b = 1 + rng.below(switches);
    if (a != b && used[a] < 20 && used[b] < 20) {
      const auto ap = ++used[a], bp = ++used[b];
      out.link(a, ap, b, bp);
    }
    const std::size_t adapter = out.add(NodeType::channel_adapter, 2);
    if (used[a] < 23) out.link(adapter, static_cast<std::uint8_t>(1 + rng.below(2)), a, ++used[a]);
  }
}

/// Two adapters on a switch.
void draw_small(Subnet& out) {
  out.add(NodeType::channel_adapter, 1);
  out.add(NodeType::switch_, 4);
  out.add(NodeType::channel_adapter, 1);
  out.link(0, 1, 1, 1);
  out.link(1, 3, 2, 1);
}

/// Ends by GUID and port, the lesser first.
using Links = std::set<std::array<std::uint64_t, 4>>;
Links::value_type link_of(std::uint64_t a, std::uint64_t ap, std::uint64_t b, std::uint64_t bp) {
  return std::pair(a, ap) < std::pair(b, bp) ? Links::value_type{a, ap, b, bp} : Links::value_type{b, bp, a, ap};
}
/// Those that can be reached without passing a dead node.
Links truth(const Subnet& subnet) {
  Links out;
  std::set<std::size_t> seen{0};
  std::deque<std::size_t> next{0};
  for (; !next.empty(); next.pop_front()) {
    const auto& node = subnet.nodes[next.front()];
    if (node.type != NodeType::switch_ && next.front() != 0) continue;
    for (const auto& [port, peer] : node.links) {
      if (subnet.nodes[peer.node].dead) continue;
      out.insert(link_of(subnet.guid(next.front()), port, subnet.guid(peer.node), peer.port));
      if (seen.insert(peer.node).second) next.push_back(peer.node);
    }
  }
  return out;
}
Links found(const Topology& topology) {
  Links out;
  for (const TopologyNode& node : topology.nodes())
    for (unsigned p = 1; p <= node.ports; ++p) {
      const TopologyPort& port = topology.ports_of(node)[p];
      if (port.peer != no_node) out.insert(link_of(node.guid, p, topology.nodes()[port.peer].guid, port.peer_port));
    }
  return out;
}

Discovery run_over(Subnet& subnet, const DiscoverOptions& options = {}) {
  Discovery out;
  Port port(subnet.facts(), subnet.local());
  Instant now{};
  const auto ran = run(
      port, subnet, discover(port, options, out), [&] { return now; },
      [&](Transport&, Instant deadline) {
        if (deadline == never) ADD_FAILURE() << "it waits for nothing";
        now = deadline;
      });
  EXPECT_TRUE(ran);
  return out;
}

TEST(MadDiscover, FindsEveryNodeAndLink) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Subnet subnet;
    draw(subnet, rng, 1 + rng.below(40));
    const Discovery all = run_over(subnet);
    EXPECT_TRUE(all.whole);
    EXPECT_EQ(all.lost, 0U);
    EXPECT_EQ(all.doubtful, 0U);
    EXPECT_EQ(found(all.topology), truth(subnet));
    for (const TopologyNode& node : all.topology.nodes()) {
      EXPECT_EQ(all.topology.description(node), "node " + std::to_string(node.guid - 0x1000));
      EXPECT_FALSE(node.lost);
    }
  }
}

/// All four tries of one request are lost, and `others` of another one.
std::size_t ask_with_a_lost_request(Subnet& subnet, int others, std::size_t expected_lost) {
  int of_two = 0, of_one = 0;
  subnet.loses = [&](const End& at, ConstBytes mad) {
    if (mad[17] != 0x10) return false;  // NodeDescription
    return (at.node == 2 && of_two++ < 4) || (at.node == 1 && of_one++ < others);
  };
  const Discovery all = run_over(subnet);
  EXPECT_TRUE(all.whole);
  EXPECT_EQ(all.lost, expected_lost);
  EXPECT_EQ(all.topology.nodes().size(), 3U);
  EXPECT_EQ(all.topology.description(all.topology.nodes()[2]), expected_lost == 0 ? "node 2" : "");
  EXPECT_EQ(all.topology.nodes()[2].lost, expected_lost != 0);
  return subnet.asked;
}

TEST(MadDiscover, WhatWasLostIsAskedForAgainWhereDatagramsAreLost) {
  Subnet subnet;
  subnet.add(NodeType::channel_adapter, 1);
  subnet.add(NodeType::switch_, 2);
  subnet.add(NodeType::channel_adapter, 1);
  subnet.link(0, 1, 1, 1);
  subnet.link(1, 2, 2, 1);
  Subnet other = subnet;
  const std::size_t dead = ask_with_a_lost_request(subnet, 0, 1);  // nothing else is lost: it is not asked for again
  const std::size_t lossy = ask_with_a_lost_request(other, 1, 0);
  EXPECT_EQ(lossy, dead + 2);
}

TEST(MadDiscover, WhoDoesNotAnswerIsMarkedAndTheRestIsFound) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    Subnet subnet;
    draw(subnet, rng, 20);
    std::set<std::pair<std::uint64_t, unsigned>> behind;
    for (int i = 0; i < 3; ++i) subnet.nodes[2 + rng.below(subnet.nodes.size() - 2)].dead = true;
    const Links links = truth(subnet);
    std::set<std::uint64_t> reached{subnet.guid(0)};
    for (const auto& link : links) reached.insert({link[0], link[2]});
    for (std::size_t i = 0; i < subnet.nodes.size(); ++i)
      for (const auto& [port, peer] : subnet.nodes[i].links)
        if (subnet.nodes[i].type == NodeType::switch_ && reached.contains(subnet.guid(i)) &&
            subnet.nodes[peer.node].dead)
          behind.emplace(subnet.guid(i), port);
    const Discovery all = run_over(subnet);
    EXPECT_TRUE(all.whole);
    EXPECT_EQ(found(all.topology), links);
    std::set<std::pair<std::uint64_t, unsigned>> marked;
    for (const TopologyNode& node : all.topology.nodes())
      for (unsigned p = 1; p <= node.ports; ++p)
        if (all.topology.ports_of(node)[p].peer_lost) marked.emplace(node.guid, p);
    EXPECT_EQ(marked, behind);
    EXPECT_EQ(all.lost, behind.size());
  }
}

TEST(MadDiscover, LossesAreRetried) {
  Rng rng(5);
  Subnet subnet;
  draw(subnet, rng, 30);
  subnet.lose_one_in = 20;
  const Discovery all = run_over(subnet);
  EXPECT_EQ(found(all.topology), truth(subnet));
  EXPECT_EQ(all.lost, 0U);
}

TEST(MadDiscover, AtLidsOnlyWhereTheNodeItselfAnswers) {
  Rng rng(6);
  Subnet subnet;
  draw(subnet, rng, 20);
  subnet.first_lid = 100;
  const Discovery all = run_over(subnet, {.by_lid = true});
  EXPECT_EQ(found(all.topology), truth(subnet));
  EXPECT_GT(subnet.by_lid, subnet.asked / 2);
  subnet.all_lids_are_of_0 = true;
  subnet.by_lid = 0;
  const Discovery again = run_over(subnet, {.by_lid = true});
  EXPECT_EQ(found(again.topology), truth(subnet));
  EXPECT_EQ(subnet.by_lid, again.topology.count(NodeType::switch_));  // each was tried once
}

TEST(MadDiscover, RoutesEndAtTheLongest) {
  Subnet subnet;
  subnet.add(NodeType::channel_adapter, 1);
  for (std::size_t i = 1; i <= 80; ++i) {
    subnet.add(NodeType::switch_, 2);
    subnet.link(i - 1, i == 1 ? 1 : 2, i, 1);
  }
  const Discovery all = run_over(subnet);
  EXPECT_TRUE(all.whole);
  EXPECT_EQ(all.topology.nodes().size(), 64U);  // 63 hops
  EXPECT_EQ(run_over(subnet, {.hops_max = 3}).topology.nodes().size(), 4U);
}

TEST(MadDiscover, MoreNodesThanItTakesAreNotTheWhole) {
  Subnet subnet;
  draw_small(subnet);
  const Discovery all = run_over(subnet, {.nodes_max = 3});
  EXPECT_TRUE(all.whole);
  EXPECT_FALSE(all.full);
  const Discovery less = run_over(subnet, {.nodes_max = 2});
  EXPECT_EQ(less.topology.nodes().size(), 2U);
  EXPECT_TRUE(less.full);
  EXPECT_FALSE(less.whole);
}

TEST(MadDiscover, TwoNodesWithOneGuidAreDoubtful) {
  Subnet subnet;
  subnet.add(NodeType::channel_adapter, 1);
  subnet.add(NodeType::switch_, 4);
  for (const std::uint8_t port : std::array<std::uint8_t, 2>{2, 3})
    subnet.link(1, port, subnet.add(NodeType::channel_adapter, 1), 1);
  subnet.link(0, 1, 1, 1);
  EXPECT_EQ(run_over(subnet).doubtful, 0U);
  subnet.nodes[3].twin_of = 2;
  EXPECT_EQ(run_over(subnet).doubtful, 1U);
}

// Port 3 of an adapter with two ports would be what is kept of the next node.
TEST(MadDiscover, APortBeyondTheLastIsDoubtfulAndNotLookedAt) {
  Subnet subnet;
  subnet.add(NodeType::channel_adapter, 1);
  subnet.add(NodeType::switch_, 4);
  const std::size_t odd = subnet.add(NodeType::channel_adapter, 2), next = subnet.add(NodeType::channel_adapter, 1);
  subnet.link(0, 1, 1, 1);
  subnet.link(1, 2, odd, 1);
  subnet.link(1, 3, next, 1);
  subnet.link(1, 4, odd, 2);
  const Discovery right = run_over(subnet);
  EXPECT_EQ(right.doubtful, 0U);
  EXPECT_TRUE(right.topology.port(2, 2).known);
  subnet.nodes[odd].off = 1;
  const Discovery wrong = run_over(subnet);
  EXPECT_TRUE(wrong.whole);
  EXPECT_EQ(wrong.doubtful, 1U);
  EXPECT_EQ(wrong.asked + 1, right.asked) << "its PortInfo is not asked for";
  ASSERT_EQ(wrong.topology.nodes()[3].guid, subnet.guid(next));
  EXPECT_EQ(wrong.topology.port(3, 0).guid, 0U);
  EXPECT_FALSE(wrong.topology.port(3, 0).known);
}

TEST(MadDiscover, WhatIsCancelledIsNotWhole) {
  Rng rng(7);
  Subnet subnet;
  draw(subnet, rng, 30);
  Discovery out;
  Port port(subnet.facts(), subnet.local());
  auto running = port.start(discover(port, {}, out));
  const Instant now{};
  while (out.asked < 40) ASSERT_TRUE(pump(port, subnet, now));
  running.cancel();
  for (int i = 0; i < 100 && !running.done(); ++i) ASSERT_TRUE(pump(port, subnet, now));
  EXPECT_TRUE(running.done());
  EXPECT_FALSE(out.whole);
  EXPECT_GT(out.topology.nodes().size(), 1U);
  for (const TopologyNode& node : out.topology.nodes()) EXPECT_FALSE(node.lost);
}

Topology small() {
  Subnet subnet;
  draw_small(subnet);
  subnet.first_lid = 10;
  return run_over(subnet).topology;
}

TEST(MadTopology, IsPrintedAsIbnetdiscoverDoes) {
  std::string text;
  print_ibnetdiscover(small(), "made by hand", [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text,
            "#\n# made by hand\n#\n"
            "\nvendid=0x0\ndevid=0x0\nsysimgguid=0x0\nswitchguid=0x1001(1001)\n"
            "Switch\t4 \"S-0000000000001001\"\t\t# \"node 1\" base port 0 lid 11 lmc 0\n"
            "[1]\t\"H-0000000000001000\"[1](101000) \t\t# \"node 0\" lid 10 4xSDR\n"
            "[3]\t\"H-0000000000001002\"[1](101002) \t\t# \"node 2\" lid 12 4xSDR\n"
            "\nvendid=0x0\ndevid=0x0\nsysimgguid=0x0\ncaguid=0x1000\n"
            "Ca\t1 \"H-0000000000001000\"\t\t# \"node 0\"\n"
            "[1](101000) \t\"S-0000000000001001\"[1]\t\t# lid 10 lmc 0 \"node 1\" lid 11 4xSDR\n"
            "\nvendid=0x0\ndevid=0x0\nsysimgguid=0x0\ncaguid=0x1002\n"
            "Ca\t1 \"H-0000000000001002\"\t\t# \"node 2\"\n"
            "[1](101002) \t\"S-0000000000001001\"[3]\t\t# lid 12 lmc 0 \"node 1\" lid 11 4xSDR\n");
}

TEST(MadTopology, EachPlantedFaultIsFoundAtItsPlaceAlone) {
  EXPECT_TRUE(check_links(small()).empty());
  struct Planted {
    TopologyFault fault;
    std::uint32_t node;
    std::uint8_t port;
    void (*plant)(Topology&);
    const char* text;
  };
  const Planted all[] = {
      {TopologyFault::width, 0, 1, [](Topology& t) { t.port(0, 1).width_active = 1; },
       "is 1x, but both ends have 4x enabled"},
      {TopologyFault::width, 0, 1,
       [](Topology& t) {
         t.port(0, 1).width_active = 0;
         t.port(0, 1).width_enabled = t.port(1, 1).width_enabled = 1;
       },
       "is 0x, but both ends have 1x enabled"},
      {TopologyFault::speed, 1, 3, [](Topology& t) { t.port(1, 3).speed_enabled = t.port(2, 1).speed_enabled = 7; },
       "is SDR, but both ends have QDR enabled"},
      {TopologyFault::speed, 1, 3, [](Topology& t) { t.port(1, 3).ext_enabled = t.port(2, 1).ext_enabled = 3; },
       "is SDR, but both ends have EDR enabled"},
      {TopologyFault::state, 2, 1, [](Topology& t) { t.port(2, 1).state = 2; }, "the port's state is initialize"},
      {TopologyFault::no_lid, 1, 0, [](Topology& t) { t.port(1, 0).lid = 0; }, "no LID"},
      {TopologyFault::double_lid, 2, 1, [](Topology& t) { t.port(2, 1).lid = 11; },
       "LID 11 also belongs to \"node 1\""},
      {TopologyFault::lost, 1, 0, [](Topology& t) { t.node(1).lost = true; },
       "some queries to this node were not answered"},
      {TopologyFault::lost, 1, 2, [](Topology& t) { t.port(1, 2).peer_lost = true; },
       "the node behind it did not answer"},
      {TopologyFault::lost, 1, 4, [](Topology& t) { t.port(1, 4).lost = true; }, "no answer for its PortInfo"},
  };
  for (const Planted& planted : all) {
    Topology topology = small();
    planted.plant(topology);
    const auto findings = check_links(topology);
    ASSERT_EQ(findings.size(), 1U) << planted.text;
    EXPECT_EQ(findings[0].fault, planted.fault);
    EXPECT_EQ(findings[0].node, planted.node);
    EXPECT_EQ(findings[0].port, planted.port);
    EXPECT_THAT(findings[0].text, HasSubstr(planted.text));
  }
}

TEST(MadTopology, CountersAreHeldAgainstTheirThresholds) {
  using wire::mad::PortCounters;
  PortCounters counters;
  counters.set(PortCounters::symbol_error_counter, 10).set(PortCounters::port_xmit_discards, 100);
  EXPECT_EQ(check_counters(counters), "");
  counters.set(PortCounters::symbol_error_counter, 11).set(PortCounters::vl15_dropped, 101);
  EXPECT_EQ(check_counters(counters), "symbol_error_counter is 11 (threshold 10), vl15_dropped is 101 (threshold 100)");
  EXPECT_EQ(check_counters(counters, 2), "");
}

TEST(MadTopology, EachCounterHasItsThreshold) {
  using wire::mad::PortCounters;
  struct Row {
    const char* name;
    std::uint8_t limit;
    void (*set)(PortCounters&, std::uint8_t);
  };
#define PARLEY_ROW(name, limit)                                                          \
  Row {                                                                                  \
#name, limit, [](PortCounters & c, std::uint8_t n) { c.set(PortCounters::name, n); } \
  }
  // As ibcheckerrors has them.
  const Row rows[] = {PARLEY_ROW(symbol_error_counter, 10),
                      PARLEY_ROW(link_error_recovery_counter, 10),
                      PARLEY_ROW(link_downed_counter, 10),
                      PARLEY_ROW(port_rcv_errors, 10),
                      PARLEY_ROW(port_rcv_remote_physical_errors, 100),
                      PARLEY_ROW(port_rcv_switch_relay_errors, 100),
                      PARLEY_ROW(port_xmit_discards, 100),
                      PARLEY_ROW(port_xmit_constraint_errors, 100),
                      PARLEY_ROW(port_rcv_constraint_errors, 100),
                      PARLEY_ROW(local_link_integrity_errors, 10),
                      PARLEY_ROW(excessive_buffer_overrun_errors, 10),
                      PARLEY_ROW(vl15_dropped, 100)};
#undef PARLEY_ROW
  for (const Row& row : rows) {
    PortCounters counters;
    row.set(counters, row.limit);
    EXPECT_EQ(check_counters(counters), "") << row.name;
    row.set(counters, static_cast<std::uint8_t>(row.limit + 1));
    EXPECT_EQ(check_counters(counters), std::string(row.name) + " is " + std::to_string(row.limit + 1) +
                                            " (threshold " + std::to_string(row.limit) + ")");
  }
}

TEST(MadTopology, NamesFromTheSubnetCannotEndATextOrTheGraph) {
  Topology topology = small();
  topology.set_description(2, "evil\"]\n\x1b[2J");
  std::string text;
  print_ibnetdiscover(topology, "", [&](std::string_view piece) { text += piece; });
  EXPECT_THAT(text, HasSubstr("# \"evil']??[2J\""));
  text.clear();
  print_dot(topology, {}, [&](std::string_view piece) { text += piece; });
  EXPECT_THAT(text, HasSubstr("label=\"evil']??[2J\""));
}

}  // namespace
}  // namespace discover_test
}  // namespace parley::mad
