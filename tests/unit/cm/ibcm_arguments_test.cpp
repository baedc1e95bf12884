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
