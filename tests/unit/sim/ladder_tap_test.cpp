// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What stands beside the rows of a ladder: the facts of its run, its connections, the fields of a frame that are not of
// its headers; and how links are described in a capture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record_kit.hpp"

namespace parley::sim::test {
namespace {

using namespace std::chrono_literals;
using draw::LadderRow;
using testing::Contains;
using testing::ElementsAre;
using Fact = std::pair<std::string, std::string>;

Instant at(Duration d) { return Instant(d); }

std::vector<Fact> facts_of(const RunReport* report, const RecordInfo& info = {}) {
  LadderTap tap;
  tap.set_info(info);
  tap.begin(two_hosts());
  return tap.finish(report).facts;
}

TEST(LadderFacts, SayHowTheRunEnded) {
  const auto result = [](RunEnd end, std::size_t violations) {
    RunReport report;
    report.end = end;
    report.violations.assign(violations, {"fence", at(1ms), "", "too early", ""});
    return facts_of(&report)[0].second;
  };
  EXPECT_EQ(result(RunEnd::settled, 0), "passed");
  EXPECT_EQ(result(RunEnd::settled, 1), "failed: 1 violation");
  EXPECT_EQ(result(RunEnd::settled, 2), "failed: 2 violations");
  EXPECT_EQ(result(RunEnd::time_bound, 0), "failed: stopped at its bound of time");
  EXPECT_EQ(result(RunEnd::event_bound, 0), "failed: stopped at its bound of events");
  EXPECT_EQ(result(RunEnd::converge_bound, 3), "failed: 3 violations, stopped at its bound of convergence");
  EXPECT_EQ(result(RunEnd::stopped, 0), "failed: stopped from outside");
  EXPECT_EQ(result(RunEnd::exhausted, 1), "failed: 1 violation, stopped when its event queue was full");
}

TEST(LadderFacts, StandInTheirOrder) {
  RunReport report;
  report.seed = 9;
  report.established = 2;
  report.failed = 1;
  report.finished_at = at(1500ms);
  EXPECT_THAT(facts_of(&report, {.application = "parley x", .scenario = "s", .seed = 4}),
              ElementsAre(Fact("result", "passed"), Fact("seed", "9"), Fact("connections", "2 established, 1 failed"),
                          Fact("virtual time", "1.500000000 s"), Fact("frames", "0"), Fact("made by", "parley x")));
  EXPECT_THAT(facts_of(nullptr, {.application = "", .scenario = "s", .seed = 4}),
              ElementsAre(Fact("seed", "4"), Fact("frames", "0")));
}

TEST(LadderFacts, ConnectionsThatBrokeARuleComeFirst) {
  RunReport report;
  report.outcomes = {{.label = "one", .initiator = "established", .responder = "established"},
                     {.label = "two", .initiator = "failed: no answer", .responder = "none"},
                     {.label = "three", .initiator = "rejected: no", .responder = "established"}};
  report.violations = {{"fence", at(1ms), "three", "too early", "RFC 5044 §7.1.2"},
                       {"wire", at(2ms), "three", "odd", ""},
                       {"late", at(3ms), "", "never ended", ""}};
  LadderTap tap;
  tap.begin(two_hosts());
  const draw::Ladder p = tap.finish(&report);
  ASSERT_EQ(p.connections.size(), 3U);
  const auto words = [&](std::size_t i) {
    const auto& [label, result, outcome, numbers] = p.connections[i];
    EXPECT_EQ(numbers, "") << "no packet of RoCE";
    return label + " | " + result + " | " + outcome;
  };
  EXPECT_EQ(words(0), "three | failed: 2 violations | rejected");
  EXPECT_EQ(words(1), "one | passed | established");
  EXPECT_EQ(words(2), "two | passed | set-up failed");
  ASSERT_EQ(p.rows.size(), 3U);
  EXPECT_EQ(p.rows[0].connection, 1U);
  EXPECT_EQ(p.rows[2].connection, 0U) << "of none";
  EXPECT_THAT(p.rows[0].fields, ElementsAre(Fact("Violation", ""), Fact("Checker", "fence"),
                                            Fact("At", "0.001000000 s"), Fact("Connection", "three"),
                                            Fact("What is wrong", "too early"), Fact("Rule", "RFC 5044 §7.1.2")));
  EXPECT_THAT(p.rows[2].fields, ElementsAre(Fact("Violation", ""), Fact("Checker", "late"), Fact("At", "0.003000000 s"),
                                            Fact("What is wrong", "never ended")));
}

TEST(LadderFacts, NotesAreOfTheKindThatHappened) {
  constexpr std::pair<NoteKind, std::string_view> kinds[] = {{NoteKind::crashed, "crash"},
                                                             {NoteKind::restarted, "restart"},
                                                             {NoteKind::paused, "pause"},
                                                             {NoteKind::resumed, "resume"},
                                                             {NoteKind::restless, "note"},
                                                             {NoteKind::rate, "note"},
                                                             {NoteKind::process_ended, "process"},
                                                             {NoteKind::process_stopped, "process"},
                                                             {NoteKind::process_continued, "process"}};
  LadderTap tap;
  tap.begin(two_hosts());
  for (const auto& [kind, layer] : kinds) tap.on_note(at(1ms), 1, kind, "what");
  tap.on_note(at(1ms), 77, NoteKind::rate, "of no host");
  const draw::Ladder p = tap.finish(nullptr);
  ASSERT_EQ(p.rows.size(), std::size(kinds) + 1);
  for (std::size_t i = 0; i < std::size(kinds); ++i) {
    EXPECT_EQ(p.rows[i].layer, kinds[i].second);
    EXPECT_EQ(p.rows[i].from, 1U);
    EXPECT_EQ(p.rows[i].to, 1U);
    EXPECT_EQ(p.rows[i].kind, LadderRow::Kind::note);
  }
  EXPECT_EQ(p.rows.back().from, 0U);
}

TEST(LadderFacts, NotesAreBounded) {
  LadderTap tap;
  tap.begin(two_hosts());
  for (int i = 0; i < 1010; ++i) tap.on_note(at(1ms), 1, NoteKind::rate, "what");
  const draw::Ladder p = tap.finish(nullptr);
  EXPECT_EQ(p.rows.size(), 1000U);
  EXPECT_EQ(p.rows_dropped, 10U);
}

/// One frame and what its ends say of it; its fields up to those of Ethernet.
std::vector<Fact> fields_of(const std::function<void(Tap&, ConstBytes)>& happens) {
  vt::Exchange x;
  x.open();
  LadderTap tap;
  tap.begin(two_hosts());
  happens(tap, x.frames[0].octets);
  const draw::Ladder p = tap.finish(nullptr);
  EXPECT_EQ(p.rows.size(), 1U);
  std::vector<Fact> out;
  for (const auto& field : p.rows[0].fields) {
    if (field.first == "Ethernet") break;
    out.push_back(field);
  }
  return out;
}

TEST(LadderFacts, FieldsOfAFrameSayWhatBecameOfIt) {
  const Fact head("Frame", ""), number("Number in the capture", "1"), sent("Sent", "0.001000000 s");
  EXPECT_THAT(fields_of([](Tap& tap, ConstBytes f) {
                show(tap, at(1ms), 0, 0, true, 1, f);
                show(tap, at(2ms), 0, 1, false, 1, f);
              }),
              ElementsAre(head, number, sent, Fact("Arrived", "0.002000000 s")));
  EXPECT_THAT(fields_of([](Tap& tap, ConstBytes f) { show(tap, at(1ms), 0, 0, true, 1, f); }),
              ElementsAre(head, number, sent, Fact("What happened", "still on its way at the end")));
  EXPECT_THAT(
      fields_of([](Tap& tap, ConstBytes f) {
        show(tap, at(1ms), 0, 0, true, 1, f, DropReason::none, "delayed by rule 'slow'");
      }),
      ElementsAre(head, number, sent, Fact("What happened", "delayed by rule 'slow'; still on its way at the end")));
  EXPECT_THAT(fields_of([](Tap& tap, ConstBytes f) { show(tap, at(1ms), 0, 0, true, 1, f, DropReason::queue_full); }),
              ElementsAre(head, number, sent, Fact("What happened", "dropped: queue full")));
  EXPECT_THAT(fields_of([](Tap& tap, ConstBytes f) {
                Bytes bent(f.begin(), f.end());
                bent.back() ^= 1;
                show(tap, at(1ms), 0, 0, true, 1, f, DropReason::none, "bits flipped");
                show(tap, at(2ms), 0, 1, false, 1, bent, DropReason::discarded, "bad TCP checksum");
              }),
              ElementsAre(head, number, sent, Fact("Arrived, discarded", "0.002000000 s"),
                          Fact("What happened", "bits flipped; bad TCP checksum"),
                          Fact("Octets", "changed on the way; shown as sent")));
}

TEST(LadderFacts, AFrameThatNeverArrivedPointsToWhereItWasMeantToGo) {
  const auto to = [](std::uint8_t sender, std::size_t frame) {
    vt::Exchange x;
    x.open();
    Bytes octets = x.frames[frame].octets;
    LadderTap tap;
    tap.begin(two_hosts());
    show(tap, at(1ms), 0, sender, true, 1, octets);
    return tap.finish(nullptr).rows[0].to;
  };
  EXPECT_EQ(to(0, 0), 1U);
  EXPECT_EQ(to(1, 1), 0U);
  const auto broadcast = [](std::uint8_t sender) {
    LadderTap tap;
    tap.begin(two_hosts());
    show(tap, at(1ms), 0, sender, true, 1, Bytes(60, 0xFF));
    return tap.finish(nullptr).rows[0].to;
  };
  EXPECT_EQ(broadcast(0), 1U);
  EXPECT_EQ(broadcast(1), 0U);
}

// As link-local ones may be (RFC 4007 §4).
TEST(LadderFacts, AnAddressOnTwoLinksIsWhoeverGetsTheFrame) {
  vt::Exchange x;
  x.open();
  RecordTopology t = two_hosts();
  t.nodes.push_back({"c", false, t.nodes[1].addresses});
  t.links.push_back(t.links[0]);
  t.links[1].ends[1] = LinkEndInfo{2, "c/p1"};
  LadderTap tap;
  tap.begin(t);
  for (const LinkId link : {0U, 1U}) {
    show(tap, at(1ms), link, 0, true, link + 1, x.frames[0].octets);
    show(tap, at(2ms), link, 1, false, link + 1, x.frames[0].octets);
  }
  const auto rows = tap.finish(nullptr).rows;
  ASSERT_EQ(rows.size(), 2U);
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_EQ(rows[i].to, i + 1);
    EXPECT_EQ(rows[i].fate, LadderRow::Fate::arrived);
  }
}

// ---- captures -------------------------------------------------------------------------------------------------------

TEST(PcapngLinks, AreDescribedByTheirOptions) {
  const auto described = [](std::uint64_t rate, Duration delay, std::uint16_t mtu) {
    RecordTopology topology = two_hosts();
    topology.links[0].options.rate_bps = rate;
    topology.links[0].options.delay = delay;
    topology.links[0].options.mtu = mtu;
    Bytes out;
    PcapngTap tap({"p", "s", 1}, [&](ConstBytes piece) {
      out.insert(out.end(), piece.begin(), piece.end());
      return true;
    });
    tap.begin(topology);
    const std::string text(out.begin(), out.end());
    const std::size_t from = text.find("link a-b, ");
    return text.substr(from, text.find_first_of(std::string_view("\0", 1), from) - from);
  };
  EXPECT_THAT(described(100'000'000'000, 1us, 1500), testing::StartsWith("link a-b, 100 Gb/s, 1 us, MTU 1500"));
  EXPECT_THAT(described(1'500'000'000, 2ms, 9000), testing::StartsWith("link a-b, 1500 Mb/s, 2 ms, MTU 9000"));
  EXPECT_THAT(described(2'500'000, 1500ns, 576), testing::StartsWith("link a-b, 2500 kb/s, 1500 ns, MTU 576"));
  EXPECT_THAT(described(9600, 1us, 576), testing::StartsWith("link a-b, 9600 b/s, "));
  EXPECT_THAT(described(999, 1us, 576), testing::StartsWith("link a-b, 999 b/s, "));
}

}  // namespace
}  // namespace parley::sim::test
