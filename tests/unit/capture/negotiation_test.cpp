// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Staged QP negotiations in captures: what is told of them, which rules of docs/negotiation.md are found broken, and what is
// never claimed. More of them, drawn: tests/adversary/neg.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capture/report/json.hpp"
#include "capture/report/text.hpp"
#include "capture/rules/neg/message_check.hpp"
#include "capture/rules/neg/negotiation.hpp"
#include "tests/unit/capture/anonymize_kit.hpp"
#include "tests/unit/capture/exchange.hpp"
#include "wire/neg.hpp"

namespace parley::capture {
namespace {

using testing::HasSubstr;
using Negotiated = std::vector<std::pair<unsigned, Bytes>>;  // who says what

constexpr std::uint8_t info = 1, ready = 2, done = 3;

Bytes joined(const std::vector<Bytes>& parts) {
  Bytes out;
  for (const Bytes& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Bytes neg_message(wire::NegHeader header, const Bytes& body = {}) {
  header.length = static_cast<std::uint32_t>(body.size());
  Bytes out(PARLEY_NEG_HEADER_LEN);
  header.emit(out);
  return joined({out, body});
}

Bytes neg_hello(std::string_view variant = "manual", bool with_done = false) {
  Bytes items;
  add_neg_item(items, wire::NegItemType::plugin, std::string_view("parley"));
  add_neg_item(items, wire::NegItemType::variant, variant);
  if (with_done) add_neg_item(items, wire::NegItemType::done_stage, ConstBytes{});
  return neg_message({.type = wire::NegType::hello}, items);
}
Bytes neg_welcome() { return neg_message({.type = wire::NegType::welcome}); }
Bytes neg_turn(std::uint8_t stage, std::uint16_t round, const Bytes& body = {}, bool last = true) {
  return neg_message({.type = wire::NegType::turn,
                      .stage = stage,
                      .flags = last ? std::uint8_t{PARLEY_NEG_FLAG_LAST} : std::uint8_t{0},
                      .round = round},
                     body);
}
Bytes neg_abort(std::uint16_t error = 0x0302, std::string_view text = "not here") {
  Bytes items;
  const Bytes code{static_cast<std::uint8_t>(error >> 8), static_cast<std::uint8_t>(error)};
  add_neg_item(items, wire::NegItemType::error, ConstBytes(code));
  add_neg_item(items, wire::NegItemType::text, text);
  return neg_message({.type = wire::NegType::abort}, items);
}
/// QPN and PSN 5 of an RC queue pair.
Bytes qp(std::uint8_t qpn) { return {1, 1, 0, 0, 0x80, 1, 0, 4, 0, 0, 0, qpn, 0x80, 2, 0, 4, 0, 0, 0, 5}; }

Negotiated agreed_talk() {
  return {{0, joined({neg_hello(), neg_turn(info, 1, qp(0x11))})},
          {1, joined({neg_welcome(), neg_turn(info, 1, qp(0x22))})},
          {0, neg_turn(ready, 1, {1})},
          {1, neg_turn(ready, 1, {1})}};
}

test::Exchange exchange_of(const Negotiated& said, std::size_t mss = 1460) {
  test::Exchange x;
  x.open();
  for (const auto& [from, octets] : said) x.send(from, octets, mss);
  return x;
}

NegotiationReport only_one(const FileReport& r) {
  EXPECT_EQ(r.negotiations.size(), 1u);
  EXPECT_TRUE(r.connections.empty());
  return r.negotiations.empty() ? NegotiationReport{} : r.negotiations.front();
}

std::string wrong_of(const NegotiationReport& n) {
  std::string out;
  for (const Finding& f : n.findings)
    if (f.severity != Severity::note)
      out += std::to_string(f.frame) + " " + std::string(f.side ? to_string(*f.side) : "nobody") + ": " + f.text +
             " [" + f.rule + "]\n";
  return out;
}

TEST(CaptureNegotiation, AnAgreedOnePassesAndTellsBothQueuePairs) {
  for (const std::size_t mss : {std::size_t{1460}, std::size_t{7}, std::size_t{1}}) {
    const FileReport r = test::analyse(exchange_of(agreed_talk(), mss).close().frames);
    const NegotiationReport n = only_one(r);
    EXPECT_EQ(n.outcome, NegOutcome::agreed);
    EXPECT_EQ(n.judgement.standing, Standing::passed) << n.judgement.why;
    EXPECT_EQ(r.judgement.standing, Standing::passed) << r.judgement.why;
    EXPECT_TRUE(n.findings.empty()) << wrong_of(n);
    EXPECT_EQ(n.variant, "manual");
    EXPECT_EQ(n.initiator.port, 40000);
    ASSERT_EQ(n.attributes.size(), 2u);
    EXPECT_EQ(n.attributes[0].qpn, 0x11u);
    EXPECT_EQ(n.attributes[0].side, Side::initiator);
    EXPECT_EQ(n.attributes[1].qpn, 0x22u);
    EXPECT_EQ(n.attributes[1].psn, 5u);
    EXPECT_EQ(n.from_initiator.messages, 3u);
    EXPECT_EQ(n.stage(), ready);
    EXPECT_TRUE(n.took);
  }
}

// The responder's address and port are the lower ones.
TEST(CaptureNegotiation, WhichAddressIsLowerDoesNotMatter) {
  test::Exchange x(test::end_b(false), test::end_a(false), 1000, 2000);
  x.open();
  for (const auto& [from, octets] : agreed_talk()) x.send(from, octets);
  x.send(0, neg_turn(ready, 2));
  const NegotiationReport n = only_one(test::analyse(x.frames));
  EXPECT_EQ(n.initiator, test::end_b(false));
  ASSERT_EQ(n.attributes.size(), 2u);
  EXPECT_EQ(n.attributes[0].side, Side::initiator);
  EXPECT_EQ(wrong_of(n), "8 initiator: a Turn of the stage ready after the end of the session [QPng §3.8]\n");
}

TEST(CaptureNegotiation, TheStageDoneIsWaitedForIfTheHelloAnnouncesIt) {
  Negotiated said = agreed_talk();
  said[0].second = joined({neg_hello("manual", true), neg_turn(info, 1, qp(0x11))});
  const NegotiationReport open = only_one(test::analyse(exchange_of(said).frames));
  EXPECT_EQ(open.outcome, NegOutcome::incomplete);
  EXPECT_EQ(open.judgement.standing, Standing::partial);
  said.push_back({0, neg_turn(done, 1)});
  said.push_back({1, neg_turn(done, 1)});
  EXPECT_EQ(only_one(test::analyse(exchange_of(said).frames)).outcome, NegOutcome::agreed);
}

TEST(CaptureNegotiation, ARefusalPassesAndAnAbortLaterFails) {
  Negotiated said = agreed_talk();
  said.resize(1);
  said.push_back({1, neg_abort()});
  const NegotiationReport refused = only_one(test::analyse(exchange_of(said).close().frames));
  EXPECT_EQ(refused.outcome, NegOutcome::refused);
  EXPECT_EQ(refused.judgement.standing, Standing::passed);
  ASSERT_TRUE(refused.abort);
  EXPECT_EQ(refused.abort->from, Side::responder);
  EXPECT_EQ(refused.abort->error, 0x0302);
  EXPECT_THAT(to_text(refused), HasSubstr("by the responder: variant_not_available: not here"));

  said = agreed_talk();
  said[3].second = neg_abort(0x0303, "too slow");
  const FileReport r = test::analyse(exchange_of(said).close().frames);
  EXPECT_EQ(only_one(r).outcome, NegOutcome::failed);
  EXPECT_EQ(only_one(r).judgement.why, "given up by the responder (frame 7: session_timeout)");
  EXPECT_EQ(r.judgement.why, "1 negotiation failed");
}

TEST(CaptureNegotiation, OneThatIsClosedBeforeItsEndHasFailed) {
  Negotiated said = agreed_talk();
  said.resize(2);
  const NegotiationReport n = only_one(test::analyse(exchange_of(said).close().frames));
  EXPECT_EQ(n.outcome, NegOutcome::failed);
  EXPECT_EQ(n.judgement.why, "the connection was closed before its end");
  said.push_back({0, neg_turn(ready, 1, {1})});
  said.back().second.resize(10);
  EXPECT_EQ(wrong_of(only_one(test::analyse(exchange_of(said).rst(0).frames))),
            "7 initiator: RST after 10 octets of a message [QPng §1.6]\n");
}

struct BrokenRule {
  std::string_view name;
  std::size_t before;  // bursts of agreed_talk()
  unsigned from;
  Bytes wrong;
  std::string_view rule;
};
void PrintTo(const BrokenRule& b, std::ostream* out) { *out << b.name; }

Bytes altered(Bytes octets, std::size_t at, std::uint8_t value) {
  octets[at] = value;
  return octets;
}

std::vector<BrokenRule> broken_rules() {
  const Bytes turn = neg_turn(ready, 1, {1});
  return {
      {"magic", 2, 0, altered(turn, 1, 'X'), "1.1"},
      {"version", 2, 0, altered(turn, 4, 2), "1.2"},
      {"type", 2, 0, altered(turn, 5, 5), "1.3"},
      {"stage", 2, 0, altered(turn, 6, 4), "1.4"},
      {"no_stage", 2, 0, altered(turn, 6, 0), "1.4"},
      {"flags", 2, 0, altered(turn, 7, 0xC0), "1.5"},
      {"reserved", 2, 0, altered(turn, 11, 1), "1.5"},
      {"length", 2, 0, altered(turn, 13, 0x11), "1.6"},
      {"item_cut", 1, 1, neg_message({.type = wire::NegType::welcome}, {0, 4, 0, 9, 1}), "2.1"},
      {"critical_item", 1, 1, neg_message({.type = wire::NegType::welcome}, {0x80, 0x77, 0, 0}), "2.2"},
      {"second_hello", 2, 0, neg_hello(), "3.1"},
      {"hello_of_the_responder", 1, 1, neg_hello(), "3.1"},
      {"second_welcome", 2, 1, neg_welcome(), "3.2"},
      {"no_welcome", 1, 1, neg_turn(info, 1, qp(0x22)), "3.3"},
      {"stage_left_out", 2, 0, neg_turn(done, 1), "3.4"},
      {"stage_again", 3, 0, neg_turn(info, 2), "3.4"},
      {"done_not_announced", 4, 0, neg_turn(done, 1), "3.4"},
      {"round_left_out", 2, 0, neg_turn(ready, 2, {1}), "3.5"},
      {"data_after_the_last", 3, 0, neg_turn(ready, 2, {1}), "3.6"},
      {"after_the_end", 4, 0, neg_turn(ready, 2), "3.8"},
      {"short_attributes", 1, 1, joined({neg_welcome(), neg_turn(info, 1, {1})}), "4.1"},
      {"version_of_attributes", 1, 1, joined({neg_welcome(), neg_turn(info, 1, altered(qp(1), 0, 2))}), "4.1"},
      {"size_of_an_item", 1, 1, joined({neg_welcome(), neg_turn(info, 1, {1, 1, 0, 0, 0, 5, 0, 1, 9})}), "4.2"},
      {"no_psn", 1, 1, joined({neg_welcome(), neg_turn(info, 1, {1, 1, 0, 0, 0x80, 1, 0, 4, 0, 0, 0, 1})}), "4.3"},
      {"no_qkey", 1, 1, joined({neg_welcome(), neg_turn(info, 1, altered(qp(1), 1, 3))}), "4.3"},
      {"no_word", 2, 0, neg_turn(ready, 1, {4}), "4.4"},
  };
}

class CaptureBrokenRule : public testing::TestWithParam<BrokenRule> {};

TEST_P(CaptureBrokenRule, IsFoundOnceInItsFrameAndOfItsSide) {
  const BrokenRule& b = GetParam();
  Negotiated said = agreed_talk();
  said.resize(b.before);
  test::Exchange x = exchange_of(said);
  const std::uint64_t frame = x.send(b.from, b.wrong).frames.size();
  const NegotiationReport n = only_one(test::analyse(x.send(1 - b.from, neg_abort(0x0104)).close().frames));
  ASSERT_EQ(n.count(Severity::error), 1u) << wrong_of(n);
  const auto f = std::find_if(n.findings.begin(), n.findings.end(),
                              [](const Finding& each) { return each.severity == Severity::error; });
  EXPECT_EQ(f->rule, "QPng §" + std::string(b.rule)) << f->text;
  EXPECT_EQ(f->frame, frame) << f->text;
  EXPECT_EQ(f->side, b.from == 0 ? Side::initiator : Side::responder);
  EXPECT_EQ(n.count(Severity::warning), 0u) << wrong_of(n);
  EXPECT_EQ(n.outcome, NegOutcome::failed);
  EXPECT_EQ(n.judgement.standing, Standing::failed);
}

INSTANTIATE_TEST_SUITE_P(Each, CaptureBrokenRule, testing::ValuesIn(broken_rules()),
                         [](const auto& which) { return std::string(which.param.name); });

TEST(CaptureNegotiation, NothingFollowsAnAbortAndThatIsSaidOnce) {
  Negotiated said = agreed_talk();
  said.push_back({0, neg_abort()});
  said.push_back({0, neg_turn(ready, 2)});
  said.push_back({0, neg_turn(ready, 3)});
  EXPECT_EQ(wrong_of(only_one(test::analyse(exchange_of(said).frames))),
            "9 initiator: a message after its sender's Abort in frame 8 [QPng §3.7]\n");
}

// The acknowledgment of the segment tells what its sender had heard.
TEST(CaptureNegotiation, WhoGoesOnBeforeItsPeerIsThroughIsAccusedIfItsAcknowledgmentProvesIt) {
  Negotiated said = agreed_talk();
  said[1].second = joined({neg_welcome(), neg_turn(info, 1, qp(0x22), false)});
  const test::Exchange x = exchange_of(said);
  EXPECT_THAT(wrong_of(only_one(test::analyse(x.frames))),
              HasSubstr("6 initiator: a Turn of the stage ready; the stage is info [QPng §3.4]\n"));
  test::Frames lost = x.frames;
  lost.erase(lost.begin() + 4);
  EXPECT_EQ(wrong_of(only_one(test::analyse(lost))), "");
}

TEST(CaptureNegotiation, EachFrameMayBeLostFromTheCaptureAndNobodyIsAccused) {
  const test::Frames whole = exchange_of(agreed_talk(), 30).close().frames;
  for (std::size_t lost = 0; lost < whole.size(); ++lost) {
    test::Frames frames = whole;
    frames.erase(frames.begin() + static_cast<std::ptrdiff_t>(lost));
    const FileReport r = test::analyse(frames);
    for (const NegotiationReport& n : r.negotiations) {
      EXPECT_EQ(wrong_of(n), "") << "without frame " << lost + 1;
      EXPECT_TRUE(n.outcome == NegOutcome::agreed || n.outcome == NegOutcome::incomplete)
          << "without frame " << lost + 1;
      if (n.from_initiator.missing_octets + n.from_responder.missing_octets > 0) {
        EXPECT_EQ(n.judgement.standing, Standing::partial);
      }
    }
  }
}

TEST(CaptureNegotiation, OneThatBeganBeforeTheCaptureIsPickedUpAtAMessage) {
  const test::Frames whole = exchange_of(agreed_talk()).close().frames;
  const NegotiationReport n = only_one(test::analyse(test::Frames(whole.begin() + 5, whole.end())));
  EXPECT_EQ(n.hello_frame, 0u);
  EXPECT_EQ(n.outcome, NegOutcome::agreed);
  EXPECT_EQ(n.judgement.standing, Standing::partial);
  EXPECT_EQ(n.judgement.why, "its beginning is not in the capture");
  // Without the Hello and an end, another stage may follow.
  const test::Frames open = exchange_of(agreed_talk()).frames;
  EXPECT_EQ(only_one(test::analyse(test::Frames(open.begin() + 5, open.end()))).outcome, NegOutcome::incomplete);
}

// A large first Turn is under way when the capture begins; the Welcome is seen first.
TEST(CaptureNegotiation, WhatIsPickedUpInTheMiddleOfAMessageIsNoOtherProtocol) {
  Negotiated said = agreed_talk();
  said[0].second = joined({neg_hello("counter"), neg_turn(info, 1, Bytes(4000, 0x41))});
  test::Exchange x;
  x.open().send(0, ConstBytes(said[0].second).first(1460));
  const std::size_t begin = x.frames.size();
  x.send(1, said[1].second);
  x.send(0, ConstBytes(said[0].second).subspan(1460));
  x.send(said[2].first, said[2].second).send(said[3].first, said[3].second);
  x.close();
  const NegotiationReport n =
      only_one(test::analyse(test::Frames(x.frames.begin() + static_cast<std::ptrdiff_t>(begin), x.frames.end())));
  EXPECT_EQ(wrong_of(n), "");
  EXPECT_NE(n.outcome, NegOutcome::failed);
}

// The capture begins with half of the Welcome's header; what the initiator says next tells what this is.
TEST(CaptureNegotiation, AHeaderInTwoPartsAtTheBeginOfTheCaptureIsRead) {
  const Bytes answer = joined({neg_welcome(), neg_turn(info, 1, qp(0x22))});
  test::Exchange x;
  x.open().send(0, neg_hello());
  const auto begin = static_cast<std::ptrdiff_t>(x.frames.size());
  x.send(1, ConstBytes(answer).first(8));
  x.send(0, neg_turn(info, 1, qp(0x11)));
  x.send(1, ConstBytes(answer).subspan(8));
  const NegotiationReport n = only_one(test::analyse(test::Frames(x.frames.begin() + begin, x.frames.end())));
  EXPECT_EQ(n.welcome_frame, 3u);
  EXPECT_EQ(wrong_of(n), "");
}

TEST(CaptureNegotiation, IsFoundOnPortsThatAnMpaConnectionHadBefore) {
  for (const bool unanswered : {false, true}) {
    test::Exchange before(false, 7000, 8000);
    if (unanswered)
      before.add(0, wire::tcp_flag::syn, {});
    else
      before.set_up().close();
    test::Frames frames = before.frames;
    const test::Frames after = exchange_of(agreed_talk()).close().frames;
    frames.insert(frames.end(), after.begin(), after.end());
    const FileReport r = test::analyse(frames);
    ASSERT_EQ(r.negotiations.size(), 1u) << unanswered;
    EXPECT_EQ(r.negotiations[0].outcome, NegOutcome::agreed);
    EXPECT_EQ(wrong_of(r.negotiations[0]), "");
  }
}

TEST(CaptureNegotiation, OfAnItemThatComesTwiceTheLastCounts) {
  Bytes items;
  add_neg_item(items, wire::NegItemType::plugin, std::string_view("parley"));
  add_neg_item(items, wire::NegItemType::variant, std::string_view("verbs-rc"));
  add_neg_item(items, wire::NegItemType::variant, std::string_view("counter"));
  Negotiated said = agreed_talk();
  said[0].second = joined({neg_message({.type = wire::NegType::hello}, items), neg_turn(info, 1, {7})});
  const NegotiationReport n = only_one(test::analyse(exchange_of(said).frames));
  EXPECT_EQ(n.variant, "counter");
  EXPECT_EQ(wrong_of(n), "");
}

// A peer chooses the numbers in the words of what is found; that must not be memory.
TEST(CaptureNegotiation, FindingsWithAlwaysOtherNumbersAreBounded) {
  test::Exchange x;
  x.open().send(0, joined({neg_hello(), neg_turn(info, 1, qp(0x11), false)}));
  Bytes turns;
  for (std::uint16_t round = 0; round < 2000; ++round) {
    const Bytes one = neg_turn(info, static_cast<std::uint16_t>(7 * round + 9), {}, false);
    turns.insert(turns.end(), one.begin(), one.end());
  }
  x.send(0, turns);
  const NegotiationReport n = only_one(test::analyse(x.frames));
  EXPECT_LE(n.findings.size(), 201u);
}

TEST(CaptureNegotiation, OtherProtocolsAreNone) {
  const std::string get = "GET / HTTP/1.1\r\n\r\n", quit = "QUIT\r\n",
                    words = "QPng is a magic, and this is not a message";
  for (const std::string& text : {get, quit, words}) {
    test::Exchange x;
    x.open().send(0, Bytes(text.begin(), text.end())).send(0, neg_hello());
    const FileReport r = test::analyse(x.close().frames);
    EXPECT_TRUE(r.negotiations.empty()) << text;
    EXPECT_EQ(r.judgement.standing, Standing::failed);
  }
}

TEST(CaptureNegotiation, AStageThatATypeDoesNotHaveIsNamedWithIt) {
  const auto said = [](wire::NegType type, std::uint8_t stage) {
    const auto fault = NegHead::read(neg_message({.type = type, .stage = stage})).fault();
    return fault ? fault->text : "";
  };
  EXPECT_EQ(said(wire::NegType::hello, 2), "a message of type 1 has stage 2");
  EXPECT_EQ(said(wire::NegType::turn, 0), "a message of type 3 has stage 0");
  EXPECT_EQ(said(wire::NegType::turn, 2), "");
}

TEST(CaptureNegotiation, ATurnLooksLikeThatOfAQueuePairOnlyIfAllOfItsBeginDoes) {
  EXPECT_TRUE(like_qp_info(qp(0x11)));
  for (std::size_t at = 0; at < 8; ++at) {  // version, transport, reserved, and type and length of the QPN
    Bytes other = qp(0x11);
    other[at] ^= 0x40;
    EXPECT_FALSE(like_qp_info(other)) << "octet " << at;
  }
  EXPECT_FALSE(like_qp_info(ConstBytes(qp(0x11)).first(11)));
}

TEST(CaptureNegotiation, AnotherPluginsTurnsAreNotReadAsQueuePairs) {
  Negotiated said = agreed_talk();
  said[0].second = joined({neg_hello("counter"), neg_turn(info, 1, {7})});
  const NegotiationReport n = only_one(test::analyse(exchange_of(said).frames));
  EXPECT_EQ(wrong_of(n), "");
  EXPECT_TRUE(n.attributes.empty());
}

TEST(CaptureNegotiation, ALongMessageIsPassedOver) {
  Negotiated said = agreed_talk();
  said[0].second = joined({neg_hello("counter"), neg_turn(info, 1, Bytes(70000))});
  const NegotiationReport n = only_one(test::analyse(exchange_of(said).frames));
  EXPECT_EQ(n.outcome, NegOutcome::agreed);
  EXPECT_EQ(n.judgement.standing, Standing::passed);
  EXPECT_EQ(n.from_initiator.messages, 3u);
  ASSERT_EQ(n.findings.size(), 1u);
  EXPECT_THAT(n.findings[0].text, HasSubstr("a message of 70000 octets; a session accepts at most 65536"));
}

TEST(CaptureNegotiation, StandsBesideMpaInOneFileAndOneVerdict) {
  test::Frames frames = test::conversation().frames;
  test::Exchange x(Address::v4(192, 0, 2, 1, 40001), Address::v4(192, 0, 2, 2, 7177), 1, 2);
  x.open().send(0, neg_hello());
  frames.insert(frames.end(), x.frames.begin(), x.frames.end());
  const FileReport r = test::analyse(frames);
  EXPECT_EQ(r.connections.size(), 1u);
  ASSERT_EQ(r.negotiations.size(), 1u);
  EXPECT_EQ(r.judgement.why, "1 negotiation partial");
  EXPECT_THAT(summary_text("f", r), HasSubstr("1 of them MPA, 1 QP negotiation: 1 passed, 1 partial, 0 failed"));
  EXPECT_THAT(to_json("f", r), HasSubstr("\"negotiations\""));
}

/// Feeds an analyzer one frame after the other.
void push(Analyzer& analyzer, const test::Frames& frames) {
  std::uint64_t number = 0;
  for (const test::Frame& f : frames) {
    wire::CapturedPacket p;
    p.frame = ++number;
    p.at = f.at;
    p.link_type = 1;
    p.octets = f.octets;
    p.original_length = static_cast<std::uint32_t>(f.octets.size());
    analyzer.push(p);
  }
}

TEST(CaptureNegotiation, LiveOnesAreHandedOutAsTheyEnd) {
  Analyzer analyzer;
  const test::Frames frames = exchange_of(agreed_talk()).close().frames;
  push(analyzer, frames);
  (void)analyzer.take_ended(frames.back().at);
  EXPECT_TRUE(analyzer.take_negotiations().empty());
  (void)analyzer.take_ended(frames.back().at + std::chrono::seconds(5));
  const auto ended = analyzer.take_negotiations();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].outcome, NegOutcome::agreed);
  const FileReport r = analyzer.finish();
  EXPECT_TRUE(r.negotiations.empty());
  EXPECT_EQ(r.all_negotiations(), 1u);
  EXPECT_EQ(r.judgement.standing, Standing::passed);
}

// After both FINs are acknowledged, or a reset, nothing more is due; else a retransmission may follow.
TEST(CaptureNegotiation, LiveOnesWaitForTheLastAcknowledgment) {
  const auto ends = [](test::Exchange x) {
    Analyzer analyzer;
    push(analyzer, x.frames);
    (void)analyzer.take_ended(x.frames.back().at + std::chrono::milliseconds(1500));
    return analyzer.take_negotiations().size();
  };
  EXPECT_EQ(ends(exchange_of(agreed_talk()).fin(0).fin(1).acknowledge(0)), 1u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).fin(1).fin(0).acknowledge(1)), 1u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).fin(0).fin(1)), 0u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).fin(1).fin(0)), 0u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).rst(0)), 1u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).rst(1)), 1u);
  EXPECT_EQ(ends(exchange_of(agreed_talk()).fin(0)), 0u);
}

// Packets that the capture lost may be a connection's own, unless all of it is there.
TEST(CaptureNegotiation, PacketsThatTheCaptureDroppedCountWhereSomethingMayBeMissing) {
  const auto dropped = [](const test::Frames& frames) {
    Analyzer analyzer;
    push(analyzer, test::Frames(frames.begin(), frames.begin() + 4));
    analyzer.dropped(7);
    push(analyzer, test::Frames(frames.begin() + 4, frames.end()));
    const FileReport r = analyzer.finish();
    return r.negotiations.size() == 1 ? r.negotiations[0].dropped : 99;
  };
  const test::Frames whole = exchange_of(agreed_talk()).close().frames;
  EXPECT_EQ(dropped(whole), 0u);
  EXPECT_EQ(dropped(test::Frames(whole.begin() + 1, whole.end())), 7u) << "no SYN";
  EXPECT_EQ(dropped(exchange_of(agreed_talk()).fin(0).frames), 7u);
  EXPECT_EQ(dropped(exchange_of(agreed_talk()).rst(0).frames), 7u);
  EXPECT_EQ(dropped(exchange_of(agreed_talk()).fin(0).fin(1).frames), 7u) << "the last FIN is not acknowledged";
  test::Frames hole = whole;
  hole.erase(hole.begin() + 5);
  EXPECT_EQ(dropped(hole), 7u);
}

std::size_t count_of(const test::Frames& first, const test::Frames& then) {
  test::Frames frames = first;
  frames.insert(frames.end(), then.begin(), then.end());
  return test::analyse(frames).negotiations.size();
}

test::Frames another() {
  test::Exchange x(false, 500'000, 700'000);
  x.open();
  for (const auto& [from, octets] : agreed_talk()) x.send(from, octets);
  return x.close().frames;
}

TEST(CaptureNegotiation, ASynWithAnotherNumberIsAnotherConnection) {
  const test::Frames open = exchange_of(agreed_talk()).frames, closed = exchange_of(agreed_talk()).close().frames;
  EXPECT_EQ(count_of(closed, another()), 2u);
  EXPECT_EQ(count_of(open, another()), 2u);
  EXPECT_EQ(count_of(test::Frames(open.begin() + 3, open.end()), another()), 2u) << "its SYN was not captured";
  // The same SYN again, which the responder had before.
  test::Frames twice = closed;
  twice.insert(twice.begin() + 1, twice[0]);
  const FileReport r = test::analyse(twice);
  ASSERT_EQ(r.negotiations.size(), 1u);
  EXPECT_EQ(r.negotiations[0].judgement.standing, Standing::passed);
}

// Eight octets of the first message, and then nothing for a while.
TEST(CaptureNegotiation, APartOfAHeaderBeforeALossIsNoOtherProtocol) {
  const Bytes begun = joined({neg_hello(), neg_turn(info, 1, qp(0x11))});
  test::Exchange x;
  x.open().send(0, ConstBytes(begun).first(8));
  const auto lost = static_cast<std::ptrdiff_t>(x.frames.size());
  x.send(0, ConstBytes(begun).subspan(8));
  x.send(1, joined({neg_welcome(), neg_turn(info, 1, qp(0x22))}));
  x.send(0, neg_turn(ready, 1, {1})).send(1, neg_turn(ready, 1, {1})).close();
  test::Frames frames = x.frames;
  frames.erase(frames.begin() + lost);
  const NegotiationReport n = only_one(test::analyse(frames));
  EXPECT_EQ(wrong_of(n), "");
  EXPECT_EQ(n.judgement.standing, Standing::partial);
  // The hole is seen before anything has told what this is, and what follows it is no beginning.
  test::Exchange y;
  y.open().send(0, ConstBytes(begun).first(8));
  const auto gone = static_cast<std::ptrdiff_t>(y.frames.size());
  y.send(0, ConstBytes(begun).subspan(8, 30)).send(0, ConstBytes(begun).subspan(38)).acknowledge(1);
  y.send(0, neg_turn(ready, 1, {1}))
      .acknowledge(1)
      .send(1, joined({neg_welcome(), neg_turn(info, 1, qp(0x22))}))
      .close();
  frames = y.frames;
  frames.erase(frames.begin() + gone);
  EXPECT_EQ(only_one(test::analyse(frames)).from_initiator.missing_octets, 30u);
}

// The first frame was cut, and the next goes on inside of its message. Eight octets of a header are there, of that message or of
// the peer's; without them an anonymized copy would be of no protocol.
TEST(CaptureNegotiation, AHeaderThatTheCaptureCutIsNoOtherProtocol) {
  const Bytes begun = joined({neg_hello(), neg_turn(info, 1, qp(0x11))});
  const Bytes answer = joined({neg_welcome(), neg_turn(info, 1, qp(0x22))});
  for (const std::size_t kept : {8u, 0u}) {
    SCOPED_TRACE(kept);
    test::Exchange x;
    x.open().send(0, ConstBytes(begun).first(40));
    test::Frame& cut = x.frames.back();
    cut.original_length = static_cast<std::uint32_t>(cut.octets.size());
    cut.octets.resize(cut.octets.size() - 40 + kept);
    x.send(1, ConstBytes(answer).first(8 - kept)).send(0, ConstBytes(begun).subspan(40));
    x.send(1, ConstBytes(answer).subspan(8 - kept));
    x.send(0, neg_turn(ready, 1, {1})).send(1, neg_turn(ready, 1, {1})).close();
    const Bytes file = test::to_pcap(x.frames), copy = test::anonymize(file).file;
    for (const Bytes* each : {&file, &copy}) {
      const NegotiationReport n = only_one(test::analyse_file(*each));
      EXPECT_EQ(wrong_of(n), "");
      EXPECT_EQ(n.from_initiator.missing_octets, 40 - kept);
    }
    EXPECT_TRUE(test::contains(copy, ConstBytes(kept > 0 ? begun : answer).first(8)));
  }
}

// Where nothing of a header is there, what goes on behind a gap is another protocol's: nobody keeps it until the end.
TEST(CaptureNegotiation, WhatGoesOnBehindAGapIsLetGoWhereNothingBeganLikeAMessage) {
  test::Exchange x;
  x.open().send(0, Bytes(40, 0x16));
  test::Frame& cut = x.frames.back();
  cut.original_length = static_cast<std::uint32_t>(cut.octets.size());
  cut.octets.resize(cut.octets.size() - 40);
  x.send(0, Bytes(100, 0x17));
  ReassemblyBudget budget;
  NegConnection connection(budget);
  for (std::size_t i = 0; i < x.frames.size(); ++i) {
    EXPECT_FALSE(connection.refuted()) << i;
    const auto view = wire::parse_packet(1, x.frames[i].octets, x.frames[i].original_length);
    connection.packet(view.tcp.source < view.tcp.destination ? 0 : 1, view.tcp, i + 1, x.frames[i].at);
  }
  EXPECT_TRUE(connection.refuted() && connection.may_lack_begin());
}

}  // namespace
}  // namespace parley::capture
