// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Agents under anything: octets that mean nothing or something else, and users who call anything at any time over a network that loses,
// doubles and delays.
#include <set>

#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::random_test {
namespace {
using namespace kit;

AgentOptions small() {
  return {.connections_max = 40, .remembered_max = 16, .transmit_max = 64, .outstanding_max = 8, .waiting_max = 8};
}

void expect_bounded(Node& node) {
  ASSERT_LE(node.agent.connection_count(), 40U);
  ASSERT_LE(node.agent.remembered_count(), 16U);
}

TEST(IbcmRandom, AnyOctetsAreHandled) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    Pair t(small(), small());
    t.establish();
    const ConnectionId second = t.connect(request(1, 2, 0x101));
    const std::vector<Flight> good = t.net.log;
    t.net.logs = false;
    t.net.fate = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };
    for (int i = 0; i < 500; ++i) {
      Flight flight = good[rng.below(good.size())];
      const std::uint64_t kind = rng.below(3);
      if (kind == 0)  // noise behind a good header
        for (std::size_t k = 24; k < flight.octets.size(); ++k)
          flight.octets[k] = static_cast<std::uint8_t>(rng.next());
      for (std::uint64_t flips = rng.below(8); flips > 0; --flips)
        flight.octets[rng.below(kind == 1 ? 60 : 256)] ^= static_cast<std::uint8_t>(1U << rng.below(8));
      if (rng.chance({1, 2})) {
        flight.octets[16] = 0;
        flight.octets[17] = static_cast<std::uint8_t>(0x10 + rng.below(12));
      }
      Node& node = *t.net.nodes[rng.below(2)];
      const std::size_t size = rng.chance({1, 20}) ? rng.below(256) : 256;
      node.agent.handle_mad(
          t.net.now, {.source = gid(static_cast<std::uint8_t>(3 - node.number)), .destination = gid(node.number)},
          ConstBytes(flight.octets).first(size));
      if (rng.chance({1, 10})) t.net.now += Duration(static_cast<std::int64_t>(rng.below(3'000'000'000)));
      node.agent.handle_deadline(t.net.now);
      t.net.settle();
      expect_bounded(node);
      if (::testing::Test::HasFatalFailure()) return;
    }
    t.active.agent.destroy(t.net.now, second);
    t.expect_nothing_left();
  }
}

/// One user who does anything, and remembers what it was told.
class User {
 public:
  User(Net& net, Node& node, Rng rng) : net_(net), node_(node), rng_(rng) {
    node.accepts = node.gets_ready = node.answers_dreq = false;
    EXPECT_TRUE(node.agent.listen(service, {.pending_max = 12}));
    node.on_event = [this](Instant, const Event& event) { hear(event); };
  }

  void act() {
    if (rng_.chance({1, 3}) || ids_.empty()) return connect();
    const ConnectionId id = ids_[rng_.below(ids_.size())];
    const Instant now = net_.now;
    switch (rng_.below(10)) {
      case 0: (void)node_.agent.accept(now, id, {.qpn = qpn_++}); break;
      case 1: ready(id); break;
      case 2:
        if (node_.agent.reject(now, id, {.reason = static_cast<CmReject>(rng_.below(36))}))
          told_[id].promised += node_.agent.state(id) == State::timewait;
        break;
      case 3: (void)node_.agent.send_mra(now, id, static_cast<std::uint8_t>(rng_.below(20))); break;
      case 4: (void)node_.agent.communication_established(now, id); break;
      case 5: (void)node_.agent.disconnect(now, id); break;
      case 6: (void)node_.agent.load_alternate(now, id, {}); break;
      case 7: (void)node_.agent.answer_alternate(now, id, {}); break;
      case 8: (void)node_.agent.sidr_reply(now, id, {}); break;
      default: destroy(id);
    }
  }
  /// As a user who wants its connections.
  void act_well(ConnectionId id) {
    const auto state = node_.agent.state(id);
    if (state == State::req_rcvd || state == State::mra_req_sent)
      (void)node_.agent.accept(net_.now, id, {.qpn = qpn_++});
    if (state == State::rep_rcvd || state == State::mra_rep_sent) ready(id);
    if (state == State::dreq_rcvd) (void)node_.agent.disconnect(net_.now, id);
    if (state == State::sidr_req_rcvd) (void)node_.agent.sidr_reply(net_.now, id, {});
  }
  void act_well() {
    for (const ConnectionId id : std::vector<ConnectionId>(ids_)) act_well(id);
  }
  void disconnect_all() {
    for (const ConnectionId id : std::vector<ConnectionId>(ids_)) (void)node_.agent.disconnect(net_.now, id);
  }
  void destroy_all() {
    for (const ConnectionId id : std::vector<ConnectionId>(ids_)) destroy(id);
  }
  /// What was promised of each id that the user kept.
  void expect_outcomes() {
    for (const ConnectionId id : ids_) {
      SCOPED_TRACE(fmt::format("node {}, id {:x}", node_.number, id));
      const Told& told = told_[id];
      if (connects_.contains(id)) {
        EXPECT_TRUE(told.reply + told.rejected + told.failed + told.sidr >= 1) << "no outcome";
      }
      EXPECT_LE(told.reply + (told.reply == 0 ? told.rejected + told.failed + told.sidr : 0), 1);
      EXPECT_LE(told.rejected + told.failed, 1);
      EXPECT_LE(told.disconnected, 1);
      EXPECT_LE(told.ready, 1);
      EXPECT_LE(told.timewait_exit, 1);
      if (told.ready == 1 || established_.contains(id)) {
        EXPECT_EQ(told.disconnected, 1) << "an established connection ends";
      }
      EXPECT_EQ(told.timewait_exit, told.disconnected + told.promised);
      EXPECT_EQ(node_.agent.state(id), State::closed);
    }
  }

 private:
  struct Told {
    int reply = 0, rejected = 0, failed = 0, ready = 0, disconnected = 0, timewait_exit = 0, promised = 0, sidr = 0;
  };
  void connect() {
    const auto peer = static_cast<std::uint8_t>(1 + rng_.below(3));  // itself, too
    Result<ConnectionId> id = 0;
    if (rng_.chance({1, 4})) {
      id =
          node_.agent.sidr_request(net_.now, {.service_id = service, .path = Path::roce(gid(node_.number), gid(peer))});
    } else {
      ConnectParameters p =
          request(node_.number, peer, rng_.chance({1, 4}) ? static_cast<std::uint32_t>(rng_.below(8)) : qpn_++);
      if (rng_.chance({1, 8})) p.service_id = 5;
      if (rng_.chance({1, 8})) p.qp_type = QpType::xrc;
      p.offer_retry_after = rng_.chance({1, 2});
      id = node_.agent.connect(net_.now, p);
    }
    if (!id) return;
    connects_.insert(*id);
    ids_.push_back(*id);
  }
  void ready(ConnectionId id) {
    if (node_.agent.ready(net_.now, id, {})) established_.insert(id);
  }
  void destroy(ConnectionId id) {
    node_.agent.destroy(net_.now, id);
    std::erase(ids_, id);
    destroyed_.insert(id);
  }
  void hear(const Event& event) {
    std::visit(
        [this](const auto& e) {
          using E = std::decay_t<decltype(e)>;
          if constexpr (requires { e.id; }) {
            EXPECT_FALSE(destroyed_.contains(e.id)) << "an event after destroy()";
            Told& told = told_[e.id];
            if constexpr (std::is_same_v<E, RequestReceived> || std::is_same_v<E, SidrRequested>) ids_.push_back(e.id);
            if constexpr (std::is_same_v<E, ReplyReceived>) ++told.reply;
            if constexpr (std::is_same_v<E, Rejected>) ++told.rejected, told.promised += e.timewait;
            if constexpr (std::is_same_v<E, Failed>) ++told.failed, told.promised += e.timewait;
            if constexpr (std::is_same_v<E, Ready>) ++told.ready;
            if constexpr (std::is_same_v<E, SidrReplied>) ++told.sidr;
            if constexpr (std::is_same_v<E, Disconnected>) ++told.disconnected;
            if constexpr (std::is_same_v<E, DisconnectRequested>) established_.insert(e.id);
            if constexpr (std::is_same_v<E, TimewaitExit>) ++told.timewait_exit;
          }
        },
        event);
  }

  Net& net_;
  Node& node_;
  Rng rng_;
  std::uint32_t qpn_ = 0x100;
  std::vector<ConnectionId> ids_;
  std::set<ConnectionId> connects_, destroyed_, established_;
  std::map<ConnectionId, Told> told_;
};

TEST(IbcmRandom, EveryConnectHasOneOutcomeAndNothingIsLeft) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Rng rng(seed);
    Net net;
    net.logs = false;
    AgentOptions options{.timers = rng.chance({1, 2}) ? back_off() : Timers{.retries = 3}};
    options.outstanding_per_peer = 4;
    if (rng.chance({1, 2})) options.mra_timeout = std::nullopt;
    std::vector<std::unique_ptr<User>> users;
    for (std::uint8_t n = 1; n <= 3; ++n) {
      options.seed = seed * 8 + n;
      Node& node = net.add(n, options);
      users.push_back(std::make_unique<User>(net, node, rng.split()));
    }
    net.fate = [&rng](const Flight&, std::size_t) {
      return Fate{.copies = rng.chance({15, 100})   ? 0
                            : rng.chance({15, 100}) ? 2
                                                    : 1,
                  .late = Duration(static_cast<std::int64_t>(rng.below(2'000'000)))};
    };
    for (int i = 0; i < 300; ++i) {
      users[rng.below(3)]->act();
      if (rng.chance({1, 2})) users[rng.below(3)]->act_well();
      net.run_for(Duration(static_cast<std::int64_t>(rng.below(rng.chance({1, 10}) ? 5'000'000'000 : 3'000'000))));
    }
    net.fate = nullptr;
    for (int i = 0; i < 400; ++i) {
      for (const auto& user : users) user->act_well();
      net.run_for(1s);
    }
    for (const auto& user : users) user->disconnect_all();
    for (int i = 0; i < 100; ++i) {
      for (const auto& user : users) user->act_well();
      net.run_for(1s);
    }
    net.run_out();
    for (const auto& user : users) user->expect_outcomes();
    for (const auto& user : users) user->destroy_all();
    net.run_out();
    for (const auto& node : net.nodes) {
      EXPECT_EQ(node->agent.connection_count(), 0U) << "node " << +node->number;
      EXPECT_EQ(node->agent.remembered_count(), 0U) << "node " << +node->number;
    }
    if (::testing::Test::HasFailure()) return;
  }
}

// The same input gives the same output.
TEST(IbcmRandom, RunsAreRepeatable) {
  const auto run = [] {
    Rng rng(7);
    Pair t({.timers = back_off()}, {.timers = back_off()});
    t.net.fate = [&rng](const Flight&, std::size_t) { return Fate{.copies = rng.chance({1, 3}) ? 0 : 1}; };
    for (std::uint32_t i = 0; i < 20; ++i) (void)t.connect(request(1, 2, 0x100 + i));
    t.net.run_for(3s);
    Bytes all;
    for (const Flight& flight : t.net.log) all.insert(all.end(), flight.octets.begin(), flight.octets.end());
    return std::pair(all, t.net.log_times);
  };
  const auto first = run(), second = run();
  EXPECT_EQ(first.first, second.first);
  EXPECT_EQ(first.second, second.second);
}

}  // namespace
}  // namespace parley::cm::ibcm::random_test
