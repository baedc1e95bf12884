// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is out of range, or of no connection, is refused at the call.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "cm/ibcm/agent.hpp"
#include "tests/unit/printing.hpp"

namespace parley::cm::ibcm::arguments_test {
namespace {

Agent agent() { return std::move(*Agent::create({.ca_guid = 1, .seed = 1})); }

const Instant now{std::chrono::seconds(1)};

ConnectParameters sound() {
  Gid here{}, there{};
  here[15] = 1;
  there[15] = 2;
  ConnectParameters p;
  p.service_id = 1;
  p.path = Path::roce(here, there);
  p.qpn = 5;
  return p;
}

TEST(IbcmArguments, EachNumberOfARequestHasItsRange) {
  struct Row {
    const char* what;
    std::function<void(ConnectParameters&)> spoil;
  };
  const std::vector<Row> rows{
      {"QPN", [](auto& p) { p.qpn = 1U << 24; }},
      {"starting PSN", [](auto& p) { p.starting_psn = 1U << 24; }},
      {"retry count", [](auto& p) { p.retry_count = 8; }},
      {"RNR retry count", [](auto& p) { p.rnr_retry_count = 8; }},
      {"path MTU 0", [](auto& p) { p.path_mtu = 0; }},
      {"path MTU 6", [](auto& p) { p.path_mtu = 6; }},
      {"local response timeout", [](auto& p) { p.local_response_timeout = 32; }},
      {"remote response timeout", [](auto& p) { p.remote_response_timeout = 32; }},
      {"ACK timeout", [](auto& p) { p.path.primary.local_ack_timeout = 32; }},
      {"retries of timers", [](auto& p) { p.timers = Timers{.retries = 16}; }},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.what);
    Agent a = agent();
    ConnectParameters p = sound();
    row.spoil(p);
    EXPECT_EQ(a.connect(now, p).error(), Errc::invalid_argument);
    EXPECT_EQ(a.connection_count(), 0u);
  }
  Agent a = agent();
  ConnectParameters most = sound();
  most.qpn = most.starting_psn = (1U << 24) - 1;
  most.local_response_timeout = most.remote_response_timeout = 31;
  most.retry_count = most.rnr_retry_count = 7;
  most.path_mtu = 5;
  EXPECT_TRUE(a.connect(now, most));
}

TEST(IbcmArguments, EachOptionOfAnAgentHasItsRangeAndIsNamedWithItsValue) {
  using namespace std::chrono_literals;
  struct Row {
    const char* words;
    std::function<void(AgentOptions&)> spoil;
  };
  const char* const bounds = "outstanding_max, outstanding_per_peer and transmit_max are at least 1";
  const std::vector<Row> rows{
      {"Timers::retries is 16; must be 0 to 15", [](auto& o) { o.timers.retries = 16; }},
      {"Timers::first is 999 ns; must be at least 1000", [](auto& o) { o.timers.first = 999ns; }},
      {"Timers::cap is 4999 ns; must be at least Timers::first, 5000 ns",
       [](auto& o) { o.timers.first = 5us, o.timers.cap = 4999ns; }},
      {"Timers::total is -1 ns; must be at least 0", [](auto& o) { o.timers.total = -1ns; }},
      {"Timers::silence is -1 ns; must be at least 0", [](auto& o) { o.timers.silence = -1ns; }},
      {"AgentOptions::mra_timeout is 32; must be 0 to 31", [](auto& o) { o.mra_timeout = std::uint8_t{32}; }},
      {"AgentOptions::timewait_min is -1 ns; must be 0 to timewait_max, 60000000000 ns",
       [](auto& o) { o.timewait_min = -1ns; }},
      {"AgentOptions::timewait_min is 8 ns; must be 0 to timewait_max, 7 ns",
       [](auto& o) { o.timewait_min = 8ns, o.timewait_max = 7ns; }},
      {"AgentOptions::peer_timeout_max is 9999999 ns; must be at least 10 ms",
       [](auto& o) { o.peer_timeout_max = 10ms - 1ns; }},
      {"AgentOptions::connections_max is 0; must be 1 to 16777216", [](auto& o) { o.connections_max = 0; }},
      {"AgentOptions::connections_max is 16777217; must be 1 to 16777216",
       [](auto& o) { o.connections_max = (1U << 24) + 1; }},
      {bounds, [](auto& o) { o.outstanding_max = 0; }},
      {bounds, [](auto& o) { o.outstanding_per_peer = 0; }},
      {bounds, [](auto& o) { o.transmit_max = 0; }},
  };
  for (const Row& row : rows) {
    AgentOptions options;
    row.spoil(options);
    const auto refused = Agent::create(options);
    ASSERT_FALSE(refused) << row.words;
    EXPECT_EQ(refused.error(), Errc::invalid_argument);
    EXPECT_NE(refused.error().sentence().find(row.words), std::string::npos) << refused.error().sentence();
  }
  AgentOptions least;
  least.timers = {.retries = 15, .first = 1us, .cap = 1us, .total = 0ns, .silence = 0ns};
  least.mra_timeout = std::uint8_t{31};
  least.timewait_min = least.timewait_max = 0ns;
  least.peer_timeout_max = 10ms;
  least.connections_max = least.outstanding_max = least.outstanding_per_peer = least.transmit_max = 1;
  EXPECT_TRUE(Agent::create(least));
  AgentOptions most;
  most.connections_max = 1U << 24;
  EXPECT_TRUE(Agent::create(most));
}

TEST(IbcmArguments, CommandsOfConnectionsThatAreNotKnownAreRefused) {
  Agent a = agent();
  const ConnectionId none = 77;
  EXPECT_EQ(a.accept(now, none, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.ready(now, none, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.reject(now, none, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.send_mra(now, none, 20).error(), Errc::wrong_state);
  EXPECT_EQ(a.communication_established(now, none).error(), Errc::wrong_state);
  EXPECT_EQ(a.disconnect(now, none).error(), Errc::wrong_state);
  EXPECT_EQ(a.load_alternate(now, none, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.answer_alternate(now, none, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.sidr_reply(now, none, {}).error(), Errc::wrong_state);
  a.destroy(now, none);
  EXPECT_FALSE(a.has_event());
  EXPECT_FALSE(a.has_transmit());
}

// What was destroyed takes no more commands, although it is still remembered.
TEST(IbcmArguments, CommandsOfDestroyedConnectionsAreRefused) {
  Agent a = agent();
  const ConnectionId id = *a.connect(now, sound());
  a.destroy(now, id);
  EXPECT_EQ(a.ready(now, id, {}).error(), Errc::wrong_state);
  EXPECT_EQ(a.disconnect(now, id).error(), Errc::wrong_state);
}

}  // namespace
}  // namespace parley::cm::ibcm::arguments_test
