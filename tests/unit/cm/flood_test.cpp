// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Half-open connections by the thousand: honest peers come through, memory stays bounded, and the user hears of it.
#include "parley/wire/mpa.h"
#include "tests/unit/cm/test_pair.hpp"
#include "wire/mpa.hpp"

namespace parley::flood_test {
namespace {

using namespace testing_net;
using testing_net::Host;

Bytes request(std::uint8_t flags, std::uint8_t revision = 1) {
  return *wire::MpaFrame{.key = wire::MpaKey::req, .flags = flags, .revision = revision}.emit();
}

/// A host that listens and accepts, an honest one, and as many raw peers as a test wants.
struct Flooded {
  explicit Flooded(const cm::ListenOptions& options = {}, const cm::ManagerOptions& manager = {})
      : server(net.add_host(2, {}, manager)), honest(net.add_host(1)) {
    server.on_request = [](cm::ConnectRequest& asked) { EXPECT_TRUE(asked.id.accept()); };
    EXPECT_TRUE(server.cm.listen(Address::any(Address::Family::v4, 7471), options));
    net.settle();
    to = server.last<cm::Listening>()->local;
  }
  End& half_open(std::uint8_t from) {
    End& end = net.raw_connect(to, Address::v4(198, 51, 100, from, 0));
    ends.push_back(&end);
    return end;
  }
  End& asks(std::uint8_t from, std::uint8_t flags) {
    End& end = half_open(from);
    net.run_for(100us);
    end.send(request(flags));
    net.run_for(100us);
    return end;
  }
  /// Whether both ends are up soon: in 20 ms, two hundred times what the net needs.
  bool sets_up(mpa::Rtr rtr = mpa::Rtr::read) {
    const std::size_t up = server.all<cm::Established>().size(), here = honest.all<cm::Established>().size();
    EXPECT_TRUE(honest.cm.connect(to, {.transport = mpa::Options{.rtr = rtr}}));
    return net.run_until(
        [&] {
          return honest.all<cm::Established>().size() > here &&
                 (rtr == mpa::Rtr::none || server.all<cm::Established>().size() > up);
        },
        20ms);
  }
  /// The system has no socket for a newcomer; whether somebody gave way to it.
  bool no_room() {
    const bool made = server.provider->handle_no_room(net.now, 1);
    pump(*server.provider, server);
    net.settle();
    return made;
  }
  std::size_t reset() const {
    return static_cast<std::size_t>(
        std::count_if(ends.begin(), ends.end(), [](const End* end) { return end->rst_in; }));
  }
  std::uint64_t gave_way() {
    std::uint64_t sum = 0;
    for (const cm::TurnedAway* event : server.all<cm::TurnedAway>()) sum += event->gave_way;
    return sum;
  }
  std::uint64_t refused() {
    std::uint64_t sum = 0;
    for (const cm::TurnedAway* event : server.all<cm::TurnedAway>()) sum += event->refused;
    return sum;
  }

  Net net;
  Host& server;
  Host& honest;
  Address to;
  std::vector<End*> ends;
};

TEST(CmFlood, HonestPeerIsSetUpBesideTwoThousandHalfOpenOnes) {
  Flooded t;
  for (int i = 0; i < 2000; ++i) t.half_open(1);
  t.net.settle();
  EXPECT_EQ(t.reset(), 2000U - 1024U);
  for (int i = 0; i < 50; ++i) {
    t.half_open(1);
    t.net.run_for(2ms);
    EXPECT_TRUE(t.sets_up()) << i;
  }
  EXPECT_TRUE(t.honest.all<cm::ConnectFailed>().empty());
  EXPECT_EQ(t.gave_way(), 2050U - 1024U);
  EXPECT_EQ(t.refused(), 0U);
  EXPECT_EQ(t.server.provider->endpoint_count(), 1U + 1024U + 50U) << "the listener, the half-open, the honest";
}

// The flood comes through the honest peer's own address: first come, first gone, and set-up takes less time than that.
TEST(CmFlood, HonestPeerBehindTheSameAddressIsSetUp) {
  Flooded t;
  const auto from_the_same = [&t] { t.ends.push_back(&t.net.raw_connect(t.to, Address::v4(192, 0, 2, 1, 0))); };
  for (int i = 0; i < 2000; ++i) from_the_same();
  t.net.settle();
  for (int i = 0; i < 50; ++i) {
    from_the_same();
    EXPECT_TRUE(t.sets_up()) << i;
  }
  EXPECT_TRUE(t.honest.all<cm::ConnectFailed>().empty());
}

// A slow peer on a long path is left alone for as long as the busiest address is another's.
TEST(CmFlood, SlowHonestPeerIsNotThrownOut) {
  Flooded t;
  End& slow = t.net.raw_connect(t.to, Address::v4(192, 0, 2, 77, 0));
  t.net.settle();
  const Bytes asked = request(PARLEY_MPA_FLAG_C);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    for (int k = 0; k < 100; ++k) t.half_open(static_cast<std::uint8_t>(k % 8));
    t.net.run_for(100ms);
    slow.send(ConstBytes(asked).subspan(i, 1));
  }
  t.net.run_for(100ms);
  EXPECT_FALSE(slow.rst_in);
  EXPECT_GE(slow.in.size(), PARLEY_MPA_HEADER_LEN) << "the Reply";
}

// One half-open connection each of more addresses than there is room for: none is busier than an honest peer.
TEST(CmFlood, HonestPeerIsSetUpBesideManyAddresses) {
  Flooded t({.pending_max = 128});
  for (int i = 0; i < 250; ++i) t.half_open(static_cast<std::uint8_t>(i));
  t.net.settle();
  EXPECT_EQ(t.reset(), 250U - 128U - 16U) << "an eighth more, since each of them had none";
  for (int i = 0; i < 50; ++i) {
    t.half_open(static_cast<std::uint8_t>(i));
    EXPECT_TRUE(t.sets_up()) << i;
  }
}

// The other half of a half-open connection: a good Request, and then the agreed RTR never comes.
TEST(CmFlood, PeersThatOweAnRtrGiveWayToo) {
  Flooded t({.pending_max = 64});
  for (int i = 0; i < 200; ++i) {
    t.asks(1, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S);
  }
  EXPECT_TRUE(t.sets_up());
  EXPECT_EQ(t.reset(), 200U - 64U);
  for (const cm::ConnectFailed* failed : t.server.all<cm::ConnectFailed>()) {
    EXPECT_EQ(failed->why.code, make_error_code(Errc::no_space));
    EXPECT_NE(failed->why.to_string().find("pending_max is 64"), std::string::npos) << failed->why.to_string();
  }
}

// Requests that wait for the user are not thrown out, and one address cannot take all of the room with them.
TEST(CmFlood, RequestsThatWaitForTheUserStay) {
  Flooded t({.pending_max = 16});
  t.server.on_request = nullptr;
  for (int i = 0; i < 40; ++i) {
    t.asks(1, PARLEY_MPA_FLAG_C);
  }
  EXPECT_EQ(t.server.all<cm::ConnectRequest>().size(), 16U);
  EXPECT_EQ(t.reset(), 24U);
  EXPECT_EQ(t.refused(), 24U);
  EXPECT_EQ(t.gave_way(), 0U);
  const cm::TurnedAway* told = t.server.last<cm::TurnedAway>();
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->id, t.server.last<cm::Listening>()->id);
  EXPECT_NE(told->why.to_string().find("pending_max is 16"), std::string::npos) << told->why.to_string();
  t.server.on_request = [](cm::ConnectRequest& asked) { EXPECT_TRUE(asked.id.accept()); };
  EXPECT_TRUE(t.sets_up()) << "the share is for it";
  for (const cm::ConnectRequest* waiting : t.server.all<cm::ConnectRequest>()) {
    cm::Id id = waiting->id;
    (void)id.accept();
  }
  t.net.run_for(1ms);
  EXPECT_EQ(t.reset(), 24U);
}

// The Reply with R=1 ends the set-up: peers that stay on the line after it take no room from those that come.
TEST(CmFlood, RejectedPeersLeaveTheirRoomAtOnce) {
  Flooded t({.pending_max = 4});
  t.server.on_request = [](cm::ConnectRequest& asked) { EXPECT_TRUE(asked.id.reject()); };
  for (int i = 0; i < 20; ++i) t.asks(1, PARLEY_MPA_FLAG_C);
  EXPECT_EQ(t.server.all<cm::ConnectRequest>().size(), 20U);
  for (const End* end : t.ends) EXPECT_TRUE(end->fin_in && !end->rst_in && !end->in.empty()) << "each has its Reply";
  EXPECT_EQ(t.server.all<cm::TurnedAway>().size(), 0U);
}

TEST(CmFlood, EstablishedConnectionsNeverGiveWay) {
  Flooded t({.pending_max = 16});
  for (int i = 0; i < 32; ++i) ASSERT_TRUE(t.sets_up());
  for (int i = 0; i < 500; ++i) t.half_open(static_cast<std::uint8_t>(i));
  t.net.run_for(1s);
  EXPECT_TRUE(t.server.all<cm::Disconnected>().empty());
  EXPECT_TRUE(t.honest.all<cm::Disconnected>().empty());
}

// Users who look at their events late get one for all, and it costs no memory for each.
TEST(CmFlood, NewsOfManyIsOneEvent) {
  Flooded t({.pending_max = 16});
  t.server.poll_events = false;
  for (int i = 0; i < 5000; ++i) {
    t.half_open(1);
    if (i % 100 == 0) t.net.settle();
  }
  t.net.settle();
  EXPECT_EQ(t.server.provider->endpoint_count(), 17U);
  const auto event = t.server.cm.poll_event();
  ASSERT_TRUE(event);
  const auto* told = std::get_if<cm::TurnedAway>(&*event);
  ASSERT_NE(told, nullptr);
  EXPECT_EQ(told->gave_way, 5000U - 16U);
  EXPECT_EQ(told->refused, 0U);
  EXPECT_EQ(told->peer.octets[0], 198);
  EXPECT_FALSE(t.server.cm.poll_event());
}

// A revision 2 initiator that is turned away tries revision 1 (RFC 6581 §10), and is then as welcome as anybody.
TEST(CmFlood, PeerThatWasTurnedAwayComesBack) {
  Net net;
  Host& server = net.add_host(2);
  Host& peer = net.add_host(1);
  server.on_request = [](cm::ConnectRequest& asked) { EXPECT_TRUE(asked.id.accept()); };
  ASSERT_TRUE(server.cm.listen(Address::any(Address::Family::v4, 7471), {.pending_max = 1}));
  net.settle();
  const Address to = server.last<cm::Listening>()->local;
  bool pushed = false;
  net.spy = [&](End& from, ConstBytes) {
    // While its first Request is under way somebody else comes, from its own address.
    if (from.host == &peer && !std::exchange(pushed, true)) (void)net.raw_connect(to, Address::v4(192, 0, 2, 1, 0));
  };
  ASSERT_TRUE(peer.cm.connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}}));
  EXPECT_TRUE(net.run_until([&] { return !peer.all<cm::Established>().empty(); }, 1s));
  EXPECT_EQ(peer.all<cm::Retrying>().size(), 1U);
}

// Where ids run out, the oldest half-open connection goes, and then those that were accepted and never spoke.
TEST(CmFlood, EndpointsAreFreedByThoseThatWait) {
  Flooded t({}, {.endpoints_max = 10});
  for (int i = 0; i < 30; ++i) t.half_open(1);
  t.net.settle();
  EXPECT_EQ(t.server.provider->endpoint_count(), 10U);
  EXPECT_EQ(t.reset(), 21U);
  ASSERT_NE(t.server.last<cm::TurnedAway>(), nullptr);
  EXPECT_NE(t.server.last<cm::TurnedAway>()->why.to_string().find("endpoints_max is 10"), std::string::npos);
  EXPECT_TRUE(t.sets_up());
}

TEST(CmFlood, SilentAcceptedPeersGiveWayOnlyWhereStreamsRunOut) {
  Flooded t;
  for (int i = 0; i < 20; ++i) t.asks(1, PARLEY_MPA_FLAG_C);
  t.net.run_for(10s);
  EXPECT_EQ(t.reset(), 0U);
  EXPECT_TRUE(t.sets_up());
  t.half_open(2);
  t.net.settle();
  EXPECT_TRUE(t.no_room());
  EXPECT_TRUE(t.ends.back()->rst_in) << "a peer without a Request goes first";
  EXPECT_EQ(t.reset(), 1U);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(t.no_room());
  EXPECT_EQ(t.reset(), 21U);
  EXPECT_FALSE(t.no_room()) << "whoever is established stays";
  EXPECT_TRUE(t.server.all<cm::Disconnected>().empty());
  ASSERT_NE(t.server.last<cm::ConnectFailed>(), nullptr);
  EXPECT_NE(t.server.last<cm::ConnectFailed>()->why.to_string().find("streams_max"), std::string::npos);
}

TEST(CmFlood, AmongSilentAcceptedPeersTheOldestOfTheBusiestAddressGivesWay) {
  Flooded t;
  End& alone = t.asks(2, PARLEY_MPA_FLAG_C);
  for (int i = 0; i < 3; ++i) t.asks(1, PARLEY_MPA_FLAG_C);
  EXPECT_TRUE(t.no_room());
  EXPECT_TRUE(t.ends[1]->rst_in);
  EXPECT_FALSE(alone.rst_in) << "the only one of its address, though the oldest of all";
  EXPECT_EQ(t.reset(), 1U);
}

TEST(CmFlood, APeerThatWasSilentAndSpokeStays) {
  Flooded t;
  ASSERT_TRUE(t.sets_up(mpa::Rtr::none));
  ASSERT_EQ(t.server.last<cm::Established>(), nullptr) << "accepted, and silent so far";
  ASSERT_TRUE(t.honest.last<cm::Established>()->id.qp()->post_send({.opcode = SendWr::Opcode::rdma_write}));
  t.net.run_for(1ms);
  ASSERT_NE(t.server.last<cm::Established>(), nullptr);
  EXPECT_FALSE(t.no_room());
  EXPECT_TRUE(t.server.all<cm::ConnectFailed>().empty());
  EXPECT_TRUE(t.honest.all<cm::Disconnected>().empty());
}

}  // namespace
}  // namespace parley::flood_test
