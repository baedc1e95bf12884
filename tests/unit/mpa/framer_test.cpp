// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include "mpa/framer.hpp"
#include "tests/unit/mpa/fpdu_reference.hpp"

namespace parley::mpa {
namespace {

using reference::octets;
using reference::to_hex;

Bytes frame(Framer& framer, ConstBytes header, ConstBytes payload) {
  Bytes out(framer.wire_size(header.size() + payload.size()));
  EXPECT_EQ(framer.frame(header, payload, out), out.size());
  return out;
}

/// The same FPDU by the scatter/gather form.
Bytes gather(Framer& framer, ConstBytes header, std::span<const ConstBytes> payload) {
  std::size_t total = header.size(), wire = 0;
  for (const auto part : payload) total += part.size();
  const std::size_t expected = framer.wire_size(total);
  Bytes side(Framer::side_size(header.size(), total));
  std::vector<ConstBytes> pieces(Framer::gather_pieces(payload.size(), total));
  const std::size_t used = framer.gather(header, payload, side, pieces, wire);
  EXPECT_NE(used, 0U);
  Bytes out;
  for (const auto piece : std::span(pieces).first(used)) out.insert(out.end(), piece.begin(), piece.end());
  EXPECT_EQ(out.size(), expected);
  EXPECT_EQ(wire, expected);
  return out;
}

/// A framer whose next FPDU begins at `position`.
Framer at(std::uint64_t position, bool markers, bool crc = true) {
  return Framer({.crc = crc, .markers = markers}, position);
}

// The Sends of RFC 5044 §A: 18 octets of DDP header, then 24 octets of zeros.
Bytes send_header(std::uint8_t msn) { return {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, msn, 0, 0, 0, 0}; }

// RFC 5044 §A.2
TEST(Framer, ReproducesFigure5) {
  Framer framer = at(0, true);
  const Bytes wire = frame(framer, send_header(1), Bytes(24));
  EXPECT_EQ(to_hex(wire),
            "00000000"
            "002a4143000000000000000000000001"
            "00000000" +
                std::string(48, '0') + "52239983");
  EXPECT_EQ(framer.position(), 52U);
}

TEST(Framer, LeavesTheLeadingMarkerOutOfFigure5WhenMarkersAreOff) {
  Framer framer = at(0, false);
  const Bytes wire = frame(framer, send_header(1), Bytes(24));
  EXPECT_EQ(to_hex(wire),
            "002a4143000000000000000000000001"
            "00000000" +
                std::string(48, '0') + "b7243ec3");
}

// RFC 5044 §A.2: the second FPDU begins at octet 0x1EC, so its marker points 0x14 back.
TEST(Framer, ReproducesFigure6BehindAnFpduThatEndsThere) {
  Framer framer = at(0, true);
  EXPECT_EQ(frame(framer, send_header(1), octets(464, 1)).size(), 0x1ECU);
  const Bytes wire = frame(framer, send_header(2), Bytes(24));
  EXPECT_EQ(to_hex(wire),
            "002a4143000000000000000000000002"
            "00000000"
            "00000014" +
                std::string(48, '0') + "84925898");
}

TEST(Framer, ReproducesEveryRecordedVectorInOneStream) {
  const auto vectors = reference::read_vectors();
  ASSERT_EQ(vectors.size(), 4U);
  Framer copying = at(0, true), gathering = at(0, true);
  for (const auto& vector : vectors) {
    ASSERT_EQ(copying.position(), vector.offset) << vector.title;
    const auto found = reference::deframe(Deframer({.markers = true}, vector.offset), vector.octets,
                                          [&] { return vector.octets.size(); });
    ASSERT_EQ(found.ulpdus.size(), 1U) << vector.title;
    const ConstBytes ulpdu = found.ulpdus[0];
    EXPECT_EQ(to_hex(frame(copying, ulpdu.first(18), ulpdu.subspan(18))), to_hex(vector.octets)) << vector.title;
    const ConstBytes payload[] = {ulpdu.subspan(18)};
    EXPECT_EQ(to_hex(gather(gathering, ulpdu.first(18), payload)), to_hex(vector.octets)) << vector.title;
  }
}

// RFC 5044 §4.3: every position an FPDU can begin at, every place a marker can fall.
TEST(Framer, AgreesWithTheWordByWordReferenceAtEveryPosition) {
  const Bytes data = octets(3000, 7);
  for (std::uint64_t position = 0; position < 1024; position += 4)
    for (const std::size_t size : {1U, 2U, 3U, 18U, 42U, 250U, 498U, 502U, 503U, 506U, 507U, 1018U, 1454U, 2999U}) {
      const ConstBytes ulpdu = ConstBytes(data).first(size);
      const std::size_t header = std::min<std::size_t>(size, position % 23);
      Framer copying = at(position, true), gathering = at(position, true);
      const std::string expected = to_hex(reference::fpdu(position, ulpdu, true));
      ASSERT_EQ(to_hex(frame(copying, ulpdu.first(header), ulpdu.subspan(header))), expected)
          << size << " at " << position;
      const ConstBytes payload[] = {
          ulpdu.subspan(header, (size - header) / 2), {}, ulpdu.subspan(header + (size - header) / 2)};
      ASSERT_EQ(to_hex(gather(gathering, ulpdu.first(header), payload)), expected) << size << " at " << position;
      ASSERT_EQ(copying.position(), position + expected.size() / 2);
      ASSERT_EQ(gathering.position(), copying.position());
    }
}

TEST(Framer, AgreesWithTheReferenceForRandomStreams) {
  std::mt19937_64 random(2026);
  const Bytes data = octets(PARLEY_MPA_ULPDU_MAX, 8);
  for (int stream = 0; stream < 40; ++stream) {
    const bool markers = stream % 2 == 0, crc = stream % 4 < 2;
    const std::uint64_t start = stream < 30 ? 0 : (std::uint64_t{1} << 32) - 64;  // across the sequence number's wrap
    Framer copying = at(start, markers, crc), gathering = at(start, markers, crc);
    for (int i = 0; i < 12; ++i) {
      const std::size_t size = 1 + random() % (i == 11 ? PARLEY_MPA_ULPDU_MAX : 2000);
      const ConstBytes ulpdu = ConstBytes(data).first(size);
      const std::size_t header = random() % (std::min<std::size_t>(size, 60) + 1);
      const std::string expected = to_hex(reference::fpdu(copying.position(), ulpdu, markers, crc));
      ASSERT_EQ(to_hex(frame(copying, ulpdu.first(header), ulpdu.subspan(header))), expected);
      std::vector<ConstBytes> payload;
      for (ConstBytes rest = ulpdu.subspan(header); !rest.empty(); rest = rest.subspan(payload.back().size()))
        payload.push_back(rest.first(std::min<std::size_t>(rest.size(), 1 + random() % 900)));
      ASSERT_EQ(to_hex(gather(gathering, ulpdu.first(header), payload)), expected);
    }
  }
}

// RFC 5044 §4.4: the field stays; what stands in it is not looked at.
TEST(Framer, SendsAZeroCrcFieldWhenCrcIsOff) {
  Framer framer = at(0, false, false);
  EXPECT_EQ(to_hex(frame(framer, {}, Bytes{0xAB, 0xCD})), "0002abcd00000000");
  const Bytes data{0xAB};
  const ConstBytes payload[] = {data};
  EXPECT_EQ(to_hex(gather(framer, {}, payload)), "0001ab0000000000");
}

TEST(Framer, GathersThePayloadWithoutCopyingIt) {
  const Bytes payload = octets(1400, 9);
  const ConstBytes spans[] = {payload};
  for (const bool markers : {false, true}) {
    Framer framer = at(0, markers);
    Bytes side(Framer::side_size(18, 1418));
    std::vector<ConstBytes> pieces(Framer::gather_pieces(1, 1418));
    std::size_t wire = 0, borrowed = 0;
    const std::size_t used = framer.gather(send_header(1), spans, side, pieces, wire);
    for (const auto piece : std::span(pieces).first(used))
      if (piece.data() >= payload.data() && piece.data() < payload.data() + payload.size()) borrowed += piece.size();
    EXPECT_EQ(borrowed, payload.size());
    EXPECT_EQ(used, markers ? 7U : 3U);  // with markers: head, part, marker, part, marker, part, tail
  }
}

// RFC 5044 §3: 1 to 64768 octets.
TEST(Framer, RefusesLengthsNoUlpduHas) {
  const Bytes data(PARLEY_MPA_ULPDU_MAX + 2);
  const auto all = ConstBytes(data);
  Bytes out(70000), side(70000);
  std::vector<ConstBytes> pieces(400);
  for (const bool markers : {false, true}) {
    Framer framer = at(512, markers);
    std::size_t wire = 1;
    const ConstBytes over[] = {all.first(60000), all.first(4769)};
    const ConstBytes full_then_more[] = {all.first(64768), all.first(1)};
    EXPECT_EQ(framer.frame({}, {}, out), 0U);
    EXPECT_EQ(framer.frame(all.first(1), all.first(64768), out), 0U);
    EXPECT_EQ(framer.gather({}, {}, side, pieces, wire), 0U);
    EXPECT_EQ(framer.gather({}, over, side, pieces, wire), 0U);
    EXPECT_EQ(framer.gather({}, full_then_more, side, pieces, wire), 0U);
    EXPECT_EQ(wire, 0U);
    EXPECT_EQ(framer.position(), 512U);
    EXPECT_EQ(framer.frame(all.first(1), all.first(64767), out), fpdu::wire_size(512, 64768, markers));
  }
}

TEST(Framer, RefusesBuffersThatAreTooSmallAndChangesNothing) {
  const Bytes data = octets(1300, 10);
  const ConstBytes payload[] = {data};
  for (const bool markers : {false, true}) {
    Framer framer = at(400, markers);
    const std::size_t need = framer.wire_size(1318);
    const std::size_t side_need = markers ? Framer::side_size(18, 1318) : 2 + 18 + fpdu::pad(1318) + 4;
    Bytes out(need + 1, 0x5A), side(side_need);
    std::vector<ConstBytes> pieces(Framer::gather_pieces(1, 1318));
    std::size_t wire = 0;
    for (std::size_t room = 0; room < need; ++room)
      ASSERT_EQ(framer.frame(send_header(1), data, MutBytes(out).first(room)), 0U);
    EXPECT_EQ(out, Bytes(need + 1, 0x5A));
    for (std::size_t room = 0; room < side_need; ++room)
      ASSERT_EQ(framer.gather(send_header(1), payload, MutBytes(side).first(room), pieces, wire), 0U);
    for (std::size_t room = 0; room < 3; ++room)
      ASSERT_EQ(framer.gather(send_header(1), payload, side, std::span(pieces).first(room), wire), 0U);
    EXPECT_EQ(framer.position(), 400U);
    EXPECT_EQ(framer.frame(send_header(1), data, out), need);
    EXPECT_EQ(out[need], 0x5A);
  }
}

TEST(Framer, PredictsTheSizeOnTheWire) {
  for (std::uint64_t position = 0; position < 512; position += 4)
    for (std::size_t size = 1; size < 1600; size += 3)
      ASSERT_EQ(at(position, true).wire_size(size), reference::fpdu(position, Bytes(size), true).size());
}

// RFC 5044 §4.5
TEST(Conformance, Row67_UlpduFitsTheSegment) {
  struct Row {
    std::uint16_t emss, on, off;
  };
  for (const Row& row :
       {Row{536, 522, 530}, Row{1220, 1202, 1214}, Row{1428, 1410, 1422}, Row{1440, 1422, 1434}, Row{1448, 1430, 1442},
        Row{1460, 1442, 1454}, Row{4096, 4058, 4090}, Row{8948, 8870, 8942}, Row{8960, 8882, 8954}}) {
    EXPECT_EQ(mulpdu_of(row.emss, true), row.on) << row.emss;
    EXPECT_EQ(mulpdu_of(row.emss, false), row.off) << row.emss;
    EXPECT_EQ(Framer({.markers = true, .emss = row.emss}).mulpdu(), row.on);
    for (std::uint64_t position = 0; position < 512; position += 4) {
      EXPECT_LE(fpdu::wire_size(position, row.on, true), row.emss);
      EXPECT_LE(fpdu::wire_size(position, row.off, false), row.emss);
    }
  }
}

// RFC 5044 §4.5: also where the segment is no multiple of four octets.
TEST(Framer, FitsAnFpduIntoSegmentsOfEverySize) {
  EXPECT_EQ(mulpdu_of(1461, false), 1454);
  EXPECT_EQ(mulpdu_of(1463, true), 1442);
  for (std::uint16_t emss = 536; emss <= 2100; ++emss) {
    ASSERT_LE(fpdu::wire_size(0, mulpdu_of(emss, false), false), emss);
    ASSERT_GT(fpdu::wire_size(0, mulpdu_of(emss, false) + 1U, false), emss);
    for (std::uint64_t position = 0; position < 512; position += 4)
      ASSERT_LE(fpdu::wire_size(position, mulpdu_of(emss, true), true), emss) << position;
  }
}

// RFC 5044 §3: MULPDU is 128 to 64768, whatever the segment size.
TEST(Framer, KeepsMulpduInItsRange) {
  for (std::uint32_t emss = 0; emss <= 0xFFFF; ++emss)
    for (const bool markers : {false, true}) {
      const auto mulpdu = mulpdu_of(static_cast<std::uint16_t>(emss), markers);
      ASSERT_GE(mulpdu, 128) << emss;
      ASSERT_LE(mulpdu, 64768) << emss;
    }
  EXPECT_EQ(mulpdu_of(100, false), 128);
  EXPECT_EQ(mulpdu_of(65535, false), 64768);
}

}  // namespace
}  // namespace parley::mpa
