// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How a run goes about its cases: the program that is started for each, peers that go away, ends, and the page.
#include <fmt/format.h>

#include "played.hpp"

namespace parley::conform {
namespace {

using namespace played;

TEST(ConformRun, TheProgramIsStartedBeforeEachCaseAndEndedAfterIt) {
  Table table(Iut::responder, {"plain-v1", "bad-key-closes", "v2-client-server"}, responder(takes_everything));
  std::vector<std::string> calls;
  table.hooks.before = [&](const Case& c) { calls.push_back("before " + std::string(c.name)); };
  table.hooks.after = [&] {
    calls.emplace_back("after");
    return "output " + std::to_string(calls.size());
  };
  table.hooks.result = [&](const Result& r) { calls.push_back("result " + std::string(r.what->name)); };
  table.finish();
  std::vector<std::string> expected;
  for (const char* name : {"plain-v1", "bad-key-closes", "v2-client-server"})
    for (const char* what : {"before ", "after", "result "})
      expected.push_back(what + std::string(std::string_view(what) == "after" ? "" : name));
  EXPECT_EQ(calls, expected);
  EXPECT_EQ(table.run->results()[1].output, "output 5");
}

TEST(ConformRun, ARunStopsBetweenCasesWhenItIsAskedTo) {
  Table table(Iut::responder, {"plain-v1", "bad-key-closes", "v2-client-server"}, responder(takes_everything));
  std::size_t done = 0;
  table.hooks.result = [&](const Result&) { ++done; };
  table.hooks.stopped = [&] { return done >= 1; };
  table.finish();
  EXPECT_EQ(to_string(table.run->results()[0].finding.verdict), "pass");
  for (std::size_t i = 1; i < 3; ++i) {
    EXPECT_EQ(to_string(table.run->results()[i].finding.verdict), "not run");
    EXPECT_EQ(table.run->results()[i].finding.observed, "the run was ended");
  }
  EXPECT_TRUE(table.run->interrupted());
  EXPECT_FALSE(table.run->gave_up());
}

/// A program that listens no more after so many connections.
Script goes_away(unsigned after) {
  return [after, served = std::make_shared<unsigned>(0)](tester::ScriptedPeer& peer,
                                                         tester::TcpStream& stream) -> Task<void> {
    if (++*served == after) (void)co_await peer.listen(Address::any(Address::Family::v4, port + 1), 1s);
    co_await responder(takes_everything)(peer, stream);
  };
}

TEST(ConformRun, APeerThatIsNoLongerThereIsGivenUpAfterSomeCases) {
  Table table(Iut::responder,
              {"plain-v1", "bad-key-closes", "reply-key-closes", "revision-3-closes", "v2-client-server", "a-alone"},
              goes_away(1));
  table.finish();
  const auto& results = table.run->results();
  EXPECT_EQ(to_string(results[0].finding.verdict), "pass");
  for (std::size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(to_string(results[i].finding.verdict), "inconclusive");
    EXPECT_EQ(results[i].finding.observed.find("the responder takes no TCP connection: "), 0U)
        << results[i].finding.observed;
  }
  for (std::size_t i = 4; i < 6; ++i) {
    EXPECT_EQ(to_string(results[i].finding.verdict), "not run");
    EXPECT_EQ(results[i].finding.observed, "the peer was not there for the last 3 cases");
  }
  EXPECT_TRUE(table.run->gave_up());
  EXPECT_FALSE(table.run->unreachable());
  EXPECT_FALSE(table.run->interrupted());
}

// A program that serves one client at a time may need a moment before it listens again.
TEST(ConformRun, APeerThatListensAgainInTimeIsTested) {
  const auto pauses = [](Duration pause) {
    return [pause, served = std::make_shared<unsigned>(0)](tester::ScriptedPeer& peer,
                                                           tester::TcpStream& stream) -> Task<void> {
      const bool first = (*served)++ == 0;
      if (first) (void)co_await peer.listen(Address::any(Address::Family::v4, port + 1), 1s);
      co_await responder(takes_everything)(peer, stream);
      if (!first) co_return;
      co_await peer.sleep(pause);
      (void)co_await peer.listen(Address::any(Address::Family::v4, port), 1s);
    };
  };
  Table soon(Iut::responder, {"plain-v1", "v2-client-server"}, pauses(2s));
  soon.finish();
  EXPECT_EQ(to_string(soon.run->results()[1].finding.verdict), "pass") << soon.run->results()[1].finding.observed;
  Table late(Iut::responder, {"plain-v1", "v2-client-server"}, pauses(8s));
  late.finish();
  const Result& missed = late.run->results()[1];
  EXPECT_EQ(to_string(missed.finding.verdict), "inconclusive") << missed.finding.observed;
  EXPECT_GE(missed.took, late.settings.connect - 300ms);
  EXPECT_LE(missed.took, late.settings.connect);
}

// A peer that takes a moment to close is not reset: an RST could overtake what it has not read.
TEST(ConformRun, APeerThatClosesInTimeSeesNoReset) {
  for (const bool closes : {true, false}) {
    std::vector<std::string> ends;
    Table table(Iut::responder, {"plain-v1", "v2-client-server"},
                [&, closes](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
                  FrameReader reader(peer, stream);
                  const Received request = co_await reader.startup(60s);
                  stream.send(tester::startup(fitting(request)));
                  const Received end = co_await reader.anything(60s);
                  ends.push_back(end.text());
                  co_await peer.sleep(100ms);
                  if (closes) stream.fin();
                  co_await peer.sleep(closes ? 50ms : 400ms);
                  ends.emplace_back(stream.rst_seen() ? "reset" : "closed");
                });
    table.finish();
    table.turn(1s);
    const std::string how = closes ? "closed" : "reset";
    EXPECT_EQ(ends, (std::vector<std::string>{"FIN", how, "FIN", how}));
  }
}

TEST(ConformRun, WhatCameBehindTheLastFrameIsShown) {
  const auto chatty = responder(takes_everything, [](StartupOctets& s) { s.trailing = Bytes(3, 0xAB); });
  Table whole(Iut::responder, {"plain-v1"}, chatty);
  EXPECT_EQ(whole.only_result().exchanges.back().words, "and more");
  EXPECT_EQ(whole.only_result().exchanges.back().octets, Bytes(3, 0xAB));
  // The tester waits for octets that make a frame: an interrupted case shows those that came.
  const StartupOctets request{.flags = flag_c, .trailing = Bytes(3, 0xCD)};
  Table cut(Iut::initiator, {"no-reply-times-out"},
            [=](tester::ScriptedPeer& peer, tester::TcpStream& stream) -> Task<void> {
              stream.send(tester::startup(request));
              co_await peer.sleep(100s);
            });
  cut.start();
  cut.turn(5s);
  cut.run->interrupt();
  ASSERT_FALSE(cut.run->results().empty());
  EXPECT_EQ(cut.run->results()[0].exchanges.back().octets, Bytes(3, 0xCD));
  cut.turn(1s);
}

// The times in a report count from the start of each case, be it interrupted or not.
TEST(ConformRun, ResultsOfAnInterruptedRunAreShownFromTheStartOfEachCase) {
  Table table(Iut::responder, {"plain-v1", "half-request-times-out", "v2-client-server"}, responder(takes_everything));
  table.hooks.after = [] { return std::string("its output"); };
  table.start();
  table.turn(5s);
  table.run->interrupt();
  std::string out;
  for (const Result& r : table.run->results()) {
    out += fmt::format("{}: {}: {}; at {} ms for {} ms; {}\n", r.what->name, to_string(r.finding.verdict),
                       r.finding.observed, r.began.time_since_epoch() / 1ms, r.took / 1ms, r.output);
    for (const Exchange& e : r.exchanges)
      out += fmt::format("  {} ms {} {}\n", (e.at - r.began) / 1ms, e.by_tester ? ">" : "<", e.words);
  }
  EXPECT_EQ(out,
            "plain-v1: pass: Rep 40/01/0000; at 0 ms for 0 ms; its output\n"
            "  0 ms > MPA ID Req Frame 40/01\n"
            "  0 ms < Rep 40/01/0000\n"
            "half-request-times-out: not run: interrupted; at 200 ms for 0 ms; its output\n"
            "  0 ms > the first half of a Request\n"
            "v2-client-server: not run: the run was ended; at 0 ms for 0 ms; \n");
  table.turn(1s);
}

TEST(ConformRun, ThePageShowsWordsAsTheyAreAndControlCharactersAsQuestionMarks) {
  const Case what{.row = "2", .name = "x", .clause = "RFC 5044 §7.1.1", .stimulus = "a Request", .expected = "a Reply"};
  std::vector<Result> results{{.what = &what, .finding = {Verdict::fail, "two words\x01\x1f\ttab"}}};
  results[0].output = "a line\nand <another>";
  const std::string page = html({.title = "t", .command = "parley conform --x"}, Iut::responder, results);
  EXPECT_NE(page.find("two words??\ttab"), std::string::npos);
  EXPECT_NE(page.find("<p class=dim><code>parley conform --x</code></p>"), std::string::npos);
  EXPECT_NE(page.find("<pre>a line\nand &lt;another&gt;</pre>"), std::string::npos);
  EXPECT_NE(page.find("<details id=c0 open>"), std::string::npos) << "what failed is open";
  EXPECT_NE(page.find("<title>t as responder</title>"), std::string::npos);
  results[0].finding = {Verdict::pass, "fine"};
  results[0].output.clear();
  const std::string good = html({}, Iut::initiator, results);
  EXPECT_EQ(good.find("<p class=dim><code>"), std::string::npos);
  EXPECT_EQ(good.find("<pre>"), std::string::npos);
  EXPECT_NE(good.find("<details id=c0>"), std::string::npos);
  EXPECT_NE(good.find("<title>iWARP conformance as initiator</title>"), std::string::npos);
}

}  // namespace
}  // namespace parley::conform
