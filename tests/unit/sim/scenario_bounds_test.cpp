// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The bounds of every key of a scenario file: the first and the last value that are taken, and what is said of the
// ones beyond them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// A scenario that needs no key in any section, with one more line at the head of `section`.
std::string file_with(std::string_view section, std::string_view line) {
  struct Part {
    std::string_view name, text;
  };
  constexpr Part parts[] = {{"top", ""},
                            {"bounds", "[bounds]\n"},
                            {"host", "[[host]]\nname = \"a\"\n"},
                            {"tcp", "[host.tcp]\n"},
                            {"rnic", "[host.rnic]\n"},
                            {"nic", "[[host.nic]]\nname = \"n\"\n"},
                            {"", "[[host]]\nname = \"b\"\n"},
                            {"link", "[[link]]\nends = [\"a\", \"b\"]\n"},
                            {"listen", "[[listen]]\nhost = \"b\"\n"},
                            {"listen.mpa", "[listen.mpa]\n"},
                            {"connect", "[[connect]]\nfrom = \"a\"\nto = \"b\"\nexpect = \"settled\"\n"},
                            {"connect.mpa", "[connect.mpa]\n"},
                            {"drop", "[[fault]]\naction = \"drop\"\nlink = \"a-b\"\n"},
                            {"fpdu", "[[fault]]\naction = \"drop\"\nlink = \"a-b\"\nmatch = \"fpdu\"\n"},
                            {"duplicate", "[[fault]]\naction = \"duplicate\"\nlink = \"a-b\"\n"},
                            {"cut", "[[fault]]\naction = \"cut_stream\"\nlink = \"a-b\"\nmatch = \"fpdu\"\n"}};
  std::string out;
  for (const Part& part : parts) {
    out += part.text;
    if (part.name == section) out += fmt::format("{}\n", line);
  }
  return out;
}

std::vector<std::string> said_of(std::string_view text) {
  std::vector<std::string> out;
  if (const auto read = parse_scenario(text, "x.toml"); !read)
    for (const ScenarioError& error : read.error()) out.push_back(error.text);
  return out;
}

std::vector<std::string> said_of(std::string_view section, std::string_view key, std::string_view value) {
  return said_of(file_with(section, fmt::format("{} = {}", key, value)));
}

constexpr std::int64_t any = 9'223'372'036'854'775'807, u32_max = 4'294'967'295;

// What the tables together say wrong is found last, wherever it stands. Behind a thousand others nobody looks for it.
TEST(SimScenarioBounds, AThousandErrorsAreSortedBeforeTheFirstFiftyAreShown) {
  const std::string start = "[[host]]\nname = \"c\"\n" + file_with("connect", "from_nic = 5");
  const std::string unlinked = R"(host 'c' has no link: add a [[link]] with ends = ["c", ...])";
  EXPECT_THAT(said_of(start), ElementsAre(unlinked, "key 'from_nic' is unknown in [[connect]]; did you mean 'from'?"));
  for (const std::size_t others : {1U, 48U, 49U, 50U, 998U, 999U, 1000U, 1100U}) {
    std::string text = start;
    for (std::size_t i = 0; i < others - 1; ++i) text += fmt::format("key{} = 1\n", i);
    const auto said = said_of(text);
    EXPECT_EQ(said.size(), std::min<std::size_t>(others + 1, 50));
    EXPECT_EQ(said[0] == unlinked, others < 1000) << others << ": " << said[0];
  }
}

TEST(SimScenarioBounds, WholeNumbersAreTakenWithinTheirBoundsAndRefusedBeyond) {
  struct Range {
    std::string_view section, key;
    std::int64_t least, most;
  };
  constexpr Range ranges[] = {
      {"bounds", "events", 1, any},
      {"bounds", "frames", 1, any},
      {"host", "ring", 0, u32_max},
      {"tcp", "syn_retries", 0, 255},
      {"tcp", "retries", 0, 255},
      {"rnic", "endpoints_max", 1, 16'777'216},
      {"rnic", "tagged_offset_base", 0, any},
      {"nic", "mtu", 576, 9000},
      {"link", "mtu", 576, 9000},
      {"listen", "port", 1, 65535},
      {"listen", "reject", 0, 1'000'000},
      {"listen", "pending_max", 1, 1'000'000},
      {"listen.mpa", "revision", 1, 2},
      {"listen.mpa", "ird_max", 0, 16382},
      {"listen.mpa", "private_data_max", 0, 512},
      {"connect", "port", 1, 65535},
      {"connect", "count", 1, 1'000'000},
      {"connect", "messages", 0, 1'000'000},
      {"connect", "octets", 0, 16'777'216},
      {"connect", "retries", 0, 1000},
      {"connect.mpa", "revision", 1, 2},
      {"connect.mpa", "ird_max", 0, 16382},
      {"connect.mpa", "private_data_max", 0, 512},
      {"fpdu", "fpdu", 0, u32_max},
      {"drop", "connection", 0, u32_max},
      {"drop", "psn", 0, 16'777'215},
      {"drop", "nth", 1, u32_max},
      {"drop", "times", 1, u32_max},
      {"duplicate", "count", 1, 64},
      {"cut", "octets", 0, 9018},
  };
  for (const auto& [section, key, least, most] : ranges) {
    const auto said = [&, section = section, key = key](std::int64_t value) {
      return said_of(section, key, fmt::format("{}", value));
    };
    const auto words = [&, key = key, least = least, most = most](std::int64_t value) {
      return fmt::format("{}: the number {} is not a whole number in {}..{}", key, value, least, most);
    };
    EXPECT_THAT(said(least), IsEmpty()) << section << ' ' << key;
    EXPECT_THAT(said(most), IsEmpty()) << section << ' ' << key;
    EXPECT_THAT(said(least - 1), ElementsAre(words(least - 1))) << section << ' ' << key;
    if (most == any) continue;
    EXPECT_THAT(said(most + 1), ElementsAre(words(most + 1))) << section << ' ' << key;
  }
}

struct Refused {
  std::string_view section, key;
  std::vector<std::string_view> taken;
  std::string_view value, words;
};

void expect_taken_and_refused(const std::vector<Refused>& keys) {
  for (const auto& [section, key, taken, value, words] : keys) {
    for (const std::string_view good : taken)
      EXPECT_THAT(said_of(section, key, good), IsEmpty()) << section << ' ' << key << ' ' << good;
    EXPECT_THAT(said_of(section, key, value), ElementsAre(fmt::format("{}: {}", key, words)))
        << section << ' ' << key << ' ' << value;
  }
}

TEST(SimScenarioBounds, SizesAreTakenWithinTheirBoundsAndRefusedBeyond) {
  expect_taken_and_refused({
      {"bounds", "send_queue", {"\"1B\"", "\"1GiB\""}, "\"0B\"", "'0B' is not a size, 1B..1GiB"},
      {"bounds", "send_queue", {}, "\"1073741825B\"", "'1073741825B' is not a size, 1B..1GiB"},
      {"bounds", "reassembly", {"\"1B\"", "\"1GiB\""}, "\"0B\"", "'0B' is not a size, 1B..1GiB"},
      {"bounds", "reassembly", {}, "\"1073741825B\"", "'1073741825B' is not a size, 1B..1GiB"},
      {"tcp", "send_buffer", {"\"2KiB\"", "\"1GiB\""}, "\"2047B\"", "'2047B' is not a size, 2KiB..1GiB"},
      {"tcp", "send_buffer", {}, "\"1073741825B\"", "'1073741825B' is not a size, 2KiB..1GiB"},
      {"tcp", "receive_buffer", {"\"2KiB\"", "\"1GiB\""}, "\"2047B\"", "'2047B' is not a size, 2KiB..1GiB"},
      {"tcp", "receive_buffer", {}, "\"1073741825B\"", "'1073741825B' is not a size, 2KiB..1GiB"},
      {"link",
       "queue",
       {"\"1514B\"", "\"1GiB\""},
       "\"1513B\"",
       "1513 octets do not hold one frame of the MTU (1500 and 14 of Ethernet)"},
      {"link", "queue", {}, "\"1073741825B\"", "'1073741825B' is not a size, 0B..1GiB"},
      {"connect", "octets", {"\"0B\"", "\"16MiB\""}, "\"16777217B\"", "'16777217B' is not a size, 0B..16MiB"},
      {"cut", "octets", {"\"9018B\""}, "\"9019B\"", "'9019B' is not a size, 0B..9018B"},
  });
}

TEST(SimScenarioBounds, OtherValuesAreTakenWithinTheirBoundsAndRefusedBeyond) {
  constexpr std::string_view above_none = "write a time above 0s";
  expect_taken_and_refused({
      {"bounds",
       "time",
       {"\"1s\""},
       "\"0s\"",
       "a run of no time ends before it began: write a time above 0s, as \"120s\""},
      {"bounds", "converge", {"\"1ns\""}, "\"0s\"", "write a time above 0s, as \"60s\""},
      {"link",
       "rate",
       {"\"1bps\""},
       "\"0bps\"",
       "nothing crosses a link of rate 0; for a dead link use a fault with action = \"drop\""},
      {"listen", "at", {"\"0s\""}, "\"never\"", "write a time from 0s on"},
      {"listen", "reject", {"true", "false"}, "\"all\"", "'all' is not true, false, or n for every n-th"},
      {"listen",
       "private_data",
       {"0", "508"},
       "509",
       "509 octets, at most 508 fit into the Reply (RFC 6581 §6 takes 4 of 512)"},
      {"listen.mpa", "request_timeout", {"\"1ns\""}, "\"0s\"", above_none},
      {"listen.mpa", "rtr_timeout", {"\"1ns\""}, "\"0s\"", above_none},
      {"connect", "at", {"\"0s\"", "\"119.999999999s\""}, "\"never\"", "write a time from 0s on"},
      {"connect",
       "private_data",
       {"0", "508", "\"hex:00ff\""},
       "509",
       "509 octets, at most 508 fit into a Request of revision 2 (RFC 6581 §6 takes 4 of 512)"},
      {"connect", "transport_timeout", {"\"1ns\""}, "\"0s\"", above_none},
      {"connect",
       "established_within",
       {"\"0s\""},
       "\"1ns\"",
       "it says how an established connection must have come up: it needs expect = \"established\""},
      {"connect.mpa", "reply_timeout", {"\"1ns\""}, "\"0s\"", above_none},
      {"drop", "times", {"\"all\""}, "\"some\"", "'some' is not a number from 1, or \"all\""},
  });
}

TEST(SimScenarioBounds, TheLastConnectionStartsBeforeTheRunIsOver) {
  const std::string_view late = "the last connection would start when the run is over: [bounds] time is 120s";
  EXPECT_THAT(said_of(file_with("connect", "at = \"120s\"")), ElementsAre(late));
  EXPECT_THAT(said_of(file_with("connect", "count = 121\ninterval = \"1s\"")), ElementsAre(late));
  EXPECT_THAT(said_of(file_with("connect", "count = 120\ninterval = \"1s\"")), IsEmpty());
}

TEST(SimScenarioBounds, ADepthIsANumberOrNone) {
  for (const std::string_view section : {"listen", "connect"})
    for (const std::string_view key : {"ird", "ord"}) {
      for (const std::string_view value : {"0", "16382", "\"none\""})
        EXPECT_THAT(said_of(file_with(section, fmt::format("{} = {}", key, value))), IsEmpty())
            << section << key << value;
      for (const std::string_view value : {"-1", "16383", "\"non\"", "65535"})
        EXPECT_EQ(said_of(file_with(section, fmt::format("{} = {}", key, value))).size(), 1U)
            << section << key << value;
    }
}

// Every key that takes a time without a bound takes none and a long one, and no number without its unit.
TEST(SimScenarioBounds, TimesAreFromNoneOnAndHaveAUnit) {
  constexpr std::pair<std::string_view, std::string_view> keys[] = {
      {"tcp", "delayed_ack"},     {"tcp", "time_wait"},
      {"rnic", "linger"},         {"rnic", "half_close_grace"},
      {"rnic", "echo_watch"},     {"link", "delay"},
      {"listen", "accept_after"}, {"listen.mpa", "first_fpdu_timeout"},
      {"connect", "interval"},    {"connect", "close_after"},
      {"connect", "retry_after"}, {"drop", "from"}};
  for (const auto& [section, key] : keys) {
    for (const std::string_view value : {"\"0s\"", "\"2us\"", "\"24h\""})
      EXPECT_THAT(said_of(file_with(section, fmt::format("{} = {}", key, value))), IsEmpty()) << key << value;
    EXPECT_THAT(said_of(file_with(section, fmt::format("{} = 20", key))),
                ElementsAre(fmt::format("{}: the number 20 lacks its unit: write \"20s\" or \"20us\"", key)));
    EXPECT_THAT(said_of(file_with(section, fmt::format("{} = -1", key))),
                ElementsAre(fmt::format("{}: the number -1 is not a time such as \"2us\", \"1.5s\" or \"10m\"", key)));
    EXPECT_THAT(said_of(file_with(section, fmt::format("{} = true", key))),
                ElementsAre(fmt::format("{}: true is not a time such as \"2us\", \"1.5s\" or \"10m\"", key)));
  }
}

TEST(SimScenarioBounds, WhatATableLacksIsToldWhereItBegins) {
  const auto read =
      parse_scenario(file_with("drop", "") + "  [[fault]]\nlink = \"a-b\"\n  [[link]]\nrate = \"1Gbps\"\n", "x.toml");
  ASSERT_FALSE(read);
  std::vector<std::string> said;
  for (const ScenarioError& error : read.error()) said.push_back(error.to_string());
  EXPECT_THAT(said, ElementsAre("x.toml:35:3: the fault has no action: add action = \"drop\" or another",
                                "x.toml:37:3: ends are missing: add ends = [\"a\", \"b\"]"));
}

TEST(SimScenarioBounds, FillerIsTheAlphabetOverAndOver) {
  const auto read = parse_scenario(file_with("connect", "private_data = 54"), "x.toml");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->connects[0].private_data, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzab");
}

TEST(SimScenarioBounds, KeysAreDocumentedInTheOrderInWhichTheyAreWritten) {
  std::ifstream file(std::string(PARLEY_SOURCE_DIR) + "/docs/simulator-scenarios.md");
  std::stringstream docs;
  docs << file.rdbuf();
  const std::string tables = scenario_keys_markdown();
  EXPECT_NE(docs.str().find(tables.substr(0, tables.find_last_not_of('\n') + 1)), std::string::npos)
      << "docs/simulator-scenarios.md ends with these tables:\n"
      << tables;
}

}  // namespace
}  // namespace parley::sim
