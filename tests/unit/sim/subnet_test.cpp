// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A simulated subnet: agents, routes by LID and by direction, clients, faults, traps.
#include "base/rng.hpp"
#include "subnet_kit.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"

namespace parley::sim::subnet {
namespace {

using namespace wire::mad;
using namespace std::chrono_literals;

TEST(Subnet, FindsNodesByDirectedRoute) {
  SubnetKit kit;
  EXPECT_EQ(body_of<NodeInfo>(kit.ask_directed({0}, NodeInfo{})).get(NodeInfo::node_guid), 0x100000U);
  const NodeInfo leaf = body_of<NodeInfo>(kit.ask_directed({0, 1}, NodeInfo{}));
  EXPECT_EQ(leaf.get(NodeInfo::node_type), NodeType::switch_);
  EXPECT_EQ(leaf.get(NodeInfo::local_port_num), 1);
  const Packet far = kit.ask_directed({0, 1, 5, 2, 1}, NodeDescription{});
  EXPECT_EQ(body_of<NodeDescription>(far).get(NodeDescription::node_string), "H00004");
  EXPECT_EQ(far.mad[3], 0x81);
  EXPECT_EQ(far.mad[4], 0x80);
  EXPECT_EQ(far.mad[6], 0);
  // Entry ports, IBA §14.2.2.2.
  EXPECT_EQ(Bytes(far.mad.begin() + 192, far.mad.begin() + 197), (Bytes{1, 1, 1, 5, 1}));
  EXPECT_EQ(kit.ask_directed({0, 1, 5, 8}, NodeInfo{}).status, status_undeliverable);  // no cable
  EXPECT_EQ(kit.ask_directed({0, 1, 1, 1}, NodeInfo{}).status, status_undeliverable);  // hosts pass nothing on
  EXPECT_EQ(kit.ask_directed({0, 1, 99}, NodeInfo{}).status, status_undeliverable);
  EXPECT_EQ(kit.ask_directed({0, 1, 0}, NodeInfo{}).status, status_undeliverable);
}

TEST(Subnet, BoundsDirectedRoutesAt63Hops) {
  SubnetKit kit;
  Bytes path(64, 1);
  path[0] = 0;
  for (std::size_t i = 2; i < path.size(); ++i) path[i] = i % 2 == 0 ? 5 : 1;  // between a leaf and a spine
  EXPECT_EQ(status_of(kit.ask_directed(path, NodeInfo{})), 0U);
  Packet packet = kit.along({0, 1}, request<MgmtClass::subn_directed, Method::get>(NodeInfo{}));
  packet.mad[7] = 64;
  EXPECT_EQ(kit.ask(packet).status, status_undeliverable);
  EXPECT_EQ(kit.subnet.statistics().malformed, 1U);
}

TEST(Subnet, CarriesDirectedRoutesWithPartsByLid) {
  SubnetKit kit;
  bring_up(kit.subnet);
  Datagram mad = request<MgmtClass::subn_directed, Method::get>(NodeDescription{});
  const auto lid = [&](std::string_view name) { return static_cast<std::uint16_t>(kit.node(name) + 1); };
  const Bytes to_a_spine{0, 5};
  // By LID to the leaf of the second four hosts, from there to a spine, from there by LID to a host.
  ASSERT_TRUE(
      set_route(mad, {.path = to_a_spine, .source_lid = lid("H00000"), .destination_lid = lid("H00015")}).has_value());
  const std::string leaf =
      kit.subnet.state()
          .nodes()[kit.subnet.state().port(kit.subnet.state().port(kit.port("H00004", 1)).peer).node]
          .plan->name;
  const Packet answer = kit.ask({.dlid = lid(leaf), .slid = lid("H00000"), .mad = mad});
  EXPECT_EQ(answer.status, 0U);
  EXPECT_EQ(body_of<NodeDescription>(answer).get(NodeDescription::node_string), "H00015");
}

// IBA §14.2.2: the answer of a directed route with parts by LID goes back over each part.
TEST(Subnet, LosesAnswersThatCannotComeBack) {
  SubnetKit kit;
  bring_up(kit.subnet);
  State& state = kit.subnet.state();
  Datagram mad = request<MgmtClass::subn_directed, Method::get>(NodeDescription{});
  const auto lid = [&](std::uint32_t node) { return static_cast<std::uint16_t>(node + 1); };
  const auto behind = [&](std::uint32_t port) { return state.port(state.port(port).peer).node; };
  const Bytes to_a_spine{0, 1, 5};
  ASSERT_TRUE(set_route(mad, {.path = to_a_spine, .destination_lid = lid(kit.node("H00015"))}).has_value());
  EXPECT_EQ(kit.ask({.mad = mad}).status, 0U);
  const std::uint32_t spine = behind(state.port_of(behind(kit.port("H00000", 1)), 5));
  state.nodes()[behind(kit.port("H00015", 1))].linear_fdb[lid(spine)] = 0xFF;
  EXPECT_EQ(kit.ask({.mad = mad}).status, status_undeliverable);
  // A port that is disabled by the link which it ends.
  PortInfo info = body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{}, 1));
  info.set(PortInfo::port_state, PortState::down).set(PortInfo::port_physical_state, PortPhysicalState::disabled);
  EXPECT_EQ(kit.ask_directed<Method::set>({0, 1}, info, 1).status, status_undeliverable);
}

TEST(Subnet, RoutesByLidAsTheTablesSay) {
  SubnetKit kit;
  bring_up(kit.subnet);
  EXPECT_TRUE(check_routes(kit.subnet.state()).good());
  const auto by_lid = [&](std::uint16_t lid) {
    return kit.ask({.dlid = lid, .mad = request<MgmtClass::subn, Method::get>(NodeDescription{})});
  };
  const auto lid = static_cast<std::uint16_t>(kit.node("H00015") + 1);
  const Packet answer = by_lid(lid);
  EXPECT_EQ(body_of<NodeDescription>(answer).get(NodeDescription::node_string), "H00015");
  EXPECT_EQ(answer.slid, lid);
  EXPECT_EQ(by_lid(0x4000).status, status_undeliverable);
  EXPECT_EQ(by_lid(0).status, status_undeliverable);
  EXPECT_EQ(by_lid(0xC001).status, status_undeliverable);
  // The leaf's table leads somewhere else: to a host that is not meant.
  Node& leaf =
      kit.subnet.state().nodes()[kit.subnet.state().port(kit.subnet.state().port(kit.port("H00000", 1)).peer).node];
  leaf.linear_fdb[lid] = 2;
  EXPECT_EQ(by_lid(lid).status, status_undeliverable);
  const RouteReport report = check_routes(kit.subnet.state());
  EXPECT_EQ(report.pairs, 240U);
  EXPECT_EQ(report.reached, 236U);  // four hosts at that leaf
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(report.wrong[0].find("the route to H00015"), std::string::npos);
  EXPECT_NE(report.wrong[0].find("is another node"), std::string::npos);
}

TEST(Subnet, NoticesWaysThatGoInCircles) {
  SubnetKit kit;
  bring_up(kit.subnet);
  State& state = kit.subnet.state();
  const auto lid = static_cast<std::uint16_t>(kit.node("H00015") + 1);
  Node& leaf = state.nodes()[state.port(state.port(kit.port("H00000", 1)).peer).node];
  Node& spine = state.nodes()[state.port(state.port(leaf.first_port + 5).peer).node];
  leaf.linear_fdb[lid] = 5;
  spine.linear_fdb[lid] = state.port(state.port(leaf.first_port + 5).peer).number;
  const RouteReport report = check_routes(state);
  EXPECT_FALSE(report.good());
  ASSERT_FALSE(report.wrong.empty());
  EXPECT_NE(report.wrong[0].find("loops at"), std::string::npos);
  EXPECT_EQ(kit.ask({.dlid = lid, .mad = request<MgmtClass::subn, Method::get>(NodeInfo{})}).status,
            status_undeliverable);
}

TEST(Subnet, NothingLookedAtIsNotGood) {
  const SubnetKit kit(*read_plan("Hca 1 \"H00000\"\n"));
  const RouteReport report = check_routes(kit.subnet.state());
  EXPECT_EQ(report.pairs + report.switches, 0U);
  EXPECT_FALSE(report.good());
  EXPECT_FALSE(report.wrong.empty());
}

TEST(Subnet, HostsOnOneCableReachEachOtherAlone) {
  SubnetKit kit(*read_plan("Hca 1 \"H00000\"\n[1] \"B\"[1]\nHca 1 \"B\"\n[1] \"H00000\"[1]\n"));
  EXPECT_FALSE(check_routes(kit.subnet.state()).good());
  bring_up(kit.subnet);
  const RouteReport report = check_routes(kit.subnet.state());
  EXPECT_EQ(report.pairs, 2U);
  EXPECT_EQ(report.hops_max, 1U);
  EXPECT_TRUE(report.good());
}

TEST(Subnet, ACheckReachesWhatPacketsReach) {
  Rng rng(11);
  for (int round = 0; round < 40; ++round) {
    SubnetKit kit;
    bring_up(kit.subnet);
    State& state = kit.subnet.state();
    for (std::uint64_t damage = rng.below(12); damage > 0; --damage) {
      Node& node = state.nodes()[rng.below(state.nodes().size())];
      if (node.is_switch())
        node.linear_fdb[rng.below(state.nodes().size() + 1)] = static_cast<std::uint8_t>(rng.below(10));
      else if (rng.chance({1, 2}))
        state.plug(node.first_port, false);
      else
        state.port(node.first_port).info.set(PortInfo::lid, rng.chance({1, 2}) ? std::uint16_t{0} : std::uint16_t{60});
    }
    std::uint64_t reached = 0, switches_reached = 0;
    for (std::uint32_t host = 0; host < state.ports(); ++host) {
      if (state.node_of(state.port(host)).is_switch() || !state.carries(host, true)) continue;
      for (std::uint32_t target = 0; target < state.ports(); ++target) {
        const Port& to = state.port(target);
        if (target == host || state.end_port(target) != target) continue;
        const std::uint32_t at = walk_by_lid(state, host, to.info.get(PortInfo::lid), true);
        if (at != nowhere && at != host && state.port(at).node == to.node)
          ++(to.number == 0 ? switches_reached : reached);
      }
    }
    const RouteReport report = check_routes(state);
    EXPECT_EQ(report.reached, reached) << round;
    EXPECT_EQ(report.switches_reached, switches_reached) << round;
    EXPECT_EQ(report.pairs, 240U);
    EXPECT_EQ(report.good(), reached == 240 && switches_reached == report.switches) << round;
  }
}

TEST(Subnet, GoesAsFarAsTheTablesLead) {
  SubnetKit kit(*make_plan(Torus{.sizes = {140}, .hosts = 1, .trunk = 1}));
  bring_up(kit.subnet);
  const RouteReport report = check_routes(kit.subnet.state());
  EXPECT_TRUE(report.good());
  EXPECT_EQ(report.pairs, 140U * 139U);
  EXPECT_EQ(report.hops_max, 72U);
  const auto lid = static_cast<std::uint16_t>(kit.node("H00070") + 1);
  EXPECT_EQ(
      body_of<NodeDescription>(kit.ask({.dlid = lid, .mad = request<MgmtClass::subn, Method::get>(NodeDescription{})}))
          .get(NodeDescription::node_string),
      "H00070");
}

TEST(Subnet, TakesPortsThroughTheirStates) {
  SubnetKit kit;
  const auto set_state = [&](PortState to) {
    PortInfo info = body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{}, 1));
    info.set(PortInfo::port_state, to).set(PortInfo::port_physical_state, PortPhysicalState::no_change);
    return kit.ask_directed<Method::set>({0, 1}, info, 1);
  };
  EXPECT_EQ(status_of(set_state(PortState::active)), 0x1CU);  // not from Initialize
  EXPECT_EQ(status_of(set_state(PortState::initialize)), 0x1CU);
  EXPECT_EQ(body_of<PortInfo>(set_state(PortState::armed)).get(PortInfo::port_state), PortState::armed);
  EXPECT_EQ(body_of<PortInfo>(set_state(PortState::active)).get(PortInfo::port_state), PortState::active);
  EXPECT_EQ(status_of(set_state(PortState::armed)), 0x1CU);
  // Down trains the link anew: both ends wait for the subnet manager.
  EXPECT_EQ(body_of<PortInfo>(set_state(PortState::down)).get(PortInfo::port_state), PortState::initialize);
  EXPECT_EQ(kit.subnet.state().port(kit.port("H00000", 1)).info.get(PortInfo::port_state), PortState::initialize);
}

TEST(Subnet, RefusesRequestsAsAgentsDo) {
  SubnetKit kit;
  EXPECT_EQ(status_of(kit.ask_directed({0}, SwitchInfo{})), 0x0CU);  // of a host
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, PortInfo{}, 9)), 0x1CU);
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, LinearForwardingTable{}, 768)), 0x1CU);
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, PKeyTable{}, 2)), 0x1CU);
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, PKeyTable{}, 9 << 16)), 0x1CU);  // of 8 ports
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, LedInfo{})), 0x0CU);
  Packet packet = kit.along({0, 1}, request<MgmtClass::subn_directed, Method::get>(NodeInfo{}));
  packet.mad[2] = 9;
  EXPECT_EQ(status_of(kit.ask(packet)), 0x04U);
  packet.mad[2] = 1;
  packet.mad[3] = 0x12;
  EXPECT_EQ(status_of(kit.ask(packet)), 0x08U);
}

TEST(Subnet, KeepsTablesThatAreSet) {
  SubnetKit kit;
  LinearForwardingTable table;
  for (std::size_t i = 0; i < 64; ++i)
    table.set_at(LinearForwardingTable::port_block, i, static_cast<std::uint8_t>(i + 1));
  EXPECT_EQ(body_of<LinearForwardingTable>(kit.ask_directed({0, 1}, LinearForwardingTable{}, 3))
                .get(LinearForwardingTable::port_block, 5),
            255);
  EXPECT_EQ(status_of(kit.ask_directed<Method::set>({0, 1}, table, 3)), 0U);
  EXPECT_EQ(body_of<LinearForwardingTable>(kit.ask_directed({0, 1}, LinearForwardingTable{}, 3)), table);
  EXPECT_EQ(body_of<LinearForwardingTable>(kit.ask_directed({0, 1}, LinearForwardingTable{}, 2))
                .get(LinearForwardingTable::port_block, 5),
            255);
  PKeyTable keys = body_of<PKeyTable>(kit.ask_directed({0}, PKeyTable{}));
  EXPECT_EQ(keys.get(PKeyTable::p_key_block, 0), 0xFFFF);
  keys.set_at(PKeyTable::p_key_block, 3, 0x8123);
  EXPECT_EQ(body_of<PKeyTable>(kit.ask_directed<Method::set>({0}, keys)), keys);
  EXPECT_EQ(body_of<PKeyTable>(kit.ask_directed({0}, PKeyTable{})), keys);
  MulticastForwardingTable masks;
  masks.set_at(MulticastForwardingTable::port_mask_block, 7, 0x1234);
  EXPECT_EQ(body_of<MulticastForwardingTable>(kit.ask_directed<Method::set>({0, 1}, masks, 2)), masks);
  EXPECT_EQ(body_of<MulticastForwardingTable>(kit.ask_directed({0, 1}, MulticastForwardingTable{}, 2)), masks);
  EXPECT_EQ(status_of(kit.ask_directed<Method::set>({0, 1}, masks, 32)), 0x1CU);
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "reset S0004").has_value());
  EXPECT_EQ(body_of<LinearForwardingTable>(kit.ask_directed({0, 1}, LinearForwardingTable{}, 3))
                .get(LinearForwardingTable::port_block, 5),
            255);
}

TEST(Subnet, MapsEachServiceLevelToOneOfEightLanesUntilToldOtherwise) {
  SubnetKit kit;
  const Packet answer = kit.ask_directed({0}, SlToVlMappingTable{});
  const ConstBytes data = ConstBytes(answer.mad).subspan(64, 8);
  EXPECT_EQ(Bytes(data.begin(), data.end()), (Bytes{0x01, 0x23, 0x45, 0x67, 0x01, 0x23, 0x45, 0x67}));
}

TEST(Subnet, SwitchesKeepTheLidsOfTheirTopology) {
  Plan plan = fat_tree_16();
  for (PlanNode& node : plan.nodes)
    if (node.ports.size() > 1) node.lid = 77;
  SubnetKit kit(std::move(plan));
  EXPECT_EQ(body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{}, 0)).get(PortInfo::lid), 77);
}

TEST(Subnet, AClientOfASwitchIsAtItsPortZero) {
  SubnetKit kit;
  kit.client = *kit.subnet.attach(kit.now, {.node = "S0003"});
  const NodeInfo own = body_of<NodeInfo>(kit.ask_directed({0}, NodeInfo{}));
  EXPECT_EQ(own.get(NodeInfo::node_type), NodeType::switch_);
  EXPECT_EQ(own.get(NodeInfo::local_port_num), 0);
  EXPECT_EQ(body_of<NodeDescription>(kit.ask_directed({0}, NodeDescription{})).get(NodeDescription::node_string),
            "S0003");
}

TEST(Subnet, GuardsPortsByMKey) {
  SubnetKit kit;
  PortInfo info = body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{}));
  info.set(PortInfo::m_key, 77).set(PortInfo::m_key_protect_bits, 1).set(PortInfo::m_key_lease_period, 10);
  info.set(PortInfo::port_state, PortState::no_change).set(PortInfo::port_physical_state, PortPhysicalState::no_change);
  EXPECT_EQ(status_of(kit.ask_directed<Method::set>({0, 1}, info)), 0U);
  EXPECT_EQ(body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{})).get(PortInfo::m_key), 0U);  // hidden
  EXPECT_EQ(body_of<PortInfo>(kit.ask_directed({0, 1}, PortInfo{}, 0, 77)).get(PortInfo::m_key), 77U);
  EXPECT_EQ(kit.ask_directed<Method::set>({0, 1}, info).status, status_undeliverable);
  info.set(PortInfo::m_key_protect_bits, 2);
  EXPECT_EQ(status_of(kit.ask_directed<Method::set>({0, 1}, info, 0, 77)), 0U);
  EXPECT_EQ(kit.ask_directed({0, 1}, NodeInfo{}).status, status_undeliverable);
  EXPECT_EQ(kit.subnet.statistics().m_key_violations, 2U);
  EXPECT_EQ(kit.subnet.next_deadline(), kit.now + 10s);
  kit.wait(10s);  // the lease is over
  EXPECT_EQ(status_of(kit.ask_directed({0, 1}, NodeInfo{})), 0U);
}

/// Links are up, the client is the subnet manager, and the traps of the beginning are over.
void settle(SubnetKit& kit) {
  bring_up(kit.subnet);
  kit.subnet.set_is_sm(kit.now, kit.client, true);
  for (int i = 0; i < 10; ++i) kit.wait(1s);
  kit.drain();
}

std::vector<Delivery> traps_in(const std::vector<Delivery>& got, std::uint16_t number) {
  std::vector<Delivery> out;
  for (const Delivery& each : got)
    if (each.packet.mad[3] == 5 && body_of<Notice>(each.packet).get(Notice::trap_number) == number) out.push_back(each);
  return out;
}

// IBA §14.2.4.2, §14.2.5.1.
TEST(Subnet, SaysWhoseMKeyWasWrong) {
  SubnetKit kit;
  settle(kit);
  const auto lid = static_cast<std::uint16_t>(kit.node("H00005") + 1),
             own = static_cast<std::uint16_t>(kit.node("H00000") + 1);
  PortInfo& guarded = kit.subnet.state().port(kit.port("H00005", 1)).info;
  guarded.set(PortInfo::m_key, 77).set(PortInfo::m_key_protect_bits, 1);
  const auto ask = [&](const Packet& packet) {
    kit.subnet.handle_send(kit.now, kit.client, packet);
    return traps_in(kit.drain(), 256);
  };
  const Datagram set = request<MgmtClass::subn, Method::set>(PortInfo{}, {.attribute_modifier = 1, .key = 78});
  const Datagram get = request<MgmtClass::subn, Method::get>(PortInfo{}, {.attribute_modifier = 1, .key = 78});
  EXPECT_TRUE(ask({.dlid = lid, .mad = get}).empty()) << "that is allowed";
  auto traps = ask({.dlid = lid, .mad = set});
  ASSERT_EQ(traps.size(), 1U);
  EXPECT_EQ(traps[0].packet.slid, lid);
  const Notice notice = body_of<Notice>(traps[0].packet);
  EXPECT_EQ(notice.get(Notice::notice_type), NoticeType::security);
  EXPECT_EQ(notice.get(Notice::node_type), NodeType::channel_adapter);
  EXPECT_EQ(notice.get(Notice::issuer_lid), lid);
  const auto expected = [&](const Datagram& mad) {
    return Trap256Details()
        .set(Trap256Details::lid, own)
        .set(Trap256Details::method, static_cast<Method>(mad[3]))
        .set(Trap256Details::attribute_id, PortInfo::attribute)
        .set(Trap256Details::attribute_modifier, 1)
        .set(Trap256Details::m_key, 78);
  };
  const auto details_of = [](const Delivery& trap) {
    return *Trap256Details::parse(ConstBytes(trap.packet.mad).subspan(64 + 10));
  };
  EXPECT_EQ(details_of(traps[0]), expected(set));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(ask({.dlid = lid, .mad = set}).empty()) << "one in a second";
  EXPECT_EQ(kit.subnet.statistics().m_key_violations, 101U);
  // Repeated until it is repressed; the next violation is another trap.
  kit.wait(1s);
  traps = traps_in(kit.drain(), 256);
  ASSERT_EQ(traps.size(), 1U);
  Packet repress = traps[0].packet;
  std::swap(repress.dlid, repress.slid);
  repress.mad[3] = 7;
  kit.subnet.handle_send(kit.now, kit.client, repress);
  kit.wait(1s);
  EXPECT_TRUE(kit.drain().empty());
  guarded.set(PortInfo::m_key_protect_bits, 2);
  Datagram directed = request<MgmtClass::subn_directed, Method::get>(PortInfo{}, {.attribute_modifier = 1, .key = 78});
  traps = ask(kit.along({0, 1, 5, 2, 2}, directed));
  ASSERT_EQ(traps.size(), 1U);
  const Trap256Details details = details_of(traps[0]);
  EXPECT_TRUE(details.get(Trap256Details::dr_notice));
  EXPECT_FALSE(details.get(Trap256Details::dr_path_truncated));
  EXPECT_EQ(details.get(Trap256Details::dr_hop_count), 4);
  EXPECT_EQ(details.get(Trap256Details::dr_slid), PARLEY_MAD_PERMISSIVE_LID);
  EXPECT_EQ(details.get(Trap256Details::dr_notice_return_path)[4], 1) << "the port by which it came in";
}

// IBA §14.2.5.1.
TEST(Subnet, SaysWhatALinksErrorsHaveComeTo) {
  SubnetKit kit;
  settle(kit);
  const auto lid = static_cast<std::uint16_t>(kit.node("S0004") + 1);
  const auto details_at = [&](std::uint8_t port) {
    return Trap129Details().set(Trap129Details::lid, lid).set(Trap129Details::port_num, port);
  };
  std::uint16_t number = 129;
  for (const std::string_view word : {"integrity", "overrun", "watchdog"}) {
    ASSERT_TRUE(kit.subnet.add_fault(kit.now, std::string(word) + " S0004:5").has_value());
    const auto got = kit.drain();
    ASSERT_EQ(got.size(), 1U) << word;
    const Notice notice = body_of<Notice>(got[0].packet);
    EXPECT_EQ(notice.get(Notice::trap_number), number++);
    EXPECT_EQ(notice.get(Notice::notice_type), NoticeType::urgent);
    EXPECT_EQ(notice.get(Notice::node_type), NodeType::switch_);
    EXPECT_EQ(*Trap129Details::parse(ConstBytes(got[0].packet.mad).subspan(64 + 10)), details_at(5));
  }
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "overrun S0004:6").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "overrun S0004:6").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "at 20s overrun S0004:7").has_value());
  kit.drain();
  kit.wait(1s);
  EXPECT_EQ(traps_in(kit.drain(), 130).size(), 2U) << "that of each port is repeated, whatever the other's";
  const auto counters = [&](std::uint8_t port) {
    return body_of<PortCounters>(
        kit.ask({.dlid = lid,
                 .dqp = 1,
                 .sqp = 1,
                 .mad = request<MgmtClass::perf, Method::get>(PortCounters().set(PortCounters::port_select, port))}));
  };
  EXPECT_EQ(counters(5).get(PortCounters::local_link_integrity_errors), 1);
  EXPECT_EQ(counters(5).get(PortCounters::excessive_buffer_overrun_errors), 1);
  EXPECT_EQ(counters(6).get(PortCounters::local_link_integrity_errors), 0);
  EXPECT_EQ(counters(6).get(PortCounters::excessive_buffer_overrun_errors), 2);
  for (int i = 0; i < 8; ++i) kit.wait(1s);
  kit.drain();
  kit.wait(1s);  // 20 s since the beginning
  EXPECT_EQ(traps_in(kit.drain(), 130).size(), 1U);
  EXPECT_EQ(counters(7).get(PortCounters::excessive_buffer_overrun_errors), 1);
  EXPECT_FALSE(kit.subnet.add_fault(kit.now, "overrun S0004").has_value());
}

TEST(Subnet, CountsPackets) {
  SubnetKit kit;
  bring_up(kit.subnet);
  const auto leaf =
      static_cast<std::uint16_t>(kit.subnet.state().port(kit.subnet.state().port(kit.port("H00000", 1)).peer).node + 1);
  const auto counters = [&](auto set) {
    PortCounters asked;
    asked.set(PortCounters::port_select, 1).set(PortCounters::counter_select, 0xF000);
    return body_of<PortCounters>(kit.ask({.dlid = leaf, .mad = request<MgmtClass::perf, decltype(set)::value>(asked)}));
  };
  constexpr std::integral_constant<Method, Method::get> get;
  constexpr std::integral_constant<Method, Method::set> reset;
  const PortCounters first = counters(get), second = counters(get);
  EXPECT_EQ(second.get(PortCounters::port_rcv_pkts), first.get(PortCounters::port_rcv_pkts) + 1);
  EXPECT_EQ(second.get(PortCounters::port_rcv_data), second.get(PortCounters::port_rcv_pkts) * 72);
  EXPECT_EQ(counters(reset).get(PortCounters::port_rcv_pkts), 0U);
  EXPECT_EQ(counters(get).get(PortCounters::port_rcv_pkts), 1U);
  EXPECT_EQ(counters(get).get(PortCounters::port_xmit_pkts), 2U);
}

TEST(Subnet, BringsRequestsToTheSubnetManager) {
  SubnetKit kit;
  bring_up(kit.subnet);
  const auto lid = static_cast<std::uint16_t>(kit.node("H00005") + 1);
  const Packet query{.dlid = lid,
                     .dqp = 1,
                     .sqp = 1,
                     .mad = request<MgmtClass::subn_adm, Method::get>(NodeRecord{}, {.transaction_id = 0xABCD})};
  EXPECT_EQ(kit.ask(query).status, status_undeliverable);
  const ClientId plain = *kit.subnet.attach(kit.now, {.node = "H00005"});
  EXPECT_EQ(kit.ask(query).status, status_undeliverable);
  const ClientId sm = *kit.subnet.attach(kit.now, {.node = "H00005", .is_sm = true});
  EXPECT_FALSE(kit.subnet.attach(kit.now, {.node = "H00005", .is_sm = true}).has_value());
  kit.drain();
  kit.subnet.handle_send(kit.now, kit.client, query);
  auto got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].to, sm);
  EXPECT_EQ(got[0].packet.slid, kit.node("H00000") + 1);
  // Its answer finds back by the transaction ID, and so does one of SMInfo by directed route.
  Packet answer = got[0].packet;
  std::swap(answer.dlid, answer.slid);
  answer.mad[3] = 0x81;
  kit.subnet.handle_send(kit.now, sm, answer);
  got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].to, kit.client);
  EXPECT_EQ(read_bits(got[0].packet.mad, 96, 32), 0xABCDU);
  kit.subnet.handle_send(kit.now, kit.client,
                         kit.along({0, 1, 5, 2, 2}, request<MgmtClass::subn_directed, Method::get>(SmInfo{})));
  got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].to, sm);
  EXPECT_EQ(got[0].packet.mad[6], 5);
  answer = got[0].packet;
  answer.mad[3] = 0x81;
  answer.mad[4] = 0x80;
  kit.subnet.handle_send(kit.now, sm, answer);
  got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].to, kit.client);
  kit.subnet.detach(kit.now, sm);
  EXPECT_EQ(kit.ask(query).status, status_undeliverable);
  EXPECT_TRUE(kit.subnet.is_attached(plain));
}

TEST(Subnet, ReturnsRequestsThatAClientLeavesUnanswered) {
  SubnetKit kit;
  bring_up(kit.subnet);
  const auto query = [&](std::uint64_t transaction) {
    return Packet{.dlid = static_cast<std::uint16_t>(kit.node("H00005") + 1),
                  .dqp = 1,
                  .sqp = 1,
                  .mad = request<MgmtClass::subn_adm, Method::get>(NodeRecord{}, {.transaction_id = transaction})};
  };
  const ClientId sm = *kit.subnet.attach(kit.now, {.node = "H00005", .is_sm = true});
  const ClientId gone = *kit.subnet.attach(kit.now, {.node = "H00001"});
  const ClientId timed = *kit.subnet.attach(kit.now, {.node = "H00002", .own_timers = true});
  kit.subnet.handle_send(kit.now, kit.client, query(1));
  auto got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  Packet answer = got[0].packet;
  std::swap(answer.dlid, answer.slid);
  answer.mad[3] = 0x81;
  kit.subnet.handle_send(kit.now, sm, answer);
  kit.subnet.handle_send(kit.now, kit.client, query(2));
  kit.subnet.handle_send(kit.now, timed, query(3));
  kit.subnet.handle_send(kit.now, gone, query(4));
  kit.subnet.detach(kit.now, gone);
  ASSERT_EQ(kit.drain().size(), 4U);
  kit.subnet.detach(kit.now, sm);
  got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].to, kit.client);
  EXPECT_EQ(got[0].packet.status, status_undeliverable);
  EXPECT_EQ(got[0].packet.mad, query(2).mad);
}

TEST(Subnet, ForgetsUnansweredRequestsBeyondItsBound) {
  SubnetKit kit;
  bring_up(kit.subnet);
  const ClientId sm = *kit.subnet.attach(kit.now, {.node = "H00005", .is_sm = true});
  for (std::uint64_t i = 0; i < 2 * Subnet::open_max; ++i)
    kit.subnet.handle_send(kit.now, kit.client,
                           {.dlid = static_cast<std::uint16_t>(kit.node("H00005") + 1),
                            .dqp = 1,
                            .mad = request<MgmtClass::subn_adm, Method::get>(NodeRecord{}, {.transaction_id = i})});
  kit.drain();
  kit.subnet.detach(kit.now, sm);
  EXPECT_EQ(kit.drain().size(), Subnet::open_max);
}

TEST(Subnet, ChoosesAmongTheClientsOfAPort) {
  SubnetKit kit;
  bring_up(kit.subnet);
  const auto attach = [&](const ClientOptions& options) { return *kit.subnet.attach(kit.now, options); };
  const ClientId declared = attach({.node = "H00005"});
  const ClientId sm = attach({.node = "H00005", .is_sm = true});
  const ClientId last = attach({.node = "H00005", .qp = 5});
  kit.subnet.set_receives(declared, 0x0A);
  kit.drain();
  const auto receiver = [&](std::uint8_t mgmt_class, std::uint32_t qp) {
    Packet packet{.dlid = static_cast<std::uint16_t>(kit.node("H00005") + 1), .dqp = qp, .sqp = 1, .mad = {}};
    packet.mad[0] = packet.mad[2] = packet.mad[3] = 1;
    packet.mad[1] = static_cast<std::uint8_t>(mgmt_class);
    kit.subnet.handle_send(kit.now, kit.client, packet);
    const auto got = kit.drain();
    EXPECT_EQ(got.size(), 1U);
    return got.empty() ? kit.client : got.front().to;
  };
  EXPECT_EQ(receiver(0x0A, 1), declared);
  EXPECT_EQ(receiver(0x0B, 1), sm);
  EXPECT_EQ(receiver(0x0B, 5), last);
  EXPECT_EQ(receiver(0x0B, 6), sm);  // nobody's
  kit.subnet.set_is_sm(kit.now, sm, false);
  kit.drain();
  EXPECT_EQ(receiver(0x0B, 1), last);
}

TEST(Subnet, KnowsTrapRepressOfSubnetManagementAlone) {
  SubnetKit kit;
  bring_up(kit.subnet);
  Packet packet{.dlid = static_cast<std::uint16_t>(kit.node("H00005") + 1),
                .mad = request<MgmtClass::perf, Method::get>(PortCounters{})};
  packet.mad[3] = 0x07;
  EXPECT_EQ(status_of(kit.ask(packet)), 0x08U);  // the agent does not have that method
}

TEST(Subnet, SendsTrapsUntilTheyAreRepressed) {
  SubnetKit kit;
  bring_up(kit.subnet);
  kit.subnet.set_is_sm(kit.now, kit.client, true);
  for (int i = 0; i < 10; ++i) kit.wait(1s);  // nobody represses that it is one now
  EXPECT_EQ(kit.drain().size(), 6U);
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "down S0004:5").has_value());
  auto got = kit.drain();
  ASSERT_EQ(got.size(), 1U);  // the spine's has lost its way: the tables lead over that link
  EXPECT_EQ(body_of<Notice>(got[0].packet).get(Notice::trap_number), 128);
  kit.wait(1s);
  got = kit.drain();
  ASSERT_FALSE(got.empty());
  EXPECT_EQ(got[0].packet.slid, kit.node("S0004") + 1);
  Packet repress = got[0].packet;
  std::swap(repress.dlid, repress.slid);
  repress.mad[3] = 7;
  kit.subnet.handle_send(kit.now, kit.client, repress);
  EXPECT_EQ(kit.subnet.statistics().repressed, 1U);
  kit.wait(1s);
  EXPECT_TRUE(kit.drain().empty());
  EXPECT_EQ(kit.subnet.state().port(kit.port("S0004", 5)).info.get(PortInfo::port_state), PortState::down);
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "up S0004:5").has_value());
  EXPECT_EQ(kit.subnet.state().port(kit.port("S0004", 5)).info.get(PortInfo::port_state), PortState::initialize);
  kit.drain();
  EXPECT_TRUE(body_of<SwitchInfo>(kit.ask_directed({0, 1}, SwitchInfo{})).get(SwitchInfo::port_state_change));
}

TEST(Subnet, FaultsHitWhatTheyMean) {
  SubnetKit kit;
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "lose 3rd SubnGetResp(PortInfo) of S0004").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "busy 2nd SubnGet(NodeInfo)").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "delay 20ms every 2nd SubnGet(NodeDescription)").has_value());
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(kit.ask_directed({0}, PortInfo{}).status, 0U);  // not of that node
    EXPECT_EQ(kit.ask_directed({0, 1}, PortInfo{}).status, i == 3 ? status_undeliverable : 0U);
    EXPECT_EQ(status_of(kit.ask_directed({0, 1}, NodeInfo{})), i == 2 ? 1U : 0U);
  }
  const Packet description = kit.along({0}, request<MgmtClass::subn_directed, Method::get>(NodeDescription{}));
  kit.ask(description);
  kit.subnet.handle_send(kit.now, kit.client, description);
  EXPECT_TRUE(kit.drain().empty());
  EXPECT_EQ(kit.subnet.next_deadline(), kit.now + 20ms);
  kit.wait(20ms);
  EXPECT_EQ(kit.drain().size(), 1U);
  for (const FaultRule& rule : kit.subnet.rules()) EXPECT_EQ(rule.hits, 1U) << rule.text;
}

// IBA §13.4.4: vendors' and applications' classes are ranges; congestion control lies in the latter.
TEST(Subnet, AFaultOfARangeHitsEachClassOfIt) {
  SubnetKit kit;
  bring_up(kit.subnet);
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "lose every 1st ApplicationGet(*)").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "lose every 1st VendGet(*)").has_value());
  for (const unsigned mgmt_class : {0x09, 0x0F, 0x10, 0x21, 0x2C, 0x2D, 0x2F, 0x30, 0x4F, 0x50}) {
    Packet packet{.dlid = 11, .dqp = 1, .sqp = 1};
    packet.mad[0] = packet.mad[2] = packet.mad[3] = 1;
    packet.mad[1] = static_cast<std::uint8_t>(mgmt_class);
    kit.subnet.handle_send(kit.now, kit.client, packet);
  }
  EXPECT_EQ(kit.subnet.rules()[0].hits, 3U);
  EXPECT_EQ(kit.subnet.rules()[1].hits, 4U);
}

TEST(Subnet, Vl15TakesSmpsOneAfterTheOtherAndDropsWhatFindsNoBuffer) {
  SubnetKit kit;
  bring_up(kit.subnet);
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "vl15 2 100us of S0004").has_value());
  const auto send = [&](std::initializer_list<std::uint8_t> route) {
    kit.subnet.handle_send(kit.now, kit.client,
                           kit.along(route, request<MgmtClass::subn_directed, Method::get>(NodeInfo{})));
  };
  const auto dropped = [&] { return kit.subnet.state().errors(kit.port("S0004", 1)).vl15_dropped; };
  for (int i = 0; i < 3; ++i) send({0, 1});
  auto got = kit.drain();
  ASSERT_EQ(got.size(), 1U) << "the third one comes back";
  EXPECT_EQ(got[0].packet.status, status_undeliverable);
  EXPECT_EQ(dropped(), 1U);
  EXPECT_EQ(kit.subnet.rules()[0].hits, 1U);
  send({0});  // another node
  EXPECT_EQ(kit.drain().size(), 1U);
  const Packet counters{.dlid = static_cast<std::uint16_t>(kit.node("S0004") + 1),
                        .mad = request<MgmtClass::perf, Method::get>(PortCounters{})};
  EXPECT_EQ(kit.ask(counters).status, 0U) << "they go by another lane";
  kit.wait(99us);
  EXPECT_TRUE(kit.drain().empty());
  kit.wait(1us);
  EXPECT_EQ(kit.drain().size(), 1U);
  send({0, 1});  // there is room for one again
  send({0, 1});
  EXPECT_EQ(kit.drain().size(), 1U);
  EXPECT_EQ(dropped(), 2U);
  kit.wait(100us);
  EXPECT_EQ(kit.drain().size(), 1U);
  kit.wait(100us);
  got = kit.drain();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].packet.status, 0U);
  EXPECT_EQ(kit.subnet.next_deadline(), never);
}

TEST(Subnet, CommandsTakeNoRoomFromRules) {
  SubnetKit kit;
  for (int i = 0; i < 300; ++i) {
    ASSERT_TRUE(kit.subnet.add_fault(kit.now, "down S0004:5").has_value());
    ASSERT_TRUE(kit.subnet.add_fault(kit.now, "up S0004:5").has_value());
  }
  ASSERT_EQ(kit.subnet.commands().size(), 2U);
  EXPECT_EQ(kit.subnet.commands()[0].hits, 300U);
  for (std::size_t i = 1; i <= 300; ++i)
    ASSERT_TRUE(kit.subnet.add_fault(kit.now, "reset" + std::string(i, ' ') + "S0004").has_value());
  EXPECT_EQ(kit.subnet.commands().size(), fault_rules_max);
  for (std::size_t i = 0; i < fault_rules_max; ++i)
    ASSERT_TRUE(kit.subnet.add_fault(kit.now, "at 9s down S0004:5").has_value());
  EXPECT_FALSE(kit.subnet.add_fault(kit.now, "at 9s down S0004:5").has_value());
  ASSERT_TRUE(kit.subnet.add_fault(kit.now, "down S0004:6").has_value());
  EXPECT_EQ(kit.subnet.state().port(kit.port("S0004", 6)).info.get(PortInfo::port_state), PortState::down);
}

TEST(Subnet, AClientWithTimersOfItsOwnHearsNothingOfLosses) {
  SubnetKit kit(fat_tree_16(), {.loss = {1, 1}});
  kit.subnet.set_own_timers(kit.client, true);
  kit.subnet.handle_send(kit.now, kit.client,
                         kit.along({0, 1}, request<MgmtClass::subn_directed, Method::get>(NodeInfo{})));
  EXPECT_TRUE(kit.drain().empty());
  EXPECT_EQ(kit.subnet.statistics().lost, 1U);
}

TEST(Subnet, SaysWhatItDoesNotUnderstandOfFaults) {
  SubnetKit kit;
  for (const char* const text : {"",
                                 "lose",
                                 "loose 3rd *",
                                 "lose 3rd SubnPut(NodeInfo)",
                                 "lose SubnGet(NodeInf)",
                                 "lose * of X",
                                 "lose * at X",
                                 "lose 101% of *",
                                 "lose 0th *",
                                 "delay *",
                                 "delay 61s *",
                                 "down S0004",
                                 "down S0004:99",
                                 "down S0000:8",
                                 "at 2 down S0004:1",
                                 "at 2s break S0004",
                                 "reset X",
                                 "lose * of S0004 twice",
                                 "duplicate S0004",
                                 "reset S0004 twice",
                                 "reset every *",
                                 "busy 1st SubnGetResp(*)",
                                 "busy SubnAdmGet(*)",
                                 "busy SubnTrap(Notice)",
                                 "reset 1st SubnTrap(Notice)",
                                 "vl15",
                                 "vl15 8",
                                 "vl15 0 20us",
                                 "vl15 4097 20us",
                                 "vl15 -1 20us",
                                 "vl15 8 0s",
                                 "vl15 8 2s",
                                 "vl15 8 20us S0004",
                                 "vl15 8 20us of X",
                                 "vl15 8 20us of S0004 twice",
                                 "at 2s vl15 8 20us"}) {
    const auto added = kit.subnet.add_fault(kit.now, text);
    ASSERT_FALSE(added.has_value()) << text;
    EXPECT_FALSE(added.error().empty());
  }
  for (const char* const text :
       {"reset every 10th *", "reset 5% of SubnGet(*)", "reset *", "busy *", "busy 1st PerformanceGet(PortCounters)",
        "reset 1st SubnTrapRepress(*)", "vl15 4096 1s"}) {
    const auto added = kit.subnet.add_fault(kit.now, text);
    EXPECT_TRUE(added.has_value()) << text << ": " << added.error();
  }
  EXPECT_NE(kit.subnet.add_fault(kit.now, "reset every *").error().find("'every' must be followed by a number"),
            std::string::npos);
}

TEST(Subnet, DuplicatesRequestsAndAnswers) {
  SubnetKit kit;
  const auto answers = [&](std::string_view fault) {
    EXPECT_TRUE(kit.subnet.add_fault(kit.now, fault).has_value()) << fault;
    kit.subnet.handle_send(
        kit.now, kit.client,
        kit.along({0, 1}, request<MgmtClass::subn_directed, Method::get>(NodeInfo{}, {.transaction_id = 7})));
    return kit.drain().size();
  };
  EXPECT_EQ(answers("duplicate 1st SubnGet(NodeInfo)"), 2U);
  EXPECT_EQ(kit.subnet.statistics().answered, 2U);
  EXPECT_EQ(answers("duplicate 1st SubnGetResp(NodeInfo)"), 2U);
  EXPECT_EQ(kit.subnet.statistics().answered, 3U);
  EXPECT_EQ(answers("duplicate 1st SubnGet(NodeDescription)"), 1U);
  EXPECT_EQ(kit.subnet.statistics().duplicated, 2U);
}

TEST(Subnet, BearsAnyOctets) {
  SubnetKit kit(fat_tree_16(), {.loss = {1, 20}});
  bring_up(kit.subnet);
  const ClientId sm = *kit.subnet.attach(kit.now, {.node = "H00005", .is_sm = true});
  Rng rng(5);
  for (int i = 0; i < 60000; ++i) {
    Packet packet{.dlid = static_cast<std::uint16_t>(rng.chance({1, 2}) ? rng.below(30) : rng.next()), .mad = {}};
    for (std::uint8_t& octet : packet.mad) octet = static_cast<std::uint8_t>(rng.next());
    if (rng.chance({7, 8})) {  // let it come somewhere
      constexpr std::uint8_t classes[] = {0x01, 0x81, 0x81, 0x03, 0x04, 0x32};
      constexpr std::uint8_t attributes[] = {0x10, 0x11, 0x12, 0x14, 0x15, 0x16, 0x17,
                                             0x18, 0x19, 0x1B, 0x1D, 0x20, 0x02, 0x01};
      packet.mad[0] = 1;
      packet.mad[1] = classes[rng.below(std::size(classes))];
      packet.mad[2] = 1;
      packet.mad[3] = static_cast<std::uint8_t>(rng.between(1, 7) | (rng.chance({1, 6}) ? 0x80 : 0));
      packet.mad[4] = packet.mad[3] & 0x80;
      packet.mad[6] = 0;
      packet.mad[7] = static_cast<std::uint8_t>(rng.below(rng.chance({1, 20}) ? 256 : 5));
      packet.mad[16] = 0;
      packet.mad[17] = attributes[rng.below(std::size(attributes))];
      if (rng.chance({3, 4})) std::fill(packet.mad.begin() + 20, packet.mad.begin() + 23, std::uint8_t{0});
      if (rng.chance({3, 4})) std::fill(packet.mad.begin() + 32, packet.mad.begin() + 36, std::uint8_t{0xFF});
      for (std::size_t k = 128; k < 256; ++k) packet.mad[k] %= 9;
    }
    kit.subnet.handle_send(kit.now, rng.chance({1, 4}) ? sm : kit.client, packet);
    kit.drain();
    if (i % 100 == 0) kit.wait(100ms);
  }
  const Statistics& of = kit.subnet.statistics();
  EXPECT_GT(of.answered, 5000U);
  EXPECT_GT(of.forwarded, 100U);
  EXPECT_GT(of.undeliverable, 1000U);
  EXPECT_EQ(of.overflows, 0U);
}

}  // namespace
}  // namespace parley::sim::subnet
