// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RPCs as a user of a Port sees them: what is sent, what comes back as a value, and what as an error.
#include <gtest/gtest.h>

#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {
namespace port_test {
namespace {

using namespace wire::mad;

struct PortRpc : PortTest {
  /// Each request is answered with `body` and `status`.
  template <class A>
  void answer(const A& body, std::uint16_t status = 0) {
    transport.peer = [body, status](MemoryTransport& t, const Address& to, ConstBytes mad) {
      t.deliver(to, answer_to(mad, body.octets(), status));
    };
  }
};

TEST_F(PortRpc, AnswersSubnGetByLid) {
  answer(NodeInfo().set(NodeInfo::num_ports, 36));
  const auto info = go(port().subn_get<NodeInfo>(Path::by_lid(7), 3));
  ASSERT_TRUE(info) << info.error().dump();
  EXPECT_EQ(info->get(NodeInfo::num_ports), 36);
  ASSERT_EQ(transport.log.size(), 1U);
  const auto& [to, mad] = transport.log[0];
  EXPECT_EQ(to.lid, 7);
  EXPECT_EQ(to.qpn, 0U);
  EXPECT_EQ(to.qkey, 0U);
  EXPECT_EQ(mad[1], 0x01);
  EXPECT_EQ(read_bits(mad, 160, 32), 3U);
  EXPECT_EQ(port().transactor().open_count(), 0U);
  EXPECT_EQ(port().counters().answered, 1U);
}

TEST_F(PortRpc, SendsDirectedRouteWithItsLegs) {
  answer(NodeInfo());
  Path path = *Path::by_route(std::array<std::uint8_t, 2>{4, 5});
  path.m_key = 0x1122334455667788;
  path.address.lid = 9;
  path.route->source_lid = 1;
  ASSERT_TRUE(go(port().subn_get<NodeInfo>(path)));
  const auto& [to, mad] = transport.log[0];
  EXPECT_EQ(to.lid, 9);
  const auto format = *DirectedSmpFormat::parse(mad);
  EXPECT_EQ(format.get(DirectedSmpFormat::mad_header).get(DirectedMadHeader::hop_count), 2);
  EXPECT_EQ(format.get(DirectedSmpFormat::dr_slid), 1);
  EXPECT_EQ(format.get(DirectedSmpFormat::dr_dlid), 0xFFFF);
  EXPECT_EQ(format.get(DirectedSmpFormat::m_key), 0x1122334455667788U);
  EXPECT_EQ(format.get(DirectedSmpFormat::initial_path)[1], 4);
}

TEST_F(PortRpc, AsksSubnetAdministrationWithKeyAndMask) {
  PathRecord record;
  record.set(PathRecord::dlid, 12);
  answer(record);
  transport.local_.sm_sl = 3;
  const auto path = go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 12)));
  ASSERT_TRUE(path) << path.error().dump();
  EXPECT_EQ(path->get(PathRecord::dlid), 12);
  const auto& [to, mad] = transport.log[0];
  EXPECT_EQ(to.lid, 2);
  EXPECT_EQ(to.sl, 3);
  EXPECT_EQ(to.qpn, 1U);
  EXPECT_EQ(to.qkey, general_qkey);
  EXPECT_EQ(SaHeader::parse(mad)->get(SaHeader::component_mask), 1U << 4);
}

TEST_F(PortRpc, ReadsPerformanceCountersOfThePortThatIsNamed) {
  answer(PortCounters().set(PortCounters::port_xmit_data, 77));
  const auto counters = go(port().perf_get(Path::by_lid(7), PortCounters().set(PortCounters::port_select, 4)));
  ASSERT_TRUE(counters);
  EXPECT_EQ(counters->get(PortCounters::port_xmit_data), 77U);
  EXPECT_EQ(PortCounters::parse(ConstBytes(transport.log[0].second).subspan(64))->get(PortCounters::port_select), 4);
}

TEST_F(PortRpc, SaysWhatNoAnswerWasTo) {
  Path path = Path::by_lid(7);
  path.retries = 2;
  const auto info = go(port().subn_get<NodeInfo>(path));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().fault(), Fault::timeout);
  EXPECT_EQ(info.error().message(), "SubnGet(NodeInfo) to LID 7: no answer in 3 tries");
  EXPECT_EQ(transport.log.size(), 3U);
  EXPECT_EQ(transport.log[0].second, transport.log[2].second);
  // 1 s, 2 s and 4 s, each further one up to a quarter longer
  EXPECT_GE(transport.now - Instant{}, 7s);
  EXPECT_LT(transport.now - Instant{}, 8500ms);
  EXPECT_EQ(port().counters().timeouts, 1U);
  EXPECT_EQ(port().counters().resent, 2U);
}

TEST_F(PortRpc, WaitsForATryThatCannotLeaveAsLongAsForOneThatWasSent) {
  transport.peer = [](MemoryTransport& t, const Address&, ConstBytes) { t.blocked = true; };
  Path path = Path::by_lid(7);
  path.retries = 1;
  EXPECT_EQ(go(port().subn_get<NodeInfo>(path)).error().fault(), Fault::timeout);
  EXPECT_EQ(transport.sent, 1U);
  EXPECT_GE(transport.now - Instant{}, 3s);  // 1 s and 2 s, the second up to a quarter longer
  EXPECT_LT(transport.now - Instant{}, 3500ms);
}

TEST_F(PortRpc, PutsTheStatusInWords) {
  answer(NodeInfo(), 0x000C);
  auto info = go(port().subn_get<NodeInfo>(Path::by_lid(7)));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().fault(), Fault::status);
  EXPECT_EQ(info.error().message(),
            "SubnGet(NodeInfo) to LID 7: the answer's status is an error: attribute without such a method");
  const MadError told = std::move(info.error()).about("reading the node").about("looking behind port 3");
  EXPECT_EQ(told.dump(), "looking behind port 3\n+ reading the node\n+ " + told.message() + "\n");
  EXPECT_NE(told.dump(MadError::Detail::packets).find("request: "), std::string::npos);
  EXPECT_NE(told.dump(MadError::Detail::packets).find("reply: "), std::string::npos);
}

TEST_F(PortRpc, TellsNoRecordsApart) {
  answer(PathRecord(), 0x0300);
  const auto path = go(port().sa_get(Query<PathRecord>()));
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().fault(), Fault::class_status);
  EXPECT_EQ(path.error().class_status(), 3);
  EXPECT_TRUE(path.error().is_no_records());
  EXPECT_NE(path.error().message().find("no records"), std::string::npos);
}

TEST_F(PortRpc, KeepsTheStatusOfADirectedRouteWithoutItsDBit) {
  answer(NodeInfo(), 0x001C);
  const auto info = go(port().subn_get<NodeInfo>(Path::to_self()));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().status(), 0x001C);
}

TEST_F(PortRpc, ShowsWhatIsCutAndSaysSo) {
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    Datagram out = answer_to(mad, NodeRecord().set(NodeRecord::lid, 5).octets());
    out[26] = 1;  // ACTIVE, of RMPP version 0
    write_bits(out, 44 * 8, 16, 14);
    t.deliver(to, out);
  };
  const auto nodes = go(port().sa_get_table<NodeRecord>());
  ASSERT_FALSE(nodes);
  EXPECT_EQ(nodes.error().fault(), Fault::cut);
  const auto there = records_in<NodeRecord>(nodes.error().reply());
  ASSERT_TRUE(there);
  ASSERT_EQ(there->size(), 1U);
  EXPECT_EQ(there->front().get(NodeRecord::lid), 5);
}

}  // namespace
}  // namespace port_test
}  // namespace parley::mad
