// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which GID a negotiated queue pair gets when nobody says so. The devices are made up.
#include <gtest/gtest.h>

#if PARLEY_HAVE_RDMA
#include "base/gid.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "drivers/verbs/gid_choice.hpp"
#include "drivers/verbs/resolve.hpp"

namespace parley::verbs {
namespace {

using Kind = GidInfo::Kind;

GidInfo gid(std::uint32_t index, std::string_view text, Kind kind = Kind::roce_v2) {
  GidInfo out;
  out.index = index;
  out.gid = *neg::parse_gid(text);
  out.kind = kind;
  return out;
}

DeviceInfo device(std::string name, std::vector<GidInfo> gids, Transport transport = Transport::roce) {
  DeviceInfo out{.name = std::move(name), .attr = {}, .ports = {}};
  out.attr.transport = transport;
  out.ports.push_back({.number = 1, .state = "ACTIVE", .link_layer = "Ethernet", .mtu = 1024, .gids = std::move(gids)});
  return out;
}

/// "nic0 1 2001:db8::1", or why there is none.
std::string chosen(const std::vector<DeviceInfo>& devices, const GidPreference& preference) {
  const auto choice = choose_gid(devices, preference);
  if (!choice) return choice.error();
  return choice->device->name + " " + std::to_string(choice->gid->index) + " " + gid_text(choice->gid->gid);
}

Address address(std::string_view text) { return *Address::parse(text); }

const std::vector<DeviceInfo> usual{
    device("nic0", {gid(0, "fe80::1", Kind::roce_v1), gid(1, "fe80::1"), gid(2, "192.0.2.1", Kind::roce_v1),
                    gid(3, "192.0.2.1"), gid(4, "2001:db8::1")}),
    device("nic1", {gid(0, "198.51.100.1")})};

TEST(GidChoice, VersionTwoAndRoutableGoFirst) {
  EXPECT_EQ(chosen(usual, {}), "nic0 3 ::ffff:192.0.2.1");
  EXPECT_EQ(chosen({device("n", {gid(0, "192.0.2.1", Kind::roce_v1), gid(1, "fe80::1")})}, {}), "n 1 fe80::1");
  EXPECT_EQ(chosen({device("n", {gid(0, "fe80::1"), gid(1, "192.0.2.1")})}, {}), "n 1 ::ffff:192.0.2.1");
}

TEST(GidChoice, ThePeersFamilyDecidesWhereBothAreThere) {
  EXPECT_EQ(chosen(usual, {.peer = address("203.0.113.9")}), "nic0 3 ::ffff:192.0.2.1");
  EXPECT_EQ(chosen(usual, {.peer = address("2001:db8:1::9")}), "nic0 4 2001:db8::1");
  EXPECT_EQ(chosen(usual, {.device = "nic1", .peer = address("2001:db8:1::9")}), "nic1 0 ::ffff:198.51.100.1");
}

TEST(GidChoice, TheAddressFromWhichIpGoesToThePeerIsBest) {
  EXPECT_EQ(chosen(usual, {.peer = address("198.51.100.7"), .source = address("198.51.100.1")}),
            "nic1 0 ::ffff:198.51.100.1");
  EXPECT_EQ(chosen(usual, {.peer = address("fe80::7"), .source = address("fe80::1")}), "nic0 1 fe80::1");
  EXPECT_EQ(choose_gid(usual, {.peer = address("192.0.2.7"), .source = address("192.0.2.1")})->reason,
            "RoCE v2, the address from which IP goes to the peer");
}

TEST(GidChoice, WhatIsAskedForIsTaken) {
  EXPECT_EQ(chosen(usual, {.index = 2}), "nic0 2 ::ffff:192.0.2.1");
  EXPECT_EQ(choose_gid(usual, {.index = 2})->reason, "RoCE v1, routable, as asked for");
  EXPECT_EQ(chosen(usual, {.gid = *neg::parse_gid("2001:db8::1")}), "nic0 4 2001:db8::1");
  EXPECT_EQ(chosen(usual, {.device = "nic1"}), "nic1 0 ::ffff:198.51.100.1");
}

TEST(GidChoice, WhereThereIsNoneTheReasonIsToldAndWhatThereIs) {
  EXPECT_EQ(chosen({}, {}), "the machine has no RDMA device");
  EXPECT_EQ(chosen(usual, {.device = "mlx5_0"}), "there is no device 'mlx5_0'; there are nic0, nic1");
  EXPECT_EQ(chosen(usual, {.device = "nic1", .index = 3}), "nic1 does not have a GID with the index 3");
  EXPECT_EQ(chosen(usual, {.port = 2}), "no device has a port 2");
  EXPECT_EQ(chosen({device("siw0", {gid(0, "::1", Kind::iwarp)}, Transport::iwarp)}, {.device = "siw0"}),
            "siw0 is an iWARP device, whose queue pairs only rdma_cm connects");
  EXPECT_EQ(chosen({device("siw0", {gid(0, "::1", Kind::iwarp)}, Transport::iwarp)}, {}),
            "all devices are iWARP, whose queue pairs only rdma_cm connects");
  auto down = usual;
  for (DeviceInfo& d : down) d.ports[0].state = "DOWN";
  EXPECT_EQ(chosen(down, {}), "no device has an active port");
  EXPECT_EQ(chosen(down, {.device = "nic1", .index = 0}), "nic1 does not have an active port")
      << "its GIDs are not looked at, so nothing is said of them";
  EXPECT_EQ(chosen(down, {.gid = *neg::parse_gid("192.0.2.1")}), "no device has an active port");
  EXPECT_EQ(chosen(down, {.device = "nic1", .port = 1}), "nic1 does not have an active port 1");
}

TEST(GidChoice, WhatAnAddressHandleCannotNameIsPassedOver) {
  EXPECT_EQ(chosen({device("n", {gid(3, "fe80::1"), gid(256, "192.0.2.1")})}, {}), "n 3 fe80::1");
  EXPECT_EQ(chosen({device("n", {gid(256, "192.0.2.1")})}, {}), "no device has a GID that RoCE can use");
}

// What this side's system or device refuses is no word against the peer's GID.
TEST(NegPath, OnlyAPathThatLeadsNowhereIsThePeersFault) {
  using neg::Problem;
  for (const Errc why : {Errc::timed_out, Errc::unreachable, Errc::invalid_argument})
    EXPECT_EQ(problem_of_path(make_error_code(why)), Problem::invalid_peer_data) << make_error_code(why).message();
  for (const Errc why : {Errc::not_permitted, Errc::io, Errc::unsupported, Errc::wrong_state})
    EXPECT_EQ(problem_of_path(make_error_code(why)), Problem::vendor_library_error) << make_error_code(why).message();
  EXPECT_EQ(problem_of_path(make_error_code(Errc::no_space)), Problem::resource_exhaustion);
}

TEST(NegPath, WhatWasFoundOutIsKeptForASecond) {
  const auto key = [](std::uint8_t last) {
    KnownPaths::Path out{"nic0", 1, 3, {}};
    std::get<3>(out)[15] = last;
    return out;
  };
  KnownPaths known;
  const KnownPaths::Clock::time_point start{};
  EXPECT_FALSE(known.find(key(1), start));
  known.keep(key(1), {}, start);
  known.keep(key(2), fail(Errc::timed_out), start);
  known.keep(key(3), fail(Errc::io), start);
  const auto soon = start + std::chrono::milliseconds(999);
  ASSERT_TRUE(known.find(key(1), soon) && known.find(key(2), soon));
  EXPECT_TRUE(known.find(key(1), soon)->has_value());
  EXPECT_EQ(known.find(key(2), soon)->error(), Errc::timed_out);
  EXPECT_FALSE(known.find(key(3), soon)) << "what failed here is tried again";
  EXPECT_FALSE(known.find({"nic0", 1, 4, std::get<3>(key(1))}, soon)) << "from another GID of this side";
  EXPECT_FALSE(known.find(key(1), start + KnownPaths::kept));
}

}  // namespace
}  // namespace parley::verbs
#endif
