// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What negotiations record of themselves: each side's events in their order, under one number for a dial's attempts.
#include <gtest/gtest.h>

#include "parley/trace.hpp"
#include "tests/unit/cm/neg_net.hpp"

namespace parley::neg {
namespace {

using namespace kit;

using Lines = std::vector<std::string>;

struct NegLog final : trace::Sink {
  Lines lines;
  void record(const trace::Record& record) override {
    lines.push_back((record.connection == 0 ? "" : "#" + std::to_string(record.connection) + " ") +
                    trace::to_text(record.event));
  }
  /// Those of an event.
  Lines of(std::string_view name) const {
    Lines out;
    for (const std::string& line : lines)
      if (line.find(std::string(name) + " ") != std::string::npos) out.push_back(line);
    return out;
  }
};

const Address traced_server = Address::v4(192, 0, 2, 2, 4800), nobody_there = Address::v4(192, 0, 2, 9, 4800);

/// Two sides on a network; the server offers acme/rc alone.
struct TracedWorld {
  explicit TracedWorld(PeersOptions server_options = {}) {
    EXPECT_TRUE(framework.add(std::make_unique<ScriptedPlugin>()));
    server_options.trace = &heard_by_server;
    PeersOptions client_options;
    client_options.trace = &heard_by_client;
    server.emplace(framework, server_options);
    client.emplace(framework, client_options);
    net.add(*client, Address::v4(192, 0, 2, 1, 0));
    net.add(*server, Address::v4(192, 0, 2, 2, 0));
    EXPECT_TRUE(server->listen(traced_server, {{.plugin = "acme", .variant = "rc"}}));
  }
  void dial(std::string variant, const Address& to, std::vector<Address> backups = {}) {
    const auto id =
        client->dial(net.now, {.request = {.plugin = "acme", .variant = std::move(variant), .label = "test"},
                               .server = to,
                               .backups = std::move(backups)});
    EXPECT_TRUE(id);
    net.settle();
  }
  Framework framework;
  Net net;
  NegLog heard_by_server, heard_by_client;
  std::optional<Peers> server, client;
};

TEST(NegTrace, ADialTellsEachMessageAndStage) {
  TracedWorld w;
  w.dial("rc", traced_server);
  EXPECT_EQ(w.heard_by_client.lines, (Lines{
                                         "#1 neg.started role=initiator plugin=acme variant=rc",
                                         "#1 neg.stage from=none to=opening",
                                         "#1 neg.message sent Hello octets=26",
                                         "#1 neg.stage from=none to=info",
                                         "#1 neg.message sent Turn stage=info round=1 last=yes octets=6",
                                         "#1 neg.message received Welcome octets=0",
                                         "#1 neg.message received Turn stage=info round=1 last=yes octets=6",
                                         "#1 neg.stage from=info to=ready",
                                         "#1 neg.message sent Turn stage=ready round=1 last=yes octets=7",
                                         "#1 neg.message received Turn stage=ready round=1 last=yes octets=7",
                                         "#1 neg.stage from=ready to=done",
                                         "#1 neg.message sent Turn stage=done round=1 last=yes octets=6",
                                         "#1 neg.message received Turn stage=done round=1 last=yes octets=6",
                                         "#1 neg.stage from=done to=over",
                                         "#1 neg.agreed plugin=acme variant=rc qps=0 attempts=1",
                                     }));
}

TEST(NegTrace, AResponderTellsWhatItIsAskedFor) {
  TracedWorld w;
  w.dial("rc", traced_server);
  const Lines& lines = w.heard_by_server.lines;
  ASSERT_GE(lines.size(), 6U);
  EXPECT_EQ(lines[0], "cm.listening local=192.0.2.2:4800");
  EXPECT_EQ(lines[1], "#1 neg.started role=responder");
  EXPECT_EQ(lines[2], "#1 neg.message received Hello octets=26");
  EXPECT_EQ(lines[3], "#1 neg.requested plugin=acme variant=rc label=test");
  EXPECT_EQ(lines[4], "#1 neg.message sent Welcome octets=0");
  EXPECT_EQ(lines[5], "#1 neg.stage from=none to=info");
  EXPECT_EQ(lines.back(), "#1 neg.agreed plugin=acme variant=rc qps=0 attempts=1");
}

TEST(NegTrace, WhatIsNotOfferedIsRefusedAndBothSidesSayWhy) {
  TracedWorld w;
  w.dial("ud", traced_server);
  EXPECT_EQ(w.heard_by_server.of("neg.refused"),
            Lines{"#1 neg.refused plugin=acme variant=ud problem=variant_not_available"});
  EXPECT_EQ(
      w.heard_by_server.of("neg.failed"),
      Lines{"#1 neg.failed problem=variant_not_available stage=none by_peer=no cause=\"acme/ud is not offered here\" "
            "advice=\"there is acme/rc\""});
  EXPECT_EQ(w.heard_by_client.of("neg.failed"),
            Lines{"#1 neg.failed problem=variant_not_available stage=info round=1 by_peer=yes cause=\"acme/ud is not "
                  "offered here\" advice=\"there is acme/rc\""});
  EXPECT_TRUE(w.heard_by_client.of("neg.agreed").empty());
}

TEST(NegTrace, ADialThatGoesOnElsewhereKeepsItsNumber) {
  TracedWorld w;
  w.dial("rc", nobody_there, {traced_server});
  w.dial("rc", traced_server);
  const Lines again = w.heard_by_client.of("neg.retrying");
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].find("#1 neg.retrying next=192.0.2.2:4800 backup=yes problem=server_unreachable stage=none "), 0U)
      << again[0];
  EXPECT_EQ(w.heard_by_client.of("neg.agreed"), (Lines{"#1 neg.agreed plugin=acme variant=rc qps=0 attempts=2",
                                                       "#2 neg.agreed plugin=acme variant=rc qps=0 attempts=1"}));
}

TEST(NegTrace, WhoGivesWayIsToldAsEvicted) {
  TracedWorld w({.sessions_max = 2});
  Plain crowd;
  w.net.add(crowd, Address::v4(192, 0, 2, 7, 0));
  for (int i = 0; i < 4; ++i) crowd.connect(traced_server);
  w.net.run_until([&] { return crowd.up.size() + crowd.resets.size() >= 4; }, 5s);
  const Lines evicted = w.heard_by_server.of("cm.evicted");
  ASSERT_FALSE(evicted.empty());
  EXPECT_EQ(evicted[0].find("#1 cm.evicted limit=sessions_max half_open_for="), 0U) << evicted[0];
  EXPECT_EQ(w.heard_by_server.of("neg.failed").size(), evicted.size());
}

}  // namespace
}  // namespace parley::neg
