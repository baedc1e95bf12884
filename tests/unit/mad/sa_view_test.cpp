// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Subnet administration asked in place of the node itself, and for the way to it.
#include <gtest/gtest.h>

#include "mad/resolve.hpp"
#include "mad/sa_view.hpp"
#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {
namespace sa_view_test {
namespace {

using namespace wire::mad;

struct SaView : PortTest {
  void answer(std::function<Datagram(ConstBytes)> with) {
    transport.peer = [with = std::move(with)](MemoryTransport& t, const Address& to, ConstBytes mad) {
      t.deliver(to, with(mad));
    };
  }
  template <class R>
  R asked() const {
    return *R::parse(ConstBytes(transport.log.back().second).subspan(56));
  }
  std::uint64_t mask() const { return SaHeader::parse(transport.log.back().second)->get(SaHeader::component_mask); }
};

TEST_F(SaView, FollowsADirectedRouteLinkByLink) {
  answer([](ConstBytes mad) {
    const auto link = *LinkRecord::parse(mad.subspan(56));
    const int to = link.get(LinkRecord::from_lid) * 10 + link.get(LinkRecord::from_port);
    return answer_to(mad, LinkRecord().set(LinkRecord::to_lid, static_cast<std::uint16_t>(to)).octets());
  });
  const Path path = *Path::by_route(std::array<std::uint8_t, 3>{1, 2, 3});
  const auto by_lid = go(lid_path_of(port(), path));
  ASSERT_TRUE(by_lid);
  EXPECT_EQ(by_lid->address.lid, 1123) << "from LID 1 by 1 to 11, by 2 to 112, by 3 to 1123";
  EXPECT_FALSE(by_lid->route);
  EXPECT_EQ(go(lid_path_of(port(), Path::by_lid(5)))->address.lid, 5);
  answer([](ConstBytes mad) { return answer_to(mad, {}, 0x300); });
  const auto lost = go(lid_path_of(port(), path));
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().context().front(), "following directed route 0,1,2,3 from LID 1");
}

TEST_F(SaView, AsksForTheBlockThatTheModifierNames) {
  answer([](ConstBytes mad) { return answer_to(mad, mad.subspan(56)); });
  ASSERT_TRUE(go(sa_subn_get<MulticastForwardingTable>(port(), Path::by_lid(5), 0x30000000 | 7)));
  const auto multicast = asked<MulticastForwardingTableRecord>();
  EXPECT_EQ(multicast.get(MulticastForwardingTableRecord::position), 3);
  EXPECT_EQ(multicast.get(MulticastForwardingTableRecord::block_num), 7);
  ASSERT_TRUE(go(sa_subn_get<VlArbitrationTable>(port(), Path::by_lid(5), 2U << 16 | 9)));
  EXPECT_EQ(asked<VlArbitrationTableRecord>().get(VlArbitrationTableRecord::output_port_num), 9);
  EXPECT_EQ(asked<VlArbitrationTableRecord>().get(VlArbitrationTableRecord::block_num), 2);
  ASSERT_TRUE(go(sa_subn_get<SlToVlMappingTable>(port(), Path::by_lid(5), 4U << 8 | 6)));
  EXPECT_EQ(asked<SlToVlMappingTableRecord>().get(SlToVlMappingTableRecord::input_port_num), 4);
  ASSERT_TRUE(go(sa_subn_get<PKeyTable>(port(), Path::by_lid(5), 3U << 16 | 1)));
  EXPECT_EQ(asked<PKeyTableRecord>().get(PKeyTableRecord::port_num), 3);
  EXPECT_EQ(mask(), 7U);
  ASSERT_TRUE(go(sa_subn_get<PKeyTable>(port(), Path::by_lid(5), 1, NodeType::channel_adapter)));
  EXPECT_EQ(mask(), 3U) << "an adapter's ports have LIDs of their own";
}

TEST_F(SaView, TakesATableWithoutARecordForEmpty) {
  answer([](ConstBytes mad) { return answer_to(mad, {}, 0x300); });
  const auto table = go(sa_subn_get<LinearForwardingTable>(port(), Path::by_lid(5), 2));
  ASSERT_TRUE(table);
  EXPECT_EQ(*table, LinearForwardingTable());
  EXPECT_TRUE(go(sa_subn_get<PKeyTable>(port(), Path::by_lid(5))));
  EXPECT_FALSE(go(sa_subn_get<NodeInfo>(port(), Path::by_lid(5))));
}

TEST_F(SaView, FindsThePortThatPortInfo0Is) {
  transport.facts_.rmpp = true;
  std::vector<PortInfoRecord> records;
  for (const std::uint8_t number : std::array<std::uint8_t, 3>{2, 0, 1})
    records.push_back(PortInfoRecord()
                          .set(PortInfoRecord::port_num, number)
                          .set(PortInfoRecord::port_info, PortInfo().set(PortInfo::lid, number + 100U)));
  transport.peer = [&records](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.deliver(to, table_of(mad, records));
  };
  const auto info = go(sa_subn_get<PortInfo>(port(), Path::by_lid(5)));
  ASSERT_TRUE(info) << info.error().dump();
  EXPECT_EQ(info->get(PortInfo::lid), 100);
}

TEST_F(SaView, KnowsTheWayToAGid) {
  const Gid gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
  PathRecord record;
  record.set(PathRecord::dgid, gid)
      .set(PathRecord::dlid, 9)
      .set(PathRecord::sl, 2)
      .set(PathRecord::p_key, 0x8001)
      .set(PathRecord::packet_life_time, 12);
  answer([&record](ConstBytes mad) { return answer_to(mad, record.octets()); });
  auto path = go(resolve_path(port(), {.gid = gid}));
  ASSERT_TRUE(path) << path.error().dump();
  EXPECT_EQ(path->text(), "LID 9 SL 2 P_Key 0x8001");
  EXPECT_EQ(path->time_limit(), Duration(4096LL * ((1 << 13) + (1 << 20))));
  EXPECT_EQ(asked<PathRecord>().get(PathRecord::dgid), gid);
  EXPECT_EQ(asked<PathRecord>().get(PathRecord::sgid), transport.local_.gid);
  record.set(PathRecord::hop_limit, 64);
  path = go(resolve_path(port(), {.gid = gid}));
  ASSERT_TRUE(path->address.grh);
  EXPECT_EQ(path->address.grh->hop_limit, 64);
  Path administration = port().sa_path();
  administration.sm_key = 7;
  EXPECT_TRUE(go(resolve_path(port(), administration, {.gid = gid})));
  EXPECT_EQ(read_bits(transport.log.back().second, 36 * 8, 64), 7U);
  record.set(PathRecord::dlid, 0);
  EXPECT_EQ(go(resolve_path(port(), {.lid = 9})).error().fault(), Fault::malformed);
}

TEST(PathTexts, SayHowItGoes) {
  EXPECT_EQ(Path::by_lid(5).text(), "LID 5");
  EXPECT_EQ(Path::to_self().text(), "directed route 0");
  Path path = *Path::by_route(std::array<std::uint8_t, 2>{1, 3});
  EXPECT_EQ(path.text(), "directed route 0,1,3");
  path.address.lid = 4;
  path.route->source_lid = 2;
  path.route->destination_lid = 9;
  EXPECT_EQ(path.text(), "directed route 0,1,3 from LID 4 to LID 9");
  EXPECT_EQ(path.reverse().route->source_lid, 9);
  EXPECT_EQ(Path::by_gid(Gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 6).text(), "GID fe80::1 by LID 6");
}

TEST(PathTexts, TakeAtMost63Hops) {
  const Bytes hops(63, 1);
  EXPECT_TRUE(Path::by_route(hops));
  EXPECT_FALSE(Path::by_route(Bytes(64, 1)));
  EXPECT_FALSE(Path::by_route(Bytes{1, 0}));
  EXPECT_FALSE(Path::by_route(Bytes{255}));
}

TEST(PathTexts, LimitTheTimeByLifeTimeAndResponseTime) {
  Path path;
  EXPECT_EQ(path.time_limit(), 1s);
  path.timeout.reset();
  EXPECT_EQ(std::chrono::duration_cast<std::chrono::milliseconds>(path.time_limit()), 6442ms);
}

// PathRecords have six bits for a life time, and the fields of MADs five for their exponents.
TEST(PathTexts, LimitTheTimeToTheLongestOfFiveBits) {
  Path path;
  path.timeout.reset();
  path.packet_life_time = path.response_time = 31;
  const Duration longest = path.time_limit();
  EXPECT_EQ(longest, Duration(4096LL * ((1LL << 32) + (1LL << 31))));
  path.packet_life_time = 63;
  EXPECT_EQ(path.time_limit(), longest);
  path.packet_life_time = 255;
  EXPECT_EQ(path.time_limit(), longest);
}

}  // namespace
}  // namespace sa_view_test
}  // namespace parley::mad
