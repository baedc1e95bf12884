// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Path records from the database of a fat tree of 13,284 nodes: what a path of a half world costs, alone and shared by the
// hosts of a leaf switch; single look-ups; how long the tables take to load. Both ways must give the same octets. Then
// ibacm's clients ask for such paths.
#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "bench/harness.hpp"
#include "bench/ssa_acm.hpp"
#include "sim/subnet/plan.hpp"
#include "ssa/paths.hpp"
#include "ssa/writer.hpp"

namespace parley::bench {
namespace {

using sim::subnet::Plan;
using ssa::EndId;
using ssa::HostPath;
using ssa::LeafPaths;
using ssa::PathMap;

constexpr std::uint32_t nowhere = sim::subnet::nowhere;

template <class T>
T must(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

bool is_switch(const Plan& plan, std::uint32_t node) { return plan.nodes[node].type == sim::subnet::NodeType::switch_; }

/// Each node's LID is its index + 1. Forwarding tables by switch: shortest routes, spread over the ports by LID.
std::vector<Bytes> route(const Plan& plan) {
  const auto nodes = static_cast<std::uint32_t>(plan.nodes.size());
  std::vector<Bytes> tables(nodes);
  for (std::uint32_t i = 0; i < nodes; ++i)
    if (is_switch(plan, i)) tables[i].assign(nodes + std::size_t{1}, ssa::no_port);
  std::vector<std::uint32_t> distance(nodes), queue;
  std::vector<std::uint8_t> best;
  for (std::uint32_t root = 0; root < nodes; ++root) {  // the hosts of a switch have its routes
    if (!is_switch(plan, root)) continue;
    std::fill(distance.begin(), distance.end(), nowhere);
    queue.assign(1, root);
    distance[root] = 0;
    for (std::size_t at = 0; at < queue.size(); ++at)
      for (const auto& port : plan.nodes[queue[at]].ports)
        if (port.peer != nowhere && is_switch(plan, port.peer) && distance[port.peer] == nowhere) {
          distance[port.peer] = distance[queue[at]] + 1;
          queue.push_back(port.peer);
        }
    for (const std::uint32_t node : queue) {
      best.clear();
      const auto& ports = plan.nodes[node].ports;
      for (std::size_t n = 0; node != root && n < ports.size(); ++n)
        if (ports[n].peer != nowhere && is_switch(plan, ports[n].peer) && distance[ports[n].peer] + 1 == distance[node])
          best.push_back(static_cast<std::uint8_t>(n + 1));
      const auto set = [&](std::uint32_t to, std::uint8_t here) {
        tables[node][to + std::size_t{1}] = node == root ? here : best[to % best.size()];
      };
      set(root, 0);
      const auto& ends = plan.nodes[root].ports;
      for (std::size_t n = 0; n < ends.size(); ++n)
        if (ends[n].peer != nowhere && !is_switch(plan, ends[n].peer))
          set(ends[n].peer, static_cast<std::uint8_t>(n + 1));
    }
  }
  return tables;
}

void put(ssa::DatabaseWriter& writer, ssa::PathTable table, const Bytes& record, const Bytes& variable = {}) {
  (void)must(writer.insert(static_cast<std::size_t>(table), record, variable));
}

/// A fat tree's database. Every fourth host is a limited member of the default partition and a full one of another.
ssa::SnapshotPtr database_of(const Plan& plan, const std::vector<Bytes>& tables) {
  using namespace ssa;
  DatabaseWriter writer = must(DatabaseWriter::create(path_schema(), 1));
  put(writer, PathTable::subnet, PathSubnet{}.emit());
  put(writer, PathTable::partition, PathPartition{0x0001, 1}.emit());
  const Bytes full = emit_p_keys(std::vector<std::uint16_t>{0xFFFF});
  const Bytes limited = emit_p_keys(std::vector<std::uint16_t>{0x7FFF, 0x8001});
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i) {
    const auto& from = plan.nodes[i];
    const bool switch_node = is_switch(plan, i);
    PathNode node{.guid = from.guid, .type = switch_node ? PathNode::switch_ : PathNode::adapter};
    node.ports = static_cast<std::uint8_t>(from.ports.size());
    node.lft_top = static_cast<std::uint16_t>(plan.nodes.size());
    put(writer, PathTable::node, node.emit());
    for (std::size_t n = switch_node ? 0 : 1; n <= from.ports.size(); ++n) {
      PathPort port{
          .node = i, .guid = from.guid + n, .lid = static_cast<std::uint16_t>(switch_node && n > 0 ? 0 : i + 1)};
      port.number = static_cast<std::uint8_t>(n);
      port.mtu = 5;
      port.rate = 16;
      put(writer, PathTable::port, port.emit(), switch_node || i % 4 != 0 ? full : limited);
    }
    for (std::size_t block = 0; block * lid_block < tables[i].size(); ++block) {
      PathLft lft{.node = i, .block = static_cast<std::uint16_t>(block)};
      lft.octets.fill(no_port);
      const std::size_t count = std::min(lid_block, tables[i].size() - block * lid_block);
      std::copy_n(tables[i].begin() + static_cast<std::ptrdiff_t>(block * lid_block), count, lft.octets.begin());
      put(writer, PathTable::lft, lft.emit());
    }
  }
  for (std::uint32_t i = 0; i < plan.nodes.size(); ++i)
    for (std::size_t n = 0; n < plan.nodes[i].ports.size(); ++n) {
      const auto& port = plan.nodes[i].ports[n];
      if (port.peer == nowhere || port.peer < i) continue;
      PathLink link{.node = {i, port.peer}};
      link.port = {static_cast<std::uint8_t>(n + 1), port.peer_port};
      put(writer, PathTable::link, link.emit());
    }
  return writer.commit();
}

/// One leaf switch after the other, each with its hosts.
struct Leaf {
  ssa::SwitchId id;
  std::vector<EndId> hosts;
};
std::vector<Leaf> leaves_of(const PathMap& map) {
  std::vector<Leaf> all(map.switches());
  for (ssa::SwitchId id = 0; id < all.size(); ++id) all[id].id = id;
  for (EndId id = 0; id < map.ends().size(); ++id) {
    const ssa::PathEnd& end = map.end(id);
    if (map.end_of_lid(end.lid) == id && end.leaf != ssa::no_switch) all[end.leaf].hosts.push_back(id);
  }
  std::erase_if(all, [](const Leaf& leaf) { return leaf.hosts.size() < 2; });  // its port 0 alone
  return all;
}

/// Compares a half world with single look-ups, record by record. Returns how many there are.
std::size_t compare(const PathMap& map, const Leaf& leaf) {
  const LeafPaths shared = map.leaf_paths(leaf.id);
  std::vector<HostPath> paths(map.lids());
  std::size_t count = 0;
  for (const EndId host : {leaf.hosts.front(), leaf.hosts.back()}) {
    map.host_paths(shared, host, paths);
    const std::uint16_t slid = map.end(host).lid;
    for (std::uint16_t dlid = 1; dlid < map.lids(); ++dlid) {
      const auto single = map.find({.slid = slid, .dlid = dlid});
      const bool none = paths[dlid].fault != ssa::PathFault::none;
      if (none ? single.has_value() : !single || *single != map.record_of(host, slid, dlid, paths[dlid]))
        throw std::runtime_error(fmt::format("the two paths from LID {} to {} differ", slid, dlid));
      ++count;
    }
  }
  return count;
}

template <class Work>
Sample timed(double seconds, Work&& work) {
  Stopwatch watch;
  double paths = 0;
  do paths += static_cast<double>(work());
  while (watch.wall_s() < seconds);
  return watch.stop(paths);
}

/// Nanoseconds of processor time for each.
double ns_each(const std::vector<Sample>& samples) { return 1e9 / median_of(samples, Reading::per_cpu_second); }

void add(Report& report, const char* what, double figure, double goal) {
  report.add({.what = what,
              .unit = "ns of CPU a path",
              .figure = figure,
              .limit_name = goal > 0 ? "goal" : "",
              .limit = goal,
              .ratio = goal > 0 ? figure / goal : 0,
              .goal_kind = goal > 0 ? Row::Goal::ratio_at_most : Row::Goal::none,
              .goal = 1});
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv, "ssa_bench: paths of a fat tree");
  if (!settings) return 2;
  const auto shape = settings->quick ? sim::subnet::FatTree{3, 8, 8, 4, 1} : sim::subnet::FatTree{3, 36, 36, 18, 1};
  const Plan plan = *make_plan(shape);
  const ssa::SnapshotPtr database = database_of(plan, route(plan));
  const Stopwatch loading;
  const auto map = must(PathMap::create(*database));
  const Sample loaded = loading.stop(1);
  const std::vector<Leaf> leaves = leaves_of(*map);

  Report report("ssa_bench", *settings);
  report.section(fmt::format("Paths of a fat tree of {} nodes, {} LIDs", plan.nodes.size(), map->lids() - 1));
  std::size_t compared = 0;
  for (std::size_t i = 0; i < leaves.size(); i += leaves.size() / 4) compared += compare(*map, leaves[i]);
  report.note(fmt::format("{} records of half worlds and of single look-ups have the same octets", compared));

  std::size_t next = 0;
  std::vector<HostPath> out(map->lids());
  const auto half_world = [&] {
    return timed(settings->seconds, [&] {
      const Leaf& leaf = leaves[next++ % leaves.size()];
      map->host_paths(map->leaf_paths(leaf.id), leaf.hosts.front(), out);
      return map->lids() - 1;
    });
  };
  const auto shared = [&] {
    return timed(settings->seconds, [&] {
      const Leaf& leaf = leaves[next++ % leaves.size()];
      const LeafPaths paths = map->leaf_paths(leaf.id);
      for (const EndId host : leaf.hosts) map->host_paths(paths, host, out);
      return leaf.hosts.size() * (map->lids() - 1);
    });
  };
  const auto single = [&] {
    return timed(settings->seconds, [&] {
      const std::uint16_t slid = map->end(leaves[next++ % leaves.size()].hosts.front()).lid;
      std::size_t count = 0;
      for (std::uint16_t dlid = 1; dlid < map->lids(); ++dlid)
        count += map->find({.slid = slid, .dlid = dlid}).has_value();
      return count;
    });
  };
  const auto samples =
      alternate({{"half world", half_world}, {"shared", shared}, {"single", single}}, settings->rounds);
  add(report, "half world of one host", ns_each(samples[0]), 40);
  add(report, "half worlds of a leaf switch and all its hosts", ns_each(samples[1]), 5);
  add(report, "single look-up, as a record", ns_each(samples[2]), 0);
  report.add({.what = "a map from the database", .unit = "ms of CPU", .figure = loaded.cpu_s * 1e3});
  measure_acm(report, *settings, map);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("ssa_bench", parley::bench::run, argc, argv); }
