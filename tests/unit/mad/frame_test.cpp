// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Datagrams as packets of a link, for captures: where a GRH stands and what is in it.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/bits.hpp"
#include "mad/frame.hpp"
#include "wire/ib/packet.hpp"
#include "wire/mad/rpc.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {
namespace frame_test {
namespace {

using namespace wire::mad;

constexpr std::size_t lrh = 8, grh = 40, vcrc = 2;

Gid gid_ending(std::uint8_t last) { return Gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last}; }

struct MadFrame : testing::Test {
  LocalPort local;
  Address other;
  const wire::mad::Datagram query = request<MgmtClass::subn_adm, Method::get>(PathRecord{}, {.transaction_id = 7});
  const wire::mad::Datagram smp = request<MgmtClass::subn, Method::get>(NodeInfo{}, {.transaction_id = 8});

  MadFrame() {
    local.lid = 1;
    local.gid = gid_ending(1);
    other.lid = 5;
    other.grh = Grh{.gid = gid_ending(2), .traffic_class = 0x55, .hop_limit = 9, .flow_label = 0x12345};
  }
};

Gid gid_at(ConstBytes packet, std::size_t at) {
  Gid out{};
  std::copy_n(packet.begin() + static_cast<std::ptrdiff_t>(at), out.size(), out.begin());
  return out;
}

// IBA §8.3.
TEST_F(MadFrame, HasTheGrhOfItsAddress) {
  for (const bool out : {true, false}) {
    const Bytes packet = frame_of(local, other, query, out);
    ASSERT_GT(packet.size(), lrh + grh);
    EXPECT_EQ(read_bits(packet, 14, 2), 3U) << "the LRH says that a GRH follows";
    const ConstBytes header = ConstBytes(packet).subspan(lrh, grh), rest = ConstBytes(packet).subspan(lrh + grh);
    EXPECT_EQ(read_bits(header, 0, 4), 6U);
    EXPECT_EQ(read_bits(header, 4, 8), 0x55U);
    EXPECT_EQ(read_bits(header, 12, 20), 0x12345U);
    EXPECT_EQ(read_bits(header, 32, 16), rest.size() - vcrc) << "from the BTH to the ICRC";
    EXPECT_EQ(read_bits(header, 48, 8), 0x1BU);
    EXPECT_EQ(read_bits(header, 56, 8), 9U) << "the hop limit";
    EXPECT_EQ(gid_at(header, 8), out ? local.gid : other.grh->gid);
    EXPECT_EQ(gid_at(header, 24), out ? other.grh->gid : local.gid);
    const auto transport = wire::ib::Packet::parse(rest.first(rest.size() - vcrc));
    ASSERT_TRUE(transport);
    EXPECT_TRUE(std::ranges::equal(transport->payload, query));
    EXPECT_EQ(transport->icrc, *wire::ib::icrc(header, rest.first(rest.size() - vcrc - PARLEY_IB_ICRC_LEN)));
  }
}

// SMPs do not leave their subnet.
TEST_F(MadFrame, OfAnSmpHasNone) {
  const Bytes packet = frame_of(local, other, smp, true);
  EXPECT_EQ(read_bits(packet, 14, 2), 2U);
  const auto transport = wire::ib::Packet::parse(ConstBytes(packet).subspan(lrh, packet.size() - lrh - vcrc));
  ASSERT_TRUE(transport);
  EXPECT_TRUE(std::ranges::equal(transport->payload, smp));
  other.grh.reset();
  EXPECT_EQ(frame_of(local, other, smp, true), packet);
}

TEST(MadErf, ARecordIsAsLongAsItSays) {
  const Bytes frame{1, 2, 3};
  EXPECT_EQ(erf_record(Instant{std::chrono::milliseconds(1500)}, frame),
            (Bytes{0, 0, 0, 0x80, 1, 0, 0, 0, 21, 4, 0, 19, 0, 0, 0, 3, 1, 2, 3}));
}

}  // namespace
}  // namespace frame_test
}  // namespace parley::mad
