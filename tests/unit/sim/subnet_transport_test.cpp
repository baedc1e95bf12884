// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams of mad::Port on a simulated subnet, in virtual time.
#include "sim/subnet/transport.hpp"

#include "mad/discover.hpp"
#include "mad/resolve.hpp"
#include "mad/serve.hpp"
#include "mad/topology_check.hpp"
#include "subnet_kit.hpp"
#include "tests/unit/mad/administrate.hpp"
#include "tests/unit/mad/seed_count.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"

namespace parley::sim::subnet {
namespace {

using namespace wire::mad;
using namespace std::chrono_literals;
using mad::Fault;
using mad::Path;
using mad::Reply;

/// A little subnet administration: records of all nodes, the path between two LIDs.
mad::Task<> serve_sa(mad::Port& port, const State& state) {
  while (const std::optional<mad::Incoming> request = co_await port.next_request()) {
    const auto parsed = mad::parse_request(request->mad);
    if (!parsed || parsed->facts->mgmt_class != MgmtClass::subn_adm) continue;
    const ConstBytes body = parsed->body_view;
    if (parsed->attribute == PathRecord::attribute) {
      const auto asked = *PathRecord::parse(body);
      if (const auto reply = mad::reply_to(request->mad, asked.octets())) (void)port.post(request->from, *reply);
    } else {
      Bytes records;
      for (const Node& node : state.nodes()) {
        const auto lid = static_cast<std::uint16_t>(&node - state.nodes().data() + 1);
        const NodeRecord record = NodeRecord().set(NodeRecord::lid, lid);
        records.insert(records.end(), record.octets().begin(), record.octets().end());
      }
      (void)port.post(request->from, mad::table_reply(request->mad, records, NodeRecord::size));
    }
  }
}

/// A port at H00003 and, at H00000, subnet administration.
struct Network {
  explicit Network(std::uint64_t seed = 1, const SubnetOptions& options = {}, bool managed = true,
                   const Plan& plan = fat_tree_16())
      : net(plan, options) {
    if (managed) bring_up(net.subnet());
    sa_transport = *net.attach({.node = "H00000", .is_sm = true});
    sa.emplace(sa_transport->facts(), sa_transport->local(), mad::PortOptions{.seed = seed + 1});
    sa->serve();
    serving.emplace(sa->executor(), serve_sa(*sa, net.subnet().state()));
    net.join(*sa, *sa_transport);
    transport = *net.attach({.node = "H00003"});
    port.emplace(transport->facts(), transport->local(), mad::PortOptions{.seed = seed});
  }
  template <class A>
  mad::detail::Awaited<A> go(A awaitable) {
    auto out = net.run(*port, *transport, std::move(awaitable));
    if constexpr (!std::is_void_v<mad::detail::Awaited<A>>) return std::move(*out);
  }
  void pause(Duration time) {
    auto rest = [](mad::Port& on, Duration length) -> mad::Task<bool> { co_return co_await on.sleep(length); };
    EXPECT_TRUE(go(rest(*port, time)));
  }
  void add(std::string_view fault) {
    const auto added = net.subnet().add_fault(net.now(), fault);
    ASSERT_TRUE(added.has_value()) << added.error();
  }
  mad::Discovery discover() {
    mad::Discovery out;
    static_cast<void>(net.run(*port, *transport, mad::discover(*port, {}, out)));
    return out;
  }
  std::uint16_t lid(std::string_view name) const {
    return static_cast<std::uint16_t>(*net.subnet().state().find_node(name) + 1);
  }
  /// Nothing waits any more on the side that asked.
  bool is_quiet() {
    return port->transactor().open_count() == 0 && port->transactor().under_way() == 0 &&
           port->executor().frames().in_use() == 0;
  }

  VirtualSubnet net;
  std::unique_ptr<SubnetTransport> sa_transport, transport;
  std::optional<mad::Port> sa, port;
  std::optional<mad::Running<mad::Task<>>> serving;
};

Path path_to(std::uint16_t lid) {
  Path path = Path::by_lid(lid);
  path.timeout = 10ms;
  path.retries = 20;
  return path;
}

TEST(SubnetTransport, DiscoversASubnetThatNoManagerHasSetUp) {
  Network kit(1, {}, false);
  EXPECT_EQ(kit.transport->local().lid, 0);
  EXPECT_EQ(kit.transport->local().port_guid, kit.net.subnet().state().port_guid(kit.net.subnet().state().port(
                                                  kit.net.subnet().port_of(kit.transport->client()))));
  const mad::Discovery found = kit.discover();
  EXPECT_TRUE(found.whole);
  EXPECT_EQ(found.topology.nodes().size(), 24U);
  EXPECT_EQ(found.topology.links(), 32U);
  EXPECT_EQ(found.lost, 0U);
  std::size_t states = 0, lids = 0;
  for (const mad::TopologyFinding& finding : mad::check_links(found.topology))
    ++(finding.fault == mad::TopologyFault::state ? states : lids);
  EXPECT_GT(states, 0U);
  EXPECT_EQ(lids, 24U);
  EXPECT_EQ(kit.net.now(), Instant{});  // all of it was answered at once
  EXPECT_TRUE(kit.is_quiet());
}

TEST(SubnetTransport, AsksAgentsByLidAndSubnetAdministrationByRmpp) {
  Network kit;
  EXPECT_EQ(kit.transport->local().lid, kit.lid("H00003"));
  EXPECT_TRUE(mad::check_links(kit.discover().topology).empty());
  const auto counters = kit.go(
      kit.port->perf_get<PortCounters>(path_to(kit.lid("H00009")), PortCounters().set(PortCounters::port_select, 1)));
  ASSERT_TRUE(counters.has_value()) << counters.error().message();
  EXPECT_GT(counters->get(PortCounters::port_rcv_pkts), 0U);
  const auto way = kit.go(mad::resolve_path(*kit.port, {.lid = kit.lid("H00012")}));
  ASSERT_TRUE(way.has_value()) << way.error().message();
  EXPECT_EQ(way->address.lid, kit.lid("H00012"));
  const auto nodes = kit.go(kit.port->sa_get_table<NodeRecord>());
  ASSERT_TRUE(nodes.has_value()) << nodes.error().message();
  ASSERT_EQ(nodes->size(), 24U);
  for (std::size_t i = 0; i < nodes->size(); ++i) EXPECT_EQ((*nodes)[i].get(NodeRecord::lid), i + 1);
}

/// All that a run of seeds can differ in.
std::string run_of(std::uint64_t seed) {
  Network kit(seed, {.seed = seed, .loss = {1, 20}, .delay = 50us});
  const mad::Discovery found = kit.discover();
  const auto nodes = kit.go(kit.port->sa_get_table<NodeRecord>());
  const mad::Counters& at = kit.port->counters();
  const Statistics& of = kit.net.subnet().statistics();
  std::string out = nodes ? std::to_string(nodes->size()) : nodes.error().message();
  for (const std::uint64_t number :
       {at.sent, at.received, at.resent, at.timeouts, at.unexpected, of.sent, of.answered, of.forwarded, of.lost,
        std::uint64_t{found.asked}, static_cast<std::uint64_t>((kit.net.now() - Instant{}).count())})
    out += " " + std::to_string(number);
  return out;
}

TEST(SubnetTransport, IsTheSameForTheSameSeed) {
  EXPECT_EQ(run_of(3), run_of(3));
  EXPECT_NE(run_of(3), run_of(4));
}

// Each fault alone, and what a port makes of it.
TEST(SubnetTransport, EndsFaultsAsTheyDeserve) {
  const auto ask = [](Network& kit, std::string_view fault) {
    kit.add(fault);
    return kit.go(kit.port->subn_get<NodeInfo>(path_to(kit.lid("H00009"))));
  };
  const auto guid = [](Network& kit) { return kit.net.subnet().state().nodes()[kit.lid("H00009") - 1].plan->guid; };
  struct Row {
    std::string_view fault;
    std::optional<Fault> due;
    std::uint64_t resent, unexpected, busy;
  };
  for (const Row& row : {
           Row{"lose 1st SubnGet(NodeInfo)", std::nullopt, 1, 0, 0},
           Row{"lose 1st SubnGetResp(NodeInfo)", std::nullopt, 1, 0, 0},
           Row{"lose SubnGet(*) of H00009", Fault::timeout, 20, 0, 0},
           Row{"duplicate 1st SubnGet(NodeInfo)", std::nullopt, 0, 1, 0},
           Row{"duplicate 1st SubnGetResp(NodeInfo)", std::nullopt, 0, 1, 0},
           Row{"delay 5ms SubnGet(NodeInfo)", std::nullopt, 0, 0, 0},
           Row{"delay 15ms 1st SubnGetResp(NodeInfo)", std::nullopt, 1, 1, 0},
           Row{"busy 1st SubnGet(NodeInfo)", std::nullopt, 0, 0, 1},
           Row{"busy SubnGet(NodeInfo) of H00009", Fault::busy, 0, 0, 9},
           Row{"down H00009:1", Fault::timeout, 20, 0, 0},
           Row{"reset 1st SubnGet(NodeInfo)", Fault::timeout, 20, 0, 0},  // it has no LID any more
       }) {
    Network kit;
    const auto info = ask(kit, row.fault);
    const mad::Counters& counters = kit.port->counters();
    EXPECT_EQ(info.has_value(), !row.due) << row.fault;
    if (info)
      EXPECT_EQ(info->get(NodeInfo::node_guid), guid(kit)) << row.fault;
    else
      EXPECT_EQ(info.error().fault(), row.due) << row.fault;
    // What comes behind the answer.
    kit.pause(1s);
    EXPECT_EQ(counters.resent, row.resent) << row.fault;
    EXPECT_EQ(counters.unexpected, row.unexpected) << row.fault;
    EXPECT_EQ(counters.busy, row.busy) << row.fault;
    EXPECT_TRUE(kit.is_quiet()) << row.fault;
  }
}

TEST(SubnetTransport, TellsThePortWhenItsLidChanges) {
  Network kit;
  State& state = kit.net.subnet().state();
  const std::uint32_t own = kit.net.subnet().port_of(kit.transport->client());
  state.port(own).info.set(PortInfo::lid, std::uint16_t{200}).set(PortInfo::master_sm_lid, std::uint16_t{77});
  kit.pause(1ms);
  EXPECT_EQ(kit.port->local().lid, 200);
  EXPECT_EQ(kit.port->sa_path().address.lid, 77);
  EXPECT_FALSE(kit.transport->poll_changed());
}

// The port that is guarded tells the subnet manager, and that tells who subscribed.
TEST(SubnetTransport, BringsTrapsToThoseWhoSubscribed) {
  Network kit;
  kit.port->serve();
  mad::Subscriptions list;
  const auto gid_of = [](std::uint16_t lid) { return Gid{0xFE, 0x80, static_cast<std::uint8_t>(lid)}; };
  kit.serving.emplace(kit.sa->executor(), mad::administrate(*kit.sa, list, gid_of));
  State& state = kit.net.subnet().state();
  state.port(state.port_of(*state.find_node("H00005"), 1))
      .info.set(PortInfo::m_key, 77)
      .set(PortInfo::m_key_protect_bits, 1);
  auto meddle = [&](mad::Port& port) -> mad::Task<std::optional<mad::ReportedNotice>> {
    const InformInfo info = InformInfo()
                                .set(InformInfo::lid_range_begin, 0xFFFF)
                                .set(InformInfo::is_generic, 1)
                                .set(InformInfo::subscribe, 1)
                                .set(InformInfo::type, 0xFFFF)
                                .set(InformInfo::trap_number, 256)
                                .set(InformInfo::producer_type, static_cast<NodeType>(0xFFFFFF));
    const Reply<InformInfo> subscribed = co_await port.sa_set<InformInfo>(port.sa_path(), info);
    EXPECT_TRUE(subscribed.has_value());
    Path guarded = path_to(kit.lid("H00005"));
    guarded.retries = 0;  // soon, so that the Report is answered in time
    const Reply<PortInfo> set = co_await port.subn_set(guarded, PortInfo{}, 1);
    EXPECT_FALSE(set.has_value());
    const auto request = co_await port.next_request();
    if (!request) co_return std::nullopt;
    const auto came = mad::parse_report(request->mad);
    EXPECT_TRUE(came.has_value());
    EXPECT_TRUE(port.post(request->from, *mad::reply_to(request->mad, came->notice.octets())).has_value());
    co_return *came;
  };
  const auto told = kit.go(meddle(*kit.port));
  kit.pause(1ms);
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->notice.get(Notice::trap_number), 256);
  EXPECT_EQ(told->notice.get(Notice::issuer_lid), kit.lid("H00005"));
  EXPECT_EQ(told->issuer, gid_of(kit.lid("H00005")));
  EXPECT_EQ(list.counters().answered, 1U);
  EXPECT_GE(kit.net.subnet().statistics().repressed, 1U);
}

TEST(SubnetTransport, CancelsATaskThatWaitsForNothing) {
  Network kit;
  kit.port->serve();
  auto wait = [](mad::Port& port) -> mad::Task<bool> { co_return (co_await port.next_request()).has_value(); };
  EXPECT_FALSE(kit.go(wait(*kit.port)));
  EXPECT_TRUE(kit.net.was_stuck());
  EXPECT_TRUE(kit.go(kit.port->subn_get<NodeInfo>(Path::to_self())).has_value());
  EXPECT_FALSE(kit.net.was_stuck());
}

TEST(SubnetTransport, RefusesWhatIsNoDatagram) {
  Network kit;
  const auto sent = kit.transport->send({.lid = 1}, Bytes(255));
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code(), Errc::invalid_argument);
  EXPECT_FALSE(kit.net.attach({.node = "nobody"}).has_value());
}

TEST(SubnetTransport, AClientOfANodeWithoutALinkIsAtItsFirstPort) {
  SubnetKit kit(*read_plan("Hca 1 \"H00000\"\n[1] \"B\"[1]\nHca 1 \"B\"\n[1] \"H00000\"[1]\nHca 2 \"C\"\n"));
  kit.client = *kit.subnet.attach(kit.now, {.node = "C"});
  EXPECT_EQ(body_of<NodeInfo>(kit.ask_directed({0}, NodeInfo{})).get(NodeInfo::local_port_num), 1);
  EXPECT_EQ(body_of<NodeDescription>(kit.ask_directed({0}, NodeDescription{})).get(NodeDescription::node_string), "C");
}

/// What is wrong with it; empty if nothing. H00005 is dead to management by LID, whatever else happens to the others.
std::string run_seed(std::uint64_t seed) {
  Rng rng(seed);
  Network kit(seed, {.seed = seed});
  kit.add("lose SubnGet(*) of H00005");
  for (const std::string_view fault : {"lose 10% of *", "duplicate 10% of *", "delay 15ms 10% of *", "busy 5% of *"})
    if (rng.below(3) != 0) kit.add(fault);
  std::string wrong;
  const State& state = kit.net.subnet().state();
  auto one = [&](mad::Port& port, std::size_t index) -> mad::Task<> {
    const PlanNode& node = *state.nodes()[index].plan;
    const auto info = co_await port.subn_get<NodeInfo>(path_to(static_cast<std::uint16_t>(index + 1)));
    const std::optional<Fault> due = node.name == "H00005" ? std::optional(Fault::timeout) : std::nullopt;
    const auto was = info ? std::nullopt : std::optional(info.error().fault());
    if (was != due || (info && info->get(NodeInfo::node_guid) != node.guid))
      wrong += node.name + (info ? " answered; " : ": " + info.error().message() + "; ");
  };
  auto table = [&](mad::Port& port) -> mad::Task<> {
    Path path = port.sa_path();
    path.timeout = 10ms;
    path.retries = 20;
    const auto nodes = co_await port.sa_get_table<NodeRecord>(path);
    if (!nodes) {
      wrong += nodes.error().message() + "; ";
      co_return;
    }
    for (std::size_t i = 0; i < nodes->size(); ++i)
      if ((*nodes)[i].get(NodeRecord::lid) != i + 1) wrong += "a record is in the wrong place; ";
    if (nodes->size() != 24) wrong += "records are missing; ";
  };
  auto all = [&](mad::Port& port) -> mad::Task<> {
    mad::Scope scope(port.executor(), {.limit = 8});
    scope.spawn(table(port));
    for (int i = 0; i < 30 && co_await scope.room(); ++i) scope.spawn(one(port, rng.below(24)));
    (void)co_await scope.join();
  };
  kit.go(all(*kit.port));
  if (kit.net.was_stuck()) wrong += "it hung; ";
  kit.pause(2min);  // repeated last ACKs of RMPP
  if (!kit.is_quiet() || kit.port->next_deadline() != never) wrong += "something is left; ";
  return wrong;
}

TEST(SubnetTransport, EndsEveryRequestOfManySeeds) {
  for (std::uint64_t seed = 1; seed <= mad::seed_count(); ++seed) ASSERT_EQ(run_seed(seed), "") << "seed " << seed;
}

}  // namespace
}  // namespace parley::sim::subnet
