// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Timers of the InfiniBand CM: those of the spec to the nanosecond, back-off, MRAs, and the window for requests of this side.
#include <algorithm>

#include "cm/ibcm/window.hpp"
#include "tests/unit/cm/ibcm_kit.hpp"

namespace parley::cm::ibcm::timers_test {
namespace {
using namespace kit;

constexpr Duration exact(unsigned code) { return std::chrono::nanoseconds(std::int64_t{4096} << code); }

/// When messages of a type were sent, from the first on.
std::vector<Duration> times_of(const Net& net, CmMessageType type) {
  std::vector<Duration> out;
  std::optional<Instant> first;
  for (std::size_t i = 0; i < net.log.size(); ++i) {
    if (net.log[i].message().type() != type) continue;
    if (!first) first = net.log_times[i];
    out.push_back(net.log_times[i] - *first);
  }
  return out;
}

const auto lost = [](const Flight&, std::size_t) { return Fate{.copies = 0}; };

TEST(IbcmTimers, RequestsGoBySpecSixteenTimes) {
  Pair t;
  t.net.fate = lost;
  t.a = t.connect();
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Failed>().empty(); }));
  // The way there and back, 2 * 4.096 us * 2^18, and the peer's response time, 4.096 us * 2^20: Linux rounds both to milliseconds.
  const Duration interval = exact(19) + exact(20);
  const auto times = times_of(t.net, CmMessageType::req);
  ASSERT_EQ(times.size(), 16U);
  for (std::size_t i = 0; i < times.size(); ++i) EXPECT_EQ(times[i], interval * static_cast<std::int64_t>(i));
  EXPECT_EQ(t.net.now - t0, interval * 16);
  EXPECT_EQ(t.active.last<Failed>()->why.to_string("192.0.2.2"),
            "wait for the REP from 192.0.2.2: the deadline passed (no REP to 16 REQs in 103 s); check that the peer "
            "is up and "
            "has a CM, and that no firewall drops UDP port 4791");
  EXPECT_EQ(t.net.log.back().message().type(), CmMessageType::rej) << "reason 4, so that the peer need not wait";
  EXPECT_FALSE(t.active.last<Failed>()->timewait);
  t.expect_nothing_left();
}

TEST(IbcmTimers, RepliesGoByTheTimeoutsOfTheRequest) {
  Pair t;
  t.net.fate = [](const Flight& f, std::size_t) { return Fate{.copies = f.from == 2 ? 0 : 1}; };
  ConnectParameters p = request(1, 2);
  p.local_response_timeout = 18;
  p.timers = Timers{.retries = 2};
  t.a = t.connect(p);
  ASSERT_TRUE(t.net.run_until([&] { return !t.passive.all<Failed>().empty(); }));
  const auto times = times_of(t.net, CmMessageType::rep);
  // The second and third REQ show that the REP is missing: it is sent again at once as well.
  const Duration interval = exact(19) + exact(20);
  std::vector<Duration> want{0ns, exact(18), 2 * exact(18)};
  EXPECT_EQ(times, want);
  EXPECT_TRUE(t.passive.last<Failed>()->timewait);
  EXPECT_LT(t.net.now - t0, interval);
  EXPECT_EQ(t.passive.last<Failed>()->why.received, "no RTU to 3 REPs in 3.22 s");
}

// IBA §12.9: as long as the MRA says, and the time of the way.
TEST(IbcmTimers, MraIsHeeded) {
  Pair t;
  t.passive.accepts = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  const ConnectionId b = t.passive.last<RequestReceived>()->id;
  ASSERT_TRUE(t.passive.agent.send_mra(t.net.now, b, 24, Bytes{9}));
  t.net.run_for(60s);
  EXPECT_EQ(t.net.sent(CmMessageType::req), 1U);
  const Waiting waiting = *t.active.last<Waiting>();
  EXPECT_EQ(waiting.private_data[0], 9);
  EXPECT_EQ(waiting.until, t0 + 1ms + t.net.delay + exact(24) + exact(19));
  EXPECT_EQ(t.active.agent.state(t.a), State::mra_req_rcvd);
  ASSERT_TRUE(t.net.run_until([&] { return t.net.sent(CmMessageType::req) == 2; }));
  EXPECT_EQ(t.net.now, waiting.until);
  t.net.run_for(1ms);
  EXPECT_EQ(t.active.all<Waiting>().size(), 2U) << "the repeated REQ is answered with the MRA again";
  ASSERT_TRUE(t.passive.agent.accept(t.net.now, b, {.qpn = 2}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 1U);
}

// IBA §12.6.5: an MRA gives no more tries than the REQ announces.
TEST(IbcmTimers, PeerThatAsksForTimeForEverIsLeftInTheEnd) {
  Pair t;
  t.passive.accepts = false;
  t.a = t.connect();
  t.net.run_for(1ms);
  const ConnectionId b = t.passive.last<RequestReceived>()->id;
  ASSERT_TRUE(t.passive.agent.send_mra(t.net.now, b, 10));
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Failed>().empty(); }, 24h));
  EXPECT_EQ(t.active.all<Waiting>().size(), 16U);
  EXPECT_EQ(t.net.sent(CmMessageType::req), 16U);
  EXPECT_NE(t.active.last<Failed>()->why.received.find("after the peer asked for time"), std::string::npos);
}

// The requester's short back-off meets a user who takes a second to decide.
TEST(IbcmTimers, SlowUserIsExcusedByAnMra) {
  Pair t({.timers = back_off()});
  t.passive.accepts = false;
  t.a = t.connect();
  t.net.run_for(1s);
  EXPECT_EQ(t.net.sent(CmMessageType::req), 2U);
  EXPECT_EQ(t.net.sent(CmMessageType::mra), 1U);
  ASSERT_TRUE(t.passive.agent.accept(t.net.now, t.passive.last<RequestReceived>()->id, {.qpn = 2}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 1U);
}

TEST(IbcmTimers, SlowRequesterIsExcusedByAnMraOfTheReply) {
  Pair t({}, {.timers = back_off()});
  t.active.gets_ready = false;
  t.a = t.connect();
  t.net.run_for(1s);
  EXPECT_EQ(t.net.sent(CmMessageType::rep), 2U);
  EXPECT_EQ(t.active.agent.state(t.a), State::mra_rep_sent);
  EXPECT_EQ(t.passive.all<Waiting>().size(), 1U);
  ASSERT_TRUE(t.active.agent.ready(t.net.now, t.a, {}));
  t.net.run_for(1ms);
  EXPECT_EQ(t.passive.all<Ready>().size(), 1U);
}

TEST(IbcmTimers, BackOffDoublesUpToItsCapAndIsSpread) {
  Pair t({.timers = {.kind = Timers::Kind::back_off, .first = 10ms, .cap = 100ms, .total = 2s}});
  t.net.fate = lost;
  t.a = t.connect();
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Failed>().empty(); }));
  EXPECT_EQ(t.net.now - t0, 2s);
  const auto times = times_of(t.net, CmMessageType::req);
  Duration full = 10ms;
  for (std::size_t i = 1; i < times.size(); ++i, full = std::min<Duration>(full * 2, 100ms)) {
    EXPECT_LE(times[i] - times[i - 1], full) << i;
    EXPECT_GE(times[i] - times[i - 1], full / 2) << i;
  }
  // IBA §12.6.5: no oftener than Max CM Retries says; then it only waits.
  EXPECT_EQ(times.size(), 16U);
  t.expect_nothing_left();
}

TEST(IbcmTimers, BackOffWithoutATotalEndsWhenTheSpecWould) {
  Pair t({.timers = back_off()});
  t.net.fate = lost;
  t.a = t.connect();
  ASSERT_TRUE(t.net.run_until([&] { return !t.active.all<Failed>().empty(); }));
  EXPECT_EQ(t.net.now - t0, (exact(19) + exact(20)) * 16);
}

// A lost message costs tens of milliseconds where Linux waits seconds; the passive side may even have Linux's timers.
TEST(IbcmTimers, LostMessagesAreRepairedSoon) {
  for (std::size_t which : {0, 1}) {
    Pair t({.timers = back_off()});
    t.net.fate = [which](const Flight&, std::size_t n) { return Fate{.copies = n == which ? 0 : 1}; };
    t.a = t.connect();
    ASSERT_TRUE(t.net.run_until([&] { return !t.passive.all<Ready>().empty(); }));
    EXPECT_LT(t.net.now - t0, 11ms) << which;
  }
}

// 1,000 requests begin at once and are all lost: no millisecond sees more than a small part of those that come again.
TEST(IbcmTimers, ThousandBackOffsDoNotComeBackInWaves) {
  std::map<std::int64_t, std::size_t> per_ms;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    Agent agent = *Agent::create({.ca_guid = guid(1), .seed = seed, .timers = back_off()});
    ASSERT_TRUE(agent.connect(t0, request(1, 2)));
    while (agent.next_deadline() < t0 + 500ms) {
      const Instant now = agent.next_deadline();
      agent.handle_deadline(now);
      ++per_ms[std::chrono::duration_cast<std::chrono::milliseconds>(now - t0).count()];
    }
  }
  std::size_t most = 0;
  for (const auto& [ms, n] : per_ms) most = std::max(most, n);
  EXPECT_LE(most, 260U) << "the first wait is 5 to 10 ms: a fifth of them each, if they are spread";
  std::size_t late_most = 0;
  for (const auto& [ms, n] : per_ms)
    if (ms > 100) late_most = std::max(late_most, n);
  EXPECT_LE(late_most, 40U);
}

// What a peer's REQ asks for is kept within bounds: neither a volley of REPs nor hours of waiting.
TEST(IbcmTimers, TimeoutsOfThePeerAreKeptInBounds) {
  for (const std::uint8_t code : {std::uint8_t{0}, std::uint8_t{31}}) {
    Pair t;
    t.net.fate = [](const Flight& f, std::size_t) { return Fate{.copies = f.from == 2 ? 0 : 1}; };
    ConnectParameters p = request(1, 2);
    p.local_response_timeout = code;
    p.path.primary.local_ack_timeout = code;
    p.timers = Timers{.retries = 1};
    t.a = t.connect(p);
    t.net.run_for(1ms);
    const Instant next = t.passive.agent.next_deadline();
    EXPECT_EQ(next - (t0 + t.net.delay), code == 0 ? Duration(10ms) : Duration(69s));
    t.active.agent.destroy(t.net.now, t.a);
    t.net.run_for(1ms);
    EXPECT_LE(t.passive.agent.next_deadline() - t.net.now, 60s) << "remembered";
  }
}

TEST(IbcmTimers, OnlySoManyRequestsAreUnansweredAtOnce) {
  Net net;
  Node& node = net.add(1, {.outstanding_max = 8, .outstanding_per_peer = 3, .waiting_max = 90});
  for (std::uint8_t n = 2; n < 6; ++n) {
    Node& peer = net.add(n);
    ASSERT_TRUE(peer.agent.listen(service, {}));
  }
  std::map<ConnectionId, std::uint8_t> ids;
  std::size_t most = 0, most_of_one = 0;
  net.fate = [&](const Flight&, std::size_t) {
    std::map<std::uint8_t, std::size_t> unanswered;
    std::size_t all = 0;
    for (const auto& [id, peer] : ids) {
      if (node.agent.state(id) != State::req_sent) continue;
      most_of_one = std::max(most_of_one, ++unanswered[peer]);
      most = std::max(most, ++all);
    }
    return Fate{};
  };
  for (std::uint32_t i = 0; i < 98; ++i) {
    const auto peer = static_cast<std::uint8_t>(i < 60 ? 2 : 3 + i % 3);
    const auto id = node.agent.connect(net.now, request(1, peer, 0x1000 + i));
    ASSERT_TRUE(id) << i;
    ids[*id] = peer;
  }
  EXPECT_EQ(node.agent.state(ids.rbegin()->first), State::queued);
  EXPECT_EQ(node.agent.connect(net.now, request(1, 2)).error(), Errc::no_space);
  net.run_for(1s);
  EXPECT_EQ(most, 8U);
  EXPECT_EQ(most_of_one, 3U);
  EXPECT_EQ(node.all<ReplyReceived>().size(), 98U);
}

TEST(IbcmTimers, PeersTakeTurnsAndKeepTheirOrder) {
  Window window(2, 2, 100);
  EXPECT_EQ(window.enter(gid(2), 1), 0U);
  EXPECT_EQ(window.enter(gid(2), 2), 0U);
  for (ConnectionId id = 3; id < 6; ++id) EXPECT_NE(window.enter(gid(2), id), 0U);
  for (ConnectionId id = 6; id < 9; ++id) EXPECT_NE(window.enter(gid(3), id), 0U);
  EXPECT_FALSE(window.next());
  const auto peer_of = [](ConnectionId id) { return id < 6 ? gid(2) : gid(3); };
  std::vector<ConnectionId> out{1, 2}, order;
  while (!out.empty()) {
    window.leave(peer_of(out.front()));
    out.erase(out.begin());
    while (const auto id = window.next()) {
      order.push_back(*id);
      out.push_back(*id);
    }
  }
  EXPECT_EQ(order, (std::vector<ConnectionId>{6, 3, 7, 4, 8, 5}));
  EXPECT_EQ(window.waiting(), 0U);
  EXPECT_EQ(window.outstanding(), 0U);
}

TEST(IbcmTimers, APeerWithoutRequestsHasNoTurnAndIsForgotten) {
  Window window(1, 1, 100);
  EXPECT_EQ(window.enter(gid(2), 1), 0U);
  const auto place = window.enter(gid(3), 2);
  ASSERT_TRUE(place && *place != 0);
  EXPECT_NE(window.enter(gid(4), 3), 0U);
  window.withdraw(gid(3), *place);
  window.leave(gid(2));
  EXPECT_EQ(window.waiting(), 1U);
  EXPECT_EQ(window.next(), 3U);
  EXPECT_EQ(window.peers(), 1U);
  window.withdraw(gid(3), *place);  // no-op
  window.leave(gid(3));             // no-op
  EXPECT_EQ(window.outstanding(), 1U);
  window.leave(gid(4));
  EXPECT_EQ(window.next(), std::nullopt);
  EXPECT_EQ(window.peers(), 0U);
  Window full(1, 1, 0);
  EXPECT_EQ(full.enter(gid(2), 1), 0U);
  EXPECT_EQ(full.enter(gid(3), 2), std::nullopt);
  EXPECT_EQ(full.peers(), 1U) << "of a request that was refused, nothing is kept";
}

TEST(IbcmTimers, RequestThatWaitsCanBeTakenBack) {
  Pair t({.outstanding_max = 1});
  t.net.fate = lost;
  const ConnectionId first = t.connect(), second = t.connect(request(1, 2, 0x101)),
                     third = t.connect(request(1, 2, 0x102));
  t.active.agent.destroy(t.net.now, second);
  t.active.agent.destroy(t.net.now, first);
  EXPECT_EQ(t.active.agent.state(third), State::req_sent);
  t.net.settle();
  EXPECT_EQ(t.net.sent(CmMessageType::req), 2U) << "the second never left";
  t.active.agent.destroy(t.net.now, third);
  t.expect_nothing_left();
}

TEST(IbcmTimers, ImpossibleOptionsAreRefusedByName) {
  const auto message = [](AgentOptions o) { return Agent::create(o).error().message(); };
  EXPECT_NE(message({.timers = {.retries = 16}}).find("Timers::retries is 16"), std::string::npos);
  EXPECT_NE(message({.timers = {.first = 0ns}}).find("Timers::first"), std::string::npos);
  EXPECT_NE(message({.timers = {.first = 2s}}).find("Timers::cap"), std::string::npos);
  EXPECT_NE(message({.timers = {.total = -1s}}).find("Timers::total"), std::string::npos);
  EXPECT_NE(message({.mra_timeout = 32}).find("mra_timeout is 32"), std::string::npos);
  EXPECT_NE(message({.timewait_min = 2h}).find("timewait_min"), std::string::npos);
  EXPECT_NE(message({.peer_timeout_max = 1ms}).find("peer_timeout_max"), std::string::npos);
  EXPECT_NE(message({.connections_max = 0}).find("connections_max is 0"), std::string::npos);
  EXPECT_NE(message({.outstanding_max = 0}).find("outstanding_max"), std::string::npos);
}

}  // namespace
}  // namespace parley::cm::ibcm::timers_test
