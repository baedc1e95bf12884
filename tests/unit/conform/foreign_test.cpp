// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What does not speak MPA at all is not judged by the RFCs of MPA: neither its answers nor its ends are a verdict, and
// the run says what came instead.
#include "kit.hpp"

namespace parley::conform {
namespace {

using namespace kit;

/// Answers the first octets of each connection by these, and ends it if asked to.
Script answers(Bytes octets, bool ends) {
  return [octets, ends](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    (void)co_await peer.more(stream, 0, 70s);
    if (!octets.empty()) stream.send(octets);
    if (ends) stream.fin();
  };
}

Script echoes() {
  return [](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    while (!stream.ended()) {
      (void)co_await peer.more(stream, 0, 70s);
      const Bytes octets(stream.unread().begin(), stream.unread().end());
      stream.take(octets.size());
      stream.send(octets);
    }
  };
}

Bytes text(std::string_view words) { return {words.begin(), words.end()}; }

struct Foreign {
  std::string_view name;
  Script script;
  std::string_view words;  ///< in what the run says of it
};

std::vector<Foreign> foreign() {
  return {{"an echo server", echoes(), "MPA ID Req Frame"},
          {"a server of HTTP", answers(text("HTTP/1.1 400 Bad Request\r\n\r\n"), true), "48 54 54 50"},
          {"one that closes", answers({}, true), "FIN and not one octet"},
          {"one that hangs", answers({}, false), "silence"},
          {"one that sends garbage", answers(Bytes(500, 0xFF), false), "ff ff ff"}};
}

std::vector<std::string_view> all_names(Iut iut) {
  std::vector<std::string_view> names;
  for (const Case* c : cases(iut)) names.push_back(c->name);
  return names;
}

TEST(ConformForeign, NoCaseIsAVerdictOnWhatNeverTookARequest) {
  for (const Foreign& f : foreign()) {
    Table table(Iut::responder, all_names(Iut::responder), f.script);
    table.settings.foreign_max = 1000;  // each case is run
    table.finish();
    for (const Result& r : table.run->results())
      EXPECT_EQ(to_string(r.finding.verdict), r.what->run == nullptr ? "not run" : "inconclusive")
          << f.name << ", " << r.what->name << ": " << r.finding.observed;
    EXPECT_NE(table.run->why_foreign().find(f.words), std::string::npos) << f.name << ": " << table.run->why_foreign();
    EXPECT_FALSE(table.run->spoke_mpa()) << f.name;
  }
}

TEST(ConformForeign, AServerOfSomethingElseIsGivenUpSoon) {
  Table table(Iut::responder, all_names(Iut::responder), answers({}, false));
  table.finish();
  const Tally t = tally(table.run->results(), false);
  EXPECT_EQ(t.inconclusive, table.settings.foreign_max);
  EXPECT_EQ(table.run->results().back().finding.observed, "the peer does not speak MPA");
}

TEST(ConformForeign, OneCaseIsEnoughToTellAndToBeTold) {
  for (const std::string_view name : {"bad-key-closes", "no-request-times-out", "read-rtr-raises-ird"}) {
    Table table(Iut::responder, {name}, answers({}, true));
    table.finish();
    EXPECT_EQ(to_string(table.run->results()[0].finding.verdict), "inconclusive") << name;
    EXPECT_FALSE(table.run->why_foreign().empty()) << name;
  }
}

TEST(ConformForeign, AResponderThatRejectsEverythingSpeaksMpaAndIsNotJudged) {
  const Bytes no = tester::startup({.key = PARLEY_MPA_KEY_REP, .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_R});
  Table table(Iut::responder, {"plain-v1", "bad-key-closes", "v2-client-server"}, answers(no, true));
  table.finish();
  EXPECT_EQ(tally(table.run->results(), false).inconclusive, 3U) << words(table.run->results());
  EXPECT_TRUE(table.run->spoke_mpa());
  EXPECT_FALSE(table.run->why_foreign().empty());
}

TEST(ConformForeign, AnyFormOfSetUpThatIsTakenMakesAnEndAVerdict) {
  // RFC 6581 alone, with the peer-to-peer model alone: some hardware takes nothing else.
  const auto picky = [](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
    (void)co_await peer.more(stream, PARLEY_MPA_HEADER_LEN + PARLEY_MPA_ENH_LEN - 1, 2s);
    const auto asked = wire::MpaFrameView::parse(stream.unread());
    const bool enhanced = asked && asked->key == wire::MpaKey::req && asked->complete() && asked->revision == 2;
    const auto depths = wire::MpaEnhanced::parse(enhanced ? asked->private_data : ConstBytes{});
    if (depths && depths->a)
      stream.send(tester::startup({.key = PARLEY_MPA_KEY_REP,
                                   .flags = PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S,
                                   .revision = 2,
                                   .enhanced = tester::enhanced(8 | PARLEY_MPA_ENH_A, 8 | PARLEY_MPA_ENH_C)}));
    stream.fin();
  };
  Table table(Iut::responder, {"bad-key-closes"}, picky);
  table.finish();
  EXPECT_EQ(to_string(table.run->results()[0].finding.verdict), "pass") << words(table.run->results());
  EXPECT_TRUE(table.run->why_foreign().empty());
}

TEST(ConformForeign, WhatConnectsAndSendsNoRequestIsNoInitiator) {
  Table table(Iut::initiator, {"request-sound", "bad-key-closes"},
              [](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
                stream.send(text("EHLO tester.example\r\n"));
                co_await peer.sleep(1ms);
              });
  table.finish();
  EXPECT_EQ(tally(table.run->results(), false).inconclusive, 2U) << words(table.run->results());
  EXPECT_NE(table.run->why_foreign().find("EHLO tester.example"), std::string::npos) << table.run->why_foreign();
}

}  // namespace
}  // namespace parley::conform
