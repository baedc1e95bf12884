// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is said of a scenario in which one line is missing, comes twice, is misspelt or has another value, beside
// tests/states/sim_scenario_errors.txt: line, column and key of each error, with a letter for its sentence, and nothing besides.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "scenario_kit.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::sim {
namespace {

/// Every section, and in each at least one key of every form. Nothing in it hangs in the air.
constexpr std::string_view whole_scenario = R"(name = "whole"
seed = 7
[bounds]
time = "30s"
events = 1000000
send_queue = "1MiB"
fence = false
[[host]]
name = "alpha"
ipv6 = true
tcp = { rto_min = "10ms", send_buffer = "64KiB", retries = 3 }
rnic = { linger = "1.5s", endpoints_max = 9 }
[[host.nic]]
name = "n1"
mtu = 1400
[[host.nic]]
name = "n2"
engine = "none"
[[switch]]
name = "core"
[[host]]
name = "beta"
[[link]]
name = "left"
ends = ["alpha/n1", "core"]
rate = "2.5Gbps"
delay = "2us"
queue = "64KiB"
mtu = 1500
[[link]]
ends = ["core", "beta"]
[[listen]]
host = "beta"
port = 4711
address = "v6"
at = "0s"
reject = 4
private_data = "hex:00ff"
relisten = true
[listen.mpa]
rtr_accept = ["read", "send"]
revision = 2
[[connect]]
from = "alpha/n1"
to = "beta"
port = 4711
address = "v6"
count = 3
interval = "1ms"
expect = "settled"
transfer = "write"
octets = "64KiB"
close = "both"
ird = "none"
[connect.mpa]
rtr = "read"
reply_timeout = "2s"
[[fault]]
action = "delay"
link = "left"
to = "core"
match = "mpa_reply"
nth = 2
chance = "50%"
delay = "1ms"
[[fault]]
action = "drop"
link = "core-beta"
mask = 0b1011
until = "2s"
[[fault]]
action = "crash"
host = "beta"
at = "7s"
[[host]]
name = "gamma"
engine = "roce"
[[link]]
ends = ["gamma", "core"]
[[member]]
host = "gamma"
group = "ff0e::7174"
until = "2s"
expect = 3
[[send]]
from = "gamma"
group = "ff0e::7174"
messages = 3
octets = 256
interval = "1ms"
[[listen]]
host = "gamma"
qp = "xrc"
processes = 2
[[exit]]
host = "gamma"
process = 2
at = "1s"
how = "leave"
)";

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return out;
}

/// One change after the other to each line; each is judged on its own.
class Mangler {
 public:
  explicit Mangler(std::string_view text) : lines_(lines_of(text)) {}

  std::string said_of_all() {
    std::string out;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const std::string line = lines_[i];
      judge(i, "without it", "");
      judge(i, "twice", line + "\n" + line);
      const std::size_t equals = line.find(" = ");
      if (equals == std::string::npos)
        headers(i, line);
      else
        keys(i, line.substr(0, equals), line.substr(equals + 3));
      out += fmt::format("{}: {} -> {}\n", i + 1, line, std::exchange(said_, {}));
    }
    return out + legend_.text();
  }

 private:
  void headers(std::size_t i, const std::string& line) {
    const bool twice = line.starts_with("[[");
    judge(i, twice ? "one bracket" : "two brackets", twice ? line.substr(1, line.size() - 2) : "[" + line + "]");
    std::string misspelt = line;
    misspelt.insert(misspelt.find(']'), "x");
    judge(i, "misspelt", misspelt);
    judge(i, "not closed", line.substr(0, line.size() - 1));
  }
  void keys(std::size_t i, const std::string& key, const std::string& value) {
    judge(i, "misspelt", key + "x = " + value);
    judge(i, "not a key", "qqqqqqqqqqqq = " + value);
    for (const std::string_view other : {"0",           "-1",
                                         "70000",       "9223372036854775807",
                                         "1.5",         "true",
                                         "\"\"",        "\"x\"",
                                         "\"0s\"",      "\"3MiB\"",
                                         "1979-05-27",  "[]",
                                         "[\"alpha\"]", "[\"core\", \"beta\"]",
                                         "{}",          "{ x = 1 }",
                                         "nan",         "'",
                                         "\"never\"",   "\"alpha\""})
      judge(i, std::string(other), fmt::format("{} = {}", key, other));
    if (value.front() == '"')
      judge(i, "one letter more", fmt::format("{} = \"{}x\"", key, value.substr(1, value.size() - 2)));
  }
  /// "12:1 rate [c]" for each error; changes that are answered alike stand side by side.
  void judge(std::size_t i, const std::string& change, std::string_view now) {
    std::string text;
    for (std::size_t at = 0; at < lines_.size(); ++at)
      if (const std::string_view line = at == i ? now : lines_[at]; !line.empty() || at != i)
        text += fmt::format("{}\n", line);
    std::string said = "taken";
    if (const auto read = parse_scenario(text, "x"); !read) {
      said.clear();
      for (const ScenarioError& e : read.error())
        said += fmt::format("{}{}:{} {} [{}]", said.empty() ? "" : ", ", e.line, e.column, e.key, letter_of(e, change));
    }
    if (said == last_said_ && !said_.empty())
      said_.insert(said_.size() - said.size() - 2, " | " + change);
    else
      said_ += fmt::format("{}{}: {}", said_.empty() ? "" : "; ", change, said);
    last_said_ = said;
  }
  /// Of the sentence with its key and the value left out.
  std::string letter_of(const ScenarioError& e, const std::string& change) {
    std::string text = e.text.substr(0, e.text.find("Error while "));
    for (const auto& [part, name] : {std::pair(e.key, "KEY"), {change, "VALUE"}})
      if (part.size() > 1)
        for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 5))
          text.replace(at, part.size(), name);
    // What the value is, and what is due in its place.
    for (const std::string_view due : {" is not ", " lacks its unit"})
      if (const std::size_t at = text.find(due); at != text.npos) {
        const std::string value = legend_.letter_of_form(text.substr(0, at));
        return value + " " + legend_.letter_of_form(text.substr(at));
      }
    return legend_.letter_of_form(text);
  }

  std::vector<std::string> lines_;
  std::string said_, last_said_;
  Legend legend_;
};

TEST(SimScenarioMangled, EachChangeOfALineIsToldAsReviewed) {
  const auto read = parse_scenario(whole_scenario, "x");
  ASSERT_TRUE(read) << read.error().front().to_string();
  expect_as_reviewed("sim_scenario_errors.txt", Mangler(whole_scenario).said_of_all());
}

}  // namespace
}  // namespace parley::sim
