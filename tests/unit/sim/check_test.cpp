// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Each checker is fed histories that no right implementation gives, and must see what is wrong with them; and one that
// is right, in which it must see nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/check/agreement.hpp"
#include "sim/check/bounds.hpp"
#include "sim/check/completions.hpp"
#include "sim/check/convergence.hpp"
#include "sim/check/delivery.hpp"
#include "sim/check/expectation.hpp"
#include "sim/check/settlement.hpp"
#include "sim/check/wire.hpp"
#include "wire/mpa.hpp"

namespace parley::sim::check {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Instant noon{12h};

std::vector<std::string> texts(const Judge& judge) {
  std::vector<std::string> out;
  for (const Violation& v : judge.list()) out.push_back(v.checker + ": " + v.text);
  return out;
}

CmEventRecord told(CmEventKind what) { return {.what = what, .at = noon}; }
CmEventRecord graceful() { return {.what = CmEventKind::disconnected, .at = noon, .graceful = true}; }
CmEventRecord with_reason(CmEventKind what) {
  return {.what = what, .at = noon, .has_code = true, .words = "the deadline passed"};
}

/// Both ends were up, moved a message each way and closed.
void make_right(Attempt& attempt) {
  attempt.label = "a:40000 > b:7471 (1st of connect 1)";
  attempt.last = true;
  End& i = attempt.initiator;
  attempt.responders.push_back(std::make_unique<End>());
  End& r = *attempt.responders.back();
  i.host = "a", r.host = "b";
  r.role = mpa::Role::responder;
  r.accepted = true;
  i.told = {told(CmEventKind::established), graceful()};
  r.told = {told(CmEventKind::request), told(CmEventKind::established), graceful()};
  i.parameters.revision = r.parameters.revision = 2;
  i.parameters.rtr = r.parameters.rtr = mpa::Rtr::read;
  i.parameters.depths_negotiated = r.parameters.depths_negotiated = true;
  i.parameters.ird = i.parameters.ord = r.parameters.ird = r.parameters.ord = 8;
  i.private_data_given = r.private_data_got = {1, 2, 3};
  r.private_data_given = i.private_data_got = {4, 5};
  i.transfers_done = r.transfers_done = true;
  i.messages_sent = r.messages_got = r.messages_sent = i.messages_got = 1;
}

/// What all checkers of an attempt say, at the end of a run.
std::vector<std::string> judge_all(const Attempt& attempt, Expect expect = Expect::established,
                                   ClosingSide closer = ClosingSide::initiator) {
  Judge judge;
  ScenarioConnect wanted;
  wanted.expect = expect;
  wanted.closer = closer;
  check_agreement(attempt, true, noon, judge);
  check_settlement(attempt.initiator, attempt.label, true, closer == ClosingSide::nobody, noon, judge);
  for (const auto& r : attempt.responders)
    check_settlement(*r, attempt.label, true, closer == ClosingSide::nobody, noon, judge);
  check_complete(attempt, noon, judge);
  check_expectation(attempt, wanted, noon, judge);
  return texts(judge);
}

TEST(SimCheck, SeesNothingInARightHistory) {
  Attempt attempt;
  make_right(attempt);
  EXPECT_THAT(judge_all(attempt), IsEmpty());
}

TEST(SimCheck, SeesASetUpThatCameLateOnEitherEnd) {
  for (const bool initiator : {true, false}) {
    Attempt attempt;
    make_right(attempt);
    (initiator ? attempt.initiator : *attempt.responders[0]).setup = 101ms;
    ScenarioConnect wanted;
    for (const Duration allowed : {Duration{}, Duration{101ms}}) {
      Judge judge;
      wanted.established_within = allowed;
      check_expectation(attempt, wanted, noon, judge);
      EXPECT_THAT(texts(judge), IsEmpty());
    }
    Judge judge;
    wanted.established_within = 100ms;
    check_expectation(attempt, wanted, noon, judge);
    EXPECT_THAT(texts(judge), ::testing::ElementsAre(HasSubstr(initiator ? "the initiator took 101000 us to come up"
                                                                         : "the responder took 101000 us")));
  }
}

// ---- agreement

struct Disagreement {
  const char* name;
  void (*spoil)(mpa::Parameters&);
  const char* words;
};
class EveryDisagreement : public ::testing::TestWithParam<Disagreement> {};

TEST_P(EveryDisagreement, IsSeen) {
  Attempt attempt;
  make_right(attempt);
  GetParam().spoil(attempt.responders[0]->parameters);
  EXPECT_THAT(judge_all(attempt), ::testing::ElementsAre(HasSubstr(GetParam().words)));
  attempt.responders[0]->quirky = true;
  EXPECT_THAT(judge_all(attempt), IsEmpty()) << "an end that plays a quirk need not agree";
  attempt.responders[0]->quirky = false;
  attempt.initiator.quirky = true;
  EXPECT_THAT(judge_all(attempt), IsEmpty()) << "whichever end it is";
}

INSTANTIATE_TEST_SUITE_P(
    SimCheck, EveryDisagreement,
    ::testing::Values(
        Disagreement{"revision", [](mpa::Parameters& p) { p.revision = 1; }, "the revision"},
        Disagreement{"crc", [](mpa::Parameters& p) { p.crc = false; }, "the use of CRC"},
        Disagreement{"tx_markers", [](mpa::Parameters& p) { p.tx_markers = true; }, "markers towards the initiator"},
        Disagreement{"rx_markers", [](mpa::Parameters& p) { p.rx_markers = true; }, "markers towards the responder"},
        Disagreement{"model", [](mpa::Parameters& p) { p.peer_to_peer = true; }, "peer-to-peer"},
        Disagreement{"rtr", [](mpa::Parameters& p) { p.rtr = mpa::Rtr::write; }, "the RTR"},
        Disagreement{"negotiated", [](mpa::Parameters& p) { p.depths_negotiated = false; }, "depths"},
        Disagreement{"ird", [](mpa::Parameters& p) { p.ird = 7; }, "ORD 8 is above the responder's IRD 7"},
        Disagreement{"ord", [](mpa::Parameters& p) { p.ord = 9; }, "ORD 9 is above the initiator's IRD 8"}),
    [](const auto& test) { return test.param.name; });

TEST(SimCheck, SeesPrivateDataThatChanged) {
  Attempt attempt;
  make_right(attempt);
  attempt.responders[0]->private_data_got = {1, 2};
  attempt.initiator.private_data_got = {};
  EXPECT_THAT(judge_all(attempt), ::testing::ElementsAre(HasSubstr("than the Request"), HasSubstr("than the Reply")));
}

TEST(SimCheck, SeesAnEndThatStaysEstablishedAlone) {
  Attempt attempt;
  make_right(attempt);
  attempt.touched = true;  // even then
  attempt.initiator.told.pop_back();
  attempt.responders[0]->told.back() = with_reason(CmEventKind::disconnected);
  EXPECT_THAT(judge_all(attempt, Expect::settled, ClosingSide::nobody),
              ::testing::Contains(HasSubstr("the initiator is still established alone")));
}

TEST(SimCheck, SeesAnEstablishedInitiatorOfWhichNoResponderHeard) {
  Attempt attempt;
  make_right(attempt);
  attempt.responders.clear();
  EXPECT_THAT(judge_all(attempt, Expect::settled), ::testing::Contains(HasSubstr("no responder heard of it")));
}

TEST(SimCheck, SeesAGracefulEndThatTheOtherSideDoesNotKnowOf) {
  Attempt attempt;
  make_right(attempt);
  attempt.responders[0]->told = {told(CmEventKind::request), with_reason(CmEventKind::failed)};
  EXPECT_THAT(judge_all(attempt, Expect::failed), ::testing::Contains(HasSubstr("was notified of a graceful end")));
}

// ---- settlement

TEST(SimCheck, SeesEventsThatAreMissingDoubleOrOutOfPlace) {
  const auto say = [](std::vector<CmEventRecord> events, mpa::Role role = mpa::Role::initiator) {
    End end;
    end.role = role;
    end.accepted = true;
    end.told = std::move(events);
    Judge judge;
    check_settlement(end, "it", true, false, noon, judge);
    return texts(judge);
  };
  EXPECT_THAT(say({}), ::testing::ElementsAre(HasSubstr("never told the end")));
  EXPECT_THAT(say({told(CmEventKind::established)}), ::testing::ElementsAre(HasSubstr("never told the end")));
  EXPECT_THAT(say({told(CmEventKind::established), told(CmEventKind::established), graceful()}),
              ::testing::ElementsAre(HasSubstr("a second Established")));
  EXPECT_THAT(say({told(CmEventKind::established), graceful(), graceful()}),
              ::testing::ElementsAre(HasSubstr("Disconnected after the end")));
  EXPECT_THAT(say({with_reason(CmEventKind::failed), told(CmEventKind::established)}),
              ::testing::ElementsAre(HasSubstr("Established after the end")));
  EXPECT_THAT(say({graceful()}), ::testing::ElementsAre(HasSubstr("Disconnected before Established")));
  EXPECT_THAT(say({told(CmEventKind::established), with_reason(CmEventKind::failed)}),
              ::testing::ElementsAre(HasSubstr("ConnectFailed after Established")));
  EXPECT_THAT(say({told(CmEventKind::request), with_reason(CmEventKind::rejected)}, mpa::Role::responder),
              ::testing::ElementsAre(HasSubstr("Rejected at a responder")));
  const CmEventRecord again = with_reason(CmEventKind::retrying);
  EXPECT_THAT(say({again, again, again, with_reason(CmEventKind::failed)}),
              ::testing::ElementsAre(HasSubstr("more than two Retrying")));
  EXPECT_THAT(say({again, told(CmEventKind::established), graceful()}), IsEmpty());
}

TEST(SimCheck, AnEndMayBeMissingWhileTheRunIsNotOverOrItCannotBeTold) {
  const auto said = [](bool ended, bool may_stay_open, bool End::*excuse = nullptr) {
    End end;
    if (excuse != nullptr) end.*excuse = true;
    end.told = {told(CmEventKind::established)};
    Judge judge;
    check_settlement(end, "it", ended, may_stay_open, noon, judge);
    return texts(judge);
  };
  EXPECT_THAT(said(true, false), ::testing::ElementsAre("settlement: the initiator was never told the end: its last "
                                                        "event is Established"));
  EXPECT_THAT(said(false, false), IsEmpty());
  EXPECT_THAT(said(true, true), IsEmpty());
  for (bool End::*excuse : {&End::crashed, &End::dropped, &End::refused})
    EXPECT_THAT(said(true, false, excuse), IsEmpty());
}

TEST(SimCheck, SeesAFailureWithoutReason) {
  Attempt attempt;
  make_right(attempt);
  attempt.initiator.told.back() = {.what = CmEventKind::disconnected, .at = noon, .has_code = true};
  EXPECT_THAT(judge_all(attempt, Expect::settled), ::testing::Contains(HasSubstr("without a reason in words")));
  attempt.initiator.told.back() = {.what = CmEventKind::disconnected, .at = noon, .words = "why"};
  EXPECT_THAT(judge_all(attempt, Expect::settled), ::testing::Contains(HasSubstr("without an error code")));
}

// ---- completions

class Ledgers : public ::testing::Test {
 protected:
  void complete(std::uint64_t wr_id, WcStatus status = WcStatus::success, WcOpcode opcode = WcOpcode::send) {
    ledger_.completed({.wr_id = wr_id, .status = status, .opcode = opcode}, false, "it", noon, judge_);
  }
  void post(std::uint64_t wr_id, bool signaled = true, WcOpcode opcode = WcOpcode::send) {
    ledger_.posted(wr_id, opcode, signaled);
  }
  Ledger ledger_{"send"};
  Judge judge_;
};

TEST_F(Ledgers, AreContentWithEachRequestOnceAndInOrder) {
  post(1), post(2, false, WcOpcode::rdma_write), post(3), post(4, false), post(5);
  complete(1), complete(3), complete(4, WcStatus::wr_flush_err), complete(5, WcStatus::wr_flush_err);
  ledger_.ended("it", noon, judge_);
  EXPECT_THAT(texts(judge_), IsEmpty());
}

TEST_F(Ledgers, SeeACompletionThatComesTwice) {
  post(1);
  complete(1), complete(1);
  EXPECT_THAT(texts(judge_), ::testing::ElementsAre(HasSubstr("never posted or has completed before")));
}

TEST_F(Ledgers, SeeCompletionsOutOfOrder) {
  post(1), post(2);
  complete(2);
  EXPECT_THAT(texts(judge_), ::testing::ElementsAre(HasSubstr("send 2 completed before send 1")));
}

TEST_F(Ledgers, SeeACompletionThatNeverComes) {
  post(1), post(2);
  complete(1);
  ledger_.ended("it", noon, judge_);
  EXPECT_THAT(texts(judge_), ::testing::ElementsAre(HasSubstr("1 of its send requests have not completed (first: 2)")));
}

TEST_F(Ledgers, SeeWrongKindsFailuresAndALateSuccess) {
  post(1), post(2), post(3), post(4);
  complete(1, WcStatus::success, WcOpcode::recv), complete(2, WcStatus::rem_access_err);
  complete(3, WcStatus::wr_flush_err), complete(4);
  EXPECT_THAT(texts(judge_), ::testing::ElementsAre(HasSubstr("completed as recv"), HasSubstr("send 2 failed"),
                                                    HasSubstr("succeeded after an earlier one was flushed")));
}

// ---- delivery

TEST(SimCheck, SeesEveryWrongOctet) {
  for (const std::size_t size : {1U, 7U, 8U, 9U, 100U}) {
    Bytes octets(size);
    const MessageName name{3, Direction::to_responder, 5};
    fill_pattern(name, octets);
    EXPECT_EQ(find_mismatch(name, octets), std::nullopt);
    for (std::size_t i = 0; i < size; ++i) {
      octets[i] ^= 1;
      EXPECT_EQ(find_mismatch(name, octets), i);
      octets[i] ^= 1;
    }
  }
}

TEST(SimCheck, SeesAMessageOfAnotherPlace) {
  const MessageName name{3, Direction::to_responder, 5};
  for (const MessageName& other :
       {MessageName{4, Direction::to_responder, 5}, MessageName{3, Direction::to_initiator, 5},
        MessageName{3, Direction::to_responder, 6}}) {
    Bytes octets(64);
    fill_pattern(other, octets);
    Judge judge;
    check_message(name, octets, 64, 64, "it", noon, judge);
    ASSERT_EQ(judge.count(), 1U);
    EXPECT_THAT(judge.list()[0].text, HasSubstr("message 6 to the responder is wrong"));
  }
  Bytes next(64);
  fill_pattern({3, Direction::to_responder, 6}, next);
  Judge judge;
  check_message(name, next, 64, 64, "it", noon, judge);
  EXPECT_THAT(judge.list()[0].text, HasSubstr("it is message 7")) << "one was lost or put in another order";
}

TEST(SimCheck, SeesAMessageOfAnotherLength) {
  Bytes octets(64);
  const MessageName name;
  fill_pattern(name, octets);
  Judge judge;
  check_message(name, octets, 63, 64, "it", noon, judge);
  EXPECT_THAT(texts(judge), ::testing::ElementsAre(HasSubstr("has 63 octets instead of 64")));
}

TEST(SimCheck, SeesMessagesThatWereLostOrInvented) {
  Attempt attempt;
  make_right(attempt);
  attempt.responders[0]->messages_got = 0;
  EXPECT_THAT(judge_all(attempt), ::testing::ElementsAre(HasSubstr("1 of 1 messages to the responder are missing")));
  attempt.responders[0]->messages_got = 2;
  EXPECT_THAT(judge_all(attempt), ::testing::ElementsAre(HasSubstr("2 messages to the responder were delivered")));
}

// ---- expectation

TEST(SimCheck, SeesWhatWasNotAsExpected) {
  Attempt attempt;
  make_right(attempt);
  EXPECT_THAT(judge_all(attempt, Expect::rejected),
              ::testing::ElementsAre(HasSubstr("expectation: was to be rejected")));
  EXPECT_THAT(judge_all(attempt, Expect::failed), ::testing::ElementsAre(HasSubstr("expectation: was to fail")));
  EXPECT_THAT(judge_all(attempt, Expect::settled), IsEmpty());
  attempt.responders[0]->transfers_done = false;
  EXPECT_THAT(judge_all(attempt), ::testing::ElementsAre(HasSubstr("the responder has not transferred everything")));
}

TEST(SimCheck, SettledMeansTheSameOnBothEndsUnlessAFaultKeptThemApart) {
  Attempt attempt;
  make_right(attempt);
  attempt.initiator.told.back() = with_reason(CmEventKind::disconnected);
  EXPECT_THAT(judge_all(attempt, Expect::settled), ::testing::Contains(HasSubstr("expectation")));
  attempt.touched = true;
  EXPECT_THAT(judge_all(attempt, Expect::settled), IsEmpty());
}

// ---- bounds

TEST(SimCheck, SeesQueuesBeyondTheirBoundsAndWhatIsLeftOver) {
  HostState host{.name = "a", .endpoints = 3, .endpoints_expected = 1};
  host.counters.send_queue_peak = 101;
  host.counters.reassembly_peak = 100;
  host.counters.streams = 1;
  ScenarioBounds bounds;
  bounds.send_queue = bounds.reassembly = 100;
  bounds.frames = 100;
  Judge judge;
  check_queues(host, bounds, noon, judge);
  check_frames({.frames_peak = 200}, bounds, noon, judge);
  check_left_over(host, true, noon, judge);
  EXPECT_THAT(texts(judge), ::testing::ElementsAre(
                                HasSubstr("send queue of a: 101 where at most 100"), HasSubstr("frames in flight: 200"),
                                HasSubstr("a still holds 3 endpoints"), HasSubstr("a still holds 1 TCP")));
}

// ---- convergence

TEST(SimCheck, SeesWhatDoesNotSettleInTimeAfterTheLastFault) {
  Scenario scenario;
  scenario.bounds.converge = 10s;
  ScenarioFault partition;
  partition.link = "a-b";
  partition.rule.until = Instant{5s};
  scenario.faults.push_back(partition);
  Convergence convergence(scenario);
  Judge judge;
  const std::vector<std::string> pending{"a > b"};
  EXPECT_FALSE(convergence.overdue(Instant{15s}, Instant{}, pending, judge));
  convergence.fault_seen(Instant{7s});
  EXPECT_FALSE(convergence.overdue(Instant{17s}, Instant{}, pending, judge));
  EXPECT_FALSE(convergence.overdue(Instant{18s}, Instant{8s}, pending, judge)) << "a step of the workload's own counts";
  EXPECT_EQ(judge.count(), 0U);
  EXPECT_TRUE(convergence.overdue(Instant{18s + 1ns}, Instant{8s}, pending, judge));
  EXPECT_TRUE(convergence.overdue(Instant{19s}, Instant{8s}, pending, judge));
  EXPECT_THAT(texts(judge), ::testing::ElementsAre(HasSubstr("still open: a > b"))) << "said once";
}

// ---- fence and wire

/// A capture of one connection, as a host would take it.
class Captured {
 public:
  static inline const Address initiator = Address::v4(10, 0, 0, 1, 40000);
  explicit Captured(WireOptions options = {}) : wire_(std::move(options)) {}
  void say(bool from_initiator, ConstBytes payload, std::uint8_t flags = wire::tcp_flag::ack) {
    Side& me = from_initiator ? i_ : r_;
    Side& other = from_initiator ? r_ : i_;
    wire::TcpFrame frame;
    frame.source = me.address;
    frame.destination = other.address;
    frame.seq = me.seq;
    frame.ack = other.seq;
    frame.flags = flags;
    frame.payload = payload;
    me.seq += static_cast<std::uint32_t>(payload.size()) + ((flags & wire::tcp_flag::syn) != 0 ? 1 : 0);
    octets_ = *wire::emit_tcp_frame(frame);
    at_ += 1us;
    wire_.frame("b", {.at = at_, .outbound = !from_initiator, .octets = octets_});
  }
  void handshake(std::uint8_t mpa_flags = 0) {
    say(true, {}, wire::tcp_flag::syn);
    say(false, {}, wire::tcp_flag::syn | wire::tcp_flag::ack);
    say(true, {});
    say(true, *wire::MpaFrame{.key = wire::MpaKey::req, .flags = mpa_flags, .revision = 1}.emit());
    say(false, *wire::MpaFrame{.key = wire::MpaKey::rep, .flags = mpa_flags, .revision = 1}.emit());
  }
  std::vector<std::string> finish() {
    Judge judge;
    wire_.finish({}, judge);
    return texts(judge);
  }
  void corrupted() { wire_.corrupted(i_.address, r_.address); }

  /// A Send of 4 octets without CRC: length, DDP and RDMAP control, STag, queue 0, MSN 1, offset 0.
  Bytes send() const {
    return {0, 22, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0};
  }

 private:
  struct Side {
    Address address;
    std::uint32_t seq;
  };
  Side i_{initiator, 1000}, r_{Address::v4(10, 0, 0, 2, 7471), 5000};
  Bytes octets_;
  Instant at_{};
  WireCheck wire_;
};

// RFC 5044 §7.1.2 rule 4
TEST(SimCheck, SeesAResponderThatSpeaksBeforeTheFirstFpdu) {
  Captured bad;
  bad.handshake();
  bad.say(false, bad.send());
  EXPECT_THAT(bad.finish(), ::testing::ElementsAre(HasSubstr("fence: the responder sent an FPDU before")));
  Captured good;
  good.handshake();
  good.say(true, good.send());
  good.say(false, good.send());
  EXPECT_THAT(good.finish(), IsEmpty());
  Captured excused({.fence = false});
  excused.handshake();
  excused.say(false, excused.send());
  EXPECT_THAT(excused.finish(), IsEmpty());
}

// OFA 2007-10 Rtr §2, and docs/mpa-rtr.md
TEST(SimCheck, ExcusesAnFpduForTheRtrFrameOnlyOfWhoAnnouncesItByS) {
  const auto judged = [](std::set<Address> by_s) {
    Captured c({.announce_by_s = std::move(by_s)});
    c.handshake(PARLEY_MPA_FLAG_S);
    c.say(true, c.send());
    c.say(false, c.send());
    return c.finish();
  };
  EXPECT_THAT(judged({}), ::testing::ElementsAre(HasSubstr("although the Rtr frame was agreed")));
  EXPECT_THAT(judged({Captured::initiator}), IsEmpty());
}

TEST(SimCheck, SeesOtherBrokenRulesOnTheWireUnlessAFaultMadeThem) {
  for (const bool by_fault : {false, true}) {
    Captured bad;
    bad.handshake();
    Bytes early = bad.send();
    early[0] = 0xFF, early[1] = 0xFF;  // RFC 5044 §4.1: a length that no FPDU can have
    bad.say(true, early);
    if (by_fault) bad.corrupted();
    const auto said = bad.finish();
    if (by_fault)
      EXPECT_THAT(said, IsEmpty());
    else
      EXPECT_THAT(said, ::testing::Contains(HasSubstr("wire: the initiator sent an FPDU with ULPDU_Length")));
  }
}

}  // namespace
}  // namespace parley::sim::check
