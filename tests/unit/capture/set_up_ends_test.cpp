// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a set-up ends: what a responder's Terminate behind the Rtr frame proves, and a close without a Reply.
#include <set>

#include "tests/unit/capture/stories.hpp"

namespace parley::capture::set_up_ends {
namespace {

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, S = PARLEY_MPA_FLAG_S, M = PARLEY_MPA_FLAG_M;

std::set<std::string_view> keys(const ConnectionReport& c) {
  std::set<std::string_view> out;
  for (const Finding& f : c.findings) out.insert(f.key());
  return out;
}

/// The Rtr frame was agreed and sent; the responder answers it.
test::Exchange rtr_frame_sent() {
  test::Exchange x;
  x.open()
      .send(0, test::startup(wire::MpaKey::req, C | S, 1))
      .send(1, test::startup(wire::MpaKey::rep, C | S, 1))
      .send(0, test::startup(wire::MpaKey::rtr, C, 1));
  return x;
}
ConnectionReport terminated(std::uint8_t layer_and_type, std::uint8_t code) {
  test::Exchange x = rtr_frame_sent().send(1, test::fpdu(test::terminate(layer_and_type, code, 0))).close();
  FileReport r = test::analyse(x.frames);
  return r.connections.empty() ? ConnectionReport{} : std::move(r.connections.front());
}

TEST(CaptureSetUpEnds, ALocalErrorBehindTheRtrFrameDoesNotShowThatItWasTakenForAnFpdu) {
  // RFC 5040 §4.8, RFC 6581 §8: 0/0/00 and, with the type that hardware writes, 2/3/05.
  for (const auto& [control, code] : {std::pair(0x00, 0), std::pair(0x23, 5)}) {
    const ConnectionReport c = terminated(static_cast<std::uint8_t>(control), static_cast<std::uint8_t>(code));
    EXPECT_EQ(c.outcome, Outcome::established) << control;
    EXPECT_FALSE(keys(c).contains("mpa.rtr-frame-as-fpdu")) << control;
  }
}

TEST(CaptureSetUpEnds, ATerminateOfWhatTheRtrFrameIsAsAnFpduShowsThatItWasTakenForOne) {
  // An RDMAP version of 0: 0/2/05, which Linux siw writes as 2/0/05. Or a CRC that is wrong.
  for (const auto& [control, code] : {std::pair(0x02, 5), std::pair(0x20, 5), std::pair(0x20, 2), std::pair(0x23, 2)}) {
    const ConnectionReport c = terminated(static_cast<std::uint8_t>(control), static_cast<std::uint8_t>(code));
    EXPECT_EQ(c.outcome, Outcome::failed) << control << " " << code;
    EXPECT_TRUE(keys(c).contains("mpa.rtr-frame-as-fpdu")) << control << " " << code;
  }
}

TEST(CaptureSetUpEnds, AnInvalidRdmapVersionBehindTheRtrFrameIsReadAsItWasSent) {
  // RFC 5040 §4.8: 0x0205. The frame gives cause for it, so that it is not siw's order of 2/0/05; 0x2005 is that of 0/2/05.
  EXPECT_FALSE(keys(terminated(0x02, 5)).contains("rdmap.terminate-order"));
  EXPECT_TRUE(keys(terminated(0x20, 5)).contains("rdmap.terminate-order"));
}

TEST(CaptureSetUpEnds, AResponderMayCloseWithoutAReplyToRevision0) {
  // RFC 5044 §7.1.1: a receiver that cannot interoperate with the revision closes the connection.
  for (const std::uint8_t revision : {std::uint8_t{0}, std::uint8_t{1}}) {
    const Bytes request = test::startup(wire::MpaKey::req, C | M, revision);
    const FileReport r = test::analyse(test::Exchange().open().send(0, request).fin(1).fin(0).frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_EQ(r.connections[0].outcome, Outcome::failed);
    EXPECT_EQ(keys(r.connections[0]).contains("mpa.request-unanswered"), revision == 1);
  }
}

TEST(CaptureSetUpEnds, AResponderThatClosesWithoutAReplyMayNotKnowRevision2) {
  const std::pair<std::uint8_t, std::optional<wire::MpaEnhanced>> requests[] = {{C | S, wire::MpaEnhanced{}}, {C, {}}};
  for (const auto& [flags, enhanced] : requests) {
    const Bytes request = test::startup(wire::MpaKey::req, flags, 2, enhanced);
    const FileReport r = test::analyse(test::Exchange().open().send(0, request).fin(1).fin(0).frames);
    ASSERT_EQ(r.connections.size(), 1u);
    EXPECT_TRUE(keys(r.connections[0]).contains("mpa.revision-2-unanswered")) << enhanced.has_value();
  }
}

}  // namespace
}  // namespace parley::capture::set_up_ends
