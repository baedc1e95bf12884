// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/discover.hpp"

#include "mad/path_text.hpp"

namespace parley::mad {

using wire::mad::NodeDescription;
using wire::mad::NodeInfo;
using wire::mad::NodeType;
using wire::mad::PortInfo;
using wire::mad::SwitchInfo;

namespace {

class Walk {
 public:
  Walk(Port& port, const DiscoverOptions& options, Discovery& out) : port_(port), options_(options), out_(out) {}
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  Task<void> run(Port& port) {
    jobs_.push_back({Job::probe, 0, no_node});
    // Jobs create jobs. Those that are created after the queue was empty start when the others have ended.
    while (!stopped_ && (!jobs_.empty() || take_put_off())) {
      const ScopeOptions limits{.on_error = OnError::keep, .limit = options_.jobs_max};
      const Reply<void> all = co_await run_each(port, limits, [this] { return next(); });
      if (!all) break;
    }
    out_.waiting = jobs_.size();
    out_.whole = !stopped_ && jobs_.empty() && !out_.full;
  }

 private:
  struct Job {
    enum Kind : std::uint8_t { probe, lid_check, description, switch_info, port_info } kind;
    std::uint8_t port;   // the egress port of a probe, or the port that is queried
    std::uint32_t node;  // no_node: the port itself
    bool again = false;  // a retry: the first attempt had no answer
  };

  std::optional<Task<void>> next() {
    while (!stopped_ && !jobs_.empty()) {
      const Job job = jobs_.front();
      jobs_.pop_front();
      if (job.kind == Job::probe && job.node != no_node && topology().port(job.node, job.port).peer != no_node)
        continue;  // found from its other end since
      out_.waiting = jobs_.size();
      switch (job.kind) {
        case Job::probe: return probe(port_, job);
        case Job::lid_check: return lid_check(port_, job);
        case Job::description: return description(port_, job);
        case Job::switch_info: return switch_info(port_, job);
        case Job::port_info: return port_info(port_, job);
      }
    }
    return std::nullopt;
  }

  Topology& topology() { return out_.topology; }

  /// The path to a node; with `port`, to the node behind that port.
  std::optional<Path> path_to(std::uint32_t node, std::uint8_t port = 0) const {
    Path out = options_.path;
    if (node == no_node) return out;
    const TopologyNode& to = out_.topology.nodes()[node];
    if (to.by_lid && port == 0) {
      out.route.reset();
      out.address = Path::by_lid(out_.topology.lid_of(node, to.reached_port)).address;
      return out;
    }
    const auto route = out_.topology.route_to(node);
    if (!route) return std::nullopt;
    out.route = route;
    if (port != 0 && !out.route->extend(port)) return std::nullopt;
    return out;
  }

  /// The answer to the request of `job`. None: the missing answer has been handled.
  template <class A>
  std::optional<A> answer(Job job, const Reply<A>& reply) {
    if (!reply && (reply.error().fault() == Fault::cancelled || reply.error().fault() == Fault::deadline)) {
      stopped_ = true;
    } else if (!reply && reply.error().fault() == Fault::timeout && !job.again) {
      job.again = true;
      put_off_.push_back(job);
    } else {
      ++out_.asked;
      if (reply) return *reply;
      mark_lost(job);
    }
    return std::nullopt;
  }

  /// When the rest is done, repeats the jobs without an answer, if the subnet loses datagrams: a few of many thousands
  /// of requests then lose all of their tries. If nothing else was lost, a silent node is dead, and is not queried
  /// again.
  bool take_put_off() {
    if (port_.counters().recovered > 0)
      jobs_.insert(jobs_.end(), put_off_.begin(), put_off_.end());
    else
      for (const Job& job : put_off_) {
        ++out_.asked;
        mark_lost(job);
      }
    put_off_.clear();
    return !jobs_.empty();
  }

  void mark_lost(const Job& job) {
    ++out_.lost;
    if (job.kind == Job::probe) {
      if (job.node != no_node) topology().port(job.node, job.port).peer_lost = true;
      return;
    }
    topology().node(job.node).lost = true;
    if (job.kind != Job::port_info) return;
    topology().port(job.node, job.port).lost = true;
    continue_after(job);
  }

  Task<void> probe(Port& port, Job job) {
    const auto path = path_to(job.node, job.port);
    if (!path) co_return;
    const auto info = answer(job, co_await port.subn_get<NodeInfo>(*path));
    if (!info) co_return;
    if (topology().nodes().size() >= options_.nodes_max && topology().find(info->get(NodeInfo::node_guid)) == no_node) {
      out_.full = true;
      co_return;
    }
    const auto added = topology().add(*info, job.node, job.port);
    const std::uint8_t came_in = info->get(NodeInfo::local_port_num);
    if (job.node != no_node && !topology().link(job.node, job.port, added.node, came_in)) ++out_.doubtful;
    if (added.is_new)
      look_at(added.node);
    else if (topology().nodes()[added.node].type != NodeType::switch_)
      look_at_port(added.node, came_in, info->get(NodeInfo::port_guid));
  }

  /// Queries all ports of a switch, but only the reached port of another node.
  void look_at(std::uint32_t node) {
    const TopologyNode& found = topology().nodes()[node];
    const bool is_switch = found.type == NodeType::switch_;
    if (!is_switch)
      return look_at_port(node, found.reached_port, found.port_guid), jobs_.push_back({Job::description, 0, node});
    jobs_.push_back({Job::port_info, 0, node});
    if (!options_.by_lid) look_at_rest(node);
  }
  void look_at_port(std::uint32_t node, std::uint8_t number, std::uint64_t guid) {
    if (number > topology().nodes()[node].ports || topology().port(node, number).guid != 0) return;
    topology().port(node, number).guid = guid;
    jobs_.push_back({Job::port_info, number, node});
  }
  void look_at_rest(std::uint32_t node) {
    jobs_.push_back({Job::description, 0, node});
    jobs_.push_back({Job::switch_info, 0, node});
    for (unsigned i = 1; i <= topology().nodes()[node].ports; ++i)
      jobs_.push_back({Job::port_info, static_cast<std::uint8_t>(i), node});
  }

  /// A LID may be stale, from another subnet manager, or a duplicate. It is only used if the node itself answers there.
  Task<void> lid_check(Port& port, Job job) {
    Path path = options_.path;
    path.route.reset();
    path.address = Path::by_lid(topology().lid_of(job.node, 0)).address;
    path.retries = 0;
    const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(path);
    ++out_.asked;
    if (info && info->get(NodeInfo::node_guid) == topology().nodes()[job.node].guid)
      topology().node(job.node).by_lid = true;
    look_at_rest(job.node);
  }

  Task<void> description(Port& port, Job job) {
    const auto path = path_to(job.node);
    if (!path) co_return;
    if (const auto text = answer(job, co_await port.subn_get<NodeDescription>(*path)))
      topology().set_description(job.node, text->get(NodeDescription::node_string));
  }

  Task<void> switch_info(Port& port, Job job) {
    const auto path = path_to(job.node);
    if (!path) co_return;
    if (const auto info = answer(job, co_await port.subn_get<SwitchInfo>(*path)))
      topology().node(job.node).enhanced_port0 = info->get(SwitchInfo::enhanced_port0);
  }

  /// A port of a channel adapter is queried by its own link, because each port has its own SMA.
  std::optional<Path> path_to_port(const Job& job) const {
    const TopologyNode& node = out_.topology.nodes()[job.node];
    const TopologyPort& port = out_.topology.port(job.node, job.port);
    if (node.type == NodeType::switch_ || job.port == node.reached_port || port.peer == no_node)
      return path_to(job.node);
    return path_to(port.peer, port.peer_port);
  }

  Task<void> port_info(Port& port, Job job) {
    const auto path = path_to_port(job);
    if (!path) co_return;
    const auto info = answer(job, co_await port.subn_get<PortInfo>(*path, job.port));
    if (!info) co_return;
    topology().port(job.node, job.port).set(*info);
    continue_after(job);
  }

  /// Continues behind a port whose PortInfo was read, or had no answer.
  void continue_after(const Job& job) {
    const TopologyPort& about = topology().port(job.node, job.port);
    const TopologyNode& node = topology().nodes()[job.node];
    if (node.type == NodeType::switch_ && job.port == 0) {
      if (!options_.by_lid) return;
      if (about.known && is_unicast_lid(about.lid))
        jobs_.push_back({Job::lid_check, 0, job.node});
      else
        look_at_rest(job.node);
      return;
    }
    // Only switches and the first node forward a directed route. A port without PortInfo may have a link.
    const bool leads_on = node.type == NodeType::switch_ || job.node == 0;
    if (leads_on && about.peer == no_node && (about.link_up() || !about.known) && node.hops < options_.hops_max)
      jobs_.push_back({Job::probe, job.port, job.node});
  }

  Port& port_;
  DiscoverOptions options_;
  Discovery& out_;
  std::deque<Job> jobs_, put_off_;
  bool stopped_ = false;
};

}  // namespace

Task<void> discover(Port& port, DiscoverOptions options, Discovery& out) {
  Walk walk(port, options, out);
  co_await walk.run(port);
}

}  // namespace parley::mad
