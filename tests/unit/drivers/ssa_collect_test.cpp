// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables read from a subnet whose agents are a function: two adapters at a switch that has a loopback plug and lies.
#include "drivers/ssa/collect.hpp"

#include <gmock/gmock.h>

#include "drivers/ssa/subnet_database.hpp"
#include "drivers/ssa/subnet_places.hpp"
#include "ssa/paths.hpp"
#include "ssa/stream.hpp"
#include "tests/unit/mad/mad_kit.hpp"

namespace parley::ssa_driver {
namespace ssa_collect_test {
namespace {

using mad::answer_to;
using mad::Datagram;
using mad::MemoryTransport;
using wire::mad::LinearForwardingTable;
using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PathRecord;
using wire::mad::PKeyTable;
using wire::mad::PortInfo;
using wire::mad::SwitchInfo;

constexpr std::uint32_t host = 0, switch_ = 1, other = 2;
constexpr std::uint16_t no_records = 0x300;

struct SsaCollect : mad::PortTest {
  mad::Topology topology;
  SubnetTables tables;
  std::vector<std::pair<unsigned, unsigned>> known_paths;  // DLID and SL, of subnet administration
  Bytes p_keys{0xFF, 0xFF};                                // of each port
  unsigned blocks_asked = 0;

  SsaCollect() {
    transport.facts_.rmpp = true;
    add(NodeType::channel_adapter, 1, mad::no_node, 0);
    add(NodeType::switch_, 6, host, 1);
    add(NodeType::channel_adapter, 1, switch_, 2);
    EXPECT_TRUE(topology.link(host, 1, switch_, 1));
    EXPECT_TRUE(topology.link(switch_, 2, other, 1));
    EXPECT_TRUE(topology.link(switch_, 5, switch_, 5));
    set(host, 1, 1);
    set(switch_, 0, 2);
    set(other, 1, 3);
    for (const unsigned number : {1U, 2U, 5U}) set(switch_, static_cast<std::uint8_t>(number), 0);
    transport.peer = [this](MemoryTransport& t, const mad::Address& to, ConstBytes request) {
      t.deliver(to, reply(request));
    };
  }

  void add(NodeType type, std::uint8_t ports, std::uint32_t parent, std::uint8_t parent_port) {
    const std::uint64_t guid = 0x100 + topology.nodes().size();
    topology.add(NodeInfo()
                     .set(NodeInfo::node_type, type)
                     .set(NodeInfo::num_ports, ports)
                     .set(NodeInfo::node_guid, guid)
                     .set(NodeInfo::port_guid, guid)
                     .set(NodeInfo::local_port_num, 1),
                 parent, parent_port);
  }
  void set(std::uint32_t node, std::uint8_t number, std::uint16_t lid) {
    mad::TopologyPort& port = topology.port(node, number);
    port.known = true;
    port.guid = number == 0 || node != switch_ ? 0x100 + node : 0;
    port.lid = lid;
    port.mtu_cap = 4;
    port.width_active = 2;
    port.speed_active = 4;
  }

  Bytes reply(ConstBytes request) {
    const auto octets = [](const Datagram& mad) { return Bytes(mad.begin(), mad.end()); };
    const unsigned attribute = request[16] << 8U | request[17], modifier = request[22] << 8U | request[23];
    if (request[1] == 0x03) return paths(request);
    switch (attribute) {
      case NodeInfo::attribute: return octets(answer_to(request, NodeInfo().set(NodeInfo::partition_cap, 1).octets()));
      case PortInfo::attribute:
        return octets(answer_to(request, PortInfo().set(PortInfo::subnet_time_out, 7).octets()));
      case SwitchInfo::attribute:
        return octets(answer_to(request, SwitchInfo().set(SwitchInfo::linear_fdb_top, 0xFFFF).octets()));
      case PKeyTable::attribute: return octets(answer_to(request, p_keys));
      default: break;
    }
    EXPECT_EQ(attribute, static_cast<unsigned>(LinearForwardingTable::attribute));
    ++blocks_asked;
    std::array<std::uint8_t, ssa::lid_block> ports{};
    ports.fill(ssa::no_port);
    if (modifier == 0) {
      ports[1] = 1;
      ports[2] = 0;
      ports[3] = 2;
    }
    return octets(answer_to(request, ports));
  }

  /// One record for Get, all for GetTable.
  Bytes paths(ConstBytes request) const {
    std::vector<PathRecord> records;
    for (const auto& [dlid, sl] : known_paths)
      records.push_back(PathRecord()
                            .set(PathRecord::dlid, static_cast<std::uint16_t>(dlid))
                            .set(PathRecord::sl, static_cast<std::uint8_t>(sl)));
    const Datagram none = answer_to(request, {}, no_records);
    if (records.empty()) return {none.begin(), none.end()};
    if (request[3] == 0x12) return mad::table_of(request, records);
    const Datagram first = answer_to(request, records[0].octets());
    return {first.begin(), first.end()};
  }

  std::shared_ptr<const ssa::PathMap> collected(bool route_sls = false) {
    go(collect(port(), topology, {.route_sls = route_sls}, tables));
    EXPECT_EQ(tables.first_error, "");
    EXPECT_TRUE(tables.whole);
    const auto database = database_of(topology, tables, 1);
    EXPECT_TRUE(database);
    const auto map = ssa::PathMap::create(**database);
    EXPECT_TRUE(map) << map.error().message();
    return map ? *map : nullptr;
  }
};

TEST_F(SsaCollect, APlugAndALinearFdbTopBeyondTheLidsDoNoHarm) {
  known_paths = {{3, 5}};
  const auto map = collected();
  ASSERT_TRUE(map);
  EXPECT_EQ(tables.switches.at(switch_).top, 0xBFFF);
  EXPECT_EQ(blocks_asked, ssa::lids_max / ssa::lid_block);
  const auto record = map->find({.slid = 1, .dlid = 3});
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_EQ(record->get(PathRecord::sl), 5);
  EXPECT_EQ(record->get(PathRecord::packet_life_time), 7);
  EXPECT_TRUE(tables.sl_unknown.empty());
}

TEST_F(SsaCollect, OnlyEndPortsAreAskedForTheirPKeys) {
  ASSERT_TRUE(collected());
  std::vector<std::pair<std::uint32_t, unsigned>> asked;
  for (const auto& [at, keys] : tables.p_keys) asked.emplace_back(at.first, at.second);
  EXPECT_THAT(asked, testing::ElementsAre(testing::Pair(host, 1), testing::Pair(switch_, 0), testing::Pair(other, 1)));
}

TEST_F(SsaCollect, APartitionOfLimitedMembersHasNoPath) {
  p_keys = {0x7F, 0xFF};
  known_paths = {{3, 5}};
  ASSERT_TRUE(collected());
  EXPECT_TRUE(tables.partitions.empty());
  EXPECT_TRUE(tables.sl_unknown.empty());
}

TEST_F(SsaCollect, NamesThePartitionsWhoseSlIsUnknown) {
  const auto map = collected(true);
  ASSERT_TRUE(map);
  EXPECT_THAT(tables.sl_unknown, testing::ElementsAre(0x7FFF));
  EXPECT_EQ(tables.lost, 0U) << "no records is an answer";
  EXPECT_EQ(map->find({.slid = 1, .dlid = 3})->get(PathRecord::sl), 0);
}

TEST_F(SsaCollect, TakesSlsOfUnicastLidsOnly) {
  known_paths = {{3, 6}, {0, 7}, {0xC000, 8}, {0xFFFF, 9}};
  const auto map = collected(true);
  ASSERT_TRUE(map);
  EXPECT_EQ(map->find({.slid = 1, .dlid = 3})->get(PathRecord::sl), 6);
  const auto& sls = tables.switches.at(switch_).sls;
  ASSERT_EQ(sls.size(), 1U);
  EXPECT_EQ(sls.at(0)[0], ssa::no_sl);
}

TEST_F(SsaCollect, ASecondCollectionKeepsIdsAndMakesAVersionOfWhatChanged) {
  go(collect(port(), topology, {}, tables));
  auto database = SubnetDatabase::create(5);
  ASSERT_TRUE(database);
  const auto first = database->update(topology, tables);
  ASSERT_TRUE(first);
  EXPECT_EQ(*database->update(topology, tables), *first) << "nothing changed";

  tables.switches.at(switch_).lft.at(0)[3] = ssa::no_port;
  const auto second = database->update(topology, tables);
  ASSERT_TRUE(second);
  const std::uint32_t counter = (*second)->epoch().counter;
  EXPECT_EQ((*second)->epoch().incarnation, 5U);
  EXPECT_EQ(counter, (*first)->epoch().counter + 1);
  EXPECT_TRUE(ssa::StreamSource(*second, (*first)->epoch()).is_delta());
  for (std::size_t t = 0; t < ssa::path_tables; ++t)
    EXPECT_EQ((*second)->tables()[t].changed == counter, t == static_cast<std::size_t>(ssa::PathTable::lft)) << t;
  const auto map = ssa::PathMap::create(**second);
  ASSERT_TRUE(map) << map.error().message();
  EXPECT_FALSE((*map)->find({.slid = 1, .dlid = 3}));

  tables.switches.clear();
  const auto third = database->update(topology, tables);
  ASSERT_TRUE(third);
  EXPECT_EQ((*third)->size(static_cast<std::size_t>(ssa::PathTable::lft)), 0U);
}

TEST_F(SsaCollect, ThePlacesOfPortsAreTheirLeavesHopsAndPKeys) {
  go(collect(port(), topology, {}, tables));
  tables.p_keys[{other, 1}] = {0x7FFF, 0x8012};
  const SubnetPlaces places(topology, tables);
  const auto gid = [](std::uint8_t last, std::uint8_t first = 0xFE) {
    return Gid{first, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, last};
  };
  EXPECT_EQ(places.leaf_of(gid(host)), 0x100U + switch_);
  EXPECT_EQ(places.hops(gid(host), gid(other)), 2U);
  EXPECT_EQ(places.hops(gid(host), gid(9)), SubnetPlaces::unknown_hops);
  EXPECT_TRUE(places.has_p_key(gid(other), 0x0012)) << "a full member may be a limited one";
  EXPECT_FALSE(places.has_p_key(gid(other), 0xFFFF)) << "a limited member is no full one";
  EXPECT_FALSE(places.has_p_key(gid(9), 0x7FFF));
  EXPECT_FALSE(places.has_p_key(gid(other, 0xFD), 0x8012)) << "the prefix of another subnet";
}

}  // namespace
}  // namespace ssa_collect_test
}  // namespace parley::ssa_driver
