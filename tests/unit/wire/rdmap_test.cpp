// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// DDP and RDMAP headers octet by octet: RFC 5041 §4, RFC 5040 §4, RFC 7306 §5-6.
#include "wire/rdmap.hpp"

#include <gtest/gtest.h>

#include <random>

namespace parley::wire {
namespace {

Bytes unhex(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ') digits += c;
  Bytes out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return out;
}

Bytes emitted(const DdpHeader& header) {
  Bytes out(header.size());
  EXPECT_EQ(header.emit(out), header.size());
  return out;
}

TEST(WireRdmap, UntaggedHeader) {
  DdpHeader h;
  h.opcode = RdmapOpcode::send_se_inv;
  h.stag = 0x01020304;
  h.qn = 0x05060708;
  h.msn = 0x090A0B0C;
  h.mo = 0x0D0E0F10;
  EXPECT_EQ(emitted(h), unhex("4146 01020304 05060708 090a0b0c 0d0e0f10"));
  h.last = false;
  EXPECT_EQ(emitted(h)[0], 0x01);
}

TEST(WireRdmap, TaggedHeader) {
  DdpHeader h;
  h.tagged = true;
  h.opcode = RdmapOpcode::read_response;
  h.stag = 0xA1A2A3A4;
  h.to = 0x0102030405060708;
  EXPECT_EQ(emitted(h), unhex("c142 a1a2a3a4 0102030405060708"));
  h.last = false;
  EXPECT_EQ(emitted(h)[0], 0x81);
}

TEST(WireRdmap, EveryHeaderSurvivesTheRoundTrip) {
  std::mt19937_64 rng(1);
  for (int i = 0; i < 2000; ++i) {
    DdpHeader h;
    h.opcode = static_cast<RdmapOpcode>(rng() % 16);
    h.tagged = rng() % 2 == 0;
    h.last = rng() % 2 == 0;
    h.ddp_version = static_cast<std::uint8_t>(rng() % 4);
    h.rdmap_version = static_cast<std::uint8_t>(rng() % 4);
    h.stag = static_cast<std::uint32_t>(rng());
    if (h.tagged) {
      h.to = rng();
    } else {
      h.qn = static_cast<std::uint32_t>(rng());
      h.msn = static_cast<std::uint32_t>(rng());
      h.mo = static_cast<std::uint32_t>(rng());
    }
    const Bytes octets = emitted(h);
    const auto back = DdpHeader::parse(octets);
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(emitted(*back), octets);
    for (std::size_t n = 0; n < octets.size(); ++n)
      EXPECT_EQ(DdpHeader::parse(ConstBytes(octets).first(n)).error(), make_error_code(Errc::truncated));
  }
}

// RFC 5041 §4.1, RFC 5040 §4.1: reserved bits are ignored.
TEST(WireRdmap, ReservedBitsDoNotMatter) {
  const auto h = DdpHeader::parse(unhex("7d73 00000000 00000000 00000001 00000000"));
  ASSERT_TRUE(h.has_value());
  EXPECT_FALSE(h->tagged);
  EXPECT_TRUE(h->last);
  EXPECT_EQ(h->ddp_version, 1);
  EXPECT_EQ(h->rdmap_version, 1);
  EXPECT_EQ(h->opcode, RdmapOpcode::send);
}

TEST(WireRdmap, OpcodesKnowTheirQueueAndWhetherTheyAreTagged) {
  EXPECT_TRUE(rule_of(RdmapOpcode::rdma_write).tagged);
  EXPECT_TRUE(rule_of(RdmapOpcode::read_response).tagged);
  EXPECT_EQ(rule_of(RdmapOpcode::read_request).qn, 1U);
  EXPECT_EQ(rule_of(RdmapOpcode::terminate).qn, 2U);
  EXPECT_EQ(rule_of(RdmapOpcode::atomic_request).qn, 1U);
  EXPECT_EQ(rule_of(RdmapOpcode::atomic_response).qn, 3U);
  for (int op = 12; op < 16; ++op) {
    EXPECT_FALSE(rule_of(static_cast<RdmapOpcode>(op)).assigned);
    EXPECT_EQ(to_string(static_cast<RdmapOpcode>(op)), "unassigned opcode");
  }
}

TEST(WireRdmap, ReadRequest) {
  Bytes out(28);
  ReadRequest{0x11121314, 0x2122232425262728, 0x31323334, 0x41424344, 0x5152535455565758}.emit(out);
  EXPECT_EQ(out, unhex("11121314 2122232425262728 31323334 41424344 5152535455565758"));
  const auto back = ReadRequest::parse(out);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->source_to, 0x5152535455565758U);
  EXPECT_FALSE(ReadRequest::parse(ConstBytes(out).first(27)).has_value());
}

// RFC 7306 §5.1.1, §5.1.2.
TEST(WireRdmap, AtomicRequestAndResponse) {
  AtomicRequest request;
  request.aop = PARLEY_RDMAP_ATOMIC_CMP_SWAP;
  request.request_id = 7;
  request.stag = 0x0A0B0C0D;
  request.to = 8;
  request.add_swap = 1;
  request.add_swap_mask = 2;
  request.compare = 3;
  request.compare_mask = 4;
  Bytes out(52);
  request.emit(out);
  EXPECT_EQ(out, unhex("00000002 00000007 0a0b0c0d 0000000000000008 0000000000000001 0000000000000002"
                       "0000000000000003 0000000000000004"));
  std::fill_n(out.begin(), 3, 0xFF);  // reserved, and so are the upper four bits of the next octet
  out[3] = 0xF2;
  EXPECT_EQ(AtomicRequest::parse(out)->aop, 2);
  out[3] = 0xFF;
  EXPECT_EQ(AtomicRequest::parse(out)->aop, 15);
  request.aop = 0xFA;
  request.emit(out);
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 4), unhex("0000000a"));
  EXPECT_FALSE(AtomicRequest::parse(ConstBytes(out).first(51)).has_value());
  Bytes response(12);
  AtomicResponse{.request_id = 7, .original = 0x0102030405060708}.emit(response);
  EXPECT_EQ(response, unhex("00000007 0102030405060708"));
  EXPECT_EQ(AtomicResponse::parse(response)->original, 0x0102030405060708U);
}

Bytes emitted(const Terminate& terminate) {
  Bytes out(terminate.size());
  terminate.emit(out);
  return out;
}

// RFC 5040 §4.8: the four sizes of a Terminate, 18 octets of DDP header not counted.
TEST(WireRdmap, TerminateHasTheRfcsOctets) {
  Terminate t;
  t.layer = 2;
  t.code = 2;
  EXPECT_EQ(emitted(t), unhex("20020000"));
  const Bytes tagged = unhex("c140 00000007 0000000000000000");
  const Bytes untagged = unhex("4141 00000000 00000001 00000005 00000000");
  const Bytes request(28, 0xEE);
  t = Terminate{
      .layer = 1, .etype = 1, .code = 1, .m = true, .d = true, .ddp_segment_length = 0x1234, .ddp_header = tagged};
  EXPECT_EQ(t.size(), 20U);
  EXPECT_EQ(emitted(t), unhex("1101c000 1234 c140 00000007 0000000000000000"));
  t = Terminate{.layer = 0, .etype = 1, .m = true, .d = true, .r = true, .ddp_segment_length = 46};
  t.ddp_header = untagged;
  t.read_request = request;
  EXPECT_EQ(t.size(), 52U);
  const Bytes out = emitted(t);
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 8), unhex("0100e000 002e 4141"));
  const auto back = Terminate::parse(out);
  ASSERT_TRUE(back.has_value());
  EXPECT_TRUE(std::equal(untagged.begin(), untagged.end(), back->ddp_header.begin(), back->ddp_header.end()));
  EXPECT_TRUE(std::equal(request.begin(), request.end(), back->read_request.begin(), back->read_request.end()));
  EXPECT_FALSE(back->nibbles_swapped);
  t.m = t.d = false;
  EXPECT_EQ(emitted(t), unhex("01002000")) << "R alone has nothing behind it";
}

// RFC 5040 §4.8: M and D say that the length and the header of the segment follow, R that its Read Request does.
TEST(WireRdmap, WhatFollowsATerminateIsWhatItsBitsSay) {
  const Bytes length = unhex("0123"), request(28, 0xEE);
  for (const Bytes& header :
       {unhex("c140 00000007 0000000000000000"), unhex("4141 00000000 00000001 00000005 00000000")})
    for (unsigned bits = 0; bits < 8; ++bits) {
      const bool m = (bits & 4) != 0, d = (bits & 2) != 0, r = (bits & 1) != 0;
      Bytes in{0x11, 0x01, static_cast<std::uint8_t>(bits << 5), 0};
      const auto add = [&in](const Bytes& part) { in.insert(in.end(), part.begin(), part.end()); };
      if (m || d) add(length);
      if (d) add(header);
      if (r && (m || d)) add(request);
      const std::size_t whole = in.size();
      add(Bytes(3, 0x77));  // none of it
      const auto t = Terminate::parse(in);
      ASSERT_TRUE(t.has_value()) << bits;
      EXPECT_EQ(t->m, m) << bits;
      EXPECT_EQ(t->d, d) << bits;
      EXPECT_EQ(t->r, r) << bits;
      EXPECT_EQ(t->layer, 1) << bits;
      EXPECT_EQ(t->etype, 1) << bits;
      EXPECT_EQ(t->code, 1) << bits;
      EXPECT_EQ(t->ddp_segment_length, m || d ? 0x0123 : 0) << bits;
      EXPECT_EQ(Bytes(t->ddp_header.begin(), t->ddp_header.end()), d ? header : Bytes{}) << bits;
      EXPECT_EQ(Bytes(t->read_request.begin(), t->read_request.end()), r && (m || d) ? request : Bytes{}) << bits;
      EXPECT_EQ(t->size(), whole) << bits;
      EXPECT_EQ(emitted(*t), Bytes(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(whole))) << bits;
    }
}

TEST(WireRdmap, SiwsTerminateIsPutRight) {
  struct Row {
    const char* octets;
    std::uint8_t layer, etype, code;
  };
  for (const Row& row : {Row{"02020000", 2, 0, 2}, Row{"02060000", 2, 0, 6}, Row{"02040000", 2, 0, 4},
                         Row{"21030300", 1, 2, 3}, Row{"10000700", 0, 1, 0}, Row{"20060200", 0, 2, 6}}) {
    const auto t = Terminate::parse(unhex(row.octets));
    ASSERT_TRUE(t.has_value()) << row.octets;
    EXPECT_TRUE(t->nibbles_swapped) << row.octets;
    EXPECT_EQ(t->layer, row.layer) << row.octets;
    EXPECT_EQ(t->etype, row.etype) << row.octets;
    EXPECT_EQ(t->code, row.code) << row.octets;
  }
  const auto read = Terminate::parse(unhex("10000700 001c"));
  EXPECT_TRUE(read->m && read->d && read->r);
  EXPECT_EQ(read->ddp_segment_length, 0x1C);
  EXPECT_TRUE(read->ddp_header.empty());
}

TEST(WireRdmap, CorrectTerminatesAreTakenAsTheyAre) {
  for (const char* octets :
       {"20020000", "20070000", "1206c000", "0100e000", "0206c000", "1101c000", "00000000", "23020000", "23070000",
        "00000400", "00000100"})  // no header stands behind these, so that the low bits are no M, D or R
    EXPECT_FALSE(Terminate::parse(unhex(octets))->nibbles_swapped) << octets;
  EXPECT_EQ(terminate_text(2, 3, 2), terminate_text(2, 0, 2));  // cxgb4 and irdma
  EXPECT_TRUE(terminate_text(1, 2, 0x77).empty());
}

TEST(WireRdmap, TerminateParsingIsTotal) {
  std::mt19937_64 rng(3);
  for (int i = 0; i < 20000; ++i) {
    Bytes in(rng() % 60);
    for (auto& octet : in) octet = static_cast<std::uint8_t>(rng());
    const auto t = Terminate::parse(in);
    EXPECT_EQ(t.has_value(), in.size() >= 4);
    if (t) {
      EXPECT_LE(t->ddp_header.size(), 18U);
      EXPECT_LE(t->read_request.size(), 28U);
    }
  }
}

}  // namespace
}  // namespace parley::wire
