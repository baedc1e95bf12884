// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/ssa/collect.hpp"

#include <algorithm>
#include <deque>
#include <set>

#include "mad/packet.hpp"
#include "mad/path_text.hpp"
#include "mad/scope.hpp"
#include "ssa/paths.hpp"
#include "ssa/paths_p_keys.hpp"
#include "wire/mad/sa.hpp"

namespace parley::ssa_driver {

namespace {

using mad::Port;
using mad::Reply;
using mad::Task;
using mad::Topology;
using mad::TopologyNode;
using mad::TopologyPort;
using wire::mad::LinearForwardingTable;
using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PathRecord;
using wire::mad::PKeyTable;
using wire::mad::PortInfo;
using wire::mad::SwitchInfo;

constexpr std::uint32_t keys_in_block = 32;
constexpr std::uint32_t keys_max = ssa::segment_octets / 2;  // what the variable part of a record can have

bool is_switch(const TopologyNode& node) { return node.type == NodeType::switch_; }

class Collection {
 public:
  Collection(Port& port, const Topology& topology, const CollectOptions& options, SubnetTables& out)
      : port_(port), topology_(topology), options_(options), out_(out) {}

  Task<void> run(Port& port) {
    jobs_.push_back({Job::own_port, 0});
    each_end([this](std::uint32_t node, std::uint8_t number) { jobs_.push_back({Job::node_info, node, number}); });
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i)
      if (is_switch(topology_.nodes()[i])) jobs_.push_back({Job::switch_info, i});
    co_await run_jobs(port);
    add_partition_jobs();
    if (options_.route_sls) add_route_jobs();
    co_await run_jobs(port);
    out_.whole = !stopped_ && out_.lost == 0;
  }

 private:
  struct Job {
    enum Kind : std::uint8_t { own_port, node_info, p_keys, switch_info, lft, partition_sl, route_sls } kind;
    std::uint32_t node = 0;
    std::uint8_t port = 0;
    std::uint16_t block = 0;  // for partition_sl the P_Key
    std::uint16_t slid = 0, dlid = 0;
  };

  /// Jobs create jobs, while others run.
  Task<void> run_jobs(Port& port) {
    while (!stopped_ && !jobs_.empty()) {
      const mad::ScopeOptions limits{.on_error = mad::OnError::keep, .limit = options_.jobs_max};
      const Reply<void> all = co_await mad::run_each(port, limits, [this] { return next(); });
      if (!all) stopped_ = true;
    }
  }

  std::optional<Task<void>> next() {
    if (stopped_ || jobs_.empty()) return std::nullopt;
    const Job job = jobs_.front();
    jobs_.pop_front();
    switch (job.kind) {
      case Job::own_port: return own_port(port_);
      case Job::node_info: return node_info(port_, job);
      case Job::p_keys: return p_keys(port_, job);
      case Job::switch_info: return switch_info(port_, job);
      case Job::lft: return lft(port_, job);
      case Job::partition_sl: return partition_sl(port_, job);
      case Job::route_sls: return route_sls(port_, job);
    }
    return std::nullopt;
  }

  /// Calls `take(node, port)` for each end port that the discovery has found.
  template <class Take>
  void each_end(Take&& take) const {
    for (std::uint32_t i = 0; i < topology_.nodes().size(); ++i) {
      const TopologyNode& node = topology_.nodes()[i];
      const auto ports = topology_.ports_of(node);
      for (std::size_t n = 0; n < ports.size(); ++n)
        if (is_end_port(node, n) && ports[n].known) take(i, static_cast<std::uint8_t>(n));
    }
  }

  /// A port of a channel adapter is asked by its own link, because each port has its own agent.
  std::optional<mad::Path> path_to(std::uint32_t node, std::uint8_t number) const {
    const TopologyNode& to = topology_.nodes()[node];
    const TopologyPort& at = topology_.port(node, number);
    const bool direct = is_switch(to) || number == to.reached_port || at.peer == mad::no_node;
    mad::Path out = options_.path;
    out.route = topology_.route_to(direct ? node : at.peer);
    if (!out.route || (!direct && !out.route->extend(at.peer_port))) return std::nullopt;
    return out;
  }

  /// The answer; none: there was none, which is counted.
  template <class A>
  std::optional<A> answer(Reply<A> reply) {
    if (!reply && (reply.error().fault() == mad::Fault::cancelled || reply.error().fault() == mad::Fault::deadline)) {
      stopped_ = true;
      return std::nullopt;
    }
    ++out_.asked;
    if (reply) return std::move(*reply);
    if (out_.lost++ == 0) out_.first_error = reply.error().message();
    return std::nullopt;
  }

  Task<void> own_port(Port& port) {
    const auto info = answer(co_await port.subn_get<PortInfo>(options_.path));
    if (!info) co_return;
    out_.subnet.gid_prefix = info->get(PortInfo::gid_prefix);
    out_.subnet.packet_life_time = static_cast<std::uint8_t>(info->get(PortInfo::subnet_time_out));
  }

  Task<void> node_info(Port& port, Job job) {
    const auto path = path_to(job.node, job.port);
    if (!path) co_return;
    const auto info = answer(co_await port.subn_get<NodeInfo>(*path));
    if (!info) co_return;
    const std::uint32_t keys = std::clamp<std::uint32_t>(info->get(NodeInfo::partition_cap), 1, keys_max);
    for (std::uint32_t block = 0; block * keys_in_block < keys; ++block)
      jobs_.push_back({Job::p_keys, job.node, job.port, static_cast<std::uint16_t>(block)});
  }

  Task<void> p_keys(Port& port, Job job) {
    const auto path = path_to(job.node, job.port);
    if (!path) co_return;
    const auto table = answer(co_await port.subn_get<PKeyTable>(*path, job.block));
    if (!table) co_return;
    auto& keys = out_.p_keys[{job.node, job.port}];
    for (std::size_t i = 0; i < keys_in_block; ++i)
      if (const std::uint16_t key = table->get(PKeyTable::p_key_block, i); ssa::p_key_base(key) != 0)
        keys.push_back(key);
  }

  Task<void> switch_info(Port& port, Job job) {
    const auto path = path_to(job.node, 0);
    if (!path) co_return;
    const auto info = answer(co_await port.subn_get<SwitchInfo>(*path));
    if (!info) co_return;
    const auto top =
        static_cast<std::uint16_t>(std::min<std::size_t>(info->get(SwitchInfo::linear_fdb_top), ssa::lids_max - 1));
    out_.switches[job.node].top = top;
    for (std::uint32_t block = 0; block <= top / ssa::lid_block; ++block)
      jobs_.push_back({Job::lft, job.node, 0, static_cast<std::uint16_t>(block)});
  }

  Task<void> lft(Port& port, Job job) {
    const auto path = path_to(job.node, 0);
    if (!path) co_return;
    const auto table = answer(co_await port.subn_get<LinearForwardingTable>(*path, job.block));
    if (!table) co_return;
    const ConstBytes octets = table->octets();
    std::copy(octets.begin(), octets.end(), out_.switches[job.node].lft[job.block].begin());
  }

  /// One path by each P_Key that a full member and another port have; of the asking port if it has the P_Key, because
  /// subnet administration tells it of its own paths.
  void add_partition_jobs() {
    const std::uint16_t own = port_.local().lid;
    std::map<std::uint16_t, std::uint16_t> full;  // P_Key without member bit: a LID
    each_key([&](std::uint16_t lid, std::uint16_t key) {
      if ((key & ssa::p_key_full) == 0) return;
      if (const auto [at, is_new] = full.try_emplace(ssa::p_key_base(key), lid); !is_new && lid == own)
        at->second = lid;
    });
    std::set<std::uint16_t> done;
    const auto add = [&](std::uint16_t lid, std::uint16_t key) {
      const auto source = full.find(ssa::p_key_base(key));
      if (source == full.end() || lid == source->second || !done.insert(source->first).second) return;
      jobs_.push_back({.kind = Job::partition_sl, .block = key, .slid = source->second, .dlid = lid});
    };
    each_key([&](std::uint16_t lid, std::uint16_t key) {
      if (lid == own) add(lid, key);
    });
    each_key(add);
  }

  /// Calls `take(lid, key)` for each P_Key of each port with a LID.
  template <class Take>
  void each_key(Take&& take) const {
    for (const auto& [at, keys] : out_.p_keys)
      if (const std::uint16_t lid = topology_.port(at.first, at.second).lid; lid != 0)
        for (const std::uint16_t key : keys) take(lid, key);
  }

  Task<void> partition_sl(Port& port, Job job) {
    mad::Query<PathRecord> query;
    query.set(PathRecord::slid, job.slid).set(PathRecord::dlid, job.dlid);
    query.set(PathRecord::p_key, job.block).set(PathRecord::num_path, 1);
    const Reply<PathRecord> record = co_await port.sa_get(sa_path(), query);
    const std::uint16_t base = ssa::p_key_base(job.block);
    // Subnet administration is silent on ports that may not talk to the one that asks.
    if (!record && record.error().is_no_records()) {
      ++out_.asked;
      out_.sl_unknown.insert(base);
      co_return;
    }
    if (const auto found = answer(record))
      out_.partitions[base] = static_cast<std::uint8_t>(found->get(PathRecord::sl));
  }

  /// For each switch with hosts, one of them.
  void add_route_jobs() {
    std::set<std::uint32_t> done;
    each_end([&](std::uint32_t node, std::uint8_t number) {
      const TopologyPort& port = topology_.port(node, number);
      if (number == 0 || port.lid == 0 || port.peer == mad::no_node || !is_switch(topology_.nodes()[port.peer])) return;
      if (done.insert(port.peer).second) jobs_.push_back({.kind = Job::route_sls, .node = port.peer, .slid = port.lid});
    });
  }

  Task<void> route_sls(Port& port, Job job) {
    mad::Query<PathRecord> query;
    query.set(PathRecord::slid, job.slid);
    auto reply = co_await port.sa_get_table(sa_path(), query);
    if (!reply && reply.error().is_no_records()) {
      ++out_.asked;
      co_return;
    }
    const auto records = answer(std::move(reply));
    if (!records) co_return;
    auto& sls = out_.switches[job.node].sls;
    for (const PathRecord& record : *records) {
      const std::uint16_t dlid = record.get(PathRecord::dlid);
      if (!mad::is_unicast_lid(dlid)) continue;
      const auto [at, is_new] = sls.try_emplace(static_cast<std::uint16_t>(dlid / ssa::lid_block));
      if (is_new) at->second.fill(ssa::no_sl);
      at->second[dlid % ssa::lid_block] = static_cast<std::uint8_t>(record.get(PathRecord::sl));
    }
  }

  mad::Path sa_path() const {
    mad::Path out = port_.sa_path();
    out.retries = options_.path.retries;
    out.timeout = options_.path.timeout;
    out.sm_key = options_.path.sm_key;
    return out;
  }

  Port& port_;
  const Topology& topology_;
  CollectOptions options_;
  SubnetTables& out_;
  std::deque<Job> jobs_;
  bool stopped_ = false;
};

}  // namespace

Task<void> collect(Port& port, const Topology& topology, CollectOptions options, SubnetTables& out) {
  Collection collection(port, topology, options, out);
  co_await collection.run(port);
}

}  // namespace parley::ssa_driver
