// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings of a file and of variables: who takes precedence, where each came from, and what is said of one that is wrong.
#include "ops/config/settings.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace parley::ops {
namespace {

using Variables = std::map<std::string, std::string>;

GivenSettings read(std::string_view file, const Variables& variables = {}) {
  return read_settings(file, "p.toml", [&](const std::string& name) {
    const auto at = variables.find(name);
    return at == variables.end() ? std::nullopt : std::optional(at->second);
  });
}

/// "mpa.ird=8 file p.toml:2:1"
std::vector<std::string> shown(const GivenSettings& settings) {
  std::vector<std::string> out;
  for (const SettingValue& g : settings.given)
    out.push_back(std::string(g.setting->name) + "=" + g.value + " " + std::string(to_string(g.origin)) + " " +
                  g.where);
  return out;
}

/// All errors, one on a line.
std::string errors(std::string_view file) {
  std::string out;
  for (const SettingError& error : read(file).errors) out += (out.empty() ? "" : "\n") + error.to_string();
  return out;
}

TEST(Settings, AValueKnowsWhereItWasGiven) {
  EXPECT_EQ(shown(read("[mpa]\nird = 8\n  crc = false\n[timeout]\nreply = \"2s\"\n")),
            (std::vector<std::string>{"mpa.crc=false file p.toml:3:3", "mpa.ird=8 file p.toml:2:1",
                                      "timeout.reply=2s file p.toml:5:1"}));
}

TEST(Settings, TheEnvironmentTakesPrecedenceOverTheFile) {
  const auto settings = read("mpa.ird = 8\nmpa.ord = 9\n", {{"PARLEY_MPA_IRD", "3"}, {"PARLEY_MPA_IRD_MAX", "4"}});
  EXPECT_EQ(shown(settings),
            (std::vector<std::string>{"mpa.ird=3 environment PARLEY_MPA_IRD", "mpa.ord=9 file p.toml:2:5",
                                      "mpa.ird_max=4 environment PARLEY_MPA_IRD_MAX"}));
}

TEST(Settings, AVariableSetToNothingIsNotSet) {
  EXPECT_EQ(shown(read("mpa.ird = 8\n", {{"PARLEY_MPA_IRD", ""}})),
            (std::vector<std::string>{"mpa.ird=8 file p.toml:1:5"}));
}

TEST(Settings, AVariableForANumberIsOne) {
  const auto settings = read("", {{"PARLEY_LISTEN_BACKLOG", "-1"}, {"PARLEY_MPA_REVISION", "1"}});
  ASSERT_EQ(settings.errors.size(), 1U);
  EXPECT_EQ(settings.errors[0].to_string(), "PARLEY_LISTEN_BACKLOG: listen.backlog is a number, not '-1'");
  EXPECT_EQ(shown(settings), (std::vector<std::string>{"mpa.revision=1 environment PARLEY_MPA_REVISION"}));
}

TEST(Settings, AVariableForAFlagIsTrueOrFalse) {
  EXPECT_EQ(shown(read("mpa.crc = true", {{"PARLEY_MPA_CRC", "false"}})),
            (std::vector<std::string>{"mpa.crc=false environment PARLEY_MPA_CRC"}));
  const auto settings = read("mpa.crc = true", {{"PARLEY_MPA_CRC", "no"}});
  ASSERT_EQ(settings.errors.size(), 1U);
  EXPECT_EQ(settings.errors[0].to_string(), "PARLEY_MPA_CRC: mpa.crc is true or false, not 'no'");
  EXPECT_TRUE(settings.given.empty());
}

TEST(Settings, EachKindIsWrittenAsTomlWritesIt) {
  EXPECT_EQ(shown(read("[mpa]\nird = \"none\"\nrtr_accept = [\"read\", \"write\"]\nrtr_offer = \"send\"\n")),
            (std::vector<std::string>{"mpa.ird=none file p.toml:2:1", "mpa.rtr_offer=send file p.toml:4:1",
                                      "mpa.rtr_accept=read,write file p.toml:3:1"}));
  EXPECT_EQ(errors("timeout.reply = 5"),
            "p.toml:1:9: timeout.reply is a time with a unit: \"250ms\", not the number 5");
  EXPECT_EQ(errors("mpa.crc = \"yes\""), "p.toml:1:5: mpa.crc is true or false, not 'yes'");
  EXPECT_EQ(errors("mpa.ird = 1.5"),
            "p.toml:1:5: mpa.ird is a number, or \"none\", not '1.5' (a number with a fraction)");
  EXPECT_EQ(errors("mpa.revision = \"2\""), "p.toml:1:5: mpa.revision is a number, not '2'");
  EXPECT_EQ(errors("mpa.rtr_accept = []"),
            "p.toml:1:5: mpa.rtr_accept is a list of texts: [\"read\", \"write\"], not an array");
  EXPECT_EQ(errors("mpa.rtr_accept = [1]"),
            "p.toml:1:5: mpa.rtr_accept is a list of texts: [\"read\", \"write\"], not an array");
  EXPECT_EQ(errors("metrics.file = 1"), "p.toml:1:9: metrics.file is a text: \"...\", not the number 1");
}

TEST(Settings, AnUnknownKeyIsRefusedWithTheNearestOne) {
  EXPECT_EQ(errors("[mpa]\nidr = 4"), "p.toml:2:1: 'idr' is not a setting of [mpa]; did you mean 'ird'?");
  EXPECT_EQ(errors("[mpa]\nreply = \"1s\""), "p.toml:2:1: 'reply' is not a setting of [mpa]; it belongs in [timeout]");
  EXPECT_EQ(errors("[retry]\nzzzzzz = 1"),
            "p.toml:2:1: 'zzzzzz' is not a setting of [retry]; known are rounds, back_off, back_off_max");
  EXPECT_EQ(errors("[timeouts]\nreply = \"1s\""), "p.toml:1:2: 'timeouts' is not a setting; did you mean 'timeout'?");
  EXPECT_EQ(errors("ird = 4"), "p.toml:1:1: 'ird' is not a setting; it belongs in [mpa]");
  EXPECT_NE(errors("qqqqqqq = 4").find("there are the tables log, metrics, mpa, timeout, retry, listen"),
            std::string::npos);
  EXPECT_EQ(errors("mpa = 4"), "p.toml:1:1: mpa is a table: write [mpa]");
}

TEST(Settings, EveryErrorOfAFileIsToldAndNoneHidesWhatIsRight) {
  const auto settings = read("[mpa]\nidr = 4\nird = 5\ncrc = 1\n", {{"PARLEY_MPA_ORD", "6"}});
  EXPECT_EQ(settings.errors.size(), 2U);
  EXPECT_EQ(shown(settings),
            (std::vector<std::string>{"mpa.ird=5 file p.toml:3:1", "mpa.ord=6 environment PARLEY_MPA_ORD"}));
}

TEST(Settings, WhatIsNoTomlGivesNothing) {
  const auto settings = read("[mpa]\nird = 4\nord = \n");
  ASSERT_EQ(settings.errors.size(), 1U);
  EXPECT_TRUE(settings.errors[0].to_string().starts_with("p.toml:3:")) << settings.errors[0].to_string();
  EXPECT_TRUE(settings.given.empty());
  EXPECT_EQ(read("[mpa]\nird = 4\nird = 5\n").errors.size(), 1U);
  EXPECT_FALSE(read(std::string(1 << 21, '#')).errors.empty());
  EXPECT_TRUE(read("").errors.empty());
  EXPECT_TRUE(read("# nothing is set\n\xEF\xBB\xBF").given.empty());
}

TEST(Settings, NamesAreOnesOwnAndSectionsTogether) {
  std::set<std::string> names, variables, options, ended;
  std::string section;
  for (const Setting& setting : settings()) {
    EXPECT_TRUE(names.insert(std::string(setting.name)).second) << setting.name;
    EXPECT_TRUE(variables.insert(environment_name(setting)).second) << setting.name;
    EXPECT_TRUE(options.insert(std::string(setting.option)).second) << setting.option;
    const std::string its(setting.name.substr(0, setting.name.find('.')));
    if (its != section) {
      EXPECT_TRUE(ended.insert(its).second) << its << " is in two places of the table";
      section = its;
    }
    // What judges must not depend on the machine that it runs on.
    for (const std::string_view command : {"sim", "pcap", "replay", "conform", "demo", "quirks", "neg", "all"})
      EXPECT_FALSE(applies(setting, command)) << setting.name << " " << command;
    EXPECT_TRUE(applies(setting, "listen") || applies(setting, "connect") || applies(setting, "rping"));
  }
  EXPECT_FALSE(applies(settings()[0], "list"));
  EXPECT_FALSE(applies(settings()[0], ""));
}

TEST(Settings, AMisspeltVariableIsNoticed) {
  EXPECT_EQ(meant_variable("PARLEY_MPA_IDR"), "PARLEY_MPA_IRD");
  EXPECT_EQ(meant_variable("PARLEY_CONFG"), "PARLEY_CONFIG");
  EXPECT_EQ(meant_variable("PARLEY_MPA_IRD"), "");
  EXPECT_EQ(meant_variable("PARLEY_SCENARIOS"), "");
  EXPECT_EQ(meant_variable("PARLEY_SOURCE_DIR"), "");
  EXPECT_EQ(meant_variable("PARLEY"), "");
  EXPECT_EQ(meant_variable("MPA_IDR"), "");
}

}  // namespace
}  // namespace parley::ops
