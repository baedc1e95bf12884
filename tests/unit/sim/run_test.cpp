// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whole scenarios in a world of their own: what a report says when all goes well, when peers say no, when links lose,
// hosts die, and when nothing ever ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_kit.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// Hosts a and b on one link; b listens, a connects once.
Scenario two_hosts() {
  Scenario s;
  s.name = "two hosts";
  s.hosts = {{.name = "a"}, {.name = "b"}};
  ScenarioLink link;
  link.name = "a-b";
  link.ends[0] = "a";
  link.ends[1] = "b";
  s.links = {link};
  ScenarioListen listen;
  listen.host = "b";
  s.listens = {listen};
  ScenarioConnect connect;
  connect.from = "a";
  connect.to = "b";
  connect.mpa.rtr = mpa::Rtr::read;
  s.connects = {connect};
  return s;
}

using run_kit::run;
using run_kit::words;

ScenarioFault host_fault(std::string host, FaultAction action, Duration at) {
  ScenarioFault fault;
  fault.host = std::move(host);
  fault.rule.action = action;
  fault.rule.from = Instant{at};
  return fault;
}

ScenarioFault link_fault(const FaultRule& rule, LinkDirection way = LinkDirection::both) {
  ScenarioFault fault;
  fault.link = "a-b";
  fault.way = way;
  fault.rule = rule;
  return fault;
}

struct Form {
  std::string name;
  mpa::Options initiator, responder;
};
std::vector<Form> forms() {
  using mpa::Rtr;
  std::vector<Form> out;
  for (const Rtr rtr : {Rtr::none, Rtr::send, Rtr::write, Rtr::read}) {
    const std::string name{mpa::to_string(rtr)};
    out.push_back({"v2_" + name, {.rtr = rtr}, {}});
    out.push_back({"v2_markers_" + name, {.markers = true, .rtr = rtr}, {.markers = true}});
    out.push_back({"v2_no_crc_" + name, {.crc = false, .rtr = rtr}, {.crc = false}});
    out.push_back({"v1_by_configuration_" + name, {.revision = 1, .rtr = rtr}, {.rtr_expected = rtr}});
    if (rtr != Rtr::none) out.push_back({"v1_by_s_" + name, {.revision = 1, .rtr = rtr, .rtr_by_s = true}, {}});
  }
  out.push_back({"v1_frame", {.revision = 1, .rtr = Rtr::frame}, {}});
  out.push_back({"v1_frame_refused", {.revision = 1, .rtr = Rtr::frame}, {.accept_rtr_frame = false}});
  return out;
}

class SimRunForm : public ::testing::TestWithParam<Form> {};

// RFC 5044 §7.1, RFC 6581 §9: every form, every kind of transfer, every way to close.
TEST_P(SimRunForm, ConnectsTransfersAndCloses) {
  for (const Transfer transfer : {Transfer::send, Transfer::write, Transfer::read})
    for (const ClosingSide closer :
         {ClosingSide::initiator, ClosingSide::responder, ClosingSide::both, ClosingSide::nobody}) {
      Scenario s = two_hosts();
      ScenarioConnect& c = s.connects[0];
      static_cast<mpa::Options&>(c.mpa) = GetParam().initiator;
      static_cast<mpa::Options&>(s.listens[0].mpa) = GetParam().responder;
      s.listens[0].private_data = "welcome";
      c.private_data = "please";
      c.transfer = transfer;
      c.closer = closer;
      c.messages = 40;
      c.octets = 3000;
      const RunReport report = run(s);
      ASSERT_TRUE(report.passed()) << static_cast<int>(transfer) << ' ' << static_cast<int>(closer) << '\n'
                                   << words(report);
      EXPECT_EQ(report.established, 1U);
      ASSERT_EQ(report.outcomes.size(), 1U);
      EXPECT_EQ(report.outcomes[0].initiator, "established");
      EXPECT_EQ(report.outcomes[0].responder, "established");
      EXPECT_EQ(report.outcomes[0].octets, 40U * 3000 * (transfer == Transfer::send ? 2 : 1));
      EXPECT_EQ(report.faults_hit, 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(Sim, SimRunForm, ::testing::ValuesIn(forms()),
                         [](const auto& test) { return test.param.name; });

TEST(SimRun, TransfersNothingAndMessagesOfNoLength) {
  for (const mpa::Rtr rtr : {mpa::Rtr::none, mpa::Rtr::send})
    for (const Transfer transfer : {Transfer::send, Transfer::write, Transfer::read})
      for (const std::uint32_t octets : {0U, 1U, 24U}) {
        for (const std::uint32_t messages : {0U, 1U, 33U}) {
          Scenario s = two_hosts();
          s.connects[0].mpa.rtr = rtr;
          s.connects[0].transfer = transfer;
          s.connects[0].octets = octets;
          s.connects[0].messages = messages;
          const RunReport report = run(s);
          EXPECT_TRUE(report.passed()) << mpa::to_string(rtr) << ' ' << static_cast<int>(transfer) << ' ' << octets
                                       << ' ' << messages << '\n'
                                       << words(report);
        }
      }
}

TEST(SimRun, ConnectsOverBothFamiliesAndLinkLocal) {
  for (const AddressKind kind : {AddressKind::v4, AddressKind::v6, AddressKind::link_local}) {
    Scenario s = two_hosts();
    s.listens[0].address = s.connects[0].address = kind;
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << static_cast<int>(kind) << '\n' << words(report);
  }
}

TEST(SimRun, ConnectsThroughSwitches) {
  Scenario s = two_hosts();
  s.hosts.push_back({.name = "s1", .is_switch = true});
  s.hosts.push_back({.name = "s2", .is_switch = true});
  s.hosts.push_back({.name = "c"});
  s.links.clear();
  for (const auto& [x, y] : {std::pair{"a", "s1"}, {"s1", "s2"}, {"s2", "b"}, {"c", "s1"}, {"a", "c"}}) {
    ScenarioLink link;
    link.name = std::string(x) + "-" + y;
    link.ends[0] = x;
    link.ends[1] = y;
    s.links.push_back(link);
  }
  s.links.pop_back();
  ScenarioConnect from_c = s.connects[0];
  from_c.from = "c";
  s.connects.push_back(from_c);
  const RunReport report = run(s);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_EQ(report.established, 2U);
}

TEST(SimRun, TellsRejectionsWithTheirPrivateData) {
  Scenario s = two_hosts();
  s.listens[0].reject_every = 2;
  s.listens[0].private_data = "not today";
  s.connects[0].count = 2;
  s.connects[0].interval = 1ms;
  s.connects[0].expect = Expect::settled;
  RunReport report = run(s);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_EQ(report.rejected, 1U);
  EXPECT_THAT(report.outcomes[1].initiator, HasSubstr("rejected: "));
  s.listens[0].reject_every = 1;
  s.connects[0].expect = Expect::rejected;
  EXPECT_TRUE(run(s).passed());
  s.connects[0].expect = Expect::established;
  report = run(s);
  ASSERT_FALSE(report.passed());
  EXPECT_EQ(report.violations[0].checker, "expectation");
}

TEST(SimRun, WaitsForASlowAccept) {
  Scenario s = two_hosts();
  s.listens[0].accept_after = 3s;
  const RunReport report = run(s);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_GE(report.outcomes[0].setup, 3s);
}

TEST(SimRun, FailsWithAReasonWhereNobodyListens) {
  Scenario s = two_hosts();
  s.connects[0].port = 9;
  s.connects[0].expect = Expect::failed;
  const RunReport report = run(s);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_THAT(report.outcomes[0].initiator, HasSubstr("failed: "));
  EXPECT_EQ(report.failed, 1U);
}

// Whatever is drawn: each limit that losses in a row might reach is out of their reach.
TEST(SimRun, SurvivesLossOfEverySort) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Scenario s = two_hosts();
    // A host whose ARP requests are lost three times is unreachable: neighbours know each other before the first loss.
    const Instant begin{10us};
    s.connects[0].at = begin;
    s.connects[0].count = 5;
    s.connects[0].interval = 100us;
    s.connects[0].messages = 20;
    s.connects[0].octets = 5000;
    s.connects[0].transfer = static_cast<Transfer>(seed % 3);
    s.faults.push_back(link_fault({.from = begin, .chance = {1, 10}, .action = FaultAction::drop}));
    s.faults.push_back(link_fault({.from = begin, .chance = {1, 20}, .action = FaultAction::duplicate}));
    s.faults.push_back(
        link_fault({.from = begin, .chance = {1, 5}, .action = FaultAction::delay, .jitter = 300us, .reorder = true}));
    // TCP tries for 10 minutes and more, every 2 s at least, and nobody else gives up before.
    const Duration patience = 1h;
    for (ScenarioHost& host : s.hosts) {
      host.options.learn_announcements = true;
      host.options.tcp.rto_max = 2s;
      host.options.tcp.syn_retries = host.options.tcp.retries = 255;
      host.options.rnic.linger = patience;
    }
    s.connects[0].transport_timeout = patience;
    for (mpa::StartupOptions* mpa : {&s.listens[0].mpa, &s.connects[0].mpa})
      mpa->timeouts.request = mpa->timeouts.reply = mpa->timeouts.rtr = patience;
    s.bounds.time = s.bounds.converge = 2 * patience;
    const RunReport report = run(s, seed);
    EXPECT_TRUE(report.passed()) << "seed " << seed << '\n' << words(report);
    EXPECT_GT(report.faults_hit, 0U);
  }
}

TEST(SimRun, TriesAgainAfterACrash) {
  Scenario s = two_hosts();
  s.connects[0].messages = 100;
  s.connects[0].octets = 100'000;
  s.connects[0].retries = 3;
  for (const char* host : {"a", "b"}) {
    s.faults = {host_fault(host, FaultAction::crash, 300us), host_fault(host, FaultAction::restart, 2s)};
    const RunReport report = run(s);
    EXPECT_TRUE(report.passed()) << host << '\n' << words(report);
    EXPECT_GE(report.outcomes.size(), 2U) << words(report);
  }
}

TEST(SimRun, TellsTheOtherEndOfACrashThatLastsForEver) {
  for (const char* host : {"a", "b"})
    for (const Duration at : {5us, 50us, 300us}) {
      Scenario s = two_hosts();
      s.connects[0].messages = 100;
      s.connects[0].octets = 100'000;
      s.connects[0].expect = Expect::failed;
      s.faults = {host_fault(host, FaultAction::crash, at)};
      s.bounds.time = 1h;
      s.bounds.converge = 30min;
      const RunReport report = run(s);
      EXPECT_TRUE(report.passed()) << host << ' ' << at.count() << '\n' << words(report);
    }
}

TEST(SimRun, StopsAtTheTimeBoundAndSaysWhatWasPending) {
  Scenario s = two_hosts();
  s.listens[0].accept_after = 20s;
  s.bounds.time = 5s;
  const RunReport report = run(s);
  EXPECT_EQ(report.end, RunEnd::time_bound);
  EXPECT_FALSE(report.passed());
  ASSERT_FALSE(report.pending.empty());
  EXPECT_THAT(report.pending[0], HasSubstr("the initiator on a waits"));
}

TEST(SimRun, StopsAtTheEventBound) {
  Scenario s = two_hosts();
  s.bounds.events = 10;
  const RunReport report = run(s);
  EXPECT_EQ(report.end, RunEnd::event_bound);
  EXPECT_FALSE(report.pending.empty());
}

TEST(SimRun, AnExhaustedWorldSaysWhatToChange) {
  EXPECT_THAT(exhausted_text(Neighbours::discovered), HasSubstr("at most 16777216 entries"));
  EXPECT_THAT(exhausted_text(Neighbours::discovered), HasSubstr("write neighbours = \"known\", or fewer hosts"));
  EXPECT_THAT(exhausted_text(Neighbours::known), HasSubstr("write fewer hosts"));
}

TEST(SimRun, StopsWhenAskedTo) {
  RunOptions options;
  options.keep_going = [] { return false; };
  const RunReport report = run_scenario(two_hosts(), options);
  EXPECT_EQ(report.end, RunEnd::stopped);
}

TEST(SimRun, SaysWhatDidNotConverge) {
  Scenario s = two_hosts();
  s.connects[0].messages = 1000;
  s.connects[0].octets = 1'000'000;
  s.links[0].options.rate_bps = 1'000'000;  // 8,000 s for each way
  s.bounds.converge = 20s;
  const RunReport report = run(s);
  ASSERT_FALSE(report.violations.empty());
  EXPECT_EQ(report.violations[0].checker, "convergence");
}

TEST(SimRun, DropsTheFramesOfTheMask) {
  RunOptions options;
  options.drop_mask = {.bits = 0b101};
  const RunReport report = run_scenario(two_hosts(), options);
  EXPECT_TRUE(report.passed()) << words(report);
  EXPECT_EQ(report.counters.dropped, 2U);
}

/// What the mask took: "arp", or the text after the TCP header.
struct Lost final : Tap {
  std::vector<std::string> frames;
  void on_frame(const TapFrame& frame) override {
    if (frame.drop != DropReason::rule) return;
    const std::string octets(frame.octets.begin(), frame.octets.end());
    const std::size_t key = octets.find("MPA ID Re");
    frames.push_back(octets.substr(12, 2) == "\x08\x06" ? "arp"
                     : key != std::string::npos         ? octets.substr(key, 10)
                                                        : "other");
  }
  void on_note(Instant, NodeId, NoteKind, std::string_view) override {}
};

TEST(SimRun, AMaskCountsTheMessagesOfAnyLayer) {
  const auto lost = [](std::uint64_t bits, Layer layer) {
    Lost tap;
    RunOptions options;
    options.tap = &tap;
    options.drop_mask = {.bits = bits, .layer = layer};
    const RunReport report = run_scenario(two_hosts(), options);
    EXPECT_TRUE(report.passed()) << words(report);
    return tap.frames;
  };
  using Frames = std::vector<std::string>;
  EXPECT_EQ(lost(0b1, Layer::mpa), Frames{"MPA ID Req"});
  EXPECT_EQ(lost(0b10, Layer::mpa), Frames{"MPA ID Rep"});
  EXPECT_EQ(lost(0b101, Layer::mpa), (Frames{"MPA ID Req", "MPA ID Rep"}));  // the second is the Request again
  EXPECT_EQ(lost(0b1, Layer::arp), Frames{"arp"});
  EXPECT_EQ(lost(0b1, Layer::any), Frames{"arp"});
  EXPECT_EQ(lost(0b1, Layer::tcp), Frames{"other"});
  EXPECT_EQ(lost(0b1, Layer::rdmap), Frames{});  // nobody sends a Terminate
}

TEST(SimRun, SaysTheSameForTheSameSeed) {
  Scenario s = two_hosts();
  s.connects[0].count = 5;
  s.connects[0].messages = 10;
  s.faults.push_back(link_fault({.chance = {1, 10}, .action = FaultAction::drop}));
  const RunReport one = run(s, 7), two = run(s, 7), other = run(s, 8);
  EXPECT_EQ(words(one), words(two));
  EXPECT_EQ(one.counters.events, two.counters.events);
  EXPECT_EQ(one.finished_at, two.finished_at);
  EXPECT_NE(one.counters.events, other.counters.events);
}

TEST(SimRun, RefusesAScenarioThatCannotBe) {
  Scenario s = two_hosts();
  s.links.clear();
  const RunReport report = run(s);
  ASSERT_EQ(report.violations.size(), 1U);
  EXPECT_EQ(report.violations[0].checker, "scenario");
  EXPECT_THAT(report.violations[0].text, HasSubstr("no links and switches join 'a' and 'b'"));
}

}  // namespace
}  // namespace parley::sim
