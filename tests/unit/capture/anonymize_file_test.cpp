// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What becomes of the file around the frames (docs/captures.md): headers of pcap, blocks and options of pcapng, in
// either octet order, and the times in both.
#include <gtest/gtest.h>

#include "tests/unit/capture/anonymize_kit.hpp"

namespace parley::capture {
namespace {

using test::anonymize;
using test::Anonymized;

/// Numbers in the octet order of a file.
struct Order {
  bool little;
  Bytes u16(std::uint16_t v) const { return number(v, 2); }
  Bytes u32(std::uint32_t v) const { return number(v, 4); }
  Bytes u64(std::uint64_t v) const { return number(v, 8); }

 private:
  Bytes number(std::uint64_t v, int n) const {
    Bytes out;
    for (int i = 0; i < n; ++i) out.push_back(static_cast<std::uint8_t>(v >> 8 * (little ? i : n - 1 - i)));
    return out;
  }
};
constexpr Order orders[] = {{true}, {false}};

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Bytes padded(Bytes b) {
  while (b.size() % 4 != 0) b.push_back(0);
  return b;
}

/// An Ethernet frame that is nothing but a type, with a payload that becomes 0.
const Bytes frame{0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x88, 0xCC, 1, 2, 3};
const Bytes zeroed{0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x88, 0xCC, 0, 0, 0};

struct Pcapng : Order {
  Bytes option(std::uint16_t code, const Bytes& value) const {
    return u16(code) + u16(static_cast<std::uint16_t>(value.size())) + padded(value);
  }
  Bytes block(std::uint32_t type, const Bytes& body) const {
    const Bytes length = u32(static_cast<std::uint32_t>(body.size() + 12));
    return u32(type) + length + body + length;
  }
  Bytes section(const Bytes& options = {}, std::uint64_t length = ~0ULL) const {
    return block(0x0A0D0D0A, u32(0x1A2B3C4D) + u16(1) + u16(2) + u64(length) + options);
  }
  Bytes interface(const Bytes& options = {}, std::uint32_t snap_length = 96, std::uint16_t reserved = 0) const {
    return block(1, u16(1) + u16(reserved) + u32(snap_length) + options);
  }
  Bytes packet(std::uint64_t ticks, const Bytes& octets, const Bytes& options = {}, std::uint32_t number = 0) const {
    return block(6, u32(number) + ticks_of(ticks) + sizes(octets) + padded(octets) + options);
  }
  Bytes old_packet(std::uint64_t ticks, const Bytes& octets, const Bytes& options = {}) const {
    return block(2, u16(0) + u16(7) + ticks_of(ticks) + sizes(octets) + padded(octets) + options);
  }
  Bytes simple_packet(const Bytes& octets) const {
    return block(3, u32(static_cast<std::uint32_t>(octets.size())) + padded(octets));
  }

 private:
  Bytes ticks_of(std::uint64_t t) const {
    return u32(static_cast<std::uint32_t>(t >> 32)) + u32(static_cast<std::uint32_t>(t));
  }
  Bytes sizes(const Bytes& octets) const { return u32(static_cast<std::uint32_t>(octets.size())) + u32(1514); }
};

Pcapng in_order(const Order& o) {
  Pcapng p;
  p.little = o.little;
  return p;
}

TEST(AnonymizeFile, KeepsTheBlocksOfPacketsAndCountsTheOthersThatItDrops) {
  for (const Order& o : orders) {
    const Pcapng p = in_order(o);
    Bytes in = p.section({}, 4711) + p.interface({}, 96, 0xBEEF), out = p.section() + p.interface();
    std::uint64_t dropped = 0;
    for (const std::uint32_t type : {4u, 5u, 10u, 0x0BADu, 0x40000BADu}) {
      in = in + p.block(type, Bytes(40, 0x73));
      ++dropped;
    }
    in = in + p.packet(0x123456789A, frame) + p.old_packet(0x223456789A, frame) + p.simple_packet(frame);
    out = out + p.packet(0x123456789A, zeroed) + p.old_packet(0x223456789A, zeroed) + p.simple_packet(zeroed);
    const Anonymized done = anonymize(in);
    EXPECT_EQ(done.file, out) << o.little;
    EXPECT_EQ(done.container.blocks_dropped, dropped);
    EXPECT_EQ(done.container.options_dropped, 0u);
    EXPECT_EQ(done.frames.packets, 3u);
  }
}

TEST(AnonymizeFile, ASectionsOptionsAreCountedAndAnotherSectionHasInterfacesOfItsOwn) {
  for (const Order& o : orders) {
    const Pcapng p = in_order(o), q = in_order({!o.little});
    const Bytes words(11, 0x73);
    const Bytes in = p.section(p.option(2, words) + p.option(4, words) + p.option(0, {})) + p.interface() +
                     p.packet(1, frame) + q.section() + q.interface() + q.packet(2, frame);
    const Bytes out =
        p.section() + p.interface() + p.packet(1, zeroed) + q.section() + q.interface() + q.packet(2, zeroed);
    const Anonymized done = anonymize(in);
    EXPECT_EQ(done.file, out);
    EXPECT_EQ(done.container.options_dropped, 2u);
    EXPECT_EQ(anonymize(out).container.options_dropped, 0u);
    EXPECT_EQ(anonymize(p.section(p.option(0, {})) + p.interface()).container.options_dropped, 0u) << "only their end";
  }
}

struct Option {
  std::uint16_t code;
  std::size_t size;
  bool kept;
};

// draft-ietf-opsawg-pcapng §4.2: 2 name, 3 description, 4 IPv4 address, 8 speed, 9 resolution, 11 filter, 12 operating
// system, 13 length of the FCS, 14 time offset.
TEST(AnonymizeFile, OfAnInterfaceOnlyResolutionSpeedAndFcsLengthAreKept) {
  const Option cases[] = {{1, 9, false}, {2, 5, false},  {3, 5, false},  {4, 8, false},  {8, 8, true},
                          {8, 4, false}, {9, 1, true},   {10, 4, false}, {11, 6, false}, {12, 5, false},
                          {13, 1, true}, {13, 4, false}, {15, 5, false}, {14, 8, true},  {2988, 8, false}};
  for (const Order& o : orders) {
    const Pcapng p = in_order(o);
    Bytes all, left;
    std::uint64_t dropped = 0;
    for (const Option& c : cases) {
      const Bytes option = p.option(c.code, c.code == 14 ? p.u64(3) : Bytes(c.size, 6));
      const Bytes in = p.section() + p.interface(option + p.option(0, {})) + p.packet(1, frame);
      const Bytes out = p.section() + p.interface(c.kept ? option + p.option(0, {}) : Bytes()) + p.packet(1, zeroed);
      const Anonymized done = anonymize(in);
      EXPECT_EQ(done.file, out) << c.code << " of " << c.size;
      EXPECT_EQ(done.container.options_dropped, c.kept ? 0u : 1u) << c.code << " of " << c.size;
      all = all + option;
      if (c.kept) left = left + option;
      if (!c.kept) ++dropped;
    }
    const Anonymized done = anonymize(p.section() + p.interface(all) + p.packet(1, frame));
    EXPECT_EQ(done.file, p.section() + p.interface(left + p.option(0, {})) + p.packet(1, zeroed));
    EXPECT_EQ(done.container.options_dropped, dropped);
  }
}

// §4.3: 2 flags, 3 hash, 4 drop count, 5 packet identifier, 6 queue, 7 verdict.
TEST(AnonymizeFile, OfAPacketOnlyFlagsDropCountAndARenamedIdentifierAreKept) {
  const Option cases[] = {{1, 9, false}, {2, 4, true},  {2, 8, false}, {3, 5, false}, {4, 8, true}, {4, 4, false},
                          {5, 8, true},  {5, 4, false}, {6, 4, false}, {7, 9, false}, {8, 8, false}};
  const std::uint64_t id = 0x0102030405060708;
  const Pseudonyms names(AnonymizeKey::from_text("a key"));
  for (const Order& o : orders) {
    const Pcapng p = in_order(o);
    for (const Option& c : cases) {
      const bool renamed = c.code == 5 && c.size == 8;
      const Bytes option = p.option(c.code, renamed ? p.u64(id) : Bytes(c.size, 1));
      const Bytes becomes = renamed ? p.option(5, p.u64(names.identifier(id))) : option;
      const Bytes end = p.option(0, {});
      const Bytes in = p.section() + p.interface() + p.packet(1, frame, option + end + Bytes(8, 0x73));
      const Bytes out = p.section() + p.interface() + p.packet(1, zeroed, c.kept ? becomes + end : Bytes());
      const Anonymized done = anonymize(in);
      EXPECT_EQ(done.file, out) << c.code << " of " << c.size;
      EXPECT_EQ(done.container.options_dropped, c.kept ? 0u : 1u) << c.code << " of " << c.size;
    }
    // One that is longer than its block is none.
    const Bytes broken = p.u16(2) + p.u16(400) + p.u32(1);
    EXPECT_EQ(anonymize(p.section() + p.interface() + p.packet(1, frame, broken)).file,
              p.section() + p.interface() + p.packet(1, zeroed));
  }
}

struct Clock {
  const char* what;
  std::optional<std::uint8_t> resolution;
  std::uint64_t per_second;
};

TEST(AnonymizeFile, MovesTheEarliestTimeToZeroOnEveryClock) {
  const Clock clocks[] = {{"microseconds", {}, 1'000'000},
                          {"seconds", 0, 1},
                          {"milliseconds", 3, 1000},
                          {"nanoseconds", 9, 1'000'000'000},
                          {"picoseconds", 12, 1'000'000'000'000},
                          {"1/1024 s", 0x8A, 1024},
                          {"2^-20 s", 0x94, 1 << 20}};
  for (const Order& o : orders)
    for (const Clock& c : clocks)
      for (const std::int64_t offset : {0, 1000, -1000}) {
        const Pcapng p = in_order(o);
        Bytes resolution = c.resolution ? p.option(9, {*c.resolution}) : Bytes();
        Bytes options = resolution;
        if (offset != 0) options = options + p.option(14, p.u64(static_cast<std::uint64_t>(offset)));
        const Bytes end = p.option(0, {});
        const std::uint64_t t = 5000 * c.per_second;  // of the earliest packet, not the first one
        const Bytes in = p.section() + p.interface(options.empty() ? options : options + end) +
                         p.packet(t + 7 * c.per_second, frame) + p.packet(t, frame) +
                         p.old_packet(t + c.per_second, frame);
        const Bytes out = p.section() + p.interface(resolution.empty() ? resolution : resolution + end) +
                          p.packet(7 * c.per_second, zeroed) + p.packet(0, zeroed) + p.old_packet(c.per_second, zeroed);
        const Anonymized done = anonymize(in, {.shift_time = true});
        EXPECT_EQ(done.container.options_dropped, 0u);
        EXPECT_EQ(done.file, out) << c.what << ", offset " << offset;
      }
}

struct Magic {
  std::uint32_t number;
  std::uint32_t per_second;
  std::size_t more;  ///< octets that a record's header has beyond 16
};
const Magic magics[] = {{0xA1B2C3D4, 1'000'000, 0}, {0xA1B23C4D, 1'000'000'000, 0}, {0xA1B2CD34, 1'000'000, 8}};

TEST(AnonymizeFile, APcapFileKeepsEverythingOfItsHeadersButTimeZoneAndAccuracy) {
  for (const Order& o : orders)
    for (const Magic& m : magics)
      for (const bool shift : {false, true}) {
        const auto record = [&](std::uint32_t seconds, std::uint32_t fraction, const Bytes& octets, std::uint8_t more) {
          return o.u32(seconds) + o.u32(fraction) + o.u32(static_cast<std::uint32_t>(octets.size())) + o.u32(1500) +
                 Bytes(m.more, more) + octets;
        };
        const auto header = [&](std::uint32_t other) {
          return o.u32(m.number) + o.u16(2) + o.u16(4) + o.u32(other) + o.u32(other) + o.u32(96) + o.u32(1);
        };
        const std::uint32_t half = m.per_second / 2;
        const Bytes in = header(3600) + record(1000, half, frame, 7) + record(1002, half - 1, frame, 7);
        const Bytes out = header(0) + (shift ? record(0, 0, zeroed, 0) + record(1, m.per_second - 1, zeroed, 0)
                                             : record(1000, half, zeroed, 0) + record(1002, half - 1, zeroed, 0));
        EXPECT_EQ(anonymize(in, {.shift_time = shift}).file, out) << o.little << " " << m.number << " " << shift;
      }
}

TEST(AnonymizeFile, RefusesAFileWithoutAFrameThatIsDecodedAndNoOther) {
  const Pcapng p = in_order({true});
  const Bytes foreign = p.block(1, p.u16(147) + p.u16(0) + p.u32(0));
  const std::string why = anonymize(p.section() + foreign + p.packet(1, frame)).refusal;
  EXPECT_NE(why.find("147"), std::string::npos) << why;
  const Bytes both = p.section() + p.interface() + foreign + p.packet(1, frame) + p.packet(2, frame, {}, 1);
  const Anonymized done = anonymize(both);
  EXPECT_EQ(done.refusal, "");
  EXPECT_EQ(done.file,
            p.section() + p.interface() + foreign + p.packet(1, zeroed) + p.packet(2, Bytes(frame.size()), {}, 1));
  EXPECT_EQ(done.frames.other, 2u);
  EXPECT_EQ(anonymize(p.section() + p.interface()).refusal, "") << "nothing in it is nothing to refuse";
}

}  // namespace
}  // namespace parley::capture
