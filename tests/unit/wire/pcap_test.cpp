// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/bytes_io.hpp"
#include "wire/pcapng.hpp"

namespace parley::wire {
namespace {

struct Kept {
  std::int64_t ns = 0;
  std::uint16_t link_type = 0;
  std::uint32_t interface = 0, original = 0;
  Bytes octets;
  bool operator==(const Kept&) const = default;
};
struct Read {
  std::vector<Kept> packets;
  std::string error;
};

Kept keep(const CapturedPacket& p) {
  return {p.at.time_since_epoch().count(), p.link_type, p.interface, p.original_length,
          Bytes(p.octets.begin(), p.octets.end())};
}

Read read_whole(ConstBytes file) {
  Read out;
  if (const auto e = read_capture(file, [&](const CapturedPacket& p) { out.packets.push_back(keep(p)); }))
    out.error = e->to_string();
  return out;
}

/// As from a pipe that gives one octet at a time.
Read read_by_octet(ConstBytes file) {
  Read out;
  CaptureReader reader;
  std::size_t begin = 0, end = 0;
  for (;;) {
    CapturedPacket p;
    std::size_t consumed = 0;
    const auto status = reader.next(file.subspan(begin, end - begin), p, consumed);
    if (status == CaptureStatus::packet) out.packets.push_back(keep(p));
    begin += consumed;
    if (status == CaptureStatus::error) {
      out.error = reader.error().to_string();
      return out;
    }
    if (status == CaptureStatus::packet) continue;
    if (end < file.size()) {
      ++end;
      continue;
    }
    if (const auto e = reader.finish(end - begin)) out.error = e->to_string();
    return out;
  }
}

/// Octets in either order.
struct Builder {
  bool little = true;
  Bytes out;
  void u16(std::uint16_t v) {
    out.resize(out.size() + 2);
    Writer w(MutBytes(out).last(2));
    little ? w.le16(v) : w.be16(v);
  }
  void u32(std::uint32_t v) {
    out.resize(out.size() + 4);
    Writer w(MutBytes(out).last(4));
    little ? w.le32(v) : w.be32(v);
  }
  void bytes(ConstBytes in) { out.insert(out.end(), in.begin(), in.end()); }
  void block(std::uint32_t type, const Bytes& body) {
    const auto length = static_cast<std::uint32_t>(12 + (body.size() + 3) / 4 * 4);
    u32(type);
    u32(length);
    bytes(body);
    out.resize(out.size() + length - 12 - body.size());
    u32(length);
  }
};

Bytes classic(std::uint32_t magic, bool little) {
  Builder b{little, {}};
  b.u32(magic);
  b.u16(2);
  b.u16(4);
  b.u32(0);
  b.u32(0);
  b.u32(65535);
  b.u32(1);
  for (std::uint32_t i = 0; i < 3; ++i) {
    b.u32(100 + i);
    b.u32(5);
    b.u32(4);
    b.u32(60);
    if (magic == 0xA1B2CD34) b.bytes(Bytes(8, 0xEE));
    b.bytes(Bytes{1, 2, 3, static_cast<std::uint8_t>(i)});
  }
  return b.out;
}

TEST(WirePcap, ReadsEveryMagicInBothOctetOrders) {
  for (const bool little : {true, false})
    for (const std::uint32_t magic : {0xA1B2C3D4u, 0xA1B23C4Du, 0xA1B2CD34u}) {
      const Bytes file = classic(magic, little);
      const Read r = read_whole(file);
      EXPECT_EQ(r.error, "");
      ASSERT_EQ(r.packets.size(), 3u) << std::hex << magic << little;
      EXPECT_EQ(r.packets[2].ns, 102'000'000'000 + (magic == 0xA1B23C4D ? 5 : 5000));
      EXPECT_EQ(r.packets[2].original, 60u);
      EXPECT_EQ(r.packets[2].octets, (Bytes{1, 2, 3, 2}));
      EXPECT_EQ(r.packets, read_by_octet(file).packets);
    }
}

TEST(WirePcap, TruncatedAnywhereGivesWhatIsThereAndSaysWhere) {
  const Bytes file = classic(0xA1B2C3D4, true);
  for (std::size_t n = 0; n < file.size(); ++n) {
    const Read r = read_whole(ConstBytes(file).first(n));
    const std::size_t whole = n < 24 ? 0 : (n - 24) / 20;
    EXPECT_EQ(r.packets.size(), whole) << n;
    const bool at_boundary = n >= 24 && (n - 24) % 20 == 0;
    EXPECT_EQ(r.error.empty(), at_boundary) << n;
    if (n >= 24 && !at_boundary) {
      EXPECT_EQ(r.error.rfind("offset " + std::to_string(24 + whole * 20) + ": the file is truncated", 0), 0u)
          << r.error;
    }
  }
}

TEST(WirePcap, AbsurdLengthIsAnErrorWithItsOffset) {
  Bytes file = classic(0xA1B2C3D4, true);
  file[24 + 20 + 8 + 3] = 0x7F;
  const Read r = read_whole(file);
  EXPECT_EQ(r.packets.size(), 1u);
  EXPECT_EQ(r.error, "offset 52: packet 2 claims 2130706436 captured octets (at most 1048576 make sense)");
}

TEST(WirePcap, ARecordOfZerosEndsTheFile) {
  Bytes file = classic(0xA1B2C3D4, true);
  file.resize(file.size() + 4096);  // as a file that was made longer than what was written
  const Read r = read_whole(file);
  EXPECT_EQ(r.packets.size(), 3u);
  EXPECT_EQ(r.error, "offset 84: the record of packet 4 is nothing but zeros: the file was not written to its end");
}

TEST(WirePcap, OtherFilesAreNamedForWhatTheyAre) {
  EXPECT_EQ(read_whole({}).error, "offset 0: the file is empty");
  EXPECT_EQ(read_whole(Bytes(100, 'x')).error, "offset 0: not a pcap or pcapng file (it begins with 78787878)");
  EXPECT_EQ(read_whole(Bytes(4, 'x')).error, "offset 0: not a pcap or pcapng file (it begins with 78787878)");
  struct Known {
    Bytes head;
    const char* words;
  };
  for (const Known& known : {Known{{0x1F, 0x8B, 8, 0}, "compressed with gzip"},
                             {{0x28, 0xB5, 0x2F, 0xFD}, "compressed with zstd"},
                             {{0x04, 0x22, 0x4D, 0x18}, "compressed with lz4"},
                             {{0xFD, '7', 'z', 'X'}, "compressed with xz"},
                             {{'B', 'Z', 'h', '9'}, "compressed with bzip2"},
                             {{'P', 'K', 3, 4}, "a zip archive"},
                             {{'s', 'n', 'o', 'o'}, "a snoop capture"},
                             {{'G', 'M', 'B', 'U'}, "a Network Monitor capture"}}) {
    const std::string error = read_whole(known.head).error;
    EXPECT_TRUE(error.starts_with(std::string("offset 0: not a pcap or pcapng file: it is ") + known.words)) << error;
  }
}

Bytes section_block(bool little) {
  Builder body{little, {}};
  body.u32(0x1A2B3C4D);
  body.u16(1);
  body.u16(0);
  body.u32(0xFFFFFFFF);
  body.u32(0xFFFFFFFF);
  Builder b{little, {}};
  b.block(0x0A0D0D0A, body.out);
  return b.out;
}
Bytes interface_block(bool little, std::uint16_t link, int resolution, std::uint32_t snap = 0,
                      std::int32_t offset = 0) {
  Builder body{little, {}};
  body.u16(link);
  body.u16(0);
  body.u32(snap);
  if (resolution >= 0) {
    body.u16(9);
    body.u16(1);
    body.bytes(Bytes{static_cast<std::uint8_t>(resolution), 0, 0, 0});
  }
  if (offset != 0) {
    body.u16(14);
    body.u16(8);
    little ? body.u32(static_cast<std::uint32_t>(offset)) : body.u32(offset < 0 ? ~0u : 0u);
    little ? body.u32(offset < 0 ? ~0u : 0u) : body.u32(static_cast<std::uint32_t>(offset));
  }
  body.u32(0);
  Builder b{little, {}};
  b.block(1, body.out);
  return b.out;
}
Bytes enhanced(bool little, std::uint32_t interface, std::uint64_t ticks, const Bytes& data) {
  Builder body{little, {}};
  body.u32(interface);
  body.u32(static_cast<std::uint32_t>(ticks >> 32));
  body.u32(static_cast<std::uint32_t>(ticks));
  body.u32(static_cast<std::uint32_t>(data.size()));
  body.u32(static_cast<std::uint32_t>(data.size() + 10));
  body.bytes(data);
  Builder b{little, {}};
  b.block(6, body.out);
  return b.out;
}
Bytes joined(std::initializer_list<Bytes> parts) {
  Bytes out;
  for (const auto& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

TEST(WirePcapng, TimesFollowEachInterfacesResolutionAndOffset) {
  for (const bool little : {true, false}) {
    const Bytes file = joined({section_block(little), interface_block(little, 1, -1), interface_block(little, 113, 9),
                               interface_block(little, 101, 0x80 | 10), interface_block(little, 1, 12),
                               interface_block(little, 1, 6, 0, -3), enhanced(little, 0, 7'000'001, {1}),
                               enhanced(little, 1, 7'000'000'002, {2}), enhanced(little, 2, 7 * 1024 + 512, {3}),
                               enhanced(little, 3, 7'000'000'005'999, {4}), enhanced(little, 4, 7'000'000, {5})});
    const Read r = read_whole(file);
    EXPECT_EQ(r.error, "");
    ASSERT_EQ(r.packets.size(), 5u);
    EXPECT_EQ(r.packets[0].ns, 7'000'001'000);
    EXPECT_EQ(r.packets[1].ns, 7'000'000'002);
    EXPECT_EQ(r.packets[1].link_type, 113);
    EXPECT_EQ(r.packets[2].ns, 7'500'000'000);
    EXPECT_EQ(r.packets[3].ns, 7'000'000'005);
    EXPECT_EQ(r.packets[4].ns, 4'000'000'000);
    EXPECT_EQ(r.packets[4].original, 11u);
    EXPECT_EQ(r.packets, read_by_octet(file).packets);
  }
}

TEST(WirePcapng, AnyTwoTimesHaveADifference) {
  constexpr std::int64_t years_146 = (std::numeric_limits<std::int64_t>::max() / 2 / 1'000'000'000 - 1) * 1'000'000'000;
  const Read r = read_whole(
      joined({section_block(true), interface_block(true, 1, 0, 0, std::numeric_limits<std::int32_t>::min()),
              interface_block(true, 1, 0), enhanced(true, 0, 0, {1}), enhanced(true, 1, std::uint64_t{1} << 62, {2})}));
  ASSERT_EQ(r.packets.size(), 2u) << r.error;
  EXPECT_EQ(r.packets[0].ns, -(std::int64_t{1} << 31) * 1'000'000'000);
  EXPECT_EQ(r.packets[1].ns, years_146);
  EXPECT_LE(r.packets[1].ns, std::numeric_limits<std::int64_t>::max() + r.packets[0].ns);
}

// if_tsresol: a power of 10, or of 2 where its highest bit is set.
TEST(WirePcapng, EveryResolutionCountsItsFractionDownToNanoseconds) {
  const auto time = [](int resolution, std::uint64_t ticks) {
    const Read r =
        read_whole(joined({section_block(true), interface_block(true, 1, resolution), enhanced(true, 0, ticks, {1})}));
    EXPECT_EQ(r.error, "");
    return r.packets.size() == 1 ? r.packets[0].ns : -1;
  };
  for (unsigned n = 0; n < 64; ++n) {
    const std::uint64_t below = (1ULL << n) - 1, seconds = n < 61 ? 5 : 1;  // the last tick before the next second
    const std::int64_t ns = n < 30 ? static_cast<std::int64_t>((1'000'000'000 * below) >> n) : 999'999'999;
    EXPECT_EQ(time(static_cast<int>(0x80 | n), (seconds << n) | below),
              static_cast<std::int64_t>(seconds) * 1'000'000'000 + ns)
        << "2^-" << n;
    if (n > 0) {
      EXPECT_EQ(time(static_cast<int>(0x80 | n), (seconds << n) | 1ULL << (n - 1)),
                static_cast<std::int64_t>(seconds) * 1'000'000'000 + 500'000'000)
          << "2^-" << n;
    }
  }
  EXPECT_EQ(time(0x80 | 64, ~0ULL), 0) << "all of it is less than a second, and no clock counts so";
  std::uint64_t per_second = 1;
  for (int n = 0; n < 19; ++n, per_second *= 10) {
    const std::uint64_t below = per_second - 1, all = n < 9 ? below * (1'000'000'000 / per_second) : 999'999'999;
    EXPECT_EQ(time(n, per_second + below), static_cast<std::int64_t>(1'000'000'000 + all)) << "10^-" << n;
  }
}

TEST(WirePcapng, SectionsOfBothOrdersFollowEachOtherAndUnknownBlocksArePassedOver) {
  Builder unknown{true, {}};
  unknown.block(0x0BAD, Bytes(5'000'000, 0xAB));  // longer than any window
  Builder simple_body{false, {}};
  simple_body.u32(9);
  simple_body.bytes(Bytes{9, 8, 7, 6});
  Builder simple{false, {}};
  simple.block(3, simple_body.out);
  Builder old_body{false, {}};
  old_body.u16(0);
  old_body.u16(0xFFFF);
  old_body.u32(0);
  old_body.u32(5);
  old_body.u32(2);
  old_body.u32(2);
  old_body.bytes(Bytes{4, 5});
  Builder old{false, {}};
  old.block(2, old_body.out);
  const Bytes file = joined({section_block(true), interface_block(true, 1, 9), unknown.out, enhanced(true, 0, 1, {1}),
                             section_block(false), interface_block(false, 113, 9, 4), simple.out, old.out});
  const Read r = read_whole(file);
  EXPECT_EQ(r.error, "");
  ASSERT_EQ(r.packets.size(), 3u);
  EXPECT_EQ(r.packets[1].octets, (Bytes{9, 8, 7, 6}));
  EXPECT_EQ(r.packets[1].original, 9u);
  EXPECT_EQ(r.packets[2].ns, 5);
  EXPECT_EQ(r.packets[2].link_type, 113);
}

Bytes simple(std::uint32_t original, const Bytes& data) {
  Builder body{true, {}};
  body.u32(original);
  body.bytes(data);
  Builder b{true, {}};
  b.block(3, body.out);
  return b.out;
}

// A simple packet block tells the length of the packet only: of that the interface's snap length was captured, and what
// follows up to the next 32 bits is padding.
TEST(WirePcapng, ASimplePacketBlockHoldsNoMoreThanTheSnapLength) {
  const Bytes eight{1, 2, 3, 4, 5, 6, 0xEE, 0xEE};
  const Bytes file = joined({section_block(true), interface_block(true, 1, 9, 6), simple(60, eight), simple(5, eight),
                             section_block(true), interface_block(true, 1, 9, 0), simple(60, eight)});
  const Read r = read_whole(file);
  EXPECT_EQ(r.error, "");
  ASSERT_EQ(r.packets.size(), 3u);
  EXPECT_EQ(r.packets[0].octets, (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(r.packets[0].original, 60u);
  EXPECT_EQ(r.packets[1].octets, (Bytes{1, 2, 3, 4, 5}));
  EXPECT_EQ(r.packets[1].original, 5u);
  EXPECT_EQ(r.packets[2].octets, eight) << "a snap length of 0 is none";
}

TEST(WirePcapng, DamageIsAnErrorWithItsOffset) {
  Bytes lengths = joined({section_block(true), interface_block(true, 1, 9), enhanced(true, 0, 1, {1})});
  lengths[lengths.size() - 4] ^= 4;
  EXPECT_NE(read_whole(lengths).error.find("a block's two lengths differ"), std::string::npos);
  const Bytes nobody = joined({section_block(true), enhanced(true, 3, 1, {1})});
  EXPECT_EQ(read_whole(nobody).error, "offset 28: packet 1 names interface 3, which the section does not describe");
  Bytes version = section_block(true);
  version[12] = 9;
  EXPECT_EQ(read_whole(version).error, "offset 12: pcapng version 9 is not known (1 is)");
}

TEST(WirePcapng, AnyTruncationKeepsThePacketsBefore) {
  const Bytes file = joined({section_block(true), interface_block(true, 1, 9), enhanced(true, 0, 1, Bytes(33, 1)),
                             enhanced(true, 0, 2, Bytes(5, 2))});
  std::size_t most = 0;
  for (std::size_t n = 0; n < file.size(); ++n) {
    const Read r = read_whole(ConstBytes(file).first(n));
    EXPECT_GE(r.packets.size(), most);
    most = std::max(most, r.packets.size());
  }
  EXPECT_EQ(most, 1u);
}

TEST(WirePcapng, WhatIsWrittenIsReadBack) {
  Bytes file;
  PcapngWriter w(file, {.application = "parley test", .hardware = "", .system = "here", .comment = "two interfaces"});
  const auto a = w.add_interface("a/p1", 1, "left"), b = w.add_interface("b/p1", 1);
  const std::pair<Address, std::string> names[] = {{Address::v4(192, 0, 2, 1, 0), "initiator"},
                                                   {Address::loopback(Address::Family::v6, 0), "responder"}};
  w.add_names(names);
  for (std::uint8_t i = 0; i < 9; ++i)
    w.packet(i % 2 == 0 ? a : b, Instant{Duration{1'700'000'000'000'000'001 + i}}, Bytes(i, i),
             i == 3 ? "dropped by rule 3" : "", i % 2 == 0 ? PacketDirection::outbound : PacketDirection::inbound,
             i == 4 ? 99 : 0);
  const Read r = read_whole(file);
  EXPECT_EQ(r.error, "");
  ASSERT_EQ(r.packets.size(), 9u);
  for (std::uint8_t i = 0; i < 9; ++i)
    EXPECT_EQ(r.packets[i], (Kept{1'700'000'000'000'000'001 + i, 1, i % 2u, i == 4 ? 99u : i, Bytes(i, i)})) << int{i};
}

TEST(WirePcap, WhatIsWrittenIsReadBack) {
  Bytes file;
  PcapWriter w(file, 101);
  for (std::uint8_t i = 0; i < 5; ++i)
    w.packet(Instant{Duration{1'700'000'000'000'000'001 + i}}, Bytes(i, i), i == 4 ? 40 : 0);
  const Read r = read_whole(file);
  EXPECT_EQ(r.error, "");
  ASSERT_EQ(r.packets.size(), 5u);
  EXPECT_EQ(r.packets[4], (Kept{1'700'000'000'000'000'005, 101, 0, 40, Bytes(4, 4)}));
}

}  // namespace
}  // namespace parley::wire
