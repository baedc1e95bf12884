// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What recorders make of frames: the pcapng file as readers see it, and the rows of the ladder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "record_kit.hpp"

namespace parley::sim::test {
namespace {

using draw::LadderRow;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

bool contains(ConstBytes in, std::string_view text) {
  return std::string(in.begin(), in.end()).find(text) != std::string::npos;
}

draw::Ladder draw(const vt::Frames& frames, const std::map<std::size_t, Fate>& fates = {},
                  const RunReport* report = nullptr, std::size_t rows_max = 5000) {
  LadderTap tap(rows_max);
  tap.begin(two_hosts());
  play(tap, frames, fates);
  return tap.finish(report);
}

std::vector<std::string> texts(const draw::Ladder& p) {
  std::vector<std::string> out;
  for (const auto& row : p.rows) out.push_back(row.text);
  return out;
}

const LadderRow& row_of(const draw::Ladder& p, std::string_view text) {
  static const LadderRow none;
  for (const auto& row : p.rows)
    if (row.text == text) return row;
  ADD_FAILURE() << "no row " << text;
  return none;
}

std::string field(const LadderRow& row, std::string_view name) {
  for (const auto& [key, value] : row.fields)
    if (key == name && !value.empty()) return value;
  return "no field " + std::string(name);
}

vt::Exchange enhanced() {
  vt::Exchange x;
  const wire::MpaEnhanced e{true, false, false, true, 8, 4};
  const Bytes hello{'h', 'i', '<', '/'};
  x.open()
      .send(0, vt::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 2, e, hello))
      .send(1, vt::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 2, e))
      .send(0, vt::fpdu(vt::read_request(1, {0, 0, 0, 0, 0})));
  return x;
}

// ---- pcapng --------------------------------------------------------------------------------------------------------

TEST(PcapngTap, EveryEndIsAnInterfaceAndCopiesShareAnId) {
  const vt::Exchange x = vt::conversation();
  const Bytes file = record(x.frames, {{3, {DropReason::rule, "dropped by rule 'loss'"}}});
  std::vector<std::uint64_t> ids;
  std::vector<std::uint32_t> interfaces;
  EXPECT_FALSE(wire::read_capture(file, [&](const wire::CapturedPacket& p) {
    ids.push_back(p.packet_id.value_or(0));
    interfaces.push_back(p.interface);
  }));
  ASSERT_EQ(ids.size(), 2 * x.frames.size() - 1);
  EXPECT_THAT(std::vector(ids.begin(), ids.begin() + 8), ElementsAre(1, 1, 2, 2, 3, 3, 4, 5));
  EXPECT_THAT(std::vector(interfaces.begin(), interfaces.begin() + 8), ElementsAre(0, 1, 1, 0, 0, 1, 0, 1));
  for (const std::string_view said : {"a/p1", "b/p1", "link a-b, 100 Gb/s, 1 us, MTU 1500", "dropped by rule 'loss'",
                                      "parley 0.1.0 (commit abc), scenario by-hand, seed 7"})
    EXPECT_TRUE(contains(file, said)) << said;
}

TEST(PcapngTap, HashIsThatOfTheOctetsAndTheSameForTheSameRun) {
  const vt::Exchange x = vt::conversation();
  const auto run = [&](Bytes& out) {
    PcapngTap tap({"p", "s", 1}, [&](ConstBytes piece) {
      out.insert(out.end(), piece.begin(), piece.end());
      return true;
    });
    tap.begin(two_hosts());
    play(tap, x.frames);
    tap.finish(nullptr);
    return tap.hash();
  };
  Bytes first, second;
  const std::uint64_t hash = run(first);
  EXPECT_EQ(hash, run(second));
  EXPECT_EQ(first, second);
  std::uint64_t expected = 0xCBF29CE484222325ULL;  // FNV-1a
  for (std::uint8_t octet : first) expected = (expected ^ octet) * 0x100000001B3ULL;
  EXPECT_EQ(hash, expected);
}

TEST(PcapngTap, NotesAndViolationsStandOnTheFrameNextInTime) {
  Bytes out;
  PcapngTap tap({"p", "s", 1}, [&](ConstBytes piece) {
    out.insert(out.end(), piece.begin(), piece.end());
    return true;
  });
  tap.begin(two_hosts());
  const vt::Exchange x = vt::conversation();
  const auto at = [](int ms) { return Instant{} + std::chrono::milliseconds(ms); };
  show(tap, at(1), 0, 0, true, 1, x.frames[0].octets);
  tap.on_note(at(2), 1, NoteKind::crashed, "host b crashed");
  show(tap, at(3), 0, 0, true, 2, x.frames[1].octets);
  show(tap, at(5), 0, 0, true, 3, x.frames[2].octets);
  RunReport report;
  report.violations = {{"order", at(2), "", "out of place", ""},
                       {"fence", at(4), "a > b", "too early", "RFC 5044 §7.1.2"},
                       {"late", at(9), "", "never ended", ""}};
  tap.finish(&report);
  const std::string all(out.begin(), out.end());
  const auto place = [&](std::string_view text) { return all.find(text); };
  const auto packet = [&](std::size_t i) {
    return place(std::string(x.frames[i].octets.begin(), x.frames[i].octets.end()));
  };
  ASSERT_NE(packet(1), std::string::npos);
  EXPECT_GT(place("host b crashed at 0.002000000 s"), packet(1));
  EXPECT_LT(place("host b crashed"), packet(2));
  EXPECT_GT(place("violation at 0.002000000 s: order: out of place"), packet(1));
  EXPECT_LT(place("violation at 0.002000000 s: order: out of place"), packet(2));
  EXPECT_GT(place("violation at 0.004000000 s: fence: a > b: too early [RFC 5044 §7.1.2]"), packet(2));
  EXPECT_GT(place("violation at 0.009000000 s: late: never ended"), packet(2));
  EXPECT_NE(place("late: never ended"), std::string::npos);
}

TEST(PcapngTap, HoldsABoundedPartAndStopsWhenTheSinkDoes) {
  std::size_t written = 0;
  PcapngTap tap({"p", "s", 1}, [&](ConstBytes piece) {
    written += piece.size();
    return true;
  });
  tap.begin(two_hosts());
  const Bytes frame(9000);
  for (std::uint64_t i = 0; i < 2 * PcapngTap::held_octets_max / 9000; ++i) show(tap, Instant{}, 0, 0, true, i, frame);
  EXPECT_GT(written, PcapngTap::held_octets_max / 2);
  tap.finish(nullptr);
  EXPECT_GT(written, 2 * PcapngTap::held_octets_max - 9000);

  int calls = 0;
  PcapngTap full({"p", "s", 1}, [&](ConstBytes) { return ++calls < 3; });
  full.begin(two_hosts());
  for (std::uint64_t i = 0; i < 2 * PcapngTap::held_octets_max / 9000; ++i) show(full, Instant{}, 0, 0, true, i, frame);
  full.finish(nullptr);
  EXPECT_EQ(calls, 3);
}

// One write of the file for many frames.
TEST(PcapngTap, TheSinkGetsTheHeadAtOnceAndThenPiecesOf64KiB) {
  constexpr std::size_t piece = 64 << 10, frame_size = 1000, block_max = frame_size + 100;
  std::vector<std::size_t> sizes;
  PcapngTap tap({"p", "s", 1}, [&](ConstBytes octets) {
    sizes.push_back(octets.size());
    return true;
  });
  tap.begin(two_hosts());
  EXPECT_EQ(sizes.size(), 1U);
  const Bytes frame(frame_size);
  for (std::uint64_t i = 0; i < 1000; ++i) show(tap, Instant{}, 0, 0, true, i, frame);
  tap.finish(nullptr);
  ASSERT_GE(sizes.size(), 1'000'000 / (piece + block_max));
  for (std::size_t i = 1; i + 1 < sizes.size(); ++i) {
    EXPECT_GE(sizes[i], piece);
    EXPECT_LT(sizes[i], piece + block_max);
  }
  EXPECT_LT(sizes.back(), piece + block_max);
}

TEST(PcapngTap, CommentsAreTextWhateverARuleIsNamed) {
  const vt::Exchange x = vt::conversation();
  const Bytes file = record(x.frames, {{0, {DropReason::none, "by '\xff\x01 \xe2\x9c\x97 \x1b[31m'"}}});
  EXPECT_TRUE(contains(file, "by '?? \xe2\x9c\x97 ?[31m'"));
}

TEST(PcapngCheck, FramesSeenAtBothEndsAreNoRetransmissions) {
  for (const bool markers : {false, true}) {
    const vt::Exchange x = vt::conversation(false, markers);
    const auto once = vt::analyse(x.frames);
    const auto twice = vt::analyse_file(record(x.frames));
    ASSERT_EQ(twice.connections.size(), 1u);
    const auto& c = twice.connections[0];
    EXPECT_EQ(c.from_initiator.retransmissions + c.from_responder.retransmissions, 0u);
    EXPECT_EQ(c.findings.size(), once.connections[0].findings.size()) << vt::words(twice);
    EXPECT_EQ(twice.packets, 2 * once.packets);
    ASSERT_FALSE(twice.notes.empty());
    EXPECT_THAT(twice.notes[0], HasSubstr("epb_packetid"));
  }
}

TEST(PcapngCheck, WhatAFaultDidOnTheWayIsNotBlamedOnTheSender) {
  const vt::Exchange x = vt::conversation();
  const auto report = vt::analyse_file(record(x.frames, {{6, {DropReason::discarded, "bad TCP checksum", 0, true}}}));
  EXPECT_EQ(report.count(capture::Severity::warning) + report.count(capture::Severity::error), 0u) << vt::words(report);
  EXPECT_THAT(report.notes, testing::Contains(HasSubstr("1 of those holds other octets")));
}

// ---- ladder -------------------------------------------------------------------------------------------------------

TEST(LadderTap, SaysWhatEachFrameMeans) {
  const draw::Ladder p = draw(enhanced().frames);
  EXPECT_THAT(texts(p), ElementsAre("SYN", "SYN ACK", "ACK", "MPA Request", "MPA Reply", "RTR: RDMA Read Request"));
  const LadderRow& request = row_of(p, "MPA Request");
  EXPECT_EQ(request.detail, "rev=2 C S A+D ird=8 ord=4 pd=4");
  EXPECT_EQ(request.layer, "mpa");
  EXPECT_EQ(request.from, 0u);
  EXPECT_EQ(request.to, 1u);
  EXPECT_EQ(request.arrived - request.at, std::chrono::microseconds(1));
  EXPECT_EQ(field(request, "IRD"), "8");
  EXPECT_EQ(field(request, "Private data as text"), "hi</");
  EXPECT_EQ(field(request, "Destination port"), "9001");
  EXPECT_EQ(field(request, "TTL"), "64");
  EXPECT_EQ(row_of(p, "RTR: RDMA Read Request").layer, "rdmap");
  EXPECT_EQ(p.columns, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(p.addresses[0], "192.0.2.1");
}

TEST(LadderTap, RowsKnowTheirNumberInTheCapture) {
  const vt::Exchange x = enhanced();
  const draw::Ladder p = draw(x.frames);
  const Bytes file = record(x.frames);
  std::vector<std::uint64_t> sent;
  (void)wire::read_capture(file, [&](const wire::CapturedPacket& c) {
    if (sent.size() < *c.packet_id) sent.push_back(c.frame);
  });
  for (std::size_t i = 0; i < p.rows.size(); ++i) EXPECT_EQ(p.rows[i].frame, sent[i]);
}

TEST(LadderTap, LostFramesSayWhyAndTheirRetransmissionIsMarked) {
  vt::Exchange x;
  const Bytes request = vt::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1);
  x.open().send(0, request);
  x.seq(0) -= static_cast<std::uint32_t>(request.size());
  x.wait(std::chrono::milliseconds(200)).send(0, request);
  const draw::Ladder p = draw(x.frames, {{3, {DropReason::rule, "dropped by rule 'loss'"}}});
  ASSERT_EQ(p.rows.size(), 5u);
  EXPECT_EQ(p.rows[3].text, "MPA Request");
  EXPECT_EQ(p.rows[3].fate, LadderRow::Fate::dropped);
  EXPECT_EQ(p.rows[3].why, "dropped by rule 'loss'");
  EXPECT_FALSE(p.rows[3].repeated);
  EXPECT_EQ(p.rows[3].to, 1u);
  EXPECT_EQ(p.rows[4].text, "MPA Request");
  EXPECT_EQ(p.rows[4].fate, LadderRow::Fate::arrived);
  EXPECT_TRUE(p.rows[4].repeated);
  EXPECT_THAT(p.facts, testing::Contains(std::pair<std::string, std::string>("frames", "5, 1 lost")));
}

TEST(LadderTap, FramesAlteredOrDoubledOnTheWaySaySo) {
  const draw::Ladder p = draw(
      enhanced().frames, {{3, {DropReason::discarded, "bad TCP checksum", 0, true}}, {4, {DropReason::none, "", 1}}});
  ASSERT_EQ(p.rows.size(), 7u);
  EXPECT_TRUE(p.rows[3].altered);
  EXPECT_EQ(p.rows[3].fate, LadderRow::Fate::discarded);
  EXPECT_EQ(p.rows[3].why, "bad TCP checksum");
  EXPECT_EQ(p.rows[5].text, "MPA Reply");
  EXPECT_TRUE(p.rows[5].repeated);
  EXPECT_FALSE(p.rows[4].altered);
}

TEST(LadderTap, AMessageOfSeveralFramesIsNamedInEach) {
  vt::Exchange x;
  x.set_up().send(0, vt::fpdu(vt::tagged(wire::RdmapOpcode::rdma_write, 7, 0x1000, 2000)), 1000);
  Bytes two = vt::fpdu(vt::send_segment(1, 20));
  const Bytes second = vt::fpdu(vt::send_segment(2, 20));
  two.insert(two.end(), second.begin(), second.end());
  x.send(1, two);
  const draw::Ladder p = draw(x.frames);
  ASSERT_EQ(p.rows.size(), 9u);
  EXPECT_EQ(p.rows[5].text, "RDMA Write");
  EXPECT_EQ(p.rows[5].detail, "stag=0x7 to=0x1000 len=2000 (octets 0..1000 of 2020)");
  EXPECT_EQ(p.rows[6].text, "RDMA Write continued");
  EXPECT_THAT(p.rows[7].detail, HasSubstr("(octets 2000..2020 of 2020)"));
  EXPECT_EQ(p.rows[8].text, "2x Send");
  EXPECT_EQ(p.rows[8].detail, "FPDUs 1 to 2");
}

TEST(LadderTap, MarkersAndTheRtrFrameAreUnderstood) {
  for (const auto& row : draw(vt::conversation(false, true).frames).rows) {
    EXPECT_THAT(row.text, Not(HasSubstr("octets"))) << "an FPDU with markers was not followed";
    EXPECT_THAT(row.detail, Not(HasSubstr("BAD")));
  }
  vt::Exchange x;
  x.open()
      .send(0, vt::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 1))
      .send(1, vt::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C | PARLEY_MPA_FLAG_S, 1))
      .send(0, vt::startup(wire::MpaKey::rtr, 0, 1))
      .send(0, vt::fpdu(vt::send_segment(1, 4)));
  const auto said = texts(draw(x.frames));
  EXPECT_EQ(said[5], "MPA Rtr frame");
  EXPECT_EQ(said[6], "Send");
}

TEST(LadderTap, LooksThroughSwitchesAndIgnoresFloodedCopies) {
  RecordTopology t = switched();
  t.nodes.push_back({"c", false, {Address::v4(192, 0, 2, 3, 0)}});
  RecordTopology::Link third = t.links[0];
  third.ends = {LinkEndInfo{2, "s/p3"}, LinkEndInfo{3, "c/p1"}};
  t.links.push_back(third);
  LadderTap tap;
  tap.begin(t);
  const vt::Exchange x = vt::conversation();
  const auto at = [](int us) { return Instant{} + std::chrono::microseconds(us); };
  const Bytes& frame = x.frames[0].octets;
  show(tap, at(0), 0, 0, true, 9, frame);
  show(tap, at(1), 0, 1, false, 9, frame);
  show(tap, at(1), 1, 0, true, 9, frame);
  show(tap, at(1), 2, 0, true, 9, frame);
  show(tap, at(2), 2, 1, false, 9, frame, DropReason::discarded, "not for us");
  show(tap, at(3), 1, 1, false, 9, frame);
  // Dropped between the switch and b.
  show(tap, at(5), 0, 0, true, 10, x.frames[2].octets);
  show(tap, at(6), 0, 1, false, 10, x.frames[2].octets);
  show(tap, at(6), 1, 0, true, 10, x.frames[2].octets, DropReason::queue_full, "queue full");
  const draw::Ladder p = tap.finish(nullptr);
  ASSERT_EQ(p.rows.size(), 2u);
  EXPECT_EQ(p.rows[0].to, 1u);
  EXPECT_EQ(p.rows[0].fate, LadderRow::Fate::arrived);
  EXPECT_EQ(p.rows[0].arrived, at(3));
  EXPECT_TRUE(p.rows[0].also.empty());
  EXPECT_EQ(p.rows[1].fate, LadderRow::Fate::dropped);
  EXPECT_EQ(p.rows[1].why, "queue full");
  EXPECT_EQ(p.rows[1].to, 1u);
  EXPECT_EQ(p.columns, (std::vector<std::string>{"a", "b", "c"}));
}

TEST(LadderTap, NotesAndViolationsAreRowsInTheirPlace) {
  LadderTap tap;
  tap.begin(two_hosts());
  const auto at = [](int ms) { return Instant{} + std::chrono::milliseconds(ms); };
  tap.on_note(at(0), 0, NoteKind::rate, "rate from a to b is 1 Gb/s");
  play(tap, enhanced().frames);
  tap.on_note(at(9), 1, NoteKind::crashed, "host b crashed");
  tap.on_note(at(10), 1, NoteKind::restarted, "host b started again");
  RunReport report;
  report.scenario = "by-hand";
  report.seed = 5;
  report.violations = {{"fence", at(4), "a > b", "too early", "RFC 5044 §7.1.2"}};
  const draw::Ladder p = tap.finish(&report);
  ASSERT_EQ(p.rows.size(), 10u);
  EXPECT_EQ(p.rows[0].layer, "note");
  EXPECT_EQ(p.rows[8].layer, "crash");
  EXPECT_EQ(p.rows[8].from, 1u);
  EXPECT_EQ(p.rows[9].layer, "restart");
  EXPECT_EQ(p.rows[6].kind, LadderRow::Kind::violation);
  EXPECT_EQ(p.rows[6].detail, "a > b: too early");
  EXPECT_EQ(p.title, "by-hand");
  EXPECT_THAT(p.facts, testing::Contains(std::pair<std::string, std::string>("result", "failed: 1 violation")));
  EXPECT_THAT(p.facts, testing::Contains(std::pair<std::string, std::string>("seed", "5")));
}

TEST(LadderTap, RowsAreBoundedAndTheRestIsCounted) {
  const vt::Exchange x = vt::conversation();
  const draw::Ladder p = draw(x.frames, {}, nullptr, 10);
  EXPECT_EQ(p.rows.size(), 10u);
  EXPECT_EQ(p.rows_dropped, x.frames.size() - 10);
}

TEST(LadderTap, AFrameNobodySentIsShownInTheNameOfItsSource) {
  LadderTap tap;
  tap.begin(two_hosts());
  vt::Exchange x;
  x.open().rst(0);
  show(tap, Instant{}, 0, 1, false, 77, x.frames[3].octets, DropReason::none, "made by a fault");
  const draw::Ladder p = tap.finish(nullptr);
  ASSERT_EQ(p.rows.size(), 1u);
  EXPECT_EQ(p.rows[0].text, "RST");
  EXPECT_EQ(p.rows[0].from, 0u);
  EXPECT_EQ(p.rows[0].to, 1u);
  EXPECT_EQ(p.rows[0].why, "made by a fault");
}

TEST(LadderTap, AnyOctetsMakeARow) {
  LadderTap tap;
  tap.begin(two_hosts());
  const vt::Exchange x = enhanced();
  std::uint64_t id = 0;
  for (const auto& frame : x.frames)
    for (std::size_t n = 0; n < frame.octets.size(); ++n) {
      show(tap, Instant{}, 0, 0, true, ++id, ConstBytes(frame.octets).first(n));
      Bytes bent = frame.octets;
      bent[n] ^= 0xFF;
      show(tap, Instant{}, 0, 0, true, ++id, bent);
    }
  const draw::Ladder p = tap.finish(nullptr);
  EXPECT_EQ(p.rows.size(), id);
  for (const auto& row : p.rows) EXPECT_FALSE(row.text.empty());
}

// ---- a world -------------------------------------------------------------------------------------------------------

TEST(Recorders, SeeAWorldWithItsNamesAndAddresses) {
  constexpr std::string_view text = R"(
name = "names"
[[host]]
name = "left"
[[switch]]
name = "middle"
[[host]]
name = "right"
[[link]]
ends = ["left", "middle"]
[[link]]
ends = ["middle", "right"]
[[listen]]
host = "right"
[[connect]]
from = "left"
to = "right"
)";
  const auto scenario = parse_scenario(text, "names.toml");
  ASSERT_TRUE(scenario) << scenario.error()[0].to_string();
  RecordTopology topology;
  LadderTap ladder;
  Bytes file;
  PcapngTap pcapng({"parley", "names", 3}, [&](ConstBytes piece) {
    file.insert(file.end(), piece.begin(), piece.end());
    return true;
  });
  TapFan fan;
  fan.add(&ladder);
  fan.add(&pcapng);
  RunOptions options;
  options.seed = 3;
  options.tap = &fan;
  options.on_world = [&](const World& world) {
    topology = topology_of(world);
    ladder.begin(world);
    pcapng.begin(world);
  };
  const RunReport report = run_scenario(*scenario, options);
  ASSERT_TRUE(report.passed());
  pcapng.finish(&report);
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[0].addresses.size(), 3u);
  EXPECT_TRUE(topology.nodes[1].is_switch);
  EXPECT_EQ(topology.links[1].ends[1].name, "right/p1");
  const draw::Ladder p = ladder.finish(&report);
  EXPECT_EQ(p.columns, (std::vector<std::string>{"left", "right"}));
  EXPECT_EQ(row_of(p, "MPA Request").to, 1u);
  EXPECT_EQ(row_of(p, "ARP request").fate, LadderRow::Fate::arrived);
  for (const auto& row : p.rows) EXPECT_EQ(row.fate, LadderRow::Fate::arrived) << row.text << ' ' << row.detail;
  // Four link ends, one connection, nothing to complain of.
  const auto checked = vt::analyse_file(file);
  ASSERT_EQ(checked.connections.size(), 1u);
  EXPECT_EQ(checked.count(capture::Severity::error) + checked.count(capture::Severity::warning), 0u)
      << vt::words(checked);
  EXPECT_EQ(checked.connections[0].from_initiator.retransmissions, 0u);
}

}  // namespace
}  // namespace parley::sim::test
