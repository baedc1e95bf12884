// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A whole negotiation, octet by octet as docs/negotiation.md has them (Wire format).
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "parley/neg_qp.hpp"
#include "parley/neg_session.hpp"

namespace parley::neg {
namespace {

struct Ends {
  Ends() {
    EXPECT_TRUE(framework.add(make_builtin_plugin()));
    const Config own{{"qpn", "0x11"}, {"psn", "100"},  {"gid", "192.0.2.1"}, {"lid", "3"},
                     {"ird", "4"},    {"rkey", "0x7"}, {"vaddr", "0x1000"},  {"length", "64"}};
    const Config peers{{"qpn", "0x22"}, {"psn", "200"}, {"gid", "2001:db8::2"}, {"mtu", "4096"}, {"ord", "5"}};
    initiator.emplace(*Session::initiate({.plugin = "parley", .variant = "manual", .label = "t"},
                                         *framework.make("parley", "manual", Role::initiator, own), {}, {}));
    responder.emplace(*Session::respond(
        [this, peers](const Request& request) {
          return framework.make(request.plugin, request.variant, Role::responder, peers);
        },
        {}, {}));
  }
  /// What one says next, which the other hears.
  std::string say(Session& from, Session& to) {
    const Bytes said = from.poll_transmit();
    to.handle_bytes({}, said);
    return hex_digits(said);
  }
  Framework framework;
  std::optional<Session> initiator, responder;
};

/// Without the blanks.
std::string digits(std::string text) {
  std::erase(text, ' ');
  return text;
}

TEST(NegOctets, ANegotiationOfTypedInValues) {
  Ends e;
  EXPECT_EQ(e.say(*e.initiator, *e.responder),
            digits("51506e67 01010000 00000000 00000019"  // magic; version, Hello, no stage, no flags; no round; length
                   "8001 0006 7061726c6579"               // "parley"
                   "8002 0006 6d616e75616c"               // "manual"
                   "0004 0001 74"
                   "51506e67 01030180 00010000 00000058"  // the last Turn of info, round 1
                   "01010000"                             // version, RC
                   "8001 0004 00000011"
                   "8002 0004 00000064"
                   "0003 0002 0003"
                   "0004 0010 00000000000000000000ffffc0000201"
                   "0005 0004 00000400"
                   "0006 0001 04"
                   "0007 0001 01"
                   "000b 0014 00000007 0000000000001000 0000000000000040"));
  EXPECT_EQ(e.say(*e.responder, *e.initiator),
            digits("51506e67 01020000 00000000 00000000"  // Welcome
                   "51506e67 01030180 00010000 0000003a"
                   "01010000"
                   "8001 0004 00000022"
                   "8002 0004 000000c8"
                   "0004 0010 20010db8000000000000000000000002"
                   "0005 0004 00001000"
                   "0006 0001 01"
                   "0007 0001 05"));
  const std::string in_rts = digits("51506e67 01030280 00010000 00000001 01");
  EXPECT_EQ(e.say(*e.initiator, *e.responder), in_rts);
  EXPECT_EQ(e.say(*e.responder, *e.initiator), in_rts);
  EXPECT_TRUE(e.initiator->completed() && e.responder->completed());
}

}  // namespace
}  // namespace parley::neg
