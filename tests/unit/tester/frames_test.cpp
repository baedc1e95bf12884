// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The octets that scripts are made of, right and wrong.
#include "tester/frames.hpp"

#include <gtest/gtest.h>

#include "mpa/deframer.hpp"
#include "mpa/framer.hpp"

namespace parley::tester {
namespace {

TEST(TesterFrames, FpdusAreThoseOfTheFramerUntilAskedOtherwise) {  // RFC 5044 §4.1, §4.3, §4.4
  for (const bool markers : {false, true}) {
    FpduWriter writer(true, markers);
    mpa::Framer framer({.crc = true, .markers = markers, .emss = 65000});
    std::vector<std::size_t> sizes{18, 19, 20, 21, 500, 512, 1441, 9000};
    for (std::size_t size = 470; size < 530; ++size) sizes.push_back(size);  // markers at each place of an FPDU
    for (const std::size_t size : sizes) {
      const Bytes ulpdu = Bytes(size, static_cast<std::uint8_t>(size));
      Bytes expected(framer.wire_size(size));
      ASSERT_EQ(framer.frame(ulpdu, {}, expected), expected.size());
      EXPECT_EQ(writer.write(ulpdu), expected) << size;
      EXPECT_EQ(writer.position(), framer.position());
    }
  }
}

TEST(TesterFrames, EachFaultIsTheOneAskedFor) {
  const auto status = [](bool markers, const FpduFaults& faults) {
    FpduWriter writer(true, markers);
    const Bytes octets = writer.write(Bytes(600, 7), faults);
    mpa::Deframer deframer({.crc = true, .markers = markers});
    deframer.feed(octets);
    mpa::FpduView view;
    return deframer.next(view);
  };
  EXPECT_EQ(status(false, {}), mpa::DeframeStatus::fpdu);
  EXPECT_EQ(status(true, {}), mpa::DeframeStatus::fpdu);
  EXPECT_EQ(status(false, {.bad_crc = true}), mpa::DeframeStatus::crc_error);
  EXPECT_EQ(status(true, {.fpduptr_add = 4}), mpa::DeframeStatus::marker_error);
  EXPECT_EQ(status(true, {.marker_reserved = 0xFFFF}), mpa::DeframeStatus::fpdu);
  EXPECT_EQ(status(false, {.pad = 0xFF}), mpa::DeframeStatus::fpdu);
  EXPECT_EQ(status(false, {.length = 0}), mpa::DeframeStatus::length_error);
}

TEST(TesterFrames, AFaultChangesNothingElse) {
  const Bytes ulpdu(600, 7);
  const auto differing = [&](const FpduFaults& faults, bool markers) {
    const Bytes good = FpduWriter(true, markers).write(ulpdu), bad = FpduWriter(true, markers).write(ulpdu, faults);
    EXPECT_EQ(good.size(), bad.size());
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i + PARLEY_MPA_CRC_LEN < good.size(); ++i)
      if (good[i] != bad[i]) out.push_back(i);
    return out;
  };
  using Places = std::vector<std::size_t>;
  EXPECT_EQ(differing({.bad_crc = true}, false), Places{});
  EXPECT_EQ(differing({.length = 601}, false), Places{1});
  EXPECT_EQ(differing({.pad = 1}, false), (Places{602, 603}));
  EXPECT_EQ(differing({.marker_reserved = 0x0101}, true), (Places{0, 1, 512, 513}));
  EXPECT_EQ(differing({.fpduptr_add = 4}, true), (Places{3, 514, 515})) << "508 + 4 is 512";
  const Bytes marked = FpduWriter(true, true).write(ulpdu, {.fpduptr_add = 4});
  EXPECT_EQ(Bytes(marked.begin() + 512, marked.begin() + 516), (Bytes{0, 0, 2, 0}));
}

TEST(TesterFrames, AStartupFrameHasWhatItIsGiven) {  // RFC 5044 §7.1.1, RFC 6581 §6
  const auto words = [](std::string_view key, Bytes rest) {
    Bytes out(key.begin(), key.end());
    out.resize(PARLEY_MPA_KEY_LEN);
    out.insert(out.end(), rest.begin(), rest.end());
    return out;
  };
  EXPECT_EQ(startup({.key = PARLEY_MPA_KEY_REP, .flags = 0x40, .revision = 3}),
            words(PARLEY_MPA_KEY_REP, {0x40, 3, 0, 0}));
  EXPECT_EQ(startup({.revision = 2, .enhanced = enhanced(0x8005, 0x4007), .private_data = {1, 2}, .trailing = {9}}),
            words(PARLEY_MPA_KEY_REQ, {0, 2, 0, 6, 0x80, 5, 0x40, 7, 1, 2, 9}));
  EXPECT_EQ(startup({.private_data = {1}, .pd_length = 0x0203}), words(PARLEY_MPA_KEY_REQ, {0, 1, 2, 3, 1}));
  EXPECT_EQ(startup({.key = "MPA"}), words("MPA", {0, 1, 0, 0}));
  EXPECT_EQ(startup({.key = "0123456789abcdef and more"}), words("0123456789abcdef", {0, 1, 0, 0}));
}

TEST(TesterFrames, AReadRequestCarriesItsFields) {  // RFC 5040 §4.4
  const wire::ReadRequest asked{.sink_stag = 1, .sink_to = 2, .size = 3, .source_stag = 4, .source_to = 5};
  const Bytes ulpdu = read_request(6, asked);
  const auto header = wire::DdpHeader::parse(ulpdu);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->msn, 6U);
  const auto body = wire::ReadRequest::parse(ConstBytes(ulpdu).subspan(header->size()));
  ASSERT_TRUE(body);
  EXPECT_EQ(std::tuple(body->sink_stag, body->sink_to, body->size, body->source_stag, body->source_to),
            std::tuple(1U, 2U, 3U, 4U, 5U));
}

}  // namespace
}  // namespace parley::tester
