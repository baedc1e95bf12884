// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A RoCE listener without room, between hosts in virtual time: what it answers, and how who asked gets in after all.
#include <gtest/gtest.h>

#include "cm/ibcm/events.hpp"
#include "tests/unit/cm/packet_net.hpp"

namespace parley::roce_busy_test {
namespace {

using packet_net::Host;
using packet_net::Net;
using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;

/// A listener with room for one, which is taken: its program decides when the test says so.
struct Full {
  explicit Full(const cm::RoceProviderOptions& listens, const cm::RoceProviderOptions& asks = {})
      : server(net.add_host(1, listens)), first(net.add_host(2)), second(net.add_host(3, asks)) {
    EXPECT_TRUE(server.cm.listen(service, {.pending_max = 1}));
    EXPECT_TRUE(first.cm.connect(service));
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::ConnectRequest>() != nullptr; }));
    server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.accept()); };
    net.sent.clear();
  }
  void make_room() { EXPECT_TRUE(server.last<cm::ConnectRequest>()->id.accept()); }
  bool ended() const { return second.last<cm::ConnectFailed>() != nullptr || second.last<cm::Rejected>() != nullptr; }
  bool gets_in(Duration limit) {
    return net.run_until([this] { return second.last<cm::Established>() != nullptr; }, limit);
  }
  auto sent(std::string_view name) const { return std::count(net.sent.begin(), net.sent.end(), name); }

  const Address service = Address::v4(192, 0, 2, 1, port);
  Net net;
  Host& server;
  Host& first;
  Host& second;
};

TEST(RoceBusy, AnMraBringsTheSecondClientBack) {
  Full t({});
  ASSERT_TRUE(t.second.cm.connect(t.service));
  t.net.run_for(1ms);
  EXPECT_EQ(t.sent("MRA"), 1);
  EXPECT_EQ(t.sent("REJ"), 0);
  EXPECT_EQ(t.server.provider->cm_counters().busy, 1U);
  ASSERT_NE(t.server.last<cm::TurnedAway>(), nullptr);
  EXPECT_EQ(t.server.last<cm::TurnedAway>()->refused, 1U);
  EXPECT_FALSE(t.gets_in(500ms)) << "it waits as it was asked to";
  t.make_room();
  EXPECT_TRUE(t.gets_in(2s));
  EXPECT_FALSE(t.ended());
  EXPECT_EQ(t.server.all<cm::ConnectRequest>().size(), 2U);
}

TEST(RoceBusy, ARetryAfterBringsTheSecondClientBack) {
  Full t({.when_full = cm::RoceWhenFull::retry_after, .retry_after = 40ms}, {.offer_retry_after = true});
  const Bytes data(48, 0x33);
  cm::ConnectOptions options;
  options.private_data = data;
  ASSERT_TRUE(t.second.cm.connect(t.service, options));
  t.net.run_for(1ms);
  EXPECT_EQ(t.sent("REJ"), 1);
  EXPECT_EQ(t.sent("MRA"), 0);
  t.make_room();
  EXPECT_FALSE(t.gets_in(38ms)) << "it waits as it was asked to";
  EXPECT_TRUE(t.gets_in(40ms)) << "40 to 60 ms, not the 0.8 s of an MRA";
  EXPECT_FALSE(t.ended());
  Bytes seen = data;
  seen.resize(56);
  EXPECT_EQ(t.server.last<cm::ConnectRequest>()->private_data, seen) << "the offer is not the program's";
}

TEST(RoceBusy, WhoMadeNoOfferGetsAnMra) {
  Full t({.when_full = cm::RoceWhenFull::retry_after});
  ASSERT_TRUE(t.second.cm.connect(t.service));
  t.net.run_for(1ms);
  EXPECT_EQ(t.sent("MRA"), 1);
  EXPECT_EQ(t.sent("REJ"), 0);
  t.make_room();
  EXPECT_TRUE(t.gets_in(2s));
}

TEST(RoceBusy, ARetryAfterDoesNotOutliveTheReplyTimeout) {
  Full t({.when_full = cm::RoceWhenFull::retry_after, .retry_after = 300ms},
         {.reply_timeout = 1s, .offer_retry_after = true});
  ASSERT_TRUE(t.second.cm.connect(t.service));
  ASSERT_TRUE(t.net.run_until([&] { return t.ended(); }, 1001ms));
  const auto* failed = t.second.last<cm::ConnectFailed>();
  ASSERT_NE(failed, nullptr) << "the program of the listener has rejected nothing";
  EXPECT_EQ(failed->why.code, make_error_code(Errc::no_space));
  EXPECT_NE(failed->why.to_string().find("the listener is full"), std::string::npos) << failed->why.to_string();
  EXPECT_GE(t.sent("REJ"), 3);
}

TEST(RoceBusy, AnMraIsHeededBeyondTheReplyTimeout) {
  Full t({}, {.reply_timeout = 100ms});
  ASSERT_TRUE(t.second.cm.connect(t.service));
  t.net.run_for(200ms);
  EXPECT_FALSE(t.ended());
  t.make_room();
  EXPECT_TRUE(t.gets_in(2s));
}

TEST(RoceBusy, AProgramsOwnRejectionIsNoRetryAfter) {
  Full t({.when_full = cm::RoceWhenFull::retry_after}, {.offer_retry_after = true});
  t.make_room();
  t.net.run_for(10ms);
  t.server.on_request = [](cm::ConnectRequest& request) { EXPECT_TRUE(request.id.reject()); };
  ASSERT_TRUE(t.second.cm.connect(t.service));
  ASSERT_TRUE(t.net.run_until([&] { return t.ended(); }, 10ms));
  EXPECT_NE(t.second.last<cm::Rejected>(), nullptr);
}

TEST(RoceBusy, AListenerMayRefuseAtOnceOrSayNothing) {
  {
    Full t({.when_full = cm::RoceWhenFull::refuse});
    ASSERT_TRUE(t.second.cm.connect(t.service));
    ASSERT_TRUE(t.net.run_until([&] { return t.ended(); }, 1ms));
    EXPECT_EQ(t.second.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::no_space));
  }
  Full t({.when_full = cm::RoceWhenFull::drop});
  ASSERT_TRUE(t.second.cm.connect(t.service));
  t.net.run_for(10ms);
  EXPECT_EQ(t.net.sent, std::vector<std::string>{"REQ"});
  t.make_room();
  EXPECT_TRUE(t.gets_in(1s));
}

TEST(RoceBusy, AListenerWithoutRetryAfterReadsNoOffer) {
  Full t({}, {.offer_retry_after = true});
  cm::ConnectOptions options;
  const Bytes data(48, 0x33);
  options.private_data = data;
  ASSERT_TRUE(t.second.cm.connect(t.service, options));
  t.make_room();
  ASSERT_TRUE(t.gets_in(2s));
  Bytes without = data;
  without.resize(56);
  EXPECT_NE(t.server.last<cm::ConnectRequest>()->private_data, without) << "the octets are its program's";
}

TEST(RoceBusy, TheOfferTakesEightOctetsOfTheRequest) {
  Full t({}, {.offer_retry_after = true});
  const Bytes data(49, 0x33);
  cm::ConnectOptions options;
  options.private_data = data;
  const auto refused = t.second.cm.connect(t.service, options);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message().find("at most 48"), std::string::npos) << refused.error().message();
  for (const Duration after : {Duration{}, Duration(65536ms)})
    EXPECT_EQ(check_options(cm::RoceProviderOptions{.retry_after = after}).error().code(),
              make_error_code(Errc::invalid_argument));
}

}  // namespace
}  // namespace parley::roce_busy_test
