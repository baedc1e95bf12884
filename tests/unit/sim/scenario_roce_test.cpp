// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Scenarios with RoCE: what they may say, and what is refused, with its line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "scenario_kit.hpp"
#include "sim/record/record.hpp"
#include "sim/run/run.hpp"
#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view good_roce = R"([[host]]
name = "a"
engine = "roce"
[[host]]
name = "b"
engine = "roce"
hca = { resend_first = "10ms" }
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
private_data = 196
[[connect]]
from = "a"
to = "b"
private_data = 56
)";

std::vector<std::string> refusals_with(std::string_view old_text, std::string_view new_text) {
  return errors_of(exchanged(std::string(good_roce), old_text, new_text));
}

RunReport run_with(std::string_view hca_of_a, std::string_view hca_of_b, std::uint64_t seed) {
  std::string text(good_roce);
  text.replace(text.find("engine"), 15, fmt::format("engine = \"roce\"\nhca = {{ {} }}", hca_of_a));
  const std::string_view old = "hca = { resend_first = \"10ms\" }";
  text.replace(text.find(old), old.size(), fmt::format("hca = {{ {} }}", hca_of_b));
  text += "messages = 3\noctets = 5000\n";
  const auto read = parse_scenario(text, "x.toml");
  EXPECT_TRUE(read) << read.error().front().to_string();
  RunOptions options;
  options.seed = seed;
  return run_scenario(*read, options);
}

// The smaller one is in force, whichever side has it.
TEST(ScenarioRoce, HostsWithDifferentPathMtusConnect) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const bool turned : {false, true}) {
      const RunReport report = run_with(turned ? "mtu = 256" : "mtu = 1024", turned ? "mtu = 1024" : "mtu = 256", seed);
      EXPECT_TRUE(report.passed()) << (report.violations.empty() ? connections_text(report)
                                                                 : report.violations.front().text);
      EXPECT_EQ(report.established, 1u);
    }
}

TEST(ScenarioRoce, AHostPlaysAQuirkOfTheTable) {
  for (const std::string_view other : {"linger = \"5s\"", "play_quirk = \"rxe\""}) {
    const RunReport report = run_with("play_quirk = \"rxe\"", other, 1);
    EXPECT_TRUE(report.passed()) << (report.violations.empty() ? connections_text(report)
                                                               : report.violations.front().text);
    EXPECT_EQ(report.established, 1u);
  }
  EXPECT_THAT(refusals_with("resend_first = \"10ms\"", "play_quirk = \"siw\""),
              ElementsAre(HasSubstr("no quirk of RoCE has this name")));
}

TEST(ScenarioRoce, IsReadAndWritten) {
  const auto read = parse_scenario(good_roce, "x.toml");
  ASSERT_TRUE(read) << read.error().front().to_string();
  EXPECT_EQ(read->hosts[1].options.engine, NicEngine::roce);
  EXPECT_EQ(read->hosts[1].options.hca.resend_first, std::chrono::milliseconds(10));
  const std::string text = to_toml(*read);
  EXPECT_THAT(text, HasSubstr("engine = \"roce\"\n"));
  EXPECT_THAT(text, HasSubstr("hca = { resend_first = \"10ms\" }\n"));
  EXPECT_THAT(errors_of(text), IsEmpty());
}

TEST(ScenarioRoce, HasNoMpa) {
  EXPECT_THAT(errors_of(std::string(good_roce) + "[connect.mpa]\nrtr = \"read\"\n"),
              ElementsAre(HasSubstr("x.toml:17:10: mpa: RoCE has no MPA")));
  EXPECT_THAT(errors_of(std::string(good_roce) + "[connect.mpa]\n"), ElementsAre(HasSubstr("RoCE has no MPA")))
      << "an empty table too";
  EXPECT_THAT(refusals_with("private_data = 196", "[listen.mpa]\nrevision = 1"),
              ElementsAre(HasSubstr("x.toml:12:9: mpa: RoCE has no MPA")));
  auto made = *parse_scenario(good_roce, "x.toml");
  made.connects[0].mpa.markers = true;
  ASSERT_EQ(check_scenario(made).size(), 1U);
  EXPECT_THAT(check_scenario(made)[0].text, HasSubstr("RoCE has no MPA"));
}

TEST(ScenarioRoce, JoinsLikeWithLike) {
  EXPECT_THAT(refusals_with("name = \"b\"\nengine = \"roce\"\nhca = { resend_first = \"10ms\" }", "name = \"b\""),
              ElementsAre(HasSubstr("x.toml:13:1: to: 'a' has engine = \"roce\" and 'b' \"iwarp\"")));
  EXPECT_THAT(refusals_with("name = \"a\"\nengine = \"roce\"", "name = \"a\""),
              ElementsAre(HasSubstr("'a' has engine = \"iwarp\" and 'b' \"roce\"")));
}

TEST(ScenarioRoce, HasOneEngineForAllNicsOfAHost) {
  EXPECT_THAT(
      refusals_with("name = \"a\"\nengine = \"roce\"",
                    "name = \"a\"\n[[host.nic]]\nname = \"n1\"\nengine = \"roce\"\n[[host.nic]]\nname = \"n2\""),
      ElementsAre(HasSubstr("NIC a/n2: its engine is iwarp, and another NIC of the host has roce")));
  EXPECT_THAT(refusals_with("name = \"a\"\nengine = \"roce\"",
                            "name = \"a\"\n[[host.nic]]\nname = \"n1\"\nengine = \"roce\"\n[[host.nic]]\nname = "
                            "\"n2\"\nengine = \"none\""),
              IsEmpty());
}

TEST(ScenarioRoce, HasLimitsOfItsOwn) {
  EXPECT_THAT(refusals_with("private_data = 56", "private_data = 57"),
              ElementsAre(HasSubstr("57 octets, at most 56 fit into a REQ")));
  EXPECT_THAT(refusals_with("private_data = 196", "private_data = 197"),
              ElementsAre(HasSubstr("197 octets, at most 196 fit into a REP")));
  EXPECT_THAT(refusals_with("private_data = 196", "reject = true\nprivate_data = 149"),
              ElementsAre(HasSubstr("149 octets, at most 148 fit into a REJ")));
  EXPECT_THAT(refusals_with("private_data = 56", "ord = 129"), ElementsAre(HasSubstr("ord: RoCE takes 0..128")));
  EXPECT_THAT(refusals_with("ends = [\"a\", \"b\"]", "ends = [\"a\", \"b\"]\nmtu = 1119"),
              ElementsAre(HasSubstr("need an MTU of 1120"), HasSubstr("need an MTU of 1120")));
  EXPECT_THAT(refusals_with("resend_first = \"10ms\"", "mtu = 1000"),
              ElementsAre(HasSubstr("1000 is not one of 256, 512, 1024, 2048, 4096")));
  EXPECT_THAT(refusals_with("resend_first = \"10ms\"", "resend_first = \"3s\""), ElementsAre(HasSubstr("resend_cap")));
  EXPECT_THAT(refusals_with("resend_first = \"10ms\"", "ack_delay = \"11ms\""), ElementsAre(HasSubstr("ack_delay")));
}

// The line is that of the key, and what is allowed is next to it.
TEST(ScenarioRoce, WhatAFullListenerSaysIsOneOfFourAndItsTimeFitsIntoTheRej) {
  const auto of_b = [](std::string_view hca) { return refusals_with("resend_first = \"10ms\"", hca); };
  for (const std::string_view word : {"mra", "retry_after", "refuse", "drop"})
    EXPECT_THAT(of_b(fmt::format("when_full = \"{}\"", word)), IsEmpty()) << word;
  EXPECT_THAT(
      of_b("when_full = \"retry\""),
      ElementsAre("x.toml:7:9: when_full: 'retry' is unknown; did you mean 'retry_after'? (one of mra, retry_after, "
                  "refuse, drop)"));
  EXPECT_THAT(of_b("when_full = \"wait\""),
              ElementsAre("x.toml:7:9: when_full: 'wait' is not one of mra, retry_after, refuse, drop"));
  EXPECT_THAT(of_b("when_full = \"drp\""),
              ElementsAre(HasSubstr("x.toml:7:9: when_full: 'drp' is unknown; did you mean 'drop'?")));
  EXPECT_THAT(of_b("when_full = 3"),
              ElementsAre("x.toml:7:9: when_full: the number 3 is not one of mra, retry_after, refuse, drop"));
  for (const std::string_view time : {"1ms", "250ms", "65535ms"})
    EXPECT_THAT(of_b(fmt::format("retry_after = \"{}\"", time)), IsEmpty()) << time;
  for (const std::string_view time : {"0s", "999us", "65536ms", "2m"})
    EXPECT_THAT(
        of_b(fmt::format("retry_after = \"{}\"", time)),
        ElementsAre(testing::MatchesRegex("x.toml:7:1: hca: .*retry_after is [0-9]+ ns; must be 1 ms to 65535 ms")))
        << time;
  EXPECT_THAT(of_b("retry_after = 250"),
              ElementsAre("x.toml:7:9: retry_after: the number 250 lacks its unit: write \"250s\" or \"250us\""));
  EXPECT_THAT(of_b("offer_retry_after = \"yes\""),
              ElementsAre("x.toml:7:9: offer_retry_after: 'yes' is not true or false"));
  EXPECT_THAT(of_b("offer_retry_after = 1"),
              ElementsAre("x.toml:7:9: offer_retry_after: the number 1 is not true or false"));
  EXPECT_THAT(of_b("offer_retry_after = true"), IsEmpty()) << "b asks for no connection";
  EXPECT_THAT(
      refusals_with("name = \"a\"\nengine = \"roce\"",
                    "name = \"a\"\nengine = \"roce\"\nhca = { offer_retry_after = true }"),
      ElementsAre("x.toml:17:1: private_data: 56 octets, at most 48 fit into a REQ (IBA Annex A11) in addition to the "
                  "offer of offer_retry_after"));
}

TEST(ScenarioRoce, AFaultMayMissOrNot) {
  const auto with = [](std::string_view value) {
    return errors_of(std::string(good_roce) +
                     fmt::format("[[fault]]\naction = \"drop\"\nlink = \"a-b\"\nmay_miss = {}\n", value));
  };
  for (const std::string_view value : {"true", "false"}) EXPECT_THAT(with(value), IsEmpty()) << value;
  EXPECT_THAT(with("1"), ElementsAre("x.toml:20:1: may_miss: the number 1 is not true or false"));
  EXPECT_THAT(with("\"true\""), ElementsAre("x.toml:20:1: may_miss: 'true' is not true or false"));
}

TEST(ScenarioRoce, SwarmsDrawWhatRoceTakes) {
  const auto base = *parse_scenario(good_roce, "x.toml");
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Scenario drawn = draw_swarm(base, seed);
    const auto problems = check_scenario(drawn);
    ASSERT_TRUE(problems.empty()) << seed << ": " << problems.front().to_string();
  }
}

TEST(ScenarioRoce, LaddersNameMessagesAndPackets) {
  const auto scenario = *parse_scenario(good_roce, "x.toml");
  LadderTap ladder;
  RunOptions options;
  options.tap = &ladder;
  options.on_world = [&](const World& world) { ladder.begin(world); };
  const RunReport report = run_scenario(scenario, options);
  EXPECT_THAT(report.violations, IsEmpty());
  const draw::Ladder drawn = ladder.finish(&report);
  std::vector<std::string> names;
  for (const auto& row : drawn.rows) names.push_back(row.text);
  EXPECT_THAT(names, testing::IsSupersetOf({"REQ", "REP", "RTU", "RC SEND Only", "DREQ", "DREP"}));
  const auto req = std::find_if(drawn.rows.begin(), drawn.rows.end(), [](const auto& r) { return r.text == "REQ"; });
  EXPECT_THAT(req->detail, HasSubstr("to tcp:7471"));
}

TEST(ScenarioRoce, LaddersSayWhoseAPacketIs) {
  auto scenario = *parse_scenario(good_roce, "x.toml");
  scenario.connects.front().count = 3;
  LadderTap ladder;
  RunOptions options;
  options.tap = &ladder;
  options.on_world = [&](const World& world) { ladder.begin(world); };
  const RunReport report = run_scenario(scenario, options);
  const draw::Ladder drawn = ladder.finish(&report);
  ASSERT_EQ(drawn.connections.size(), 3u);
  std::vector<std::size_t> packets(4), requests(4);
  for (const auto& row : drawn.rows) {
    if (!row.text.starts_with("RC ") && row.text != "REQ" && row.text != "DREP") continue;
    ASSERT_TRUE(row.connection >= 1 && row.connection <= 3) << row.text << ' ' << row.detail;
    requests[row.connection] += row.text == "REQ";
    if (row.text[0] != 'R' || row.text[1] != 'C') continue;
    ++packets[row.connection];
    const std::string qpn = row.detail.substr(row.detail.find("0x"), 8);
    EXPECT_THAT(drawn.connections[row.connection - 1].numbers, HasSubstr(qpn));
  }
  for (std::size_t n = 1; n <= 3; ++n) {
    EXPECT_EQ(requests[n], 1u);
    EXPECT_GT(packets[n], 1u);
    EXPECT_THAT(drawn.connections[n - 1].numbers,
                testing::MatchesRegex("communication IDs 0x[0-9a-f]{8}, 0x[0-9a-f]{8}, queue pairs 0x[0-9a-f]{6}, "
                                      "0x[0-9a-f]{6}"));
  }
  EXPECT_THAT(draw::to_html(drawn), HasSubstr("<small>" + drawn.connections[0].numbers + "</small>"));
}

}  // namespace
}  // namespace parley::sim
