// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the checkers make of RoCE: other things to agree on, zeros behind private data, and ends without a half close.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/check/agreement.hpp"
#include "sim/check/delivery.hpp"
#include "sim/check/expectation.hpp"

namespace parley::sim::check {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Instant one_o_clock{1h};

/// Both ends were up and closed. The private data is as InfiniBand's messages carry it.
struct RoceAttempt {
  RoceAttempt() {
    attempt.label = "a > b";
    attempt.last = attempt.roce = true;
    attempt.responders.push_back(std::make_unique<End>());
    End& b = r();
    b.role = mpa::Role::responder;
    b.accepted = true;
    for (End* end : {&i(), &b}) {
      if (end == &b) end->told.push_back({.what = CmEventKind::request, .at = one_o_clock});
      end->told.push_back({.what = CmEventKind::established, .at = one_o_clock});
      end->told.push_back({.what = CmEventKind::disconnected, .at = one_o_clock, .graceful = true});
      end->parameters.ird = end->parameters.ord = 8;
      end->transfers_done = true;
    }
    i().ib = {.qp_num = 17, .remote_qp_num = 18, .sgid = {1}, .dgid = {2}};
    b.ib = {.qp_num = 18, .remote_qp_num = 17, .sgid = {2}, .dgid = {1}};
    i().private_data_given = {1, 2};
    b.private_data_got = {1, 2, 0, 0};
  }
  End& i() { return attempt.initiator; }
  End& r() { return *attempt.responders.back(); }
  /// The responder is told that the initiator left while it had requests open.
  void leave_early() {
    r().told.back() = {.what = CmEventKind::disconnected,
                       .at = one_o_clock,
                       .has_code = true,
                       .hung_up = true,
                       .words = "a disconnect"};
  }
  std::vector<std::string> said() {
    Judge judge;
    check_agreement(attempt, true, one_o_clock, judge);
    check_expectation(attempt, ScenarioConnect{}, one_o_clock, judge);
    std::vector<std::string> out;
    for (const Violation& v : judge.list()) out.push_back(v.checker + ": " + v.text);
    return out;
  }
  Attempt attempt;
};

TEST(RoceCheck, SeesNothingInWhatIsRight) { EXPECT_THAT(RoceAttempt().said(), IsEmpty()); }

TEST(RoceCheck, SeesEndsThatHaveNotTheSameConnection) {
  RoceAttempt wrong;
  wrong.i().ib->remote_qp_num = 19;
  wrong.r().ib->path_mtu = Mtu::octets_256;
  wrong.r().ib->dgid = {3};
  wrong.i().parameters.ord = 9;
  EXPECT_THAT(wrong.said(), ElementsAre(HasSubstr("the responder's queue pair: 19 at the initiator, 18"),
                                        HasSubstr("the path MTU: 3 at the initiator, 1"), HasSubstr("GIDs"),
                                        HasSubstr("the initiator's ORD 9 is above the responder's IRD 8")));
}

// A REQ that comes when the connection is forgotten is a new one to the peer, and no end of this connection.
TEST(RoceCheck, TheResponderIsTheOneThatTheInitiatorIsConnectedWith) {
  RoceAttempt a;
  a.attempt.responders.push_back(std::make_unique<End>());
  End& late = a.r();
  late.role = mpa::Role::responder;
  late.told = {{.what = CmEventKind::request, .at = one_o_clock},
               {.what = CmEventKind::failed, .at = one_o_clock, .words = "no RTU"}};
  EXPECT_THAT(a.said(), IsEmpty());
  a.i().ib->remote_qp_num = 19;
  EXPECT_THAT(a.said(), testing::Not(IsEmpty())) << "the last one, where it is none of them";
}

// Of UD the responder knows no queue pair of its peer's, and there is no path MTU to agree on.
TEST(RoceCheck, EndsOfDatagramsAgreeOnTheServicesQueuePairAlone) {
  RoceAttempt a;
  a.attempt.datagrams = true;
  a.r().ib->remote_qp_num = 0;
  a.r().ib->path_mtu = Mtu::octets_256;
  a.i().parameters.ord = 9;
  EXPECT_THAT(a.said(), IsEmpty());
  a.i().ib->remote_qp_num = 19;
  a.r().ib->dgid = {3};
  EXPECT_THAT(a.said(),
              ElementsAre(HasSubstr("the responder's queue pair: 19 at the initiator, 18"), HasSubstr("GIDs")));
}

TEST(RoceCheck, ADatagramIsMissingWhereNoFaultTouchedIt) {
  RoceAttempt a;
  a.attempt.datagrams = true;
  a.i().messages_sent = 5;
  a.r().messages_got = 4;
  const auto said = [&a] {
    Judge judge;
    check_complete(a.attempt, one_o_clock, judge);
    return judge.list().empty() ? "" : judge.list().front().text;
  };
  EXPECT_THAT(said(), HasSubstr("1 of 5 messages to the responder are missing"));
  a.attempt.touched = true;
  a.attempt.touched_at = one_o_clock - 1ms;
  EXPECT_THAT(said(), HasSubstr("are missing")) << "that was in the set-up";
  a.attempt.touched_at = one_o_clock;
  EXPECT_EQ(said(), "");
  a.attempt.touched_at = one_o_clock - 1ms;
  a.attempt.misled = true;
  EXPECT_EQ(said(), "") << "a host that was down, or has another's address, stays so";
  a.attempt.datagrams = false;
  EXPECT_THAT(said(), HasSubstr("are missing")) << "a connection has no excuse";
}

TEST(RoceCheck, AServiceIsAskedAboutACopyOnlyWhenItsAnswerIsForgotten) {
  RoceAttempt a;
  a.attempt.datagrams = true;
  a.attempt.responders.push_back(std::make_unique<End>());
  const auto said = [&a](Duration later) {
    a.r().told = {{.what = CmEventKind::request, .at = one_o_clock + later}};
    Judge judge;
    check_timewait(a.attempt, judge);
    return judge.list().size();
  };
  EXPECT_EQ(said(7s), 1U);
  EXPECT_EQ(said(9s), 0U);
}

TEST(RoceCheck, TakesZerosBehindPrivateDataAndNothingElse) {
  RoceAttempt a;
  a.r().private_data_got = {1, 2, 0, 1};
  EXPECT_THAT(a.said(), ElementsAre(HasSubstr("other private data")));
  a.r().private_data_got = {1};
  EXPECT_THAT(a.said(), ElementsAre(HasSubstr("other private data")));
}

TEST(RoceCheck, AnEndThatHadEverythingMayBeLeftEarly) {
  RoceAttempt a;
  a.leave_early();
  EXPECT_THAT(a.said(), IsEmpty());
  EXPECT_EQ(outcome_text(&a.r()), "established");
  a.r().transfers_done = false;
  EXPECT_THAT(a.said(), ElementsAre(HasSubstr("agreement: the initiator was notified of a graceful end"),
                                    HasSubstr("has not transferred everything")));
}

TEST(RoceCheck, AnEndWhosePeerIsGoneMayFailOnlyWhereAFaultWas) {
  RoceAttempt a;
  a.leave_early();
  a.r().told.back().hung_up = false;
  EXPECT_THAT(a.said(), ElementsAre(HasSubstr("graceful end"), HasSubstr("to be established")));
  a.attempt.touched = true;
  EXPECT_THAT(a.said(), IsEmpty());
}

}  // namespace
}  // namespace parley::sim::check
