// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Staged QP negotiation in the simulator: drawn fleets of clients and two servers behind one switch, over links that
// lose, delay and reset, with servers that stand still. The same object code as on sockets.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "base/rng.hpp"
#include "cm/neg/peers.hpp"
#include "parley/neg_qp.hpp"
#include "parley/sim.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t neg_port = 4800;
constexpr int clients = 6, dials_each = 3;

/// A host that negotiates.
struct Negotiator final : App {
  explicit Negotiator(std::uint64_t seed) {
    EXPECT_TRUE(framework.add(neg::make_builtin_plugin()));
    peers.emplace(framework, neg::PeersOptions{.seed = seed});
  }
  void on_start(Host& at) override {
    host = &at;
    if (start) start(at);
  }
  void on_crash(Host&) override {}
  void on_turn(Host&) override {
    while (auto event = peers->poll_event())
      if (auto* over = std::get_if<neg::Ended>(&*event)) ended.push_back(std::move(*over));
  }
  void on_timer(Host& at, std::uint64_t qpn) override {
    if (timer) timer(at, qpn);
  }
  neg::Framework framework;
  std::optional<neg::Peers> peers;
  Host* host = nullptr;
  std::vector<neg::Ended> ended;
  std::function<void(Host&)> start;
  std::function<void(Host&, std::uint64_t)> timer;
};

struct Fleet {
  explicit Fleet(std::uint64_t seed) : rng(seed), world(seed) {
    const NodeId middle = *world.add_switch("middle");
    for (int i = 0; i < clients + 2; ++i) {
      Negotiator& n = *nodes.emplace_back(std::make_unique<Negotiator>(seed + static_cast<std::uint64_t>(i)));
      Host& host = **world.add_host(i < 2 ? fmt::format("server{}", i) : fmt::format("client{}", i - 2));
      host.set_machine(&*n.peers);
      host.set_app(&n);
      links.push_back(*world.add_link(host.id(), middle));
    }
    for (std::size_t i = 0; i < 2; ++i) serve(*nodes[i], i);
    for (std::size_t i = 2; i < nodes.size(); ++i) dial(*nodes[i], i);
  }

  void serve(Negotiator& n, std::size_t i) {
    n.start = [&n, i](Host& at) {
      neg::Offer offer{.plugin = "parley", .variant = "manual", .config = {{"gid", "192.0.2.1"}}};
      offer.config["qpn"] = std::to_string(0x500 + i);
      Address local = Address::any(Address::Family::v4, neg_port);
      ASSERT_TRUE(n.peers->listen(local, {offer})) << at.name();
    };
  }

  void dial(Negotiator& n, std::size_t i) {
    const bool done_stage = rng.chance({1, 2});
    std::vector<Duration> at;
    for (int d = 0; d < dials_each; ++d) at.push_back(std::chrono::milliseconds(rng.between(0, 3000)));
    n.start = [i, at](Host& host) {
      for (std::size_t d = 0; d < at.size(); ++d) host.set_timer(Instant(at[d]), i * 0x10 + d + 1);
    };
    n.timer = [this, &n, done_stage](Host& host, std::uint64_t qpn) {
      neg::Dial dial{.request = {.plugin = "parley", .variant = "manual", .label = {}},
                     .config = {{"gid", "192.0.2.2"}, {"qpn", std::to_string(qpn)}},
                     .server = server(0),
                     .backups = {server(1)},
                     .retry = {.rounds = 2, .first = 200ms, .cap = 1s},
                     .session = {.answer_timeout = 3s, .session_timeout = 8s},
                     .connect_timeout = 2s};
      if (done_stage) dial.config["done"] = "true";
      const auto id = n.peers->dial(host.now(), std::move(dial));
      ASSERT_TRUE(id) << id.error().to_string();
    };
  }
  Address server(std::size_t i) const {
    Address at = nodes[i]->host->address();
    at.port = neg_port;
    return at;
  }

  /// Which of them: drawn.
  void impair() {
    for (std::size_t i = 0; i < links.size(); ++i) {
      if (!rng.chance({1, 2})) continue;
      FaultRule rule{.until = Instant(6s)};
      switch (rng.between(0, 3)) {
        case 0: rule.chance = {1, 8}; break;  // losses
        case 1:
          rule.action = FaultAction::delay;
          rule.delay = 30ms;
          rule.jitter = 200ms;
          rule.reorder = true;
          break;
        case 2:
          rule.action = FaultAction::reset;
          rule.match = {
              .message = MessageKind::tcp_data, .nth = static_cast<std::uint32_t>(rng.between(1, 6)), .times = 1};
          break;
        default:  // nothing passes for a while
          rule.from = Instant(std::chrono::milliseconds(rng.between(0, 2000)));
          rule.until = rule.from + std::chrono::milliseconds(rng.between(100, 5000));
      }
      ASSERT_TRUE(world.add_fault(links[i], LinkDirection::both, rule));
    }
    if (!rng.chance({1, 2})) return;
    const NodeId still = world.host(0).id();
    FaultRule pause{.from = Instant(std::chrono::milliseconds(rng.between(0, 2000))), .action = FaultAction::pause};
    pause.host = still;
    FaultRule resume{.from = pause.from + 2500ms, .action = FaultAction::resume};
    resume.host = still;
    ASSERT_TRUE(world.add_fault(pause));
    ASSERT_TRUE(world.add_fault(resume));
  }

  std::string run() {
    world.run_for(60s);
    std::string told;
    for (const auto& n : nodes)
      for (const neg::Ended& e : n->ended)
        told += fmt::format("{}: {} {} attempts, {} ns, {}\n", n->host->name(), e.peer.to_string(), e.attempts,
                            e.took.count(), e.failure ? e.failure->to_string() : "completed");
    return told;
  }

  Rng rng;
  World world;
  std::vector<std::unique_ptr<Negotiator>> nodes;
  std::vector<LinkId> links;
};

/// Each dial has one end, nothing is left, and what one side holds for agreed, the other does too.
std::size_t check(const Fleet& fleet) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> served;  // QPNs: the server's, the client's
  for (std::size_t i = 0; i < 2; ++i)
    for (const neg::Ended& e : fleet.nodes[i]->ended)
      if (!e.failure) served.emplace(e.agreed.at(0).local.qpn, e.agreed.at(0).peer.qpn);
  std::size_t completed = 0;
  for (std::size_t i = 0; i < fleet.nodes.size(); ++i) {
    const Negotiator& n = *fleet.nodes[i];
    EXPECT_EQ(n.peers->busy(), 0U) << n.host->name();
    EXPECT_EQ(n.peers->streams(), 0U) << n.host->name();
    EXPECT_EQ(n.peers->next_deadline(), never) << n.host->name();
    if (i < 2) continue;
    std::set<neg::DialId> dials;
    for (const neg::Ended& e : n.ended) {
      EXPECT_TRUE(dials.insert(e.dial).second) << "a dial ended twice";
      if (e.failure) continue;
      ++completed;
      const neg::QpPair& pair = e.agreed.at(0);
      EXPECT_TRUE(served.contains({pair.peer.qpn, pair.local.qpn})) << "the server knows nothing of it";
    }
    EXPECT_EQ(dials.size(), std::size_t{dials_each}) << n.host->name();
  }
  return completed;
}

TEST(SimNegotiation, AllCompleteAtOnceWhereNothingIsWrong) {
  Fleet fleet(1);
  (void)fleet.run();
  EXPECT_EQ(check(fleet), std::size_t{clients * dials_each});
  for (std::size_t i = 2; i < fleet.nodes.size(); ++i)
    for (const neg::Ended& e : fleet.nodes[i]->ended) EXPECT_EQ(e.attempts, 1U);
}

TEST(SimNegotiation, DrawnFaultsLeaveEachDialOneEndAndBothSidesOneView) {
  std::size_t completed = 0, failed = 0, again = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Fleet fleet(seed);
    fleet.impair();
    (void)fleet.run();
    const std::size_t good = check(fleet);
    completed += good;
    failed += clients * dials_each - good;
    for (std::size_t i = 2; i < fleet.nodes.size(); ++i)
      for (const neg::Ended& e : fleet.nodes[i]->ended) again += e.attempts - 1;
    if (testing::Test::HasFailure()) return;
  }
  EXPECT_GT(completed, 800U) << "of 1080: retries and the second server see to that";
  EXPECT_GT(failed, 5U) << "the faults are too kind";
  EXPECT_GT(again, 50U);
}

TEST(SimNegotiation, ASeedIsTheSameRunAgain) {
  const auto told = [] {
    Fleet fleet(7);
    fleet.impair();
    return fleet.run();
  };
  EXPECT_EQ(told(), told());
}

}  // namespace
}  // namespace parley::sim
