// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packets of the loopback interface, and filters on packets that are at hand.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "drivers/asio/sockaddr.hpp"
#include "drivers/pcap/filter.hpp"
#include "drivers/pcap/live.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::pcap_driver {
namespace {

using namespace std::chrono_literals;

/// Whether this user may capture on the loopback interface. Where not, the words must say what to do.
bool may_capture() {
  const auto live = LiveCapture::open({.interface = "lo"});
  if (live) return true;
  const std::string& text = live.error().text;
  EXPECT_TRUE(text.find("setcap cap_net_raw") != std::string::npos || text.find("libpcap-dev") != std::string::npos)
      << text;
  return false;
}
/// Whether this build has libpcap; the words of one without it name the package.
bool has_pcap() {
  const auto filter = PacketFilter::make("udp");
  EXPECT_TRUE(filter || filter.error().find("libpcap-dev") != std::string::npos) << filter.error();
  return filter.has_value();
}

/// A datagram to a port at the loopback address.
struct Sender {
  Sender() : fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    asio_driver::SockAddr here = asio_driver::to_sockaddr(Address::loopback(Address::Family::v4, 0));
    EXPECT_EQ(::bind(fd, here.get(), here.size), 0);
    EXPECT_EQ(::getsockname(fd, here.get(), &here.size), 0);
    at = asio_driver::from_sockaddr(here);
  }
  ~Sender() { ::close(fd); }
  Sender(const Sender&) = delete;
  void say(std::size_t octets) const {
    const Bytes all(octets, 0xA5);
    const auto to = asio_driver::to_sockaddr(at);
    EXPECT_EQ(::sendto(fd, all.data(), all.size(), 0, to.get(), to.size), static_cast<ssize_t>(octets));
  }
  int fd;
  Address at;
};

TEST(PcapLive, TheLoopbackInterfaceIsListed) {
  if (!has_pcap()) return;
  const auto all = list_interfaces();
  ASSERT_TRUE(all) << all.error().text;
  const auto lo = std::find_if(all->begin(), all->end(), [](const Interface& i) { return i.name == "lo"; });
  ASSERT_NE(lo, all->end());
  EXPECT_TRUE(lo->up);
  EXPECT_TRUE(lo->loopback);
  EXPECT_TRUE(std::any_of(all->begin(), all->end(), [](const Interface& i) { return i.name == "any" && !i.loopback; }));
}

TEST(PcapLive, WhatCannotBeCapturedIsRefusedInOneLine) {
  if (!may_capture()) return;
  const auto nowhere = LiveCapture::open({.interface = "nosuch0"});
  ASSERT_FALSE(nowhere);
  EXPECT_FALSE(nowhere.error().usage);
  EXPECT_EQ(nowhere.error().text.find("no interface 'nosuch0'; there are: "), 0U) << nowhere.error().text;
  EXPECT_NE(nowhere.error().text.find("lo"), std::string::npos);
  const auto filter = LiveCapture::open({.interface = "lo", .filter = "no such thing"});
  ASSERT_FALSE(filter);
  EXPECT_TRUE(filter.error().usage);
  EXPECT_EQ(filter.error().text.find("the filter 'no such thing' cannot be used: "), 0U) << filter.error().text;
}

TEST(PcapLive, EachInterfaceHasItsLinkTypeAndNoWarning) {
  if (!may_capture()) return;
  for (const auto& [interface, link_type] : {std::pair("lo", 1), std::pair("any", 113)}) {
    const auto live = LiveCapture::open({.interface = interface, .promiscuous = false});
    ASSERT_TRUE(live) << live.error().text;
    EXPECT_EQ((*live)->link_type(), link_type) << interface;
    EXPECT_EQ((*live)->warning(), "");
    EXPECT_EQ((*live)->drops().all(), 0U);
  }
}

TEST(PcapLive, PacketsOfAnInterfaceComeWithTheirTimeAndLength) {
  if (!may_capture()) return;
  const Sender sender;
  const auto live = LiveCapture::open({.interface = "lo", .filter = "udp port " + std::to_string(sender.at.port)});
  ASSERT_TRUE(live) << live.error().text;
  EXPECT_EQ((*live)->link_type(), 1);
  EXPECT_EQ((*live)->warning(), "");
  const auto clock = [] {
    return Instant(std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()));
  };
  const Instant before = clock();
  sender.say(100);
  sender.say(3000);
  std::vector<LivePacket> packets;
  std::vector<std::size_t> sizes;
  std::size_t told = 0;
  while (packets.size() < 2 && clock() < before + hang_limit) {
    const auto n = (*live)->read(1s, [&](const LivePacket& p) {
      packets.push_back(p);
      sizes.push_back(p.octets.size());
    });
    ASSERT_TRUE(n) << n.error().text;
    told += *n;
  }
  constexpr std::size_t headers = 14 + 20 + 8;  // Ethernet, IPv4, UDP
  EXPECT_EQ(sizes, (std::vector<std::size_t>{headers + 100, headers + 3000}));
  EXPECT_EQ(told, 2U);
  for (const LivePacket& p : packets) {
    EXPECT_GE(p.at, before - 1s);
    EXPECT_LE(p.at, clock() + 1s);
  }
  EXPECT_EQ(packets[1].original_length, headers + 3000);
  EXPECT_EQ((*live)->drops().all(), 0U);
}

TEST(PcapLive, AWaitWithoutPacketsEndsInTime) {
  if (!may_capture()) return;
  const auto live = LiveCapture::open({.interface = "lo", .filter = "udp port 1 and host 127.0.0.99"});
  ASSERT_TRUE(live) << live.error().text;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ((*live)->read(20ms, [](const LivePacket&) {}), std::size_t{0});
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 19ms);
}

TEST(PcapLive, WhatTheBufferHasNoRoomForIsCountedOnce) {
  if (!may_capture()) return;
  const Sender sender;
  const auto live = LiveCapture::open(
      {.interface = "lo", .filter = "udp port " + std::to_string(sender.at.port), .buffer_octets = 0});  // the least
  ASSERT_TRUE(live) << live.error().text;
  EXPECT_EQ((*live)->drops().all(), 0U);
  std::uint64_t dropped = 0;
  for (int round = 0; round < 2; ++round) {
    constexpr std::size_t sent = 150, octets = 30'000;  // four times what a buffer of 1 MiB holds
    for (std::size_t i = 0; i < sent; ++i) sender.say(octets);
    const LiveDrops now = (*live)->drops();
    EXPECT_GT(now.kernel, dropped) << "round " << round;
    EXPECT_EQ((*live)->drops().kernel, now.kernel) << "each is counted once";
    EXPECT_EQ(now.all(), now.kernel + now.interface);
    dropped = now.kernel;
    std::size_t given = 0;
    while (const auto n = (*live)->read(200ms, [](const LivePacket&) {})) {
      if (*n == 0) break;
      given += *n;
    }
    EXPECT_GT(given, 0U);
    EXPECT_LT(given, sent);
  }
}

/// A UDP datagram from port 1 to port 2, without its link header.
Bytes datagram() {
  Bytes out(28, 0);
  out[0] = 0x45;
  out[3] = 28;
  out[8] = 64;
  out[9] = 17;
  out[12] = out[16] = 127;
  out[15] = out[19] = 1;
  out[21] = 1;
  out[23] = 2;
  out[25] = 8;
  return out;
}
Bytes in_ethernet(const Bytes& packet) {
  Bytes out(14, 0);
  out[12] = 8;
  out.insert(out.end(), packet.begin(), packet.end());
  return out;
}

TEST(PcapFilter, PassesWhatTheExpressionSays) {
  if (!has_pcap()) return;
  const Bytes raw = datagram(), ethernet = in_ethernet(raw);
  struct Case {
    std::string expression;
    bool passes;
  };
  for (const Case& c : {Case{"udp", true}, Case{"tcp", false}, Case{"udp port 2", true}, Case{"port 3", false},
                        Case{"len > 1000", true}, Case{"len > 5000", false}}) {
    const auto filter = PacketFilter::make(c.expression);
    ASSERT_TRUE(filter) << filter.error();
    EXPECT_EQ((*filter)->passes(1, ethernet, 3000), c.passes) << c.expression;
    EXPECT_EQ((*filter)->passes(101, raw, 3000), c.passes) << c.expression << " without a link header";
    EXPECT_EQ((*filter)->error(), "");
  }
}

/// As the interface "any" shows a packet for this host (LINKTYPE_LINUX_SLL).
Bytes in_cooked(const Bytes& packet) {
  Bytes out(16, 0);
  out[3] = 1;  // of Ethernet
  out[5] = 6;
  out[14] = 8;
  out.insert(out.end(), packet.begin(), packet.end());
  return out;
}

TEST(PcapFilter, AnExpressionIsTakenIfItMeansSomethingOnAnyLinkType) {
  if (!has_pcap()) return;
  for (const std::string& expression : {std::string("inbound"), std::string("outbound")}) {
    const auto cooked = PacketFilter::make(expression);  // the direction stands in no other header
    ASSERT_TRUE(cooked) << cooked.error();
    EXPECT_EQ((*cooked)->passes(113, in_cooked(datagram()), 44), expression == "inbound");
    EXPECT_EQ((*cooked)->error(), "");
  }
}

TEST(PcapFilter, AnExpressionThatMeansNothingOnALinkTypeIsToldOnce) {
  if (!has_pcap()) return;
  const auto filter = PacketFilter::make("ether proto 0x800");
  ASSERT_TRUE(filter) << filter.error();
  EXPECT_TRUE((*filter)->passes(1, in_ethernet(datagram()), 42));
  const auto vlan = PacketFilter::make("vlan 5");
  ASSERT_TRUE(vlan) << vlan.error();
  EXPECT_FALSE((*vlan)->passes(101, datagram(), 28));
  EXPECT_EQ((*vlan)->error().find("the filter 'vlan 5' cannot be used on link type 101: "), 0U) << (*vlan)->error();
  const auto nothing = PacketFilter::make("no such thing");
  ASSERT_FALSE(nothing);
  EXPECT_FALSE(nothing.error().empty());
}

}  // namespace
}  // namespace parley::pcap_driver
