// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connections of UC queue pairs between two hosts in virtual time.
#include <gtest/gtest.h>

#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/printing.hpp"

namespace parley::roce_unreliable_test {
namespace {

using packet_net::Host;
using packet_net::Net;

const Address server_at = Address::v4(192, 0, 2, 1, 7174);
const ib::Options unreliable{.qp_type = QpType::uc};

struct Pair {
  explicit Pair(const ib::Options& server_has = unreliable) {
    server.on_request = [this](cm::ConnectRequest& request) {
      accepted = request.id;
      EXPECT_EQ(request.ird, 0U);
      EXPECT_EQ(request.ord, 0U);
      EXPECT_TRUE(accepted.create_qp(qp(a)));
      for (int i = 0; i < 4; ++i) EXPECT_TRUE(a.recv(*accepted.qp(), 4096U * static_cast<unsigned>(i), 4096));
      EXPECT_TRUE(accepted.accept({.ird = std::uint16_t{7}, .ord = std::uint16_t{7}}));
    };
    listener = *server.cm.listen(server_at, {.transport = server_has});
    EXPECT_TRUE(net.run_until([this] { return server.last<cm::Listening>() != nullptr; }));
  }
  static QpInit qp(const Verbs& verbs) {
    QpInit out = verbs.qp();
    out.type = QpType::uc;
    return out;
  }
  void connect() {
    connected = *client.cm.connect(server_at, {.transport = unreliable, .ird = 9, .ord = 9, .qp = qp(b)});
  }
  bool up() { return client.last<cm::Established>() != nullptr && server.last<cm::Established>() != nullptr; }

  Net net;
  Host &server = net.add_host(1), &client = net.add_host(2);
  Verbs a{server.cm.device()}, b{client.cm.device()};
  cm::Id listener, connected, accepted;
};

TEST(RoceUnreliable, ConnectsAndMovesDataWithoutReads) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  for (Host* host : {&p.client, &p.server}) {
    const auto& up = *host->last<cm::Established>();
    EXPECT_EQ(up.ird, 0U);
    EXPECT_EQ(up.ord, 0U);
    EXPECT_EQ(std::get<ib::Parameters>(up.parameters).qp_type, QpType::uc);
  }
  std::fill_n(p.b.memory.begin(), 3000, std::uint8_t{0x5A});
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 3000));
  ASSERT_TRUE(p.net.run_until([&] { return p.b.saw(WcOpcode::send) && p.a.saw(WcOpcode::recv); }));
  EXPECT_EQ(p.a.done.front().byte_len, 3000U);
  EXPECT_TRUE(std::equal(p.a.memory.begin(), p.a.memory.begin() + 3000, p.b.memory.begin()));
  const Sge source = p.b.at(0, 100), sink = p.a.at(20000, 100);
  const auto post = [&](SendWr::Opcode opcode) {
    return p.connected.qp()->post_send(
        {.opcode = opcode, .sges = {&source, 1}, .remote_addr = sink.addr, .rkey = p.a.mr.rkey});
  };
  ASSERT_TRUE(post(SendWr::Opcode::rdma_write));
  ASSERT_TRUE(p.net.run_until([&] { return p.a.memory[20099] == 0x5A; }));
  EXPECT_FALSE(post(SendWr::Opcode::rdma_read));
}

TEST(RoceUnreliable, WhatIsLostIsNotSentAgain) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  p.net.fate = [](const std::string& name, std::size_t nth) {
    return Net::Fate{.copies = name == "UC SEND Only" && nth == 0 ? 0 : 1};
  };
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 10));
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 20));
  p.net.run_for(std::chrono::seconds(30));
  EXPECT_EQ(p.b.count(WcOpcode::send), 2U);
  ASSERT_EQ(p.a.count(WcOpcode::recv), 1U);
  EXPECT_EQ(p.a.done.front().byte_len, 20U);
  EXPECT_EQ(std::count(p.net.sent.begin(), p.net.sent.end(), "UC SEND Only"), 2);
}

TEST(RoceUnreliable, EndsAsOthersDo) {
  Pair p;
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.up(); }));
  ASSERT_TRUE(p.b.send(*p.connected.qp(), 0, 100));
  ASSERT_TRUE(p.connected.disconnect());
  ASSERT_TRUE(p.net.run_until(
      [&] { return p.client.last<cm::Disconnected>() != nullptr && p.server.last<cm::Disconnected>() != nullptr; }));
  EXPECT_TRUE(p.client.last<cm::Disconnected>()->graceful) << p.client.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(p.server.last<cm::Disconnected>()->graceful) << p.server.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(p.a.saw(WcOpcode::recv));
}

TEST(RoceUnreliable, AListenerOfRcRefusesIt) {
  Pair p{ib::Options{}};
  p.connect();
  ASSERT_TRUE(p.net.run_until([&] { return p.client.last<cm::ConnectFailed>() != nullptr; }));
  const std::string why = p.client.last<cm::ConnectFailed>()->why.to_string();
  EXPECT_NE(why.find("transport service"), std::string::npos) << why;
  EXPECT_EQ(p.server.last<cm::ConnectRequest>(), nullptr);
}

}  // namespace
}  // namespace parley::roce_unreliable_test
