// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The startup frame codec: every field where the RFCs draw it, and a borrow that prints anything.
#include <gtest/gtest.h>

#include <string>

#include "wire/mpa.hpp"

namespace parley::wire {
namespace {

Bytes text(std::string_view s) { return {s.begin(), s.end()}; }

const Bytes siw_request{0x4d, 0x50, 0x41, 0x20, 0x49, 0x44, 0x20, 0x52, 0x65, 0x71, 0x20, 0x46,
                        0x72, 0x61, 0x6d, 0x65, 0x50, 0x02, 0x00, 0x04, 0x80, 0x01, 0xc0, 0x01};

TEST(WireMpa, KeysAreThoseOfTheSpecs) {  // RFC 5044 §7.1.1, OFA 2007-10 Rtr §1
  EXPECT_EQ(classify_mpa_key(text("MPA ID Req Frame")), MpaKey::req);
  EXPECT_EQ(classify_mpa_key(text("MPA ID Rep Frame")), MpaKey::rep);
  EXPECT_EQ(classify_mpa_key(text("MPA ID Rtr Frame")), MpaKey::rtr);
  EXPECT_EQ(classify_mpa_key(text("MPA ID RtR Frame")), MpaKey::rtr_hex);
  EXPECT_EQ(classify_mpa_key(text("MPA ID Foo Frame")), MpaKey::unknown);
  EXPECT_EQ(classify_mpa_key(text("MPA ID Req Fram")), MpaKey::unknown);
  EXPECT_EQ(to_string(MpaKey::rtr), "MPA ID Rtr Frame");
  EXPECT_EQ(to_string(MpaKey::unknown), "unknown key");
}

TEST(WireMpa, AHeadMayBecomeAKeyUntilItCannot) {
  const Bytes key = text("MPA ID RtR Frame");
  for (std::size_t n = 0; n <= key.size(); ++n) EXPECT_TRUE(may_become_mpa_key(ConstBytes(key).first(n))) << n;
  EXPECT_FALSE(may_become_mpa_key(text("X")));
  EXPECT_FALSE(may_become_mpa_key(text("MPA ID RX")));
  EXPECT_FALSE(may_become_mpa_key(text("MPA ID Req Frame!")));
}

TEST(WireMpa, RealRequestParses) {
  const auto f = MpaFrameView::parse(siw_request);
  ASSERT_TRUE(f);
  EXPECT_EQ(f->key, MpaKey::req);
  EXPECT_FALSE(f->m());
  EXPECT_TRUE(f->c());
  EXPECT_FALSE(f->r());
  EXPECT_TRUE(f->s());
  EXPECT_EQ(f->revision, 2);
  EXPECT_EQ(f->frame_size(), 24u);
  EXPECT_TRUE(f->complete());
  const auto e = MpaEnhanced::parse(f->private_data);
  ASSERT_TRUE(e);
  EXPECT_EQ(*e, (MpaEnhanced{.a = true, .c = true, .d = true, .ird = 1, .ord = 1}));
}

TEST(WireMpa, ReservedBitsDependOnTheRevision) {  // RFC 5044 §7.1.1, RFC 6581 §6
  Bytes b = siw_request;
  b[16] = 0xFF;
  EXPECT_EQ(MpaFrameView::parse(b)->reserved(), 0x0F);
  b[17] = 1;
  EXPECT_EQ(MpaFrameView::parse(b)->reserved(), 0x1F);
}

TEST(WireMpa, AnyTwentyOctetsAreAFrameView) {
  for (int fill = 0; fill < 256; ++fill) {
    const Bytes b(20, static_cast<std::uint8_t>(fill));
    const auto f = MpaFrameView::parse(b);
    ASSERT_TRUE(f);
    EXPECT_EQ(f->key, MpaKey::unknown);
    EXPECT_EQ(f->pd_length, fill * 257);
    EXPECT_EQ(f->frame_size(), 20u + static_cast<unsigned>(fill) * 257u);
    EXPECT_EQ(f->complete(), fill == 0);
  }
}

TEST(WireMpa, FewerOctetsAreTruncated) {
  for (std::size_t n = 0; n < 20; ++n)
    EXPECT_EQ(MpaFrameView::parse(ConstBytes(siw_request).first(n)).error(), Errc::truncated) << n;
  const auto f = MpaFrameView::parse(ConstBytes(siw_request).first(22));
  EXPECT_EQ(f->private_data.size(), 2u);
  EXPECT_FALSE(f->complete());
}

TEST(WireMpa, OctetsBehindTheFrameAreNotPrivateData) {
  Bytes b = siw_request;
  b.push_back(0xAA);
  EXPECT_EQ(MpaFrameView::parse(b)->private_data.size(), 4u);
}

TEST(WireMpa, EnhancedDataRoundTripsAllBits) {  // RFC 6581 §6
  for (int bits = 0; bits < 16; ++bits)
    for (const int depth : {0, 1, 0x1234, 0x3FFE, 0x3FFF}) {
      const MpaEnhanced e{.a = (bits & 8) != 0,
                          .b = (bits & 4) != 0,
                          .c = (bits & 2) != 0,
                          .d = (bits & 1) != 0,
                          .ird = static_cast<std::uint16_t>(depth),
                          .ord = static_cast<std::uint16_t>(0x3FFF - depth)};
      Bytes out(4);
      e.emit(out);
      EXPECT_EQ(*MpaEnhanced::parse(out), e);
    }
  Bytes out(4);
  MpaEnhanced{.a = true, .ird = 8, .ord = 9}.emit(out);
  EXPECT_EQ(out, (Bytes{0x80, 0x08, 0x00, 0x09}));
  MpaEnhanced{.b = true}.emit(out);
  EXPECT_EQ(out, (Bytes{0x40, 0, 0, 0}));
  MpaEnhanced{.c = true}.emit(out);
  EXPECT_EQ(out, (Bytes{0, 0, 0x80, 0}));
  MpaEnhanced{.d = true}.emit(out);
  EXPECT_EQ(out, (Bytes{0, 0, 0x40, 0}));
  for (std::size_t n = 0; n < 4; ++n) EXPECT_EQ(MpaEnhanced::parse(Bytes(n)).error(), Errc::truncated);
}

TEST(WireMpa, EmitsWhatParseReads) {
  const Bytes data = text("private");
  const MpaFrame frame{.key = MpaKey::rep,
                       .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                       .revision = 2,
                       .enhanced = MpaEnhanced{.ird = 1, .ord = 2},
                       .private_data = data};
  const auto octets = frame.emit();
  ASSERT_TRUE(octets);
  const auto f = MpaFrameView::parse(*octets);
  EXPECT_EQ(f->key, MpaKey::rep);
  EXPECT_EQ(f->pd_length, 11);
  EXPECT_TRUE(f->complete());
  EXPECT_EQ(octets->size(), 31u);
  EXPECT_EQ(Bytes(octets->begin() + 24, octets->end()), data);
}

TEST(WireMpa, RealRequestIsEmittedOctetForOctet) {
  const MpaFrame frame{.flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                       .revision = 2,
                       .enhanced = MpaEnhanced{.a = true, .c = true, .d = true, .ird = 1, .ord = 1}};
  EXPECT_EQ(*frame.emit(), siw_request);
}

TEST(WireMpa, PrivateDataIsLimitedTo512OctetsInAll) {  // RFC 5044 §7.1.1
  const Bytes full(512), over(513);
  MpaFrame frame{.private_data = full};
  EXPECT_EQ(frame.emit()->size(), 532u);
  frame.private_data = over;
  EXPECT_EQ(frame.emit().error(), Errc::bad_private_data);
  frame.enhanced = MpaEnhanced{};
  frame.private_data = ConstBytes(full).first(508);
  EXPECT_TRUE(frame.emit());
  frame.private_data = ConstBytes(full).first(509);
  EXPECT_EQ(frame.emit().error(), Errc::bad_private_data);
}

}  // namespace
}  // namespace parley::wire
