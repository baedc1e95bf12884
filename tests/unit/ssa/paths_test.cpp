// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Paths of drawn subnets, each compared with a walk through the model; databases that lie.
#include "ssa/paths.hpp"

#include <gmock/gmock.h>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "ssa/paths_rate.hpp"
#include "tests/unit/ssa/paths_kit.hpp"

namespace parley::ssa {
namespace paths_test {

using sim::subnet::Dragonfly;
using sim::subnet::FatTree;
using sim::subnet::make_plan;
using sim::subnet::Plan;
using sim::subnet::Torus;
using wire::mad::PathRecord;

std::shared_ptr<const PathMap> map_of(const Net& net) {
  const auto map = PathMap::create(*database_of(net));
  EXPECT_TRUE(map) << map.error().message();
  return map ? *map : nullptr;
}

Errc code_of(PathFault fault) {
  switch (fault) {
    case PathFault::none: return Errc::ok;
    case PathFault::unknown_lid: return Errc::invalid_argument;
    case PathFault::no_p_key: return Errc::not_permitted;
    default: return Errc::unreachable;
  }
}

std::string text_of(const HostPath& path) {
  return fmt::format("P_Key {:#06x} MTU {} rate {} SL {} life {} reversible {} fault {}", path.p_key, path.mtu,
                     path.rate, path.sl, path.packet_life_time, path.reversible, static_cast<int>(path.fault));
}

HostPath path_in(const PathRecord& record) {
  return {record.get(PathRecord::p_key),
          static_cast<std::uint8_t>(record.get(PathRecord::mtu)),
          static_cast<std::uint8_t>(record.get(PathRecord::rate)),
          static_cast<std::uint8_t>(record.get(PathRecord::sl)),
          static_cast<std::uint8_t>(record.get(PathRecord::packet_life_time)),
          record.get(PathRecord::reversible),
          PathFault::none};
}

/// Half worlds and single look-ups against the walk, for each end port and LID. Returns how many paths had which fault.
std::map<PathFault, std::size_t> compare_all(const Net& net) {
  std::map<PathFault, std::size_t> faults;
  const auto map = map_of(net);
  if (map == nullptr) return faults;
  std::map<SwitchId, LeafPaths> leaves;
  for (const NetPort& from : net.ends()) {
    const Net::Port& source = net.ports.at(from);
    const EndId host = map->end_of_guid(source.guid);
    const SwitchId leaf = map->end(host).leaf;
    if (!leaves.contains(leaf)) leaves[leaf] = map->leaf_paths(leaf);
    std::vector<HostPath> paths(map->lids());
    map->host_paths(leaves[leaf], host, paths);
    for (unsigned lid = 1; lid < map->lids(); ++lid) {
      const HostPath expected = second_opinion(net, from, lid);
      ++faults[expected.fault];
      if (paths[lid] != expected) {
        ADD_FAILURE() << source.lid << " -> " << lid << ": " << text_of(paths[lid]) << "; expected "
                      << text_of(expected);
        return faults;
      }
      const auto record = map->find({.slid = source.lid, .dlid = static_cast<std::uint16_t>(lid)});
      EXPECT_EQ(record ? Errc::ok : static_cast<Errc>(record.error().code().value()), code_of(expected.fault))
          << source.lid << " -> " << lid;
      if (record && path_in(*record) != expected)
        ADD_FAILURE() << source.lid << " -> " << lid << ": looked up " << text_of(path_in(*record));
    }
  }
  return faults;
}

Net drawn_net(const std::vector<Plan>& plans, std::uint64_t seed, unsigned lmc_max) {
  Rng rng(seed);
  Net net;
  for (const Plan& plan : plans) add_plan(net, plan);
  draw_lids(net, rng, lmc_max);
  draw_routes(net, rng);
  draw_links(net, rng);
  return net;
}

/// Switches that are linked at random, with hosts.
Net random_net(std::uint64_t seed) {
  Rng rng(seed);
  Net net;
  const std::size_t switches = 2 + rng.below(8);
  for (std::size_t i = 0; i < switches; ++i) net.nodes.push_back({.is_switch = true, .ports = 16});
  for (std::uint32_t i = 0; i < switches; ++i) net.ports[{i, 0}] = {};
  std::vector<unsigned> used(switches);
  for (std::size_t i = 0; i < switches * 2; ++i) {
    const auto a = static_cast<std::uint32_t>(rng.below(switches)), b = static_cast<std::uint32_t>(rng.below(switches));
    if (a != b && used[a] < 12 && used[b] < 12) net.link({a, ++used[a]}, {b, ++used[b]});
  }
  for (std::size_t i = 0; i < 8; ++i) {
    const auto host = static_cast<std::uint32_t>(net.nodes.size()),
               at = static_cast<std::uint32_t>(rng.below(switches));
    net.nodes.push_back({.is_switch = false, .ports = 2});
    for (unsigned port = 1; port <= 2; ++port)  // the second one may be without a link
      if (used[at] < 16 && rng.below(4) != 0)
        net.link({host, port}, {at, ++used[at]});
      else
        net.ports[{host, port}] = {};
  }
  draw_lids(net, rng, 2);
  draw_routes(net, rng);
  draw_links(net, rng);
  draw_p_keys(net, rng);
  draw_sls(net, rng);
  return net;
}

TEST(SsaPaths, EqualAWalkOnRegularTopologies) {
  const std::vector<std::vector<Plan>> topologies = {
      {*make_plan(FatTree{2, 8, 4, 4, 1})}, {*make_plan(FatTree{3, 4, 4, 2, 1})}, {*make_plan(Torus{{3, 3, 2}, 2, 1})},
      {*make_plan(Dragonfly{3, 1, 2, 0})},  {*make_plan(Torus{{5}, 1, 2})},       {*make_plan(Torus{{1}, 4, 1})}};
  std::uint64_t seed = 1;
  for (const auto& plans : topologies)
    for (const unsigned lmc_max : {0U, 1U}) {
      const Net net = drawn_net(plans, ++seed, lmc_max);
      const auto faults = compare_all(net);
      EXPECT_GT(faults.at(PathFault::none), 0U);
      EXPECT_EQ(faults.size() - faults.contains(PathFault::unknown_lid), 1U) << "each LID of a port is reached";
    }
}

TEST(SsaPaths, EqualAWalkOnIslandsAndWithoutSwitches) {
  Net net = drawn_net({*make_plan(FatTree{2, 4, 2, 2, 1}), *make_plan(Torus{{3}, 1, 1})}, 3, 1);
  auto faults = compare_all(net);
  EXPECT_GT(faults[PathFault::no_route], 0U);
  EXPECT_GT(faults[PathFault::none], 0U);

  Net pair;  // two hosts at one cable, and one without
  pair.nodes.assign(3, {.is_switch = false, .ports = 1});
  pair.link({0, 1}, {1, 1});
  pair.ports[{2, 1}] = {};
  Rng rng(4);
  draw_lids(pair, rng, 2);
  draw_links(pair, rng);
  faults = compare_all(pair);
  EXPECT_GT(faults[PathFault::no_link], 0U);
  EXPECT_GT(faults[PathFault::none], 0U);
}

TEST(SsaPaths, EqualAWalkWithPKeysAndSls) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    Net net = drawn_net({*make_plan(FatTree{2, 6, 3, 3, 1})}, seed, 1);
    Rng rng(seed + 100);
    draw_p_keys(net, rng);
    draw_sls(net, rng);
    auto faults = compare_all(net);
    EXPECT_GT(faults[PathFault::no_p_key], 0U);
    EXPECT_GT(faults[PathFault::none], 0U);
  }
}

TEST(SsaPaths, EqualAWalkOnRandomNetsWithWrongTables) {
  std::map<PathFault, std::size_t> seen;
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    Net net = random_net(seed);
    Rng rng(seed);
    if (seed % 2 == 0) spoil_routes(net, rng);
    for (const auto& [fault, count] : compare_all(net)) seen[fault] += count;
  }
  EXPECT_EQ(seen.size(), 7U) << "each fault was there";
}

/// A row of switches with a host at each end.
Net chain(unsigned switches) {
  Net net;
  net.nodes.assign(switches, {.is_switch = true, .ports = 2});
  net.nodes.resize(switches + 2, {.is_switch = false, .ports = 1});
  for (std::uint32_t i = 0; i < switches; ++i) net.ports[{i, 0}] = {};
  for (std::uint32_t i = 0; i + 1 < switches; ++i) net.link({i, 2}, {i + 1, 1});
  net.link({switches, 1}, {0, 1});
  net.link({switches + 1, 1}, {switches - 1, 2});
  Rng rng(1);
  draw_lids(net, rng, 0);
  draw_routes(net, rng);
  return net;
}

TEST(SsaPaths, ALongRouteEndsAt64Switches) {
  for (const unsigned switches : {64U, 65U}) {
    const Net net = chain(switches);
    const NetPort from{switches, 1};
    const std::uint16_t slid = net.ports.at(from).lid, dlid = net.ports.at({switches + 1, 1}).lid;
    const auto map = map_of(net);
    const EndId host = map->end_of_lid(slid);
    std::vector<HostPath> paths(map->lids());
    map->host_paths(map->leaf_paths(map->end(host).leaf), host, paths);
    EXPECT_EQ(paths[dlid], second_opinion(net, from, dlid));
    EXPECT_EQ(paths[dlid].fault, switches == 64 ? PathFault::none : PathFault::loop);
    EXPECT_EQ(map->find({.slid = slid, .dlid = dlid}).has_value(), switches == 64);
  }
}

TEST(SsaPaths, SaysWhereARouteEnds) {
  Net net = chain(3);
  const std::uint16_t from = net.ports[{3, 1}].lid, to = net.ports[{4, 1}].lid;
  const auto lid_of_switch = [&](std::uint32_t node) { return net.ports[{node, 0}].lid; };
  const auto error = [&] { return map_of(net)->find({.slid = from, .dlid = to}).error().sentence(); };
  net.nodes[1].lft[to] = 255;
  EXPECT_EQ(error(),
            fmt::format("the forwarding table of the switch with LID {} has no port for LID {}", lid_of_switch(1), to));
  net.nodes[1].lft[to] = 1;  // back
  EXPECT_THAT(error(), testing::HasSubstr(fmt::format("the route to LID {} passes more than 64 switches", to)));
  net.nodes[1].lft[to] = 0;
  EXPECT_EQ(error(), fmt::format("the route to LID {} ends at another port, behind the switch with LID {}", to,
                                 lid_of_switch(1)));
  net.nodes[1].lft[to] = 2;
  net.ports[{2, 2}].peer.reset();
  net.ports[{4, 1}].peer.reset();
  EXPECT_EQ(error(),
            fmt::format("the egress port of the switch with LID {} for LID {} has no link", lid_of_switch(2), to));
  net.owners.erase(lid_of_switch(2));
  net.ports[{2, 0}].lid = 0;
  EXPECT_EQ(error(), fmt::format("the egress port of a switch without a LID for LID {} has no link", to));
  net.nodes[2].lft[to] = 255;
  EXPECT_EQ(error(), fmt::format("the forwarding table of a switch without a LID has no port for LID {}", to));
  net.nodes[2].lft[to] = 0;
  EXPECT_EQ(error(), fmt::format("the route to LID {} ends at another port, behind a switch without a LID", to));
  net.ports[{3, 1}].peer.reset();
  net.ports[{0, 1}].peer.reset();
  EXPECT_EQ(error(), fmt::format("the port with LID {} has no link to LID {}", from, to));
}

Gid gid_of(std::uint64_t prefix, std::uint64_t guid) {
  Gid out{};
  for (std::size_t i = 0; i < 8; ++i) {
    out[i] = static_cast<std::uint8_t>(prefix >> (56 - 8 * i));
    out[8 + i] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
  }
  return out;
}

TEST(SsaPaths, LooksUpByGid) {
  Net net = chain(1);
  net.subnet.gid_prefix = 0xFEC0000000000001;
  net.ports[{1, 1}].lmc = 1;
  net.ports[{1, 1}].lid = 100;
  net.nodes[0].lft[100] = net.nodes[0].lft[101] = 1;
  net.nodes[0].top = 101;
  const auto map = map_of(net);
  const Net::Port &a = net.ports[{1, 1}], &b = net.ports[{2, 1}];
  const Gid a_gid = gid_of(net.subnet.gid_prefix, a.guid), b_gid = gid_of(net.subnet.gid_prefix, b.guid);
  const auto record = map->find({.sgid = a_gid, .dgid = gid_of(0xFE80000000000000, b.guid)});
  ASSERT_TRUE(record) << record.error().message();
  EXPECT_EQ(record->get(PathRecord::sgid), a_gid);
  EXPECT_EQ(record->get(PathRecord::dgid), b_gid);
  EXPECT_EQ(record->get(PathRecord::slid), 100);
  EXPECT_EQ(record->get(PathRecord::dlid), b.lid);
  EXPECT_EQ(map->find({.sgid = a_gid, .dgid = b_gid, .slid = 101})->get(PathRecord::slid), 101);
  const PathQuery wrong[] = {{.sgid = a_gid, .dgid = b_gid, .slid = 102},
                             {.sgid = a_gid, .dgid = gid_of(net.subnet.gid_prefix, 5)},
                             {.sgid = gid_of(1, a.guid), .dgid = b_gid},
                             {.slid = 100, .dlid = 999},
                             {.slid = 100}};
  for (const PathQuery& query : wrong) EXPECT_EQ(map->find(query).error(), Errc::invalid_argument);
}

TEST(SsaPaths, LooksUpByPKey) {
  Net net = chain(1);
  net.ports[{1, 1}].p_keys = {0x0010, 0x8020};
  net.ports[{2, 1}].p_keys = {0x8010, 0x8020};
  net.partitions = {{0x0010, 3}, {0x0020, 4}};
  const std::uint16_t a = net.ports[{1, 1}].lid, b = net.ports[{2, 1}].lid;
  const auto map = map_of(net);
  const auto sl_by = [&](std::uint16_t p_key) {
    return map->find({.slid = a, .dlid = b, .p_key = p_key})->get(PathRecord::sl);
  };
  EXPECT_EQ(sl_by(0x8010), 3);
  EXPECT_EQ(sl_by(0x0020), 4);
  EXPECT_EQ(sl_by(0), 3);
  EXPECT_EQ(map->find({.slid = a, .dlid = b})->get(PathRecord::p_key), 0x0010) << "the source is a limited member";
  EXPECT_EQ(map->find({.slid = b, .dlid = a})->get(PathRecord::p_key), 0x8010);
  const std::uint16_t queried[] = {0x8010, 0x0010, 0x8020, 0x0020};
  for (const std::uint16_t p_key : queried)
    EXPECT_EQ(map->find({.slid = a, .dlid = b, .p_key = p_key})->get(PathRecord::p_key), p_key) << "of the query";
  EXPECT_EQ(map->find({.slid = a, .dlid = b, .p_key = 0x8030}).error(), Errc::not_permitted);
  net.ports[{2, 1}].p_keys = {0x0010};
  EXPECT_EQ(map_of(net)->find({.slid = a, .dlid = b}).error(), Errc::not_permitted) << "two limited members";
}

TEST(SsaPaths, RatesAreThoseOfWidthAndSpeed) {
  const unsigned lanes[] = {1, 2, 4, 8, 12};
  const std::uint8_t widths[] = {1, 16, 2, 4, 8};
  struct Speed {
    double lane;
    LinkSpeeds link;
  };
  const Speed speeds[] = {{2.5, {.speed = 1}},          {5, {.speed = 2}},
                          {10, {.speed = 4}},           {14, {.speed = 4, .ext = 1}},
                          {25, {.speed = 4, .ext = 2}}, {50, {.speed = 4, .ext = 4}},
                          {100, {.speed = 4, .ext = 8}}};
  for (std::size_t i = 0; i < 5; ++i)
    for (const Speed& speed : speeds) {
      LinkSpeeds link = speed.link;
      link.width = widths[i];
      EXPECT_EQ(gbits(rate_code(link)), lanes[i] * speed.lane) << lanes[i] << " lanes of " << speed.lane;
    }
  EXPECT_EQ(rate_code({.width = 0, .speed = 1}), 2);
  EXPECT_EQ(rate_code({.width = 8, .ext2 = 1}), 2) << "12 lanes of 200 Gb/s have no code";
  EXPECT_EQ(gbits(rate_code({.width = 2, .ext2 = 1})), 800);
  for (std::uint8_t code = 2; code <= 24; ++code) {
    EXPECT_EQ(code_of_rank(rate_rank(code)), code);
    for (std::uint8_t other = 2; other <= 24; ++other)
      EXPECT_EQ(rate_rank(code) < rate_rank(other), gbits(code) < gbits(other));
  }
  EXPECT_EQ(rate_rank(25), 0);
  EXPECT_EQ(code_of_rank(24), 0);
}

/// The database of a net, with one record more or one changed.
template <class Record, class Change>
Error refused(const Net& net, Change change) {
  DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 7);
  const SnapshotPtr good = database_of(net);
  bool changed = false;
  for (std::size_t table = 0; table < path_tables; ++table)
    good->each(table, [&](RecordId id, ConstBytes octets) {
      Bytes copy(octets.begin(), octets.end());
      if (table == static_cast<std::size_t>(Record::table)) {
        Record record = Record::parse(octets);
        if (!changed && change(record)) {
          changed = true;
          copy = record.emit();
        }
      }
      const ConstBytes variable = good->variable(table, id);
      EXPECT_TRUE(writer.insert(table, copy, variable));
    });
  EXPECT_TRUE(changed);
  const auto map = PathMap::create(*writer.commit());
  return map ? Error(Errc::ok) : map.error();
}

TEST(SsaPaths, RefusesRecordsThatLie) {
  const Net net = drawn_net({*make_plan(FatTree{2, 4, 2, 2, 1})}, 5, 1);
  const Errc bad = Errc::malformed;
  EXPECT_EQ(refused<PathSubnet>(net, [](PathSubnet& r) { return r.sl = 16, true; }), bad);
  EXPECT_EQ(refused<PathSubnet>(net, [](PathSubnet& r) { return r.packet_life_time = 64, true; }), bad);
  EXPECT_EQ(refused<PathNode>(net, [](PathNode& r) { return r.type = 4, true; }), bad);
  EXPECT_EQ(refused<PathNode>(net, [](PathNode& r) { return r.ports = 255, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.node = 9999, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.number = 99, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.mtu = 6, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.rate = 1, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.lmc = 8, true; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.lid = 0xBFFF, r.lmc = 1, r.number == 0; }), bad);
  EXPECT_EQ(refused<PathPort>(net, [](PathPort& r) { return r.number = 2, true; }), bad) << "two of one port";
  unsigned lid = 0;
  EXPECT_EQ(refused<PathPort>(net,
                              [&](PathPort& r) {
                                const bool second = lid != 0 && r.lid != 0;
                                if (second) r.lid = static_cast<std::uint16_t>(lid);
                                if (r.lid != 0) lid = r.lid;
                                return second;
                              }),
            bad)
      << "two with one LID";
  EXPECT_EQ(refused<PathLink>(net, [](PathLink& r) { return r.node[1] = 9999, true; }), bad);
  EXPECT_EQ(refused<PathLink>(net, [](PathLink& r) { return r.port[0] = 0, true; }), bad);
  EXPECT_EQ(refused<PathLink>(net, [](PathLink& r) { return r.port[1] = 200, true; }), bad);
  EXPECT_EQ(refused<PathLink>(net, [](PathLink& r) { return r.node[1] = r.node[0], r.port[1] = r.port[0], true; }),
            bad);
  EXPECT_EQ(refused<PathLft>(net, [](PathLft& r) { return r.node = 9999, true; }), bad);
  EXPECT_EQ(refused<PathLft>(net, [](PathLft& r) { return r.block = 768, true; }), bad);
  Net with_sls = net;
  Rng rng(1);
  draw_sls(with_sls, rng);
  with_sls.partitions = {{1, 2}, {2, 3}};
  EXPECT_EQ(refused<PathSl>(with_sls, [](PathSl& r) { return r.octets[5] = 16, true; }), bad);
  EXPECT_EQ(refused<PathPartition>(with_sls, [](PathPartition& r) { return r.p_key = 0x8002, true; }), bad);
  EXPECT_EQ(refused<PathPartition>(with_sls, [](PathPartition& r) { return r.sl = 16, true; }), bad);
  EXPECT_EQ(refused<PathSubnet>(net, [](PathSubnet&) { return true; }), Errc::ok) << "unchanged";
}

TEST(SsaPaths, RefusesOtherTablesAndTooMuch) {
  const auto writer = DatabaseWriter::create({{{"NODE", 80, no_variable_part}}}, 7);
  EXPECT_EQ(PathMap::create(*writer->last()).error(), Errc::malformed);
  const auto empty = DatabaseWriter::create(path_schema(), 7);
  EXPECT_EQ(PathMap::create(*empty->last()).error(), Errc::malformed) << "no SUBNET record";
  const Net net = drawn_net({*make_plan(FatTree{2, 4, 2, 2, 1})}, 5, 1);
  EXPECT_EQ(PathMap::create(*database_of(net), {.octets_max = 20}).error(), Errc::no_space);
}

/// "" if there is no error, "?" if it is not of that code.
std::string sentence_of(const SnapshotPtr& snapshot, const PathLimits& limits, Errc code = Errc::no_space) {
  const auto map = PathMap::create(*snapshot, limits);
  return map ? "" : map.error() == code ? map.error().sentence() : "?";
}

TEST(SsaPaths, OneLimitIsForAllTables) {
  Net net = drawn_net({*make_plan(FatTree{2, 4, 2, 2, 1})}, 5, 1);
  const SnapshotPtr plain = database_of(net);
  for (Net::Node& node : net.nodes)
    if (node.is_switch) node.sls[1] = 3;
  const SnapshotPtr with_sls = database_of(net);
  std::size_t low = 0, high = PathLimits().octets_max;  // the least limit is above low, and at most high
  while (low + 1 < high) {
    const std::size_t limit = low + (high - low) / 2;
    (sentence_of(plain, {.octets_max = limit}).empty() ? high : low) = limit;
  }
  EXPECT_THAT(sentence_of(plain, {.octets_max = high - 1}), testing::HasSubstr("the table LFT"));
  EXPECT_THAT(sentence_of(with_sls, {.octets_max = high}), testing::HasSubstr("SL record 0"));
  EXPECT_EQ(sentence_of(with_sls, {.octets_max = high * 2}), "");
  EXPECT_THAT(sentence_of(plain, {.octets_max = 5000}), testing::HasSubstr("NODE record")) << "ports and egress ports";
}

TEST(SsaPaths, RefusesMoreSwitchesAndEndPortsThanLids) {
  DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 7);
  insert_record(writer, PathTable::subnet, PathSubnet().emit());
  for (std::size_t i = 0; i < subnet_switches_max; ++i)
    insert_record(writer, PathTable::node, PathNode{.guid = i, .type = PathNode::switch_}.emit());
  insert_record(writer, PathTable::node, PathNode{.guid = subnet_switches_max, .type = PathNode::switch_}.emit());
  EXPECT_THAT(sentence_of(writer.commit(), {}), testing::HasSubstr("NODE record 49151: more than 49151 switches"));

  DatabaseWriter ends = *DatabaseWriter::create(path_schema(), 7);
  insert_record(ends, PathTable::subnet, PathSubnet().emit());
  for (std::uint32_t i = 0; i < path_ends_max + 1; ++i) {
    if (i % 254 == 0) insert_record(ends, PathTable::node, PathNode{.guid = i, .ports = 254}.emit());
    PathPort port{.node = i / 254, .guid = i};
    port.number = static_cast<std::uint8_t>(i % 254 + 1);
    port.mtu = 5;
    port.rate = 2;
    insert_record(ends, PathTable::port, port.emit());
  }
  EXPECT_THAT(sentence_of(ends.commit(), {}), testing::HasSubstr("PORT record 65536"));
}

/// Ports of adapters whose P_Key tables are windows of one segment, each an entry behind the one before.
SnapshotPtr with_windows(std::uint32_t ports, std::uint32_t entries) {
  DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 7);
  insert_record(writer, PathTable::subnet, PathSubnet().emit());
  std::vector<std::uint16_t> keys(segment_octets / 2);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<std::uint16_t>(0x8001 + i);
  for (std::uint32_t i = 0; i < ports; ++i) {
    if (i % 254 == 0) insert_record(writer, PathTable::node, PathNode{.guid = i, .ports = 254}.emit());
    PathPort port{.node = i / 254, .guid = i};
    port.number = static_cast<std::uint8_t>(i % 254 + 1);
    port.mtu = 5;
    port.rate = 2;
    insert_record(writer, PathTable::port, port.emit(), i == 0 ? emit_p_keys(keys) : Bytes());
  }
  const SnapshotPtr good = writer.commit();
  std::vector<TableData> tables(good->tables().begin(), good->tables().end());
  TableData& table = tables[static_cast<std::size_t>(PathTable::port)];
  const TableDef& def = good->schema().tables[static_cast<std::size_t>(PathTable::port)];
  for (std::uint32_t i = 0; i < ports; ++i) {
    Block block = *table.blocks[i / block_records];
    std::uint8_t* const reference = &block.records[i % block_records * def.record_octets + def.ref_at];
    store(reference, 2 * (i % 1024), std::endian::big);
    store(reference + 4, 2 * entries, std::endian::big);
    table.blocks[i / block_records] = std::make_shared<const Block>(std::move(block));
  }
  return std::make_shared<Snapshot>(good->shared_schema(), good->epoch(), good->floor(), std::move(tables));
}

TEST(SsaPaths, OverlappingPKeyTablesHaveOneLimit) {
  EXPECT_EQ(sentence_of(with_windows(40, 100), {.p_keys_max = 4000}), "");
  EXPECT_THAT(sentence_of(with_windows(41, 100), {.p_keys_max = 4000}), testing::HasSubstr("PORT record 40"));
  EXPECT_EQ(sentence_of(with_windows(1024, 2), {.p_keys_max = 2048}), "");
  EXPECT_EQ(sentence_of(with_windows(4096, 2), {.p_keys_max = 2048}), "") << "equal tables are one";
}

/// Octets of records changed at random: an error, or a map that answers each question in bounded time.
TEST(SsaPaths, BearsAnyRecords) {
  const Net net = random_net(2);
  const SnapshotPtr good = database_of(net);
  std::size_t refused = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    Rng rng(seed);
    DatabaseWriter writer = *DatabaseWriter::create(path_schema(), 7);
    const std::size_t victim = rng.below(path_tables);
    for (std::size_t table = 0; table < path_tables; ++table)
      good->each(table, [&](RecordId id, ConstBytes octets) {
        Bytes copy(octets.begin(), octets.end());
        if (table == victim && rng.below(4) == 0) copy[rng.below(copy.size())] = static_cast<std::uint8_t>(rng.next());
        ASSERT_TRUE(writer.insert(table, copy, good->variable(table, id)));
      });
    const auto map = PathMap::create(*writer.commit());
    refused += !map;
    if (!map || (*map)->ends().empty()) continue;
    const EndId host = static_cast<EndId>(rng.below((*map)->ends().size()));
    std::vector<HostPath> paths((*map)->lids());
    (*map)->host_paths((*map)->leaf_paths((*map)->end(host).leaf), host, paths);
    for (int i = 0; i < 10; ++i)
      (void)(*map)->find(
          {.slid = static_cast<std::uint16_t>(rng.below(60)), .dlid = static_cast<std::uint16_t>(rng.below(60))});
  }
  EXPECT_GT(refused, 50U);
  EXPECT_LT(refused, 300U);
}

}  // namespace paths_test
}  // namespace parley::ssa
