// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What pcapng says of a packet besides its octets: several comments, its direction, the id that joins its sights.
#include <gtest/gtest.h>

#include <string>

#include "base/text.hpp"
#include "wire/packet.hpp"
#include "wire/pcapng.hpp"

namespace parley::wire::pcapng_options_test {
namespace {

using std::chrono::nanoseconds;

Bytes frame_of(std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::uint8_t>(i * 3 + 1);
  return out;
}

std::vector<CapturedPacket> read(ConstBytes file, std::string* error = nullptr) {
  std::vector<CapturedPacket> out;
  const auto wrong = read_capture(file, [&](const CapturedPacket& p) { out.push_back(p); });
  if (error != nullptr && wrong) *error = wrong->to_string();
  EXPECT_EQ(wrong.has_value(), error != nullptr);
  return out;
}

std::size_t count(ConstBytes in, std::string_view text) {
  const std::string all(in.begin(), in.end());
  std::size_t n = 0;
  for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1)) ++n;
  return n;
}

TEST(PcapngOptions, ThePacketIdComesBackForFramesOfEveryLength) {
  for (std::size_t size = 14; size < 22; ++size) {
    Bytes file;
    PcapngWriter writer(file, {.application = "test"});
    const auto i = writer.add_interface("a/p1", static_cast<std::uint16_t>(LinkType::ethernet));
    const Bytes frame = frame_of(size);
    writer.packet(i, Instant{nanoseconds(5)}, frame,
                  {.direction = PacketDirection::outbound, .packet_id = 0xFEDCBA9876543210ULL});
    writer.packet(i, Instant{nanoseconds(6)}, frame, PacketRemarks{});
    writer.packet(i, Instant{nanoseconds(7)}, frame, "old way", PacketDirection::inbound);
    const auto packets = read(file);
    ASSERT_EQ(packets.size(), 3u);
    EXPECT_EQ(packets[0].packet_id, 0xFEDCBA9876543210ULL);
    EXPECT_EQ(packets[0].octets.size(), size);
    EXPECT_EQ(packets[1].packet_id, std::nullopt);
    EXPECT_EQ(packets[2].packet_id, std::nullopt);
  }
}

// draft-ietf-opsawg-pcapng §3.1: 12 octets are the least that a block has.
TEST(PcapngOptions, AnEmptyBlockOfAnUnknownTypeIsSkipped) {
  Bytes file;
  PcapngWriter writer(file, {.application = "test"});
  const Bytes empty{0x0A, 0x0B, 0x0C, 0x4D, 12, 0, 0, 0, 12, 0, 0, 0};
  file.insert(file.end(), empty.begin(), empty.end());
  const auto i = writer.add_interface("a/p1", static_cast<std::uint16_t>(LinkType::ethernet));
  writer.packet(i, Instant{nanoseconds(5)}, frame_of(20), PacketRemarks{});
  EXPECT_EQ(read(file).size(), 1u);
}

// draft-ietf-opsawg-pcapng §3 to §4, by hand: type, length, fields, options, length.
TEST(PcapngOptions, EachBlockHasTheOctetsOfTheFormat) {
  Bytes file;
  std::size_t begin = 0;
  const auto block = [&] {
    const std::string text = hex_digits(ConstBytes(file).subspan(begin));
    begin = file.size();
    return text;
  };
  PcapngWriter writer(file, {.application = "parley", .hardware = "hw", .system = "os!", .comment = "c"});
  EXPECT_EQ(block(),
            "0a0d0d0a44000000"
            "4d3c2b1a01000000ffffffffffffffff"
            "0100010063000000020002006877000003000300"
            "6f732100040006007061726c6579000000000000"
            "44000000");
  EXPECT_EQ(writer.add_interface("p1", 1, "nic", 1'000'000'000), 0u);
  EXPECT_EQ(block(),
            "010000003c000000"
            "0100000000000400"
            "0200020070310000030003006e6963000800080000ca9a3b00000000090001000900000000000000"
            "3c000000");
  const std::pair<Address, std::string> names[] = {{Address::loopback(Address::Family::v4, 0), "a"},
                                                   {Address::loopback(Address::Family::v6, 0), "b"}};
  writer.add_names(names);
  EXPECT_EQ(block(),
            "0400000034000000"
            "010006007f00000161000000"
            "020012000000000000000000000000000000000162000000"
            "00000000"
            "34000000");
  const std::string comment = "x";
  writer.packet(0, Instant{nanoseconds(0x1'0000'0002)}, Bytes{1, 2, 3},
                {.comments = {&comment, 1},
                 .direction = PacketDirection::inbound,
                 .packet_id = 0x1122334455667788,
                 .original_length = 60});
  EXPECT_EQ(block(),
            "0600000044000000"
            "000000000100000002000000030000003c00000001020300"
            "01000100780000000200040001000000050008008877665544332211"
            "00000000"
            "44000000");
}

// draft-ietf-opsawg-pcapng §4.3: epb_flags is option 2 of four octets; 1 is inbound, 2 outbound.
TEST(PcapngOptions, TheDirectionOfAPacketIsInItsFlags) {
  const auto flags = [](PacketDirection direction) {
    Bytes file;
    PcapngWriter writer(file, {});
    const auto i = writer.add_interface("a", 1);
    const std::size_t before = file.size();
    writer.packet(i, Instant{}, frame_of(4), {.direction = direction});
    return Bytes(file.begin() + static_cast<std::ptrdiff_t>(before + 32), file.end() - 4);
  };
  EXPECT_EQ(flags(PacketDirection::unknown), Bytes());
  EXPECT_EQ(flags(PacketDirection::inbound), (Bytes{2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(flags(PacketDirection::outbound), (Bytes{2, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(PcapngOptions, PacketsAreNumberedFromOne) {
  Bytes file;
  PcapngWriter writer(file, {});
  const auto i = writer.add_interface("a", 1);
  for (int n = 0; n < 3; ++n) writer.packet(i, Instant{}, frame_of(4), PacketRemarks{});
  const auto packets = read(file);
  ASSERT_EQ(packets.size(), 3u);
  for (std::size_t n = 0; n < 3; ++n) EXPECT_EQ(packets[n].frame, n + 1);
}

TEST(PcapngOptions, SeveralCommentsAreWrittenAndEmptyOnesAreNot) {
  Bytes file;
  PcapngWriter writer(file, {});
  const auto i = writer.add_interface("a/p1", 1, "link a-b, 10 Gb/s, 5 us", 10'000'000'000);
  const std::vector<std::string> comments{"dropped by rule 'loss'", "", "host b crashed"};
  writer.packet(i, Instant{}, frame_of(60), {.comments = comments, .packet_id = 7});
  const auto packets = read(file);
  ASSERT_EQ(packets.size(), 1u);
  EXPECT_EQ(packets[0].packet_id, 7u);
  EXPECT_EQ(count(file, "dropped by rule 'loss'"), 1u);
  EXPECT_EQ(count(file, "host b crashed"), 1u);
  EXPECT_EQ(count(file, "link a-b, 10 Gb/s, 5 us"), 1u);
}

TEST(PcapngOptions, OptionsThatContradictTheirBlockAreIgnored) {
  Bytes file;
  PcapngWriter writer(file, {});
  const auto i = writer.add_interface("a/p1", 1);
  const std::size_t before = file.size();
  writer.packet(i, Instant{}, frame_of(60), {.packet_id = 7});
  // The option's code and length stand 20 octets before the end: value, end of options, trailing length.
  const std::size_t option = file.size() - 20;
  ASSERT_EQ(file[option], 5);
  for (const int length : {0, 4, 7, 9, 255}) {
    Bytes other = file;
    other[option + 2] = static_cast<std::uint8_t>(length);
    const auto packets = read(other);
    ASSERT_EQ(packets.size(), 1u);
    EXPECT_EQ(packets[0].packet_id, std::nullopt) << length;
  }
  // Cut anywhere, the reader says so or has not seen the packet.
  for (std::size_t n = before; n < file.size(); ++n) {
    std::vector<CapturedPacket> packets;
    (void)read_capture(ConstBytes(file).first(n), [&](const CapturedPacket& p) { packets.push_back(p); });
    EXPECT_TRUE(packets.empty());
  }
}

}  // namespace
}  // namespace parley::wire::pcapng_options_test
