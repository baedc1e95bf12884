// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The parts of `parley sim` that need no simulated world: seeds, ratios, reports, progress, work on several threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "base/escape.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tools/jobs.hpp"
#include "tools/junit.hpp"
#include "tools/progress.hpp"
#include "tools/real_text.hpp"
#include "tools/sim/sim_report.hpp"
#include "tools/sim/sim_trouble.hpp"

namespace parley::tools {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(ToolsSeed, IsDecimalOrHexadecimalUpTo64Bits) {
  EXPECT_EQ(parse_seed("0").value(), 0u);
  EXPECT_EQ(parse_seed("20907").value(), 0x51abu);
  EXPECT_EQ(parse_seed("0x51ab").value(), 0x51abu);
  EXPECT_EQ(parse_seed("0X51AB").value(), 0x51abu);
  EXPECT_EQ(parse_seed("010").value(), 10u) << "a leading zero does not mean octal";
  EXPECT_EQ(parse_seed("18446744073709551615").value(), ~0ULL);
  EXPECT_EQ(parse_seed("0xffffffffffffffff").value(), ~0ULL);
  for (const char* bad :
       {"", "-1", "+1", " 1", "1 ", "0x", "1e3", "51ab", "18446744073709551616", "0x10000000000000000"}) {
    const auto seed = parse_seed(bad);
    ASSERT_FALSE(seed) << bad;
    EXPECT_EQ(seed.error().exit, Exit::usage) << bad;
  }
}

TEST(ToolsSeed, IsPrintedAsItIsTaken) {
  for (const std::uint64_t seed : {0ULL, 1ULL, 0x51abULL, ~0ULL}) EXPECT_EQ(parse_seed(seed_text(seed)).value(), seed);
}

TEST(ToolsSeed, RangesHaveBothEnds) {
  const auto range = parse_seed_range("1..0x20").value();
  EXPECT_EQ(range.first, 1u);
  EXPECT_EQ(range.last, 32u);
  EXPECT_EQ(parse_seed_range("7").value().last, 7u);
  EXPECT_EQ(parse_seed_range("0..18446744073709551615").value().last, ~0ULL);
}

TEST(ToolsSeed, RangesThatAreNoneAreRefusedWithTheReason) {
  const auto why = [](std::string_view text) { return parse_seed_range(text).error().text; };
  EXPECT_THAT(why("5..4"), HasSubstr("reversed"));
  EXPECT_THAT(why("1..18446744073709551616"), HasSubstr("18446744073709551615"));
  for (const char* bad : {"", "..", "1..", "..2", "1...2", "1-2", "1..2..3", "a..b", "-1..2"})
    EXPECT_THAT(why(bad), HasSubstr("A..B")) << bad;
}

TEST(ToolsRatio, IsExact) {
  EXPECT_EQ(sim::parse_ratio("0.01%").value(), (Ratio{1, 10'000}));
  EXPECT_EQ(sim::parse_ratio("0.0001").value(), (Ratio{1, 10'000}));
  EXPECT_EQ(sim::parse_ratio("1/10000").value(), (Ratio{1, 10'000}));
  EXPECT_EQ(sim::parse_ratio("5%").value(), (Ratio{1, 20}));
  EXPECT_EQ(sim::parse_ratio("100%").value(), (Ratio{1, 1}));
  EXPECT_EQ(sim::parse_ratio("0").value(), (Ratio{0, 1}));
  EXPECT_EQ(sim::parse_ratio("0.0000001%").value(), (Ratio{1, 1'000'000'000}));
  for (const char* bad : {"", "%", "101%", "2", "1/0", "3/2", "-1", "1e-4", ".5", "0.", "0.00000001%", "x", "1/2/3",
                          "99999999999999999999/99999999999999999999"})
    EXPECT_FALSE(sim::parse_ratio(bad)) << bad;
}

TEST(ToolsShell, WordsAreQuotedWhenAShellWouldSplitThem) {
  EXPECT_EQ(shell_word("tests/seeds/a-1.toml"), "tests/seeds/a-1.toml");
  EXPECT_EQ(shell_word("my file.toml"), "'my file.toml'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(x)"), "'$(x)'");
  EXPECT_EQ(shell_word(""), "''");
}

/// A run that failed as if on its own.
struct MadeRun {
  ScenarioFile file;
  SimResult result;

  MadeRun() {
    file.shown = "dir/reconnect.toml";
    file.scenario.file = "dir/reconnect.toml";
    file.scenario.connects.resize(2);
    file.scenario.connects[1].line = 17;
    result.run = {&file, 0x51ab, true, {}};
    result.report.scenario = "reconnect";
    result.report.seed = 0x51ab;
    result.report.established = 2;
    result.report.finished_at = Instant(1203ms);
    result.report.violations.push_back(
        {"fence", Instant(15us), "a:1 > b:2 (1st of connect 2)", "sent <64> & \"more\"", "RFC 5044 §7.1.2"});
    result.report.pending.push_back("b waits for an FPDU");
    result.drawn.push_back("delay of a-b is 3 ms");
  }
};

TEST(ToolsSimReport, FailureSaysWhatWhatWasPendingAndHowToSeeItAgain) {
  const MadeRun made;
  const std::string text = run_text(made.result);
  for (const char* words : {"FAILED", "fence at 15.000 us", "1st of connect 2", "sent <64>", "RFC 5044 §7.1.2",
                            "pending: b waits for an FPDU", "delay of a-b is 3 ms",
                            "reproduce: parley sim replay dir/reconnect.toml --seed 0x51ab --swarm"})
    EXPECT_THAT(text, HasSubstr(words));
}

TEST(ToolsSimReport, BoundsAreFailuresThatNameTheBound) {
  MadeRun made;
  made.result.report.violations.clear();
  made.result.report.end = sim::RunEnd::time_bound;
  EXPECT_EQ(verdict_word(made.result), "failed");
  EXPECT_THAT(run_text(made.result), HasSubstr("bound (time): [bounds] time = \"120s\""));
  made.result.report.end = sim::RunEnd::event_bound;
  made.result.report.bounds.events = 1234;
  EXPECT_THAT(run_text(made.result), HasSubstr("bound (events): [bounds] events = 1234"));
  made.result.report.end = sim::RunEnd::exhausted;
  EXPECT_EQ(verdict_word(made.result), "failed");
  EXPECT_THAT(run_text(made.result), ::testing::AllOf(HasSubstr("its event queue was full, at 1.203"),
                                                      ::testing::Not(HasSubstr("Raise the bound"))));
  EXPECT_EQ(nlohmann::ordered_json::parse(run_json(made.result, true).dump(real_text))["end"], "exhausted");
  made.result.report.end = sim::RunEnd::stopped;
  EXPECT_EQ(verdict_word(made.result), "stopped");
}

TEST(ToolsSimReport, JsonKeysKeepTheirOrder) {
  MadeRun made;
  made.result.hash = 0x2a;
  std::vector<std::string> keys;
  const auto object = nlohmann::ordered_json::parse(run_json(made.result, true).dump(real_text));
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{
                      "event",       "file",     "scenario",    "seed",           "swarm",
                      "verdict",     "end",      "virtual_us",  "established",    "rejected",
                      "failed",      "attempts", "retries",     "faults_hit",     "frames_lost_at_hosts",
                      "queue_drops", "events",   "packet_hops", "frames_dropped", "drawn",
                      "violations",  "pending",  "connections", "pcapng_fnv1a",   "reproduce"}));
  EXPECT_EQ(object["seed"], "0x51ab");
  EXPECT_EQ(object["pcapng_fnv1a"], "0x000000000000002a");
}

TEST(ToolsSimReport, FaultsAndFramesLostAtHostsThatAreDownAreCountedApart) {
  MadeRun made;
  made.result.report.faults_hit = 7;
  made.result.report.lost_at_hosts = 5;
  EXPECT_THAT(run_text(made.result), HasSubstr(", 2 faults, 5 frames lost at hosts, "));
  const auto object = nlohmann::ordered_json::parse(run_json(made.result, false).dump(real_text));
  EXPECT_EQ(object["faults_hit"], 2);
  EXPECT_EQ(object["frames_lost_at_hosts"], 5);
}

TEST(ToolsSimReport, PassedRunIsOneLine) {
  MadeRun made;
  made.result.report.violations.clear();
  EXPECT_EQ(run_text(made.result).find('\n'), std::string::npos);
  EXPECT_THAT(run_text(made.result), HasSubstr("ok"));
}

TEST(ToolsGithub, AnnotationsAreEscaped) {
  EXPECT_EQ(github_escape("50%: a, b\nc\r", false), "50%25: a, b%0Ac%0D");
  EXPECT_EQ(github_escape("a:b,c", true), "a%3Ab%2Cc");
}

TEST(ToolsJunit, IsWellFormedWhateverTheNames) {
  EXPECT_EQ(xml_escape("<a href=\"x\">&</a>\n"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;&#10;");
  EXPECT_EQ(xml_escape("§ 中 \xF0\x9F\x8C\x8A"), "§ 中 \xF0\x9F\x8C\x8A");
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(xml_escape(std::string_view("\0", 1)), mark);
  EXPECT_EQ(xml_escape("\x1B[31m"), mark + "[31m");
  EXPECT_EQ(xml_escape("\xFF"), mark);
  EXPECT_EQ(xml_escape("\xC3"), mark) << "cut short";
  EXPECT_EQ(xml_escape("\xC0\x80"), mark + mark) << "too long a form of NUL";
  EXPECT_EQ(xml_escape("\xED\xA0\x80"), mark) << "half of a surrogate pair";
}

TEST(ToolsJunit, CountsItsCases) {
  std::vector<JunitCase> cases(3);
  cases[0].time_us = 1'500'000;
  cases[1].failure = "broken\nin two lines";
  cases[2].skipped = "stopped";
  const std::string xml = junit_xml("parley sim run", cases);
  EXPECT_THAT(xml, HasSubstr("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"1\" time=\"1.500000\""));
  EXPECT_THAT(xml, HasSubstr("message=\"broken\""));
}

TEST(ToolsProgress, BarFillsAndSaysWhatIsLeft) {
  const std::string half = Progress::bar(10'000, 20'000, "seeds", "2 failed", 12s, 100);
  EXPECT_THAT(half, HasSubstr("[###############...............]"));
  EXPECT_THAT(half, HasSubstr(" 50% 10000/20000 seeds, 2 failed, 12 s left"));
  EXPECT_THAT(Progress::bar(0, 10, "seeds", "", 0ms, 100), HasSubstr("[..............................]   0%"));
  EXPECT_THAT(Progress::bar(10, 10, "seeds", "", 9s, 100), HasSubstr("[##############################] 100%"));
  EXPECT_LE(Progress::bar(1, ~0ULL, "seeds", "2 failed", 3s, 40).size(), 40u);
  EXPECT_EQ(Progress::bar(5, 0, "connections", "", 3s, 80), "5 connections");
}

TEST(ToolsProgress, TerminalIsLeftClean) {
  std::ostringstream out, err;
  Output output(out, err);
  const auto now = std::chrono::steady_clock::now();
  {
    Progress progress(output, "seeds", 10, true);
    progress.update(5, "", now + 1s);
    EXPECT_THAT(err.str(), HasSubstr("5/10 seeds"));
  }
  EXPECT_TRUE(err.str().ends_with("\r\x1b[K"));
  EXPECT_EQ(out.str(), "");
}

TEST(ToolsProgress, LogGetsAFewLines) {
  std::ostringstream out, err;
  Output output(out, err);
  const auto now = std::chrono::steady_clock::now();
  Progress progress(output, "seeds", 1000, false);
  for (int i = 1; i <= 1000; ++i) progress.update(i, "1 failed", now + 20ms * i);
  const std::string log = err.str();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 3) << log;
  EXPECT_THAT(log, HasSubstr("of 1000 seeds, 1 failed"));
  EXPECT_THAT(log, Not(HasSubstr("\r")));
}

TEST(ToolsJobs, ResultsComeInOrderWhoeverIsFirst) {
  std::vector<std::uint64_t> taken;
  const auto n = in_order<std::uint64_t>(
      499, 4,
      [](std::uint64_t i, const std::atomic<bool>&) {
        for (std::uint64_t turns = i * 7919 % 50; turns > 0; --turns) std::this_thread::yield();
        return i * i;
      },
      [&](std::uint64_t i, std::uint64_t&& result) {
        EXPECT_EQ(result, i * i);
        taken.push_back(i);
        return true;
      },
      [] { return true; });
  EXPECT_EQ(n, 500u);
  ASSERT_EQ(taken.size(), 500u);
  EXPECT_TRUE(std::is_sorted(taken.begin(), taken.end()));
}

TEST(ToolsJobs, EndEarlyWhenAsked) {
  const auto work = [](std::uint64_t i, const std::atomic<bool>&) { return i; };
  const auto three = in_order<std::uint64_t>(
      ~0ULL, 3, work, [](std::uint64_t i, std::uint64_t&&) { return i < 2; }, [] { return true; });
  EXPECT_EQ(three, 3u);
  int idles = 0;
  const auto stuck = [](std::uint64_t i, const std::atomic<bool>& stop) {
    while (i == 1 && !stop) std::this_thread::yield();
    return i;
  };
  const auto one = in_order<std::uint64_t>(
      9, 2, stuck, [](std::uint64_t, std::uint64_t&&) { return true; }, [&] { return ++idles < 4; });
  EXPECT_EQ(one, 1u) << "the work is told to stop";
}

TEST(ToolsJobs, WhatTheWorkThrowsArrives) {
  const auto work = [](std::uint64_t i, const std::atomic<bool>&) -> int {
    if (i == 3) throw std::runtime_error("no memory");
    return 0;
  };
  EXPECT_THROW(in_order<int>(
                   9, 2, work, [](std::uint64_t, int&&) { return true; }, [] { return true; }),
               std::runtime_error);
}

class ToolsFiles : public testing::Test {
 protected:
  ToolsFiles() : directory_(std::filesystem::path(testing::TempDir()) / ("parley-files-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(directory_);
  }
  ~ToolsFiles() override { std::filesystem::remove_all(directory_); }
  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::filesystem::path directory_;
};

TEST_F(ToolsFiles, OldContentStaysUntilTheFirstWrite) {
  std::ofstream(path("old")) << "a long old content";
  { auto file = OutputFile::open(path("old")).value(); }
  EXPECT_EQ(content(path("old")), "a long old content");
  auto file = OutputFile::open(path("old")).value();
  EXPECT_TRUE(file.write(std::string_view("new")));
  EXPECT_TRUE(file.finish());
  EXPECT_EQ(content(path("old")), "new");
}

TEST_F(ToolsFiles, NothingIsLeftWhenNothingWasWritten) {
  { auto file = OutputFile::open(path("fresh")).value(); }
  EXPECT_FALSE(std::filesystem::exists(path("fresh")));
}

TEST_F(ToolsFiles, UnwritablePathsAreFoundAtOnce) {
  EXPECT_EQ(OutputFile::open(path("no/such/file")).error().exit, Exit::environment);
  EXPECT_EQ(OutputFile::open(directory_.string()).error().exit, Exit::environment);
  std::ofstream(path("file")) << "x";
  EXPECT_EQ(prepare_directory(path("file")).error().exit, Exit::environment);
  EXPECT_TRUE(prepare_directory(path("new/deep")));
  EXPECT_TRUE(std::filesystem::is_empty(path("new/deep")));
}

TEST_F(ToolsFiles, FullDiskIsAnEnvironmentError) {
  auto file = OutputFile::open("/dev/full").value();
  const std::string much(1 << 20, 'x');
  EXPECT_FALSE(file.write(std::string_view(much)));
  const auto finished = file.finish();
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().exit, Exit::environment);
}

TEST_F(ToolsFiles, DirectoriesMeanTheirScenariosByName) {
  for (const char* name : {"b.toml", "a.toml", "notes.txt"}) std::ofstream(path(name)) << "";
  std::filesystem::create_directory(path("c.toml"));
  EXPECT_EQ(find_scenarios({directory_.string()}).value(), (std::vector{path("a.toml"), path("b.toml")}));
  std::filesystem::create_directory(path("empty"));
  EXPECT_THAT(find_scenarios({path("empty")}).error().text, HasSubstr("no scenario"));
  EXPECT_THAT(find_scenarios({path("none.toml")}).error().text, HasSubstr("no such file"));
}

TEST(ToolsSimTrouble, IsTheSameWhateverItsFiguresAndNamesAre) {
  const std::set<std::string, std::less<>> names{"a", "b", "left-host", "a-b"};
  const auto kind = [&](std::string_view text) { return SimTrouble::message_class(text, names); };
  EXPECT_EQ(kind("octet 3 of 64 of message 1 to the responder is wrong; it is message 9"),
            kind("octet 17 of 2048 of message 5 to the responder is wrong; it is message 2"));
  EXPECT_EQ(kind("b still holds 3 endpoints"), kind("left-host still holds 0x12 endpoints"));
  EXPECT_EQ(kind("60 s after: open: a > b:7471 (and 7 more)"), kind("1.5 ms after: open: b > a:40000"));
  EXPECT_NE(kind("failed: open the TCP connection: refused"), kind("failed: wait for the Reply: refused"));
  EXPECT_NE(kind("recv 1 failed: flushed"), kind("send 1 failed: flushed"));
}

TEST(ToolsSimTrouble, IsFoundAgainByCheckerWordsAndHowFarTheSetUpGot) {
  sim::RunReport first;
  first.violations = {{.checker = "delivery", .connection = "a > b", .text = "octet 3 is wrong", .rule = {}}};
  first.outcomes = {{.label = "a > b", .initiator = "failed: wait for the Reply: FIN (x)", .responder = {}}};
  const SimTrouble trouble({}, first);
  sim::RunReport again = first;
  again.violations.insert(again.violations.begin(), {.checker = "wire", .connection = {}, .text = "x", .rule = {}});
  again.violations[1].text = "octet 4 is wrong";
  EXPECT_THAT(trouble.find_in(again).value_or(""), HasSubstr("delivery at 0"));
  sim::RunReport other = again;
  other.violations[1].checker = "completions";
  EXPECT_FALSE(trouble.find_in(other)) << "another checker";
  other = again;
  other.violations[1].text = "octet 4 is missing";
  EXPECT_FALSE(trouble.find_in(other)) << "another sentence";
  other = again;
  other.outcomes[0].initiator = "established";
  EXPECT_FALSE(trouble.find_in(other)) << "another phase";
  EXPECT_FALSE(trouble.find_in({}));
}

TEST(ToolsSimTrouble, ABoundIsTheSameWithTheSameLeftOpen) {
  sim::RunReport first;
  first.end = sim::RunEnd::time_bound;
  first.pending = {"a > b: the initiator waits for 3 messages", "a > b: the responder waits"};
  const SimTrouble trouble({}, first);
  sim::RunReport again = first;
  again.pending = {"c: other", "a > b: the initiator waits for 1 messages"};
  EXPECT_TRUE(trouble.find_in(again));
  again.pending.pop_back();
  EXPECT_FALSE(trouble.find_in(again));
  again = first;
  again.end = sim::RunEnd::event_bound;
  EXPECT_FALSE(trouble.find_in(again));
}

}  // namespace
}  // namespace parley::tools
