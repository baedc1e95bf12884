// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A RoCE host's turns as its caller sees them: when the next one is due, whether one did anything, what a seed decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "drivers/clock.hpp"
#include "parley/host.hpp"
#include "parley/roce.hpp"
#include "parley/roce_host.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley::roce_turns_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t port = 7175;

template <class Done>
bool run_until(std::initializer_list<RoceHost*> hosts, Done done) {
  for (const Instant end = clock_now() + hang_limit; clock_now() < end;) {
    for (RoceHost* host : hosts) host->run_once(1ms);
    if (done()) return true;
  }
  return false;
}

TEST(RoceTurns, AHostWithNothingToDoSaysSo) {
  const auto host = std::move(*RoceHost::open({}));
  EXPECT_FALSE(host->run_once({}));
  EXPECT_FALSE(host->run_once(1us));
  EXPECT_EQ(host->next_turn(), never);
}

TEST(RoceTurns, AHostWithARequestIsDueAtOnce) {
  const auto host = std::move(*RoceHost::open({}));
  Verbs verbs(host->device(), 64);
  cm::ConnectOptions options;
  options.qp = verbs.qp();
  ASSERT_TRUE(host->cm().connect(own_address(1, port), options));
  EXPECT_EQ(host->next_turn(), Instant{});
  EXPECT_TRUE(host->run_once({}));
}

/// The first CM message of a host with this seed, without the headers of the network and of UDP.
Bytes first_message(std::uint64_t seed) {
  RoceHostOptions drawn;
  drawn.manager.seed = 7;
  drawn.roce.ca_guid = 0x1234;
  drawn.roce.seed = seed;
  const auto host = std::move(*RoceHost::open(drawn));
  Bytes out;
  host->set_tap([&out](const PacketTapRecord& record) {
    if (record.sent && out.empty()) out.assign(record.octets.begin(), record.octets.end() - 4);  // without ICRC
  });
  Verbs verbs(host->device(), 64);
  cm::ConnectOptions options;
  options.qp = verbs.qp();
  options.local = own_address(2, 0);
  EXPECT_TRUE(host->cm().connect(own_address(1, port), options));
  EXPECT_TRUE(run_until({host.get()}, [&out] { return !out.empty(); }));
  return out;
}

TEST(RoceTurns, TheSeedDecidesWhatIsDrawnAndZeroLeavesItToTheDriver) {
  EXPECT_EQ(first_message(1), first_message(1));
  EXPECT_NE(first_message(1), first_message(2));
  EXPECT_NE(first_message(0), first_message(0));
}

// A listener without room sends a retry-after, and receives none.
TEST(RoceTurns, ARetryAfterIsCountedWhereItWasSent) {
  RoceHostOptions options;
  options.roce.when_full = cm::RoceWhenFull::retry_after;
  options.roce.offer_retry_after = true;
  options.roce.retry_after = 1ms;
  const auto server = std::move(*RoceHost::open(options)), client = std::move(*RoceHost::open(options));
  cm::ListenOptions listening;
  listening.pending_max = 1;
  ASSERT_TRUE(server->cm().listen(own_address(3, port), listening));
  Verbs one(client->device(), 64), two(client->device(), 64);
  cm::ConnectOptions connecting;
  connecting.qp = one.qp();
  ASSERT_TRUE(client->cm().connect(own_address(3, port), connecting));
  connecting.qp = two.qp();
  ASSERT_TRUE(client->cm().connect(own_address(3, port), connecting));
  const auto counted = [](const RoceHost& host) {
    const auto all = host.rejects();
    return *std::find_if(all.begin(), all.end(), [](const RoceRejects& each) { return each.reason == "retry_after"; });
  };
  ASSERT_TRUE(run_until({server.get(), client.get()}, [&] { return counted(*client).received != 0; }));
  EXPECT_EQ(counted(*client).sent, 0U);
  EXPECT_EQ(counted(*server).received, 0U);
  EXPECT_GE(counted(*server).sent, counted(*client).received);
}

}  // namespace
}  // namespace parley::roce_turns_test
