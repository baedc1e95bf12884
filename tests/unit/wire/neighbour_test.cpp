// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/neighbour.hpp"

#include <gtest/gtest.h>

#include "base/rng.hpp"

namespace parley::wire {
namespace {

std::error_code code(Errc e) { return make_error_code(e); }

constexpr Mac mac_a{2, 0, 0, 0, 0, 1}, mac_b{2, 0, 0, 0, 0, 2};
const Ip6 ip_a{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
    ip_b{0xFE, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};

Bytes emitted(const NeighbourMessage& message, const Ip6& from, const Ip6& to) {
  Bytes out(message.wire_size());
  emit_neighbour(message, from, to, out);
  return out;
}

TEST(WireArp, IsWrittenAsTheRfcLaysItOut) {
  const ArpPacket request{
      .reply = false, .sender_mac = mac_a, .sender_ip = {10, 0, 0, 1}, .target_mac = {}, .target_ip = {10, 0, 0, 2}};
  Bytes out(ArpPacket::wire_size);
  emit_arp(request, out);
  const Bytes expected{0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2};
  EXPECT_EQ(out, expected);
  EXPECT_EQ(parse_arp(out).value(), request);
  out.resize(46, 0);  // padded to the least Ethernet payload
  EXPECT_EQ(parse_arp(out).value(), request);
}

TEST(WireArp, WhatIsNotArpForEthernetAndIpv4IsRefused) {
  Bytes good(ArpPacket::wire_size);
  emit_arp({.reply = true, .sender_mac = mac_a, .sender_ip = {10, 0, 0, 1}, .target_mac = mac_b, .target_ip = {}},
           good);
  ASSERT_TRUE(parse_arp(good));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_EQ(parse_arp(ConstBytes(good).first(size)).error(), code(Errc::truncated)) << size;
  for (const std::size_t at : {0, 1, 2, 3, 4, 5, 6, 7}) {
    Bytes bad = good;
    bad[at] ^= 0x40;
    EXPECT_EQ(parse_arp(bad).error(), code(Errc::malformed)) << at;
  }
}

TEST(WireNeighbour, ASolicitationHasTheOctetsThatLinuxSends) {
  // Captured: fe80::1 asks ff02::1:ff00:2 for fe80::2.
  const NeighbourMessage solicit{.target = ip_b, .link_address = mac_a};
  const Bytes out = emitted(solicit, ip_a, solicited_node(ip_b));
  ASSERT_EQ(out.size(), 32U);
  EXPECT_EQ(out[0], 135);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(Bytes(out.begin() + 8, out.begin() + 24), Bytes(ip_b.begin(), ip_b.end()));
  EXPECT_EQ(Bytes(out.begin() + 24, out.end()), (Bytes{1, 1, 2, 0, 0, 0, 0, 1}));
  // RFC 1071 by hand: the sum of pseudo header and message in 16-bit words, folded, is all ones.
  std::uint32_t sum = 32 + 58;
  const auto add = [&sum](ConstBytes in) {
    for (std::size_t i = 0; i < in.size(); i += 2) sum += static_cast<std::uint32_t>(in[i] << 8 | in[i + 1]);
  };
  add(ip_a), add(solicited_node(ip_b)), add(out);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  EXPECT_EQ(sum, 0xFFFFU);
}

TEST(WireNeighbour, EveryKindComesBackAsItWent) {
  for (int bits = 0; bits < 32; ++bits) {
    NeighbourMessage message{.advert = (bits & 1) != 0, .target = ip_b};
    if (message.advert) {
      message.router = (bits & 2) != 0;
      message.solicited = (bits & 4) != 0;
      message.overrides = (bits & 8) != 0;
    }
    if ((bits & 16) != 0) message.link_address = mac_a;
    EXPECT_EQ(parse_neighbour(emitted(message, ip_a, ip_b), ip_a, ip_b, 255).value(), message) << bits;
  }
}

TEST(WireNeighbour, EachRuleOfValidationIsKept) {  // RFC 4861 §7.1.1, §7.1.2
  const NeighbourMessage solicit{.target = ip_b, .link_address = mac_a};
  const Ip6 group = solicited_node(ip_b);
  const Bytes good = emitted(solicit, ip_a, group);
  EXPECT_TRUE(parse_neighbour(good, ip_a, group, 255));
  EXPECT_EQ(parse_neighbour(good, ip_a, group, 254).error(), code(Errc::malformed)) << "forwarded by a router";
  EXPECT_EQ(parse_neighbour(good, ip_b, group, 255).error(), code(Errc::crc_mismatch)) << "another source";
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= 1;
    EXPECT_EQ(parse_neighbour(bad, ip_a, group, 255).error(), code(Errc::crc_mismatch)) << at;
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_neighbour(ConstBytes(good).first(size), ip_a, group, 255)) << size;

  NeighbourMessage to_group{.target = group};
  EXPECT_EQ(parse_neighbour(emitted(to_group, ip_a, ip_b), ip_a, ip_b, 255).error(), code(Errc::malformed))
      << "a group as target";
  const Ip6 nobody{};
  EXPECT_EQ(parse_neighbour(emitted(solicit, nobody, group), nobody, group, 255).error(), code(Errc::malformed))
      << "a link-layer address of nobody";
  const NeighbourMessage probe{.target = ip_b};
  EXPECT_TRUE(parse_neighbour(emitted(probe, nobody, group), nobody, group, 255));
  EXPECT_EQ(parse_neighbour(emitted(probe, nobody, ip_b), nobody, ip_b, 255).error(), code(Errc::malformed))
      << "nobody may only ask the group";
  const NeighbourMessage unasked{.advert = true, .solicited = true, .target = ip_a, .link_address = mac_a};
  EXPECT_EQ(parse_neighbour(emitted(unasked, ip_a, all_nodes), ip_a, all_nodes, 255).error(), code(Errc::malformed))
      << "solicited by all";
}

TEST(WireNeighbour, OptionsThatAreUnknownAreSkippedAndEmptyOnesRefused) {
  const NeighbourMessage plain{.advert = true, .target = ip_a};
  const auto with_options = [&](const Bytes& options) {
    Bytes out = emitted(plain, ip_a, ip_b);
    out.insert(out.end(), options.begin(), options.end());
    std::uint32_t sum = static_cast<std::uint32_t>(out.size()) + 58;
    out[2] = out[3] = 0;
    for (const ConstBytes in : {ConstBytes(ip_a), ConstBytes(ip_b), ConstBytes(out)})
      for (std::size_t i = 0; i < in.size(); ++i) sum += i % 2 == 0 ? static_cast<std::uint32_t>(in[i] << 8) : in[i];
    while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
    out[2] = static_cast<std::uint8_t>(~sum >> 8);
    out[3] = static_cast<std::uint8_t>(~sum);
    return out;
  };
  const auto skipped =
      parse_neighbour(with_options({14, 1, 9, 9, 9, 9, 9, 9, 2, 1, 2, 0, 0, 0, 0, 2}), ip_a, ip_b, 255);
  ASSERT_TRUE(skipped);
  EXPECT_EQ(skipped->link_address, mac_b);
  EXPECT_EQ(parse_neighbour(with_options({2, 0, 2, 0, 0, 0, 0, 2}), ip_a, ip_b, 255).error(), code(Errc::malformed));
  EXPECT_EQ(parse_neighbour(with_options({2, 2, 2, 0, 0, 0, 0, 2}), ip_a, ip_b, 255).error(), code(Errc::malformed));
}

TEST(WireNeighbour, AnotherMessageIsNamedUnsupported) {
  Bytes echo{128, 0, 0, 0, 0, 1, 0, 1};
  std::uint32_t sum = 8 + 58 + 0x8000 + 2;
  for (const Ip6& ip : {ip_a, ip_b})
    for (std::size_t i = 0; i < 16; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  echo[2] = static_cast<std::uint8_t>(~sum >> 8);
  echo[3] = static_cast<std::uint8_t>(~sum);
  EXPECT_EQ(parse_neighbour(echo, ip_a, ip_b, 255).error(), code(Errc::unsupported));
}

TEST(WireNeighbour, GroupsAreMadeFromAddresses) {
  const Ip6 address{0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0xAA, 0xBB, 0xCC, 0xDD};
  const Ip6 group = solicited_node(address);
  EXPECT_EQ(group, (Ip6{0xFF, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xBB, 0xCC, 0xDD}));
  EXPECT_EQ(group_mac(group), (Mac{0x33, 0x33, 0xFF, 0xBB, 0xCC, 0xDD}));
  EXPECT_EQ(group_mac(all_nodes), (Mac{0x33, 0x33, 0, 0, 0, 1}));
}

TEST(WireNeighbour, AnyOctetsGiveAValueOrAnError) {
  Rng rng(4);
  for (int i = 0; i < 20'000; ++i) {
    Bytes noise(rng.below(60));
    for (std::uint8_t& octet : noise) octet = static_cast<std::uint8_t>(rng.next());
    if (noise.size() > 7) noise[0] = 135, noise[1] = 0;
    (void)parse_arp(noise);
    (void)parse_neighbour(noise, ip_a, ip_b, 255);
  }
}

}  // namespace
}  // namespace parley::wire
