// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A whole tree in memory: nodes, a master, and a network of virtual time that drops, doubles, delays and reorders datagrams
// as a seed draws it. Ports are on leaf switches; two ports of a leaf are 2 hops apart, others 4.
#pragma once
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "base/deadline_queue.hpp"
#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa::kit {

struct TreeShape {
  std::uint16_t distribution = 2, access = 8, consumers = 200, leaves = 10;
};

struct Network {
  Ratio loss{0, 100}, doubling{1, 100};
  Duration delay_min = 2us, delay_max = 5ms;
};

class Tree {
 public:
  struct Host {
    std::unique_ptr<Node> node;
    bool stopped = false;
    std::uint64_t queries = 0;  // hellos sent
  };
  static constexpr std::uint16_t core = 1;

  explicit Tree(std::uint64_t seed, const TreeShape& s = {}, const Network& network_ = {})
      : shape(s), network(network_), rng_(seed) {
    hosts.resize(std::size_t{2} + s.distribution + s.access + s.consumers);
    add(core, roles::core);
    for (std::uint16_t i = 0; i < s.distribution; ++i) add(distribution(i), roles::distribution);
    for (std::uint16_t i = 0; i < s.access; ++i) add(access(i), roles::access);
    for (std::uint16_t i = 0; i < s.consumers; ++i) add(consumer(i), roles::consumer);
    start_master({1, 1});
  }

  std::uint16_t distribution(std::uint16_t i) const { return static_cast<std::uint16_t>(2 + i); }
  std::uint16_t access(std::uint16_t i) const {
    return static_cast<std::uint16_t>(distribution(shape.distribution) + i);
  }
  std::uint16_t consumer(std::uint16_t i) const { return static_cast<std::uint16_t>(access(shape.access) + i); }
  std::uint64_t leaf(std::uint16_t lid) const { return 1U + lid % shape.leaves; }

  void start_master(Epoch epoch) {
    MasterOptions options;
    options.seed = rng_.next();
    options.key = tree_key;
    options.epoch = epoch;
    options.root = gid_of(core);
    options.root_endpoint = endpoint_of(core);
    options.topology.hops = [this](const Gid& a, const Gid& b) { return leaf(lid_of(a)) == leaf(lid_of(b)) ? 2U : 4U; };
    options.topology.leaf = [this](const Gid& a) { return leaf(lid_of(a)); };
    master = std::make_unique<Master>(options);
    master->start(now);
    hosts[core].node->handle_database(now, epoch);
    settle(core);
  }
  void boot(std::uint16_t lid) {
    hosts[lid].node->start(now, at(core));
    settle(lid);
  }
  void boot_all() {
    for (std::uint16_t lid = 1; lid < hosts.size(); ++lid) boot(lid);
  }
  /// Nothing that it sends leaves it, and nothing reaches it.
  void kill(std::uint16_t lid) {
    hosts[lid].stopped = true;
    deadlines_.set(lid, never);
  }
  void resume(std::uint16_t lid) {
    hosts[lid].stopped = false;
    settle(lid);
  }
  void cut(std::uint16_t a, std::uint16_t b) { cuts_.insert(std::minmax(a, b)); }
  void heal() { cuts_.clear(); }

  Node& node(std::uint16_t lid) { return *hosts[lid].node; }
  std::uint16_t parent_of(std::uint16_t lid) {
    return node(lid).parent().exists() ? lid_of(node(lid).parent().gid()) : std::uint16_t{0};
  }
  std::uint16_t backup_of(std::uint16_t lid) {
    return node(lid).backup().exists() ? lid_of(node(lid).backup().gid()) : std::uint16_t{0};
  }
  bool is_connected(std::uint16_t lid) { return node(lid).state() == NodeState::connected; }
  /// How many consumers that run are connected (with a backup).
  std::size_t connected(bool with_backup = false) {
    std::size_t n = 0;
    for (std::uint16_t i = 0; i < shape.consumers; ++i) {
      const std::uint16_t lid = consumer(i);
      if (hosts[lid].stopped || !is_connected(lid) || hosts[parent_of(lid)].stopped) continue;
      n += with_backup && !(node(lid).has_backup() && !hosts[backup_of(lid)].stopped) ? 0 : 1;
    }
    return n;
  }

  /// Runs for `time`, or until `done` returns true; it is asked every 50 ms. False: the time is over.
  template <class F>
  bool run_until(Duration time, F&& done) {
    const Instant end = now + time;
    for (Instant check = now; now < end; check += 50ms) {
      run_to(std::min(check, end));
      if (done()) return true;
    }
    return false;
  }
  void run(Duration time) {
    (void)run_until(time, [] { return false; });
  }

  /// Datagrams that reached the core in each second.
  std::map<std::int64_t, std::uint64_t> at_core;
  std::uint64_t delivered = 0, lost = 0, dropped_outputs = 0;

  TreeShape shape;
  Network network;
  Instant now{};
  std::vector<Host> hosts;  // by LID
  std::unique_ptr<Master> master;

 private:
  struct Flight {
    Instant at;
    std::uint64_t number;
    std::uint16_t from, to;
    Datagram mad;
    bool operator<(const Flight& other) const { return at != other.at ? at > other.at : number > other.number; }
  };

  void add(std::uint16_t lid, std::uint8_t node_roles) {
    NodeOptions options;
    options.seed = rng_.next();
    options.key = tree_key;
    options.gid = gid_of(lid);
    options.roles = node_roles;
    options.endpoint = endpoint_of(lid);
    options.is_root = lid == core;
    hosts[lid].node = std::make_unique<Node>(options);
  }
  void run_to(Instant until) {
    for (;;) {
      const Instant next = std::min(flights_.empty() ? never : flights_.top().at, deadlines_.next());
      if (next > until) break;
      now = std::max(now, next);
      if (const auto lid = deadlines_.pop_due(now)) {
        Host& host = hosts[*lid];
        host.node->handle_deadline(now);
        if (*lid == core) master->handle_deadline(now);
        settle(static_cast<std::uint16_t>(*lid));
      } else {
        const Flight flight = flights_.top();
        flights_.pop();
        deliver(flight);
      }
    }
    now = std::max(now, until);
  }
  void deliver(const Flight& flight) {
    if (hosts[flight.to].stopped) return;
    ++delivered;
    if (flight.to == core) ++at_core[now.time_since_epoch() / 1s];
    const auto message = parse_message(flight.mad);
    ASSERT_TRUE(message) << message.error().message();
    if (flight.to == core && is_for_master(*message))
      master->handle_message(now, at(flight.from), flight.mad);
    else
      node(flight.to).handle_message(now, at(flight.from), flight.mad);
    settle(flight.to);
  }
  /// Takes what a host has to send, and pulls the version that its parent has.
  void settle(std::uint16_t lid) {
    Host& host = hosts[lid];
    while (const auto event = host.node->poll_event())
      if (event->kind == NodeEvent::Kind::new_epoch) host.node->handle_database(now, event->epoch);
    while (const auto sent = host.node->poll_transmit()) {
      if (sent->to.lid == core && parse_message(sent->mad)->body.index() == 0) ++host.queries;
      send(lid, *sent);
    }
    Instant next = host.node->next_deadline();
    if (lid == core && master) {
      while (const auto sent = master->poll_transmit()) send(lid, *sent);
      while (master->poll_event()) {
      }
      next = std::min(next, master->next_deadline());
    }
    if (!host.stopped) deadlines_.set(lid, next);
  }
  void send(std::uint16_t from, const Transmit& sent) {
    const std::uint16_t to = sent.to.lid;
    ASSERT_TRUE(to > 0 && to < hosts.size()) << "to LID " << to;
    if (hosts[from].stopped || cuts_.contains(std::minmax(from, to))) return;
    for (int copies = rng_.chance(network.doubling) ? 2 : 1; copies > 0; --copies) {
      if (from != to && rng_.chance(network.loss)) {
        ++lost;
        continue;
      }
      const auto low = static_cast<std::uint64_t>(network.delay_min.count()),
                 high = static_cast<std::uint64_t>(network.delay_max.count());
      flights_.push(
          {now + Duration(static_cast<Duration::rep>(rng_.between(low, high))), ++numbers_, from, to, sent.mad});
    }
  }

  Rng rng_;
  std::uint64_t numbers_ = 0;
  std::priority_queue<Flight> flights_;
  std::set<std::pair<std::uint16_t, std::uint16_t>> cuts_;
  DeadlineQueue deadlines_;  // by LID
};

}  // namespace parley::ssa::kit
