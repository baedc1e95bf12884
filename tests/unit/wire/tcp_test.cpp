// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/tcp.hpp"

#include <gtest/gtest.h>

#include "base/rng.hpp"

namespace parley::wire::tcp_test {
namespace {

Bytes emitted(const TcpHeader& header) {
  Bytes out(header.wire_size());
  emit_tcp_header(header, out);
  return out;
}

void expect_equal(const TcpHeader& a, const TcpHeader& b) {
  EXPECT_EQ(a.source_port, b.source_port);
  EXPECT_EQ(a.destination_port, b.destination_port);
  EXPECT_EQ(a.seq, b.seq);
  EXPECT_EQ(a.ack, b.ack);
  EXPECT_EQ(a.flags, b.flags);
  EXPECT_EQ(a.window, b.window);
  EXPECT_EQ(a.mss, b.mss);
  EXPECT_EQ(a.window_scale, b.window_scale);
  EXPECT_EQ(a.sack_permitted, b.sack_permitted);
  EXPECT_EQ(a.timestamps, b.timestamps);
  EXPECT_EQ(a.ts_value, b.ts_value);
  EXPECT_EQ(a.ts_echo, b.ts_echo);
  ASSERT_EQ(a.sack_count, b.sack_count);
  for (std::size_t i = 0; i < a.sack_count; ++i) EXPECT_EQ(a.sack[i], b.sack[i]);
}

/// A header with a first part of `options` octets of options.
Bytes with_options(const Bytes& options) {
  Bytes out = emitted({});
  out.insert(out.end(), options.begin(), options.end());
  while (out.size() % 4 != 0) out.push_back(0);
  out[12] = static_cast<std::uint8_t>(out.size() / 4 << 4);
  return out;
}

TEST(WireTcp, SynIsLaidOutAsLinuxDoes) {
  TcpHeader h;
  h.source_port = 0x1234;
  h.destination_port = 7471;
  h.seq = 0x01020304;
  h.flags = tcp_flag::syn;
  h.window = 64240;
  h.mss = 1460;
  h.sack_permitted = h.timestamps = true;
  h.ts_value = 0x11121314;
  h.window_scale = 7;
  EXPECT_EQ(emitted(h),
            (Bytes{0x12, 0x34, 0x1D, 0x2F, 1, 2, 3, 4,  0,    0,    0,    0,    0xA0, 2, 0xFA, 0xF0, 0, 0, 0, 0,
                   2,    4,    0x05, 0xB4, 4, 2, 8, 10, 0x11, 0x12, 0x13, 0x14, 0,    0, 0,    0,    1, 3, 3, 7}));
}

TEST(WireTcp, DataCarriesTimestampsBehindTwoNops) {
  TcpHeader h;
  h.flags = tcp_flag::ack | tcp_flag::psh;
  h.timestamps = true;
  h.ts_value = 1;
  h.ts_echo = 2;
  ASSERT_EQ(h.wire_size(), 32U);
  const Bytes out = emitted(h);
  EXPECT_EQ(Bytes(out.begin() + 20, out.end()), (Bytes{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}));
}

TEST(WireTcp, SackPermittedWithoutTimestampsIsPaddedInFront) {
  TcpHeader h;
  h.flags = tcp_flag::syn;
  h.mss = 536;
  h.sack_permitted = true;
  const Bytes out = emitted(h);
  EXPECT_EQ(Bytes(out.begin() + 20, out.end()), (Bytes{2, 4, 2, 0x18, 1, 1, 4, 2}));
}

TEST(WireTcp, ThreeSackBlocksFitBesideTimestamps) {
  TcpHeader h;
  h.flags = tcp_flag::ack;
  h.timestamps = true;
  h.sack_count = 3;
  h.sack = {{{1, 2}, {3, 4}, {0xFFFFFFF0, 5}}};
  EXPECT_EQ(h.wire_size(), 60U);
  const auto parsed = parse_tcp_header(emitted(h));
  ASSERT_TRUE(parsed);
  expect_equal(parsed->header, h);
}

TEST(WireTcp, BlocksThatDoNotFitAreLeftOut) {
  TcpHeader h;
  h.mss = 1460;
  h.sack_permitted = h.timestamps = true;
  h.window_scale = 14;
  h.sack_count = 200;
  h.sack = {{{1, 2}, {3, 4}, {5, 6}}};
  EXPECT_EQ(h.wire_size(), 60U);
  const auto parsed = parse_tcp_header(emitted(h));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->size, 60U);
  EXPECT_EQ(parsed->header.sack_count, 2);
}

TEST(WireTcp, EveryHeaderComesBack) {
  Rng rng(1);
  for (int i = 0; i < 20000; ++i) {
    TcpHeader h;
    const std::uint64_t bits = rng.next();
    h.source_port = static_cast<std::uint16_t>(rng.next());
    h.destination_port = static_cast<std::uint16_t>(rng.next());
    h.seq = static_cast<std::uint32_t>(rng.next());
    h.ack = static_cast<std::uint32_t>(rng.next());
    h.flags = static_cast<std::uint8_t>(bits);
    h.window = static_cast<std::uint16_t>(rng.next());
    if ((bits & 0x100) != 0) h.mss = static_cast<std::uint16_t>(rng.next());
    if ((bits & 0x200) != 0) h.window_scale = static_cast<std::int8_t>(rng.below(128));
    h.sack_permitted = (bits & 0x400) != 0;
    h.timestamps = (bits & 0x800) != 0;
    if (h.timestamps) {
      h.ts_value = static_cast<std::uint32_t>(rng.next());
      h.ts_echo = static_cast<std::uint32_t>(rng.next());
    }
    h.sack_count = static_cast<std::uint8_t>(rng.below(3));  // two blocks fit beside everything else
    for (std::size_t n = 0; n < h.sack_count; ++n) {
      h.sack[n].left = static_cast<std::uint32_t>(rng.next());
      h.sack[n].right = static_cast<std::uint32_t>(rng.next());
    }
    const Bytes out = emitted(h);
    ASSERT_EQ(out.size() % 4, 0U);
    const auto parsed = parse_tcp_header(out);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->size, out.size());
    expect_equal(parsed->header, h);
  }
}

TEST(WireTcp, AnyOctetsGiveAHeaderOrAnError) {
  Rng rng(2);
  for (int i = 0; i < 100000; ++i) {
    Bytes octets(rng.below(80));
    for (auto& octet : octets) octet = static_cast<std::uint8_t>(rng.next());
    for (std::size_t n = 20; n + 1 < octets.size() && rng.below(2) == 0; n += 1 + rng.below(10)) {
      octets[n] = static_cast<std::uint8_t>(rng.below(10));  // a kind that means something
      octets[n + 1] = static_cast<std::uint8_t>(rng.below(12));
    }
    const auto parsed = parse_tcp_header(octets);
    if (!parsed) continue;
    EXPECT_GE(parsed->size, 20U);
    EXPECT_LE(parsed->size, octets.size());
    EXPECT_LE(parsed->header.sack_count, 3);
    EXPECT_LE(parsed->header.wire_size(), 60U);
  }
}

TEST(WireTcp, EveryShorteningIsTruncated) {
  TcpHeader h;
  h.mss = 1460;
  h.timestamps = true;
  const Bytes out = emitted(h);
  for (std::size_t n = 0; n < out.size(); ++n) {
    const auto parsed = parse_tcp_header(ConstBytes(out).first(n));
    ASSERT_FALSE(parsed) << n;
    EXPECT_EQ(parsed.error(), Errc::truncated);
  }
}

TEST(WireTcp, DataOffsetBelowFiveIsMalformed) {
  Bytes out = emitted({});
  out[12] = 0x40;
  const auto parsed = parse_tcp_header(out);
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error(), Errc::malformed);
}

TEST(WireTcp, UnknownOptionsAreSkipped) {
  const auto parsed = parse_tcp_header(with_options({254, 6, 1, 2, 3, 4, 2, 4, 5, 0xB4}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.mss, 1460);
}

TEST(WireTcp, AnOptionOfImpossibleLengthEndsTheList) {
  for (const std::uint8_t length : Bytes{0, 1, 200}) {
    const auto parsed = parse_tcp_header(with_options({2, 4, 5, 0xB4, 254, length, 3, 3, 7}));
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->header.mss, 1460);
    EXPECT_EQ(parsed->header.window_scale, -1);
  }
}

TEST(WireTcp, NothingCountsBehindTheEndOfTheList) {
  const auto parsed = parse_tcp_header(with_options({0, 2, 4, 5, 0xB4}));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->header.mss, 0);
}

// RFC 9293 §3.10.7.1
TEST(WireTcp, ResetTakesItsNumberFromTheAck) {
  TcpHeader in;
  in.source_port = 1;
  in.destination_port = 2;
  in.seq = 100;
  in.ack = 777;
  in.flags = tcp_flag::ack | tcp_flag::psh;
  const TcpHeader out = reset_for(in, 5);
  EXPECT_EQ(out.source_port, 2);
  EXPECT_EQ(out.destination_port, 1);
  EXPECT_EQ(out.flags, tcp_flag::rst);
  EXPECT_EQ(out.seq, 777U);
}

// RFC 9293 §3.10.7.1
TEST(WireTcp, ResetWithoutAnAckAcknowledgesTheWholeSegment) {
  TcpHeader in;
  in.seq = 0xFFFFFFFE;
  in.flags = tcp_flag::syn | tcp_flag::fin;
  const TcpHeader out = reset_for(in, 5);
  EXPECT_EQ(out.flags, tcp_flag::rst | tcp_flag::ack);
  EXPECT_EQ(out.seq, 0U);
  EXPECT_EQ(out.ack, 5U);  // 0xFFFFFFFE + SYN + 5 octets + FIN
}

}  // namespace
}  // namespace parley::wire::tcp_test
