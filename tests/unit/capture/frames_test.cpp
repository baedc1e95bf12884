// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A finding stands at the frame that proves it.
#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture::frames_test {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;
using test::startup;
using wire::MpaKey;
using wire::RdmapOpcode;

constexpr std::uint8_t C = PARLEY_MPA_FLAG_C, S = PARLEY_MPA_FLAG_S;

/// "6 error RFC 5041 §4.3" of each error and warning.
std::vector<std::string> placed(const Exchange& x) {
  std::vector<std::string> out;
  for (const auto& c : test::analyse(x.frames).connections)
    for (const auto& f : c.findings)
      if (f.severity != Severity::note)
        out.push_back(std::to_string(f.frame) + " " + std::string(to_string(f.severity)) + " " + f.rule);
  return out;
}
using Places = std::vector<std::string>;

Exchange set_up() {  // five frames
  Exchange x;
  x.set_up();
  return x;
}
Bytes part(std::uint32_t mo, bool last) { return send_segment(1, 10, mo, last); }
Bytes write(std::uint64_t to, bool last) { return test::tagged(RdmapOpcode::rdma_write, 5, to, 10, last); }
Bytes terminate(std::uint8_t octet0, std::uint8_t code) {
  wire::DdpHeader h;
  h.opcode = RdmapOpcode::terminate;
  h.qn = 2;
  h.msn = 1;
  return test::segment(h, Bytes{octet0, code, 0, 0});
}

TEST(CaptureFrames, AnFpduThatStraddlesFramesIsJudgedWhereItIsWhole) {
  const Bytes wrong = fpdu(send_segment(2, 100));  // RFC 5041 §4.3: 1 is due
  EXPECT_EQ(placed(set_up().send(0, wrong).fin(0)), Places{"6 error RFC 5041 §4.3"});
  EXPECT_EQ(placed(set_up().send(0, wrong, 50).fin(0)), Places{"8 error RFC 5041 §4.3"});
  const Bytes empty = fpdu(test::tagged(RdmapOpcode::read_response, 1, 0, 30));
  EXPECT_EQ(placed(set_up().send(0, empty, 40).fin(0)), Places{"7 error RFC 5040 §5.2"});
}

TEST(CaptureFrames, AnRtrThatWasNotAgreedIsOneWhenItIsWhole) {  // RFC 6581 §9.2
  wire::MpaEnhanced e;
  e.a = e.c = true;
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C | S, 2, e)).send(1, startup(MpaKey::rep, C | S, 2, e));
  EXPECT_EQ(placed(x.send(0, fpdu(send_segment(1, 0)), 12).close()), Places{"7 error RFC 6581 §9.2"});
}

TEST(CaptureFrames, ALengthThatIsNoneShowsWithItsSecondOctet) {  // RFC 5044 §4.1
  EXPECT_EQ(placed(set_up().send(0, Bytes{0xFF}).send(0, Bytes{0xFF, 1, 2}).fin(0)), Places{"7 error RFC 5044 §4.1"});
}

TEST(CaptureFrames, MarkersThatNobodyAskedForShowByAWholeFpdu) {  // RFC 5044 §4.3
  Exchange x;
  x.open().send(0, startup(MpaKey::req, C, 1)).send(1, startup(MpaKey::rep, C, 1));
  EXPECT_EQ(placed(x.send(0, fpdu(send_segment(1, 40), 0, true), 30).fin(0)), Places{"8 error RFC 5044 §4.3"});
}

TEST(CaptureFrames, ALengthOfPrivateDataIsTooMuchOnceTheHeaderIsThere) {  // RFC 5044 §7.1.1
  Bytes request = startup(MpaKey::req, C, 1);
  request[18] = 0x02, request[19] = 0x01;
  request.resize(request.size() + 513);
  Exchange x;
  x.open().send(0, request, 18).fin(0);  // frames 4 to 33
  EXPECT_EQ(placed(x), Places{"5 error RFC 5044 §7.1.1"});
  EXPECT_FALSE(test::analyse(x.frames).connections[0].steps.request);
}

TEST(CaptureFrames, PrivateDataThatNeverCameIsMissedAtTheFin) {  // RFC 5044 §7.1.1
  Bytes request = startup(MpaKey::req, C, 1);
  request[19] = 9;
  Exchange x;
  x.open().send(0, request).fin(0);
  EXPECT_EQ(placed(x), Places{"5 error RFC 5044 §7.1.1"});
  EXPECT_FALSE(test::analyse(x.frames).connections[0].steps.request);
}

TEST(CaptureFrames, WhetherAnSIsAnEchoIsOpenUntilTheInitiatorEnds) {  // OFA 2007-10 Rtr §2
  const auto made = [] {
    Exchange x;
    x.open().send(0, startup(MpaKey::req, C | S, 1)).send(1, startup(MpaKey::rep, C | S, 1));
    return x;
  };
  EXPECT_EQ(placed(made()), Places{});
  EXPECT_EQ(placed(made().fin(1).send(0, startup(MpaKey::rtr, C, 1))), Places{});
  EXPECT_EQ(placed(made().fin(1).fin(0)), Places{"7 warning OFA 2007-10 Rtr §2"});
  EXPECT_EQ(placed(made().rst(1)), Places{"6 warning OFA 2007-10 Rtr §2"});
  EXPECT_EQ(placed(made().send(0, fpdu(terminate(0x20, 7)))), Places{"6 warning OFA 2007-10 Rtr §2"});
}

TEST(CaptureFrames, SegmentsOutOfOrderAreToldWhenTheirMessageIsWhole) {  // RFC 5041 §5.3
  EXPECT_EQ(placed(set_up().send(0, fpdu(part(10, true))).send(0, fpdu(part(0, false))).close()),
            Places{"7 warning RFC 5041 §5.3"});
  EXPECT_EQ(placed(set_up()
                       .send(0, fpdu(write(0, false)))
                       .send(0, fpdu(write(20, true)))
                       .send(0, fpdu(write(10, false)))
                       .close()),
            Places{"8 warning RFC 5041 §5.3"});
}

TEST(CaptureFrames, OctetsLackWhenTheNextMessageBeginsOrAtTheFin) {  // RFC 5041 §5.2
  EXPECT_EQ(placed(set_up().send(0, fpdu(part(10, true))).send(0, fpdu(send_segment(2, 4))).fin(0)),
            Places{"7 error RFC 5041 §5.2"});
  EXPECT_EQ(placed(set_up().send(0, fpdu(part(10, true))).fin(0)), Places{"7 error RFC 5041 §5.2"});
  EXPECT_EQ(placed(set_up().send(0, fpdu(write(0, false))).send(0, fpdu(write(20, true))).fin(0)),
            Places{"8 error RFC 5041 §5.2"});
  // Of a message that is given up before its last segment no more is said.
  EXPECT_EQ(placed(set_up().send(0, fpdu(part(10, false))).send(0, fpdu(send_segment(2, 4))).fin(0)),
            Places{"7 error RFC 5041 §5.2"});
}

TEST(CaptureFrames, WhoResetsOrIsToldOfAnErrorNeedNotSendTheRest) {  // RFC 5040 §5.4
  EXPECT_EQ(placed(set_up().send(0, fpdu(part(10, true))).rst(0)), Places{"7 warning RFC 5041 §5.3"});
  Exchange x = set_up().send(0, fpdu(part(10, true))).send(1, fpdu(terminate(0x02, 0x09)));
  EXPECT_EQ(placed(x.close()), Places{"8 warning RFC 5041 §5.3"});
}

TEST(CaptureFrames, WhoseTerminateNeverComesIsTheCaseAtItsEnd) {  // RFC 5040 §7.2
  const Bytes wrong = fpdu(send_segment(2, 4)), more = fpdu(send_segment(1, 4));
  EXPECT_EQ(placed(set_up().send(0, wrong).send(1, more).fin(0).fin(1)),
            (Places{"6 error RFC 5041 §4.3", "9 warning RFC 5040 §7.2"}));
  EXPECT_EQ(placed(set_up().send(0, wrong).send(1, more).rst(1)),
            (Places{"6 error RFC 5041 §4.3", "8 warning RFC 5040 §7.2"}));
  EXPECT_EQ(placed(set_up().send(0, wrong).send(1, more)), Places{"6 error RFC 5041 §4.3"});
}

TEST(CaptureFrames, AFinThatWasSentBeforeTheFaultCameSaysNothingOfIt) {  // RFC 5040 §7.2
  EXPECT_EQ(placed(set_up().fin(1).send(0, fpdu(send_segment(2, 4))).acknowledge(1).fin(0).acknowledge(1)),
            Places{"7 error RFC 5041 §4.3"});
}

}  // namespace
}  // namespace parley::capture::frames_test
