// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/packet.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace parley::wire {
namespace {

Address address(bool v6, std::uint8_t last, std::uint16_t port) {
  Address a = Address::v4(192, 0, 2, last, port);
  if (v6) {
    a.family = Address::Family::v6;
    a.octets = {0x20, 1, 0x0d, 0xb8};
    a.octets[15] = last;
  }
  return a;
}

Bytes frame(bool v6, const Bytes& payload, std::span<const std::uint16_t> vlans = {},
            std::uint8_t flags = tcp_flag::ack) {
  TcpFrame f;
  f.source = address(v6, 1, 40000);
  f.destination = address(v6, 2, 9001);
  f.seq = 0x01020304;
  f.ack = 0xA0B0C0D0;
  f.flags = flags;
  f.mss = (flags & tcp_flag::syn) != 0 ? std::uint16_t{1440} : std::uint16_t{0};
  f.payload = payload;
  f.vlans = vlans;
  return emit_tcp_frame(f).value_or(Bytes{});
}

Bytes without_link_header(const Bytes& f) { return Bytes(f.begin() + 14, f.end()); }
Bytes joined(const Bytes& head, const Bytes& tail) {
  Bytes out = head;
  out.insert(out.end(), tail.begin(), tail.end());
  return out;
}

void expect_segment(const PacketView& v, bool v6, const Bytes& payload) {
  ASSERT_EQ(v.kind, PacketKind::tcp);
  EXPECT_EQ(v.tcp.source, address(v6, 1, 40000));
  EXPECT_EQ(v.tcp.destination, address(v6, 2, 9001));
  EXPECT_EQ(v.tcp.seq, 0x01020304u);
  EXPECT_EQ(v.tcp.ack, 0xA0B0C0D0u);
  EXPECT_EQ(v.tcp.length, payload.size());
  EXPECT_TRUE(std::equal(payload.begin(), payload.end(), v.tcp.payload.begin(), v.tcp.payload.end()));
}

TEST(WirePacket, WhatIsEmittedIsParsedBack) {
  const std::uint16_t tags[] = {100, 200, 300, 400};
  for (const bool v6 : {false, true})
    for (const std::size_t vlans : {0u, 1u, 2u, 4u})
      for (const std::size_t n : {0u, 1u, 1459u}) {
        const Bytes payload(n, 0xC3);
        const Bytes f = frame(v6, payload, std::span(tags).first(vlans));
        expect_segment(parse_packet(1, f, 0), v6, payload);
      }
}

// IEEE 802.1Q-2018 §9.6: the tag next to the payload is a C-tag (8100), those outside are S-tags (88A8).
TEST(WirePacket, OnlyTheInnermostVlanTagIsACustomersTag) {
  const std::uint16_t tags[] = {100, 200, 300};
  const Bytes f = frame(false, {}, tags);
  EXPECT_EQ(Bytes(f.begin() + 12, f.begin() + 26),
            (Bytes{0x88, 0xA8, 0, 100, 0x88, 0xA8, 0, 200, 0x81, 0x00, 1, 44, 8, 0}));
}

TEST(WirePacket, ChecksumsAreRight) {
  // RFC 1071 §1: over data with its checksum the sum is all ones, so its complement is 0.
  for (const std::size_t n : {0u, 1u, 2u, 777u}) {
    const Bytes f = frame(false, Bytes(n, 0x5B));
    const ConstBytes ip = ConstBytes(f).subspan(14, 20);
    const ConstBytes header[] = {ip};
    EXPECT_EQ(internet_checksum(header), 0);
    const ConstBytes tcp = ConstBytes(f).subspan(34);
    const Bytes pseudo{0, 6, static_cast<std::uint8_t>(tcp.size() >> 8), static_cast<std::uint8_t>(tcp.size())};
    const ConstBytes all[] = {ip.subspan(12, 8), pseudo, tcp};
    EXPECT_EQ(internet_checksum(all), 0) << n;
  }
}

TEST(WirePacket, SynCarriesItsMss) {
  const PacketView v = parse_packet(1, frame(false, {}, {}, tcp_flag::syn), 0);
  ASSERT_EQ(v.kind, PacketKind::tcp);
  EXPECT_TRUE(v.tcp.syn());
  EXPECT_EQ(v.tcp.mss, 1440);
}

TEST(WirePacket, EveryLinkTypeLeadsToTheSegment) {
  const Bytes payload{1, 2, 3};
  for (const bool v6 : {false, true}) {
    const Bytes ip = without_link_header(frame(v6, payload));
    const std::uint8_t hi = v6 ? 0x86 : 0x08, lo = v6 ? 0xDD : 0x00;
    Bytes sll(16), sll2(20);
    sll[14] = sll2[0] = hi;
    sll[15] = sll2[1] = lo;
    expect_segment(parse_packet(113, joined(sll, ip), 0), v6, payload);
    expect_segment(parse_packet(276, joined(sll2, ip), 0), v6, payload);
    expect_segment(parse_packet(101, ip, 0), v6, payload);
    expect_segment(parse_packet(v6 ? 229 : 228, ip, 0), v6, payload);
    const std::uint8_t family = v6 ? 30 : 2;
    expect_segment(parse_packet(0, joined({family, 0, 0, 0}, ip), 0), v6, payload);
    expect_segment(parse_packet(108, joined({0, 0, 0, family}, ip), 0), v6, payload);
  }
  EXPECT_EQ(parse_packet(197, Bytes(100), 100).kind, PacketKind::unsupported);
}

TEST(WirePacket, FrameCutAnywhereKeepsTheLengthThatItHad) {
  for (const bool v6 : {false, true}) {
    const Bytes payload(50, 7);
    const Bytes f = frame(v6, payload);
    for (std::size_t n = 0; n < f.size(); ++n) {
      const PacketView v = parse_packet(1, ConstBytes(f).first(n), static_cast<std::uint32_t>(f.size()));
      if (n > 14 && n < f.size() - 70) {
        EXPECT_EQ(v.kind, PacketKind::cut) << n;
      }
      if (v.kind != PacketKind::tcp) continue;
      EXPECT_EQ(v.tcp.length, 50u) << n;
      EXPECT_EQ(v.tcp.payload.size(), n > f.size() - 50 ? n - (f.size() - 50) : 0) << n;
      EXPECT_EQ(v.tcp.seq, 0x01020304u);
    }
    EXPECT_EQ(parse_packet(1, ConstBytes(f).first(f.size() - 51), static_cast<std::uint32_t>(f.size())).kind,
              PacketKind::tcp);
  }
}

TEST(WirePacket, EthernetPaddingIsNotPayload) {
  Bytes f = frame(false, {});
  f.resize(60);
  const PacketView v = parse_packet(1, f, 0);
  ASSERT_EQ(v.kind, PacketKind::tcp);
  EXPECT_EQ(v.tcp.length, 0u);
  EXPECT_TRUE(v.tcp.payload.empty());
}

TEST(WirePacket, Ipv4OptionsAndIpv6ExtensionHeadersArePassedOver) {
  const Bytes payload{9, 9};
  Bytes v4 = without_link_header(frame(false, payload));
  v4.insert(v4.begin() + 20, {1, 1, 1, 0});
  v4[0] = 0x46;
  v4[3] = static_cast<std::uint8_t>(v4[3] + 4);
  expect_segment(parse_packet(101, v4, 0), false, payload);
  Bytes v6 = without_link_header(frame(true, payload));
  const Bytes hop_by_hop{60, 0, 1, 4, 0, 0, 0, 0}, destination{6, 0, 1, 4, 0, 0, 0, 0};
  v6.insert(v6.begin() + 40, destination.begin(), destination.end());
  v6.insert(v6.begin() + 40, hop_by_hop.begin(), hop_by_hop.end());
  v6[6] = 0;
  v6[5] = static_cast<std::uint8_t>(v6[5] + 16);
  expect_segment(parse_packet(101, v6, 0), true, payload);
}

TEST(WirePacket, FragmentsAreNamed) {
  Bytes first = without_link_header(frame(false, Bytes(64)));
  Bytes later = first;
  first[6] = 0x20;  // more fragments
  later[7] = 3;     // offset
  const PacketView v = parse_packet(101, first, 0);
  EXPECT_EQ(v.kind, PacketKind::tcp);
  EXPECT_TRUE(v.first_fragment);
  EXPECT_EQ(parse_packet(101, later, 0).kind, PacketKind::fragment);
}

// Behind the first fragment stand no ports: octets that look like RoCE's are data.
TEST(WirePacket, ALaterFragmentOfUdpIsNotTakenForRoce) {
  Bytes udp = without_link_header(frame(false, Bytes(64)));
  udp[9] = 17;
  udp[22] = 0x12, udp[23] = 0xB7;  // destination port 4791
  Bytes later = udp;
  later[7] = 3;  // offset
  EXPECT_EQ(parse_packet(101, udp, 0).cargo, PacketCargo::rocev2);
  EXPECT_EQ(parse_packet(101, later, 0).cargo, PacketCargo::udp);
}

// RFC 8200 §4.5: the fragment header names what was cut, in every fragment.
TEST(WirePacket, FragmentsOfIpv6AreNamedForWhatTheyCarry) {
  const auto fragment = [](std::uint8_t next, std::uint8_t offset_and_more) {
    Bytes v6 = without_link_header(frame(true, Bytes(64)));
    const Bytes header{next, 0, 0, offset_and_more, 0, 0, 0, 1};
    v6.insert(v6.begin() + 40, header.begin(), header.end());
    v6[6] = 44;
    v6[5] = static_cast<std::uint8_t>(v6[5] + 8);
    return parse_packet(101, v6, 0);
  };
  const PacketView first = fragment(6, 1), later = fragment(6, 8), whole = fragment(6, 0), udp = fragment(17, 8);
  EXPECT_EQ(first.kind, PacketKind::tcp);
  EXPECT_TRUE(first.first_fragment);
  EXPECT_EQ(later.kind, PacketKind::fragment);
  EXPECT_EQ(whole.kind, PacketKind::tcp);
  EXPECT_FALSE(whole.first_fragment);
  EXPECT_EQ(udp.kind, PacketKind::other);
  EXPECT_EQ(udp.cargo, PacketCargo::udp);
}

TEST(WirePacket, ContradictingLengthsAreMalformed) {
  Bytes f = without_link_header(frame(false, Bytes(8)));
  Bytes short_total = f, long_header = f, small_header = f;
  short_total[3] = 19;
  long_header[32] = 0xF0;  // 60 octets of TCP header in 28
  small_header[32] = 0x40;
  EXPECT_EQ(parse_packet(101, short_total, 0).kind, PacketKind::malformed);
  EXPECT_EQ(parse_packet(101, long_header, 0).kind, PacketKind::malformed);
  EXPECT_EQ(parse_packet(101, small_header, 0).kind, PacketKind::malformed);
}

TEST(WirePacket, MixedFamiliesAndTooMuchPayloadAreRefused) {
  TcpFrame f;
  f.source = address(false, 1, 1);
  f.destination = address(true, 2, 2);
  EXPECT_FALSE(emit_tcp_frame(f));
  f.destination = address(false, 2, 2);
  const Bytes much(tcp_frame_payload_max + 1);
  f.payload = much;
  EXPECT_FALSE(emit_tcp_frame(f));
}

}  // namespace
}  // namespace parley::wire
