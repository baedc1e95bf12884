// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// InfiniBand transport packets and the invariant CRC octet by octet: IBA vol. 1 §9, Annexes A14, A16 and A17.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/unit/reviewed.hpp"
#include "wire/ib/crc32.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"

namespace parley::wire::ib::packet_test {
namespace {

Bytes from_hex(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if (c != ' ') digits += c;
  Bytes out;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return out;
}

std::string hex(ConstBytes octets) {
  std::string out;
  for (const std::uint8_t octet : octets) out += fmt::format("{:02x}", octet);
  return out;
}

/// What an error says after the words of its code.
std::string sentence(const Error& error) {
  const std::string text = error.message();
  const std::size_t colon = text.find(": ");
  return colon == text.npos ? text : text.substr(colon + 2);
}

Bytes written(const Packet& packet) {
  Bytes out(packet.size(), 0xEE);
  EXPECT_EQ(packet.emit(out), out.size());
  return out;
}

// IBA Annex A17: the first half of the octets in front of an IPv4 datagram may hold anything, also what looks like IPv6.
TEST(WireRoce, TellsWhoseHeaderStandsInFrontOfIt) {
  for (const bool v4 : {true, false})
    for (const std::uint8_t left : {std::uint8_t{0}, std::uint8_t{0x60}}) {
      RoceHeader header;
      if (v4) {
        header.source = gid_of(Address::v4(192, 0, 2, 1, 0));
        header.destination = gid_of(Address::v4(192, 0, 2, 2, 0));
      } else {
        header.source = {0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
        header.destination = {0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2};
        header.flow_label = 0xABCDE;
      }
      header.traffic_class = 106;
      std::array<std::uint8_t, 64> all{};
      all[0] = left;
      header.emit(MutBytes(all).subspan(v4 ? 20 : 0), 16);
      const RoceHeader read = header_of_datagram(ConstBytes(all).first(40));
      EXPECT_EQ(read.source, header.source);
      EXPECT_EQ(read.destination, header.destination);
      EXPECT_EQ(read.traffic_class, 106);
      EXPECT_EQ(read.flow_label, header.flow_label);
    }
}

TEST(WireIb, EveryOpcodeHasItsNameAndHeaders) {
  std::string table;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto octet = static_cast<std::uint8_t>(opcode);
    const OpcodeRule rule = rule_of(octet);
    if (!rule.assigned) {
      EXPECT_EQ(rule.headers, 0u);
      EXPECT_EQ(opcode_text(octet), "unassigned opcode");
      continue;
    }
    table += fmt::format("{:02X} {} {}, {} octets:", opcode, opcode_text(octet), rule.response ? "response" : "request",
                         size_of_headers(rule.headers));
#define PARLEY_X(name, mask, length) table += (rule.headers & (mask)) != 0 ? " " #name : "";
    PARLEY_IB_HEADERS(PARLEY_X)
#undef PARLEY_X
    table += '\n';
  }
  expect_as_reviewed("wire_ib_opcodes.txt", table);
}

TEST(WireIb, EverySyndromeAndTimerInWords) {
  std::string table;
  for (unsigned syndrome = 0; syndrome < 256; ++syndrome)
    table += fmt::format("{:02x} {}\n", syndrome, syndrome_text(static_cast<std::uint8_t>(syndrome)));
  for (std::uint8_t code = 0; code < 32; ++code)
    table += fmt::format("code {}: RNR timer {} us, {} credits, time {} ns\n", code, rnr_timer(code).count() / 1000,
                         credits_of(code) ? std::to_string(*credits_of(code)) : "no",
                         std::chrono::nanoseconds(timeout_of(code)).count());
  EXPECT_EQ(rnr_timer(0x2C), rnr_timer(0x0C));
  EXPECT_EQ(timeout_of(0x34), timeout_of(0x14));
  expect_as_reviewed("wire_ib_codes.txt", table);
}

TEST(WireIb, BthOctets) {
  Bth bth;
  bth.opcode = 0x17;
  bth.solicited = true;
  bth.pad_count = 2;
  bth.tver = 5;
  bth.p_key = 0x1234;
  bth.becn = true;
  bth.reserved6 = 0x21;
  bth.dest_qpn = 0xABCDEF;
  bth.ack_req = true;
  bth.reserved7 = 0x43;
  bth.psn = 0x56789A;
  Bytes out(PARLEY_IB_BTH_LEN);
  bth.emit(out);
  EXPECT_EQ(hex(out),
            "17a51234"
            "61abcdef"
            "c356789a");
  EXPECT_EQ(*Bth::parse(out), bth);
  bth.solicited = bth.becn = bth.ack_req = false;
  bth.mig_req = bth.fecn = true;
  bth.emit(out);
  EXPECT_EQ(hex(out),
            "17651234"
            "a1abcdef"
            "4356789a");
  EXPECT_EQ(*Bth::parse(out), bth);
  EXPECT_EQ(Bth::parse(ConstBytes(out).first(11)).error(), Errc::truncated);
}

// No peer here sends XRC data, Invalidate, or Immediate at the end of several packets.
TEST(WireIb, HeadersStandInTheirOrder) {
  const Bytes payload = from_hex("a1a2a3a4a5");
  Packet p;
  p.deth = {.q_key = 0x80010000, .source_qpn = 0x010203, .reserved = 4};
  p.xrceth = {.srqn = 0x111213, .reserved = 0x14};
  p.reth = {.va = 0x2122232425262728, .r_key = 0x31323334, .dma_length = 0x41424344};
  p.atomic = {
      .va = 0x5152535455565758, .r_key = 0x61626364, .swap_add = 0x7172737475767778, .compare = 0x8182838485868788};
  p.aeth = {.syndrome = 0x62, .msn = 0x919293};
  p.atomic_original = 0xB1B2B3B4B5B6B7B8;
  p.imm = {0xC1, 0xC2, 0xC3, 0xC4};
  p.invalidate = 0xD1D2D3D4;
  p.icrc = 0x01020304;
  p.payload = payload;
  std::string table;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    p.bth.opcode = static_cast<std::uint8_t>(opcode);
    const Bytes octets = written(p);
    EXPECT_EQ(hex(ConstBytes(octets).last(12)),
              "a1a2a3a4a5000000"
              "04030201");
    const auto again = Packet::parse(octets);
    ASSERT_TRUE(again);
    EXPECT_EQ(written(*again), octets);
    EXPECT_EQ(again->icrc, p.icrc);
    if (rule_of(p.bth.opcode).assigned)
      table += fmt::format("{:02X} {}\n", opcode, hex(ConstBytes(octets).subspan(12, octets.size() - 24)));
  }
  expect_as_reviewed("wire_ib_headers.txt", table);
}

TEST(WireIb, APacketThatIsReadAgainKeepsNoHeaderOfTheOneBefore) {
  Packet with;
  with.bth.opcode = opcode_of(Service::rc, Operation::acknowledge);
  with.aeth = {.syndrome = 0x62, .msn = 0x919293};
  Packet without;
  without.bth.opcode = opcode_of(Service::rc, Operation::send_only);
  const Bytes first = written(with), second = written(without);
  Packet p;
  ASSERT_TRUE(p.read(first));
  EXPECT_EQ(p.aeth.msn, 0x919293u);
  ASSERT_TRUE(p.read(second));
  EXPECT_EQ(p.aeth.msn, 0u);
  EXPECT_EQ(p.aeth.syndrome, 0u);
}

TEST(WireIb, PadFillsTheLastWord) {
  for (std::size_t size = 0; size < 9; ++size) {
    const Bytes payload(size, 0x77);
    Packet p;
    p.bth.opcode = opcode_of(Service::rc, Operation::send_only);
    p.payload = payload;
    const Bytes octets = written(p);
    EXPECT_EQ(octets.size() % 4, 0u);
    const auto again = Packet::parse(octets);
    ASSERT_TRUE(again);
    EXPECT_EQ(Bytes(again->payload.begin(), again->payload.end()), payload);
    EXPECT_EQ(again->pad.size(), (4 - size % 4) % 4);
    EXPECT_EQ(again->bth.pad_count, again->pad.size());
  }
}

TEST(WireIb, WhatIsCutOffIsRefused) {
  Packet p;
  p.bth.opcode = opcode_of(Service::xrc, Operation::write_only_imm);
  const Bytes octets = written(p);
  for (std::size_t size = 0; size < octets.size(); ++size)
    EXPECT_EQ(Packet::parse(ConstBytes(octets).first(size)).error(), Errc::truncated) << size;
  EXPECT_TRUE(Packet::parse(octets));
  Bytes small(octets.size() - 1);
  EXPECT_EQ(p.emit(small), 0u);
  Bytes padded = octets;
  padded[1] |= 0x10;
  const auto refused = Packet::parse(padded);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::malformed);
  EXPECT_EQ(sentence(refused.error()), "the BTH counts 1 octets of pad; 0 are left");
}

TEST(WireIb, Crc32IsTheOneOfEthernet) {
  const std::string_view digits = "123456789";
  const Bytes octets(digits.begin(), digits.end());
  EXPECT_EQ(crc32(0, octets), 0xCBF43926u);  // the check value of CRC-32/ISO-HDLC
  for (std::size_t cut = 0; cut <= octets.size(); ++cut)
    EXPECT_EQ(crc32(crc32(0, ConstBytes(octets).first(cut)), ConstBytes(octets).subspan(cut)), 0xCBF43926u);
  EXPECT_EQ(crc32(0, Bytes(8, 0xFF)), 0x2144DF1Cu);
}

// Long messages may go to instructions of the CPU, short ones to tables.
TEST(WireIb, Crc32IsTheSameInOnePieceAndInMany) {
  Bytes octets(5000);
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i * i >> 3);
  for (const std::size_t size : {0u, 1u, 7u, 63u, 64u, 65u, 200u, 1000u, 4096u, 5000u}) {
    const ConstBytes whole = ConstBytes(octets).first(size);
    std::uint32_t in_many = 0;
    for (std::size_t at = 0; at < size; at += 13)
      in_many = crc32(in_many, whole.subspan(at, std::min<std::size_t>(13, size - at)));
    EXPECT_EQ(crc32(0, whole), in_many) << size;
    EXPECT_EQ(crc32(crc32(0, whole.first(size / 3)), whole.subspan(size / 3)), in_many) << size;
    EXPECT_EQ(crc32_portable(0, whole), in_many) << size;
  }
}

struct Known {
  const char* what;
  std::uint16_t ethertype;
  const char *network, *packet, *crc;  ///< the CRC as it stands on the wire
};
// The first two were sent by Linux's rxe, the others by ConnectX hardware.
const Known known[] = {
    {"IPv4", 0x0800, "45000030ca7b40004011ec3dc0000201c0000202e4ef12b7001c0000", "1100ffff0000001100c356fa1f000001",
     "9eb56a68"},
    {"IPv6", 0x86DD, "60000000001c114020010db800000000000000000000000120010db8000000000000000000000002fbdd12b7001c0000",
     "1100ffff00000012001f597a1f000001", "bc6034e2"},
    {"GRH", 0x8915, "6020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f000002",
     "0a70ffff0000010a80a788bc000055d4c0726000000047b3000000050000000001000000", "e3d856bb"},
    {"GRH, answer", 0x8915, "6020000000141b4000000000000000000000ffff0f00000200000000000000000000ffff0f000002",
     "1140ffff0000010900a788c000000005", "25f0c038"},
    {"CNP", 0x0800, "45c2003c718c4000401191610a0011010a001201000012b700280000",
     "8100ffff400001180000000000000000000000000000000000000000", "82fd002a"},
};

TEST(WireIb, IcrcOfKnownFrames) {
  for (const Known& k : known) {
    SCOPED_TRACE(k.what);
    const Bytes frame = from_hex(std::string(k.network) + k.packet + k.crc);
    const auto roce = RoceHeader::parse(k.ethertype, frame);
    ASSERT_TRUE(roce) << roce.error().message();
    EXPECT_EQ(hex(roce->network), k.network);
    const auto packet = Packet::parse(roce->packet);
    ASSERT_TRUE(packet);
    EXPECT_EQ(*icrc(roce->network, roce->packet.first(roce->packet.size() - 4)), packet->icrc);
    Bytes headers(roce->header.size());
    roce->header.emit(headers, roce->packet.size());
    EXPECT_EQ(hex(headers), k.network);
    EXPECT_EQ(written(*packet), Bytes(frame.end() - static_cast<std::ptrdiff_t>(roce->packet.size()), frame.end()));
  }
}

// Which octets count, and which may change on the way.
TEST(WireIb, IcrcLeavesOutWhatChangesOnTheWay) {
  std::string table;
  for (const Known& k : known) {
    Bytes network = from_hex(k.network), packet = from_hex(k.packet);
    const std::uint32_t right = *icrc(network, packet);
    std::string bits;
    for (Bytes* part : {&network, &packet})
      for (std::size_t at = 0; at < part->size() * 8; ++at) {
        if (part == &network && at < 4) continue;  // the version says how all else is read
        (*part)[at / 8] ^= static_cast<std::uint8_t>(0x80 >> at % 8);
        if (*icrc(network, packet) == right)
          bits += fmt::format(" {}{}.{}", part == &network ? "" : "BTH ", at / 8, at % 8);
        (*part)[at / 8] ^= static_cast<std::uint8_t>(0x80 >> at % 8);
      }
    table += fmt::format("{}:{}\n", k.what, bits);
  }
  expect_as_reviewed("wire_ib_icrc.txt", table);
}

TEST(WireIb, IcrcNeedsWholeHeaders) {
  const Bytes packet(12);
  Bytes v6(48);
  v6[0] = 0x60;
  EXPECT_TRUE(icrc(v6, packet));
  EXPECT_EQ(sentence(icrc(v6, ConstBytes(packet).first(11)).error()),
            "an ICRC covers a BTH of 12 octets; there are 11");
  v6[0] = 0x45;
  EXPECT_EQ(icrc(v6, packet).error(), Errc::invalid_argument);
  EXPECT_EQ(icrc(ConstBytes(v6).first(29), packet).error(), Errc::invalid_argument);
  EXPECT_EQ(icrc({}, packet).error(), Errc::invalid_argument);
}

std::string refusal(std::uint16_t ethertype, ConstBytes octets) {
  const auto parsed = RoceHeader::parse(ethertype, octets);
  return parsed ? "" : sentence(parsed.error());
}

TEST(WireRoce, WhatIsNotRoceIsRefused) {
  const Bytes frame = from_hex(std::string(known[0].network) + known[0].packet + known[0].crc);
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes out = frame;
    out[at] = value;
    return out;
  };
  EXPECT_EQ(refusal(0x0800, frame), "");
  EXPECT_EQ(refusal(0x0806, frame), "frames of type 2054 do not carry RoCE");
  EXPECT_EQ(refusal(0x0800, with(0, 0x46)), "RoCEv2 allows no IPv4 options (first octet 70)");
  EXPECT_EQ(refusal(0x0800, with(23, 0xB8)), "a datagram to UDP port 4792 is not RoCE, whose port is 4791");
  EXPECT_EQ(refusal(0x0800, with(25, 7)), "a UDP datagram cannot have 7 octets");
  EXPECT_EQ(refusal(0x0800, with(3, 0x31)), "the IPv4 length is 49 octets, the UDP length 48");
  EXPECT_EQ(RoceHeader::parse(0x0800, with(9, 6)).error(), Errc::unsupported);
  EXPECT_EQ(RoceHeader::parse(0x0800, with(7, 1)).error(), Errc::unsupported);
  for (std::size_t size = 0; size < frame.size(); ++size)
    EXPECT_EQ(RoceHeader::parse(0x0800, ConstBytes(frame).first(size)).error(), Errc::truncated) << size;
  const Bytes v6 = from_hex(std::string(known[1].network) + known[1].packet + known[1].crc);
  Bytes wrong = v6;
  wrong[0] = 0x40;
  EXPECT_EQ(refusal(0x86DD, wrong), "the version is 4, not 6");
  wrong = v6;
  wrong[5] = 0x1D;
  EXPECT_EQ(refusal(0x86DD, wrong), "the IPv6 length is 29 octets, the UDP length 28");
  EXPECT_EQ(RoceHeader::parse(PARLEY_ROCE_ETHERTYPE, v6).error(), Errc::unsupported);  // no GRH: its next header is UDP
  for (std::size_t size = 0; size < v6.size(); ++size)
    EXPECT_EQ(RoceHeader::parse(0x86DD, ConstBytes(v6).first(size)).error(), Errc::truncated) << size;
}

TEST(WireRoce, SourcePortsAsLinuxDerivesThem) {
  EXPECT_EQ(roce_source_port(0xAA4C5, 1, 2), 0xE4EF);
  EXPECT_EQ(roce_source_port(0, 0x11, 0x12), 0xC132);
  EXPECT_EQ(roce_source_port(0, 0x12, 0x11), 0xC132);
  EXPECT_EQ(roce_source_port(0, 0x123456, 0xABCDEF), 0xC3C8);
}

}  // namespace
}  // namespace parley::wire::ib::packet_test
