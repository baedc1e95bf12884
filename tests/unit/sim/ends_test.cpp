// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Silent peers in the simulator: the keys `keepalive` and `dead_after` of a host, over iWARP and RoCE.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "tests/unit/sim/run_kit.hpp"
#include "tests/unit/sim/scenario_kit.hpp"

namespace parley::sim::ends_test {
namespace {

using run_kit::run;
using run_kit::words;
using testing::HasSubstr;

/// Two hosts with a connection that is idle after its messages; `fault` happens after a second.
std::string idle(std::string_view engine, std::string_view keys, std::string_view expect, std::string_view fault) {
  return fmt::format(R"([[host]]
name = "a"
engine = "{0}"
{1}
[[host]]
name = "b"
engine = "{0}"
{1}
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
[[connect]]
from = "a"
to = "b"
messages = 3
expect = "{2}"
close_after = "40s"
{3})",
                     engine, keys, expect, fault);
}

constexpr std::string_view keys = "keepalive = \"5s\"\ndead_after = \"12s\"";

TEST(SimEnds, AnIdleConnectionThatIsWatchedStands) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report = run(idle(engine, keys, "established", ""));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
  }
}

TEST(SimEnds, ALinkThatGoesIsToldByBothEndsInTwelveSeconds) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report =
        run(idle(engine, keys, "settled", "[[fault]]\naction = \"partition\"\nlink = \"a-b\"\nfrom = \"1s\"\n"));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    for (const std::string& end : {report.outcomes[0].initiator, report.outcomes[0].responder})
      EXPECT_THAT(end, testing::AllOf(HasSubstr("no answer of"), testing::ContainsRegex("(for|is) 12"))) << engine;
  }
}

TEST(SimEnds, AHostThatCrashesIsTold) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report =
        run(idle(engine, keys, "settled", "[[fault]]\naction = \"crash\"\nhost = \"b\"\nat = \"1s\"\n"));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    EXPECT_THAT(report.outcomes[0].initiator, HasSubstr("no answer of")) << engine;
  }
}

std::string process_fault(std::string_view action, std::string_view at) {
  return fmt::format("[[fault]]\naction = \"{}\"\nhost = \"b\"\nat = \"{}\"\n", action, at);
}

// As the row SIGKILL of docs/cm.md's table says: the kernel resets, and over RoCE it answers by ICMP.
TEST(SimEnds, AProcessThatEndsIsAPeerThatResets) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report = run(idle(engine, keys, "settled", process_fault("end_process", "1s")));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    EXPECT_THAT(report.outcomes[0].initiator, HasSubstr("reset")) << engine;
  }
}

// As the row SIGSTOP says: over iWARP the kernel answers for the process.
TEST(SimEnds, AProcessThatStopsIsASilentPeerOverRoceOnly) {
  for (const std::string_view engine : {"iwarp", "roce"}) {
    const bool roce = engine == "roce";
    const RunReport report =
        run(idle(engine, keys, roce ? "settled" : "established", process_fault("stop_process", "1s")));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    const auto silent = HasSubstr("no answer of");
    if (roce)
      EXPECT_THAT(report.outcomes[0].initiator, silent);
    else
      EXPECT_THAT(report.outcomes[0].initiator, testing::Not(silent));
  }
}

TEST(SimEnds, AProcessThatGoesOnWithinDeadAfterKeepsItsConnection) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report = run(idle(engine, keys, "established",
                                      process_fault("stop_process", "1s") + process_fault("continue_process", "11s")));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
  }
}

/// Host b stops after a second, and goes on at `until`.
std::string stopped(std::string_view until) {
  return fmt::format(
      "[[fault]]\naction = \"pause\"\nhost = \"b\"\nat = \"1s\"\n"
      "[[fault]]\naction = \"resume\"\nhost = \"b\"\nat = \"{}\"\n",
      until);
}

TEST(SimEnds, AHostThatIsStoppedForLessThanDeadAfterGoesOn) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report = run(idle(engine, keys, "established", stopped("11s")));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
  }
}

TEST(SimEnds, AHostThatIsStoppedForLongerIsDeadAndLearnsThatItsConnectionEnded) {
  for (const char* engine : {"iwarp", "roce"}) {
    const RunReport report = run(idle(engine, keys, "settled", stopped("30s")));
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
    ASSERT_EQ(report.outcomes.size(), 1U);
    EXPECT_THAT(report.outcomes[0].initiator, HasSubstr("no answer of")) << engine;
    EXPECT_THAT(report.outcomes[0].responder, testing::Not(HasSubstr("graceful"))) << engine;
  }
}

TEST(SimEnds, AKeepaliveBelowTheRoundTripDoesNoHarm) {
  for (const char* engine : {"iwarp", "roce"}) {
    const std::string slow = exchanged(idle(engine, "keepalive = \"10ms\"\ndead_after = \"1s\"", "established", ""),
                                       "ends = [\"a\", \"b\"]", "ends = [\"a\", \"b\"]\ndelay = \"100ms\"");
    const RunReport report = run(slow);
    EXPECT_TRUE(report.passed()) << engine << '\n' << words(report);
  }
}

TEST(SimEnds, AKeepaliveThatIsNotShorterIsRefused) {
  EXPECT_THAT(errors_of(idle("iwarp", "keepalive = \"5s\"\ndead_after = \"5s\"", "established", "")),
              testing::Contains(HasSubstr("dead_after must be longer than keepalive")));
}

}  // namespace
}  // namespace parley::sim::ends_test
