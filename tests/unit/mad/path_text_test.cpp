// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Paths as users write them: each form, what is wrong with texts that are none, and that printed paths are read as they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "mad/path_text.hpp"

namespace parley::mad {
namespace {

using testing::HasSubstr;

std::string why(std::string_view text) {
  const auto path = parse_path(text);
  return path ? "it is one" : path.error();
}

TEST(MadPathText, LidsAreDecimalOrHexadecimal) {
  EXPECT_EQ(parse_path("5")->path, Path::by_lid(5));
  EXPECT_EQ(parse_path("0xBfff")->path, Path::by_lid(0xBFFF));
  EXPECT_THAT(why("0xC000"), HasSubstr("LID '0xC000' is not a port's LID: those are 1 to 49151"));
  EXPECT_THAT(why("0"), HasSubstr("LID '0'"));
  EXPECT_THAT(why("65536"), HasSubstr("LID '65536'"));
  for (const char* text : {"", "5x", "-1", "0x", "lid"})
    EXPECT_THAT(why(text), HasSubstr("is not a LID (5, 0x5)")) << text;
}

TEST(MadPathText, DirectedRoutesBeginWithThisPort) {
  EXPECT_EQ(parse_path("0,")->path, Path::to_self());
  const std::uint8_t ports[] = {1, 254};
  EXPECT_EQ(parse_path("0,1,254")->path, *Path::by_route(ports));
  EXPECT_EQ(parse_path("0,1,254,")->path, *Path::by_route(ports));
  EXPECT_EQ(why("1,2"), "a directed route starts with 0, for this port, not with '1'");
  EXPECT_EQ(why("0,1,255"), "hop 2 of the directed route must be a port from 1 to 254, not '255'");
  EXPECT_EQ(why("0,,1"), "hop 1 of the directed route must be a port from 1 to 254, not ''");
  std::string longest = "0";
  for (int i = 0; i < 63; ++i) longest += ",7";
  EXPECT_EQ(parse_path(longest)->path.route->hops, 63);
  EXPECT_EQ(why(longest + ",7"), "a directed route has at most 63 hops");
}

TEST(MadPathText, PortsHaveGidsAndGuids) {
  const Gid gid{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xC9, 3, 0, 0, 0x14, 0x91};
  EXPECT_EQ(parse_path("fe80::2:c903:0:1491")->gid, gid);
  EXPECT_EQ(parse_path("0002:c903:0000:1491")->gid, gid);
  EXPECT_EQ(parse_path("0x0002c90300001491")->gid, gid);
  const auto local = parse_path("fe80::2:c903:0:1491%mlx5_0/2");
  EXPECT_EQ(local->gid, gid);
  EXPECT_EQ(local->device, "mlx5_0");
  EXPECT_EQ(local->port, 2);
  EXPECT_EQ(parse_path("0002:c903:0000:1491%mlx5_0")->port, 0);
  EXPECT_THAT(why("fe80::2:c903:0:1491%"), HasSubstr("'%' must be followed by a device"));
  EXPECT_THAT(why("fe80::1%mlx5_0/0"), HasSubstr("a number from 1 to 254, not '0'"));
  EXPECT_THAT(why("fe80::1::2"), HasSubstr("is neither a GID"));
  EXPECT_THAT(why("[fe80::1]:5"), HasSubstr("is neither a GID"));
  EXPECT_THAT(why("1.2.3.4:5"), HasSubstr("is neither a GID"));
}

TEST(MadPathText, SpecsNameMembers) {
  EXPECT_EQ(path_spec(Path::by_lid(2, 2)), "IBPath(DLID=2,SL=2)");
  EXPECT_EQ(parse_path("IBPath(DLID=2,SL=2)")->path, Path::by_lid(2, 2));
  EXPECT_EQ(parse_path("IBDRPath(drPath=0:1:3)")->path, parse_path("0,1,3")->path);
  EXPECT_EQ(parse_path("IBPath(DGID=fe80::1)")->gid, Gid({0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(why("IBPath(DLID=2,SL=16)"),
            "SL must be a number from 0 to 15, not '16', at character 15 of 'IBPath(DLID=2,SL=16)'");
  EXPECT_THAT(why("IBPath(DLID=2,XL=2)"), HasSubstr("a path has no member 'XL'; there are: DGID"));
  EXPECT_THAT(why("IBPath(DLID=2,drSLID=2)"), HasSubstr("no member 'drSLID'"));
  EXPECT_THAT(why("IBPath(DLID)"), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(why("IBPath(DLID=2"), HasSubstr("does not end in ')'"));
  EXPECT_THAT(why("IBPath()"), HasSubstr("has no DLID"));
  EXPECT_THAT(why("IBPath(DLID=2,hop_limit=3)"), HasSubstr("DGID must come before it"));
}

Path drawn(Rng& rng) {
  Path out = Path::by_lid(static_cast<std::uint16_t>(rng.between(1, 0xBFFF)), static_cast<std::uint8_t>(rng.below(16)));
  const auto sometimes = [&rng](auto& member, std::uint64_t limit) {
    if (rng.below(3) == 0) member = static_cast<std::remove_reference_t<decltype(member)>>(rng.below(limit));
  };
  sometimes(out.address.source_lid, 0x10000);
  sometimes(out.address.pkey, 0x10000);
  sometimes(out.address.qpn, 1 << 24);
  sometimes(out.address.qkey, std::uint64_t{1} << 32);
  sometimes(out.m_key, std::uint64_t{1} << 63);
  sometimes(out.sm_key, std::uint64_t{1} << 63);
  sometimes(out.retries, 256);
  sometimes(out.packet_life_time, 32);
  sometimes(out.response_time, 32);
  if (rng.below(3) == 0) out.timeout = std::chrono::microseconds(rng.below(3600000000));
  if (rng.below(5) == 0) out.timeout.reset();
  if (rng.below(2) == 0) {
    Grh grh;
    for (std::uint8_t& octet : grh.gid) octet = static_cast<std::uint8_t>(rng.below(3) == 0 ? rng.below(256) : 0);
    sometimes(grh.gid_index, 256);
    sometimes(grh.traffic_class, 256);
    sometimes(grh.hop_limit, 256);
    sometimes(grh.flow_label, 1 << 20);
    out.address.grh = grh;
  }
  if (rng.below(2) == 0) {
    Route route;
    route.hops = static_cast<std::uint8_t>(rng.below(64));
    for (std::size_t i = 1; i <= route.hops; ++i) route.octets[i] = static_cast<std::uint8_t>(rng.between(1, 254));
    sometimes(route.source_lid, 0x10000);
    sometimes(route.destination_lid, 0x10000);
    out.route = route;
    sometimes(out.address.lid, 0x10000);
  }
  return out;
}

TEST(MadPathText, PrintedPathsAreReadAsTheyWere) {
  Rng rng(7);
  for (int i = 0; i < 3000; ++i) {
    const Path path = drawn(rng);
    const std::string text = path_spec(path);
    const auto again = parse_path(text);
    ASSERT_TRUE(again) << text << ": " << again.error();
    ASSERT_EQ(again->path, path) << text;
    // One octet changed is another path or a complaint, never anything else.
    std::string damaged = text;
    damaged[rng.below(damaged.size())] = static_cast<char>(rng.between(32, 126));
    const auto other = parse_path(damaged);
    ASSERT_TRUE(other || !other.error().empty()) << damaged;
  }
}

}  // namespace
}  // namespace parley::mad
