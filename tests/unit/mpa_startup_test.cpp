// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The life of one connection attempt: who may call what when, what comes out, deadlines, and private data.
#include "tests/unit/mpa_startup_kit.hpp"

namespace parley::mpa {
namespace {
using namespace kit;

TEST(MpaStartup, InitiatorSendsItsRequestAtOnceAndOnlyOnce) {  // RFC 5044 §7.1.2 rule 1
  Startup m = initiator(rev1(), text_bytes("hi"));
  EXPECT_EQ(to_hex(m.poll_transmit()), to_hex(req(0x40, 1, text_bytes("hi"))));
  EXPECT_TRUE(m.poll_transmit().empty());
  EXPECT_EQ(m.state(), State::wait_reply);
}

TEST(MpaStartup, ResponderHasNothingToSendBeforeItsUlpDecides) {  // RFC 5044 §7.1.2 rule 2
  Startup m = asked(req(0x40, 1));
  EXPECT_TRUE(m.poll_transmit().empty());
  EXPECT_EQ(m.next_deadline(), never);
}

TEST(MpaStartup, TwoParleysConnectByDefaultWithRevisionTwo) {
  Pair p({}, {});
  ASSERT_EQ(p.i.state(), State::open);
  ASSERT_EQ(p.r.state(), State::open);
  EXPECT_EQ(p.i.parameters().revision, 2);
  EXPECT_TRUE(p.i.parameters().crc);
  EXPECT_EQ(p.i.parameters().ord, 32);
  EXPECT_TRUE(p.i.parameters().depths_negotiated);
  ASSERT_EQ(p.r_events.size(), 3u);
  EXPECT_EQ(p.r_events[0].kind, Kind::request);
  EXPECT_EQ(p.r_events[1].kind, Kind::fpdu_mode);
  EXPECT_EQ(p.r_events[2].kind, Kind::established);
}

}  // namespace
}  // namespace parley::mpa
