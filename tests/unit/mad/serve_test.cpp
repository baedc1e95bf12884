// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The side that answers: what it finds wrong with requests, what its answers look like, and two ports that talk to each other.
#include <gtest/gtest.h>

#include "mad/serve.hpp"
#include "tests/unit/mad/two_ports.hpp"

namespace parley::mad {
namespace serve_test {
namespace {

using namespace wire::mad;

std::uint16_t status_of(const Datagram& mad) { return static_cast<std::uint16_t>(read_bits(mad, 32, 16)); }

TEST(MadRequests, AreParsedOrRefusedWithAReason) {
  const auto status = [](auto change) {
    Datagram mad = request<MgmtClass::subn, Method::get>(NodeInfo{}, {.attribute_modifier = 5});
    change(mad);
    const auto parsed = parse_request(mad);
    return parsed ? 0xFFFF : parsed.error().status;
  };
  const Datagram good = request<MgmtClass::subn, Method::get>(NodeInfo{}, {.attribute_modifier = 5});
  const auto parsed = parse_request(good);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->attribute, NodeInfo::attribute);
  EXPECT_EQ(parsed->modifier, 5U);
  EXPECT_EQ(parsed->body_view.data(), good.data() + 64);
  EXPECT_EQ(status([](Datagram& mad) { mad[0] = 2; }), 0x04);
  EXPECT_EQ(status([](Datagram& mad) { mad[1] = 0x50; }), 0x08);
  EXPECT_EQ(status([](Datagram& mad) { mad[2] = 3; }), 0x04) << "another version of the class";
  EXPECT_EQ(status([](Datagram& mad) { mad[3] = 0x12; }), 0x08) << "SMPs have no GetTable";
  EXPECT_EQ(status([](Datagram& mad) { mad[3] = 0x02; }), 0x0C) << "NodeInfo cannot be set";
  EXPECT_EQ(status([](Datagram& mad) { mad[17] = 0xEE; }), 0x0C);
  EXPECT_EQ(status([](Datagram& mad) { mad[3] = 0x81; }), 0) << "an answer is not answered";
  EXPECT_EQ(parse_request(ConstBytes(good).first(23)).error().status, 0);
  EXPECT_EQ(parse_request(ConstBytes(good).first(100)).error().status, 0);
}

// IBA §16.6: methods, attributes and version of an application's class are its own.
TEST(MadRequests, OfApplicationsAreNotHeldToTheTable) {
  Datagram mad = request<MgmtClass::application, Method::get>(ClassPortInfo{}, {.mgmt_class = 0x2F});
  mad[2] = 7;
  mad[3] = 0x30;
  mad[16] = 0x12;
  const auto parsed = parse_request(mad);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->attribute, 0x1201);
  EXPECT_EQ(parsed->body_view.data(), mad.data() + 24);
  const Bytes body(232, 0xA5);
  const auto reply = reply_to(mad, body);
  ASSERT_TRUE(reply);
  EXPECT_EQ((*reply)[1], 0x2F);
  EXPECT_EQ((*reply)[2], 7);
  EXPECT_EQ((*reply)[3], 0xB0);
  EXPECT_TRUE(std::equal(body.begin(), body.end(), reply->begin() + 24));
  EXPECT_TRUE(long_reply(mad, Bytes(300)).empty()) << "no RMPP";
}

TEST(MadAnswers, KeepTheHopsOfADirectedRoute) {
  Datagram smp = request<MgmtClass::subn_directed, Method::set>(PortInfo{}, {.transaction_id = 9});
  ASSERT_TRUE(set_route(smp, {.path = std::array<std::uint8_t, 3>{0, 4, 5}}));
  const auto reply = reply_to(smp, PortInfo().set(PortInfo::lid, 77).octets(), 0x001C);
  ASSERT_TRUE(reply);
  EXPECT_EQ((*reply)[3], 0x81);
  EXPECT_EQ(status_of(*reply), 0x801C) << "with the D bit";
  EXPECT_EQ((*reply)[7], 2);
  EXPECT_TRUE(std::equal(smp.begin() + 128, smp.end(), reply->begin() + 128));
  EXPECT_EQ(PortInfo::parse(ConstBytes(*reply).subspan(64))->get(PortInfo::lid), 77);
}

TEST(MadAnswers, OfTrapsAreRepressionsAndNeverErrors) {
  const Datagram trap = request<MgmtClass::subn, Method::trap>(Notice{});
  EXPECT_EQ((*reply_to(trap, Notice{}.octets()))[3], 0x07);
  EXPECT_FALSE(error_reply(trap, 0x0C));
  const Datagram repress = *reply_to(trap, {});
  EXPECT_FALSE(reply_to(repress, {})) << "and nothing answers those";
}

// Two ports may use the same transaction ID; on RoCE only their GIDs differ.
TEST(MadAnswers, OfOneTransactionIdGoToBothOfTwoGids) {
  Port port({.smp = false, .lids = false}, {});
  const Datagram ask = request<MgmtClass::subn_adm, Method::get_table>(NodeRecord{}, {.transaction_id = 7});
  std::map<std::uint8_t, int> sent;
  for (std::uint8_t host = 1; host <= 2; ++host) {
    Address from{.lid = 0};
    from.grh = Grh{.gid = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host}};
    ASSERT_TRUE(port.post(from, table_reply(ask, Bytes(NodeRecord::size * 50), NodeRecord::size)).has_value());
  }
  while (const Packet* packet = port.poll_packet()) {
    ++sent[packet->to.grh->gid[15]];
    port.packet_sent({});
  }
  EXPECT_EQ(sent, (std::map<std::uint8_t, int>{{1, 1}, {2, 1}}));  // the window's first segment each
}

TEST(MadAnswers, OfTablesHaveRecordsAtMultiplesOfEight) {
  const Datagram asked = request<MgmtClass::subn_adm, Method::get_table>(PathRecord{});
  const Bytes records(3 * 64);
  EXPECT_EQ(table_reply(asked, records, 64).size(), 56U + 3 * 64) << "64 needs no more";
  EXPECT_EQ(table_reply(asked, Bytes(3 * 108), 108).size(), 56U + 3 * 112);
  EXPECT_EQ(table_reply(asked, {}, 108).size(), 56U);
}

struct Serving : TwoPorts {
  std::vector<NodeRecord> nodes;

  Task<int> serve(Port& on) {
    int served = 0;
    while (const auto asked = co_await on.next_request()) {
      ++served;
      const auto parsed = parse_request(asked->mad);
      std::optional<Datagram> reply;
      if (!parsed) {
        reply = error_reply(asked->mad, parsed.error().status);
      } else if (parsed->method == Method::get_table) {
        Bytes records;
        for (const NodeRecord& node : nodes) records.insert(records.end(), node.octets().begin(), node.octets().end());
        EXPECT_TRUE(on.post(asked->from, table_reply(asked->mad, records, NodeRecord::size)));
      } else {
        reply = reply_to(asked->mad, NodeInfo().set(NodeInfo::num_ports, 3).octets());
      }
      if (reply) {
        EXPECT_TRUE(on.post(asked->from, *reply));
      }
    }
    co_return served;
  }
  template <class A>
  auto go(A awaitable) {
    return go_while(serve(*server), std::move(awaitable));
  }
};

TEST_F(Serving, AskAndAnswer) {
  const auto info = go(client->subn_get<NodeInfo>(Path::by_lid(server_lid)));
  ASSERT_TRUE(info) << info.error().dump();
  EXPECT_EQ(info->get(NodeInfo::num_ports), 3);
}

TEST_F(Serving, RefuseWhatIsNotLegal) {
  const auto raw = go(client->raw(Path::by_lid(server_lid),
                                  {.mgmt_class = MgmtClass::subn, .method = Method::set, .attribute = 0x11}, {}));
  ASSERT_FALSE(raw);
  EXPECT_EQ(raw.error().status(), 0x0C);
}

TEST_F(Serving, SendTablesInSegments) {
  for (const std::size_t count : std::array<std::size_t, 3>{0, 2, 500}) {
    nodes.clear();
    for (std::size_t i = 0; i < count; ++i)
      nodes.push_back(NodeRecord().set(NodeRecord::lid, static_cast<std::uint16_t>(i)));
    const auto got = go(client->sa_get_table<NodeRecord>());
    ASSERT_TRUE(got) << got.error().dump();
    EXPECT_EQ(*got, nodes);
  }
  EXPECT_EQ(server->next_deadline(), never) << "the last segment was acknowledged";
}

// IBA §13.6.3.2: the ACKs are of the segments that came already, and no other answer begins between them.
TEST_F(Serving, GoOnWithAnAnswerWhoseRequestComesTwice) {
  nodes.resize(500);
  for (std::uint16_t i = 0; i < 500; ++i) nodes[i].set(NodeRecord::lid, i);
  Bytes request;
  bool again = false;
  near.peer = [&](MemoryTransport&, const Address& to, ConstBytes mad) {
    carry(far, near, to, mad);
    if (request.empty()) request.assign(mad.begin(), mad.end());
    const bool later_ack = mad[25] == 2 && mad[31] > 1;
    if (later_ack && !std::exchange(again, true)) carry(far, near, to, request);
  };
  const auto got = go(client->sa_get_table<NodeRecord>());
  ASSERT_TRUE(got) << got.error().dump();
  EXPECT_EQ(*got, nodes);
  EXPECT_EQ(client->counters().resent, 0U);
}

TEST_F(Serving, HandOutNoWordAboutATransferThatIsOver) {
  Datagram late = request<MgmtClass::subn_adm, Method::get_table>(NodeRecord{});
  late[24] = 1;  // RMPP's version, active
  late[26] = 1;
  for (const std::uint8_t type : std::array<std::uint8_t, 3>{2, 3, 4}) {  // ACK, STOP, ABORT
    late[25] = type;
    server->handle_packet(far.now, Path::by_lid(1).address, late);
  }
  EXPECT_FALSE(server->transactor().has_request());
  EXPECT_EQ(server->counters().unexpected, 3U);
  late[25] = 1;  // a segment of a request, all of it
  late[26] = 7;
  late[31] = 1;
  late[35] = 220;
  server->handle_packet(far.now, Path::by_lid(1).address, late);
  EXPECT_TRUE(server->transactor().has_request());
}

TEST_F(Serving, RepressTraps) {
  const auto notice = go(client->rpc<MgmtClass::subn, Method::trap>(Path::by_lid(server_lid), Notice{}));
  EXPECT_TRUE(notice);
}

TEST_F(Serving, EndTheServerWithItsScope) {
  auto serving = server->start(serve(*server));
  ASSERT_TRUE(pump(*server, far, far.now));
  serving.cancel();
  ASSERT_TRUE(pump(*server, far, far.now));
  EXPECT_TRUE(serving.done());
  EXPECT_EQ(serving.take(), 0);
}

TEST_F(Serving, EndTheServerThoughRequestsWait) {
  const Datagram asked = request<MgmtClass::subn, Method::get>(NodeInfo{});
  for (int i = 0; i < 3; ++i) server->handle_packet(far.now, Path::by_lid(1).address, asked);
  auto serving = server->start(serve(*server));
  serving.cancel();
  ASSERT_TRUE(pump(*server, far, far.now));
  ASSERT_TRUE(serving.done());
  EXPECT_EQ(serving.take(), 0);
}

TEST_F(Serving, BoundWhatNobodyTakes) {
  const Datagram asked = request<MgmtClass::subn, Method::get>(NodeInfo{});
  for (int i = 0; i < 300; ++i) server->handle_packet(far.now, Path::by_lid(1).address, asked);
  EXPECT_EQ(server->counters().unasked, 300U - 256U);
  for (int i = 0; i < 1024; ++i) EXPECT_TRUE(server->post(Path::by_lid(1).address, asked));
  EXPECT_FALSE(server->post(Path::by_lid(1).address, asked));
  EXPECT_FALSE(server->post(Path::by_lid(1).address, ConstBytes(asked).first(100)));
}

}  // namespace
}  // namespace serve_test
}  // namespace parley::mad
