// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Transcripts that a reviewer reads: a block is commands, "----", and what came of them (tests/scripts/README.md). With
// PARLEY_REWRITE=1 in the environment the second halves are written anew.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "parley/time.hpp"

namespace parley::transcripts {

/// A command in words: "b accept b1 pd=hello" is {b, accept, b1} and {pd: hello}.
struct Command {
  explicit Command(const std::string& line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos)
        words.push_back(word);
      else
        options[word.substr(0, equals)] = word.substr(equals + 1);
    }
  }
  std::string word(std::size_t i) const { return i < words.size() ? words[i] : ""; }
  bool has(const std::string& name) const { return options.contains(name); }
  std::string text(const std::string& name) const { return has(name) ? options.at(name) : ""; }
  std::uint32_t number(const std::string& name, std::uint32_t otherwise) const {
    return has(name) ? static_cast<std::uint32_t>(std::stoul(options.at(name))) : otherwise;
  }
  std::vector<std::string> words;
  std::map<std::string, std::string> options;
};

inline Duration parse_time(const std::string& text) {
  std::size_t end = 0;
  const auto n = static_cast<std::int64_t>(std::stoll(text, &end));
  const std::string unit = text.substr(end);
  return unit == "s"    ? Duration(std::chrono::seconds(n))
         : unit == "us" ? Duration(std::chrono::microseconds(n))
                        : Duration(std::chrono::milliseconds(n));
}

/// The file with the second half of each block as it came out now. A Script carries out commands and has a `log`.
template <class Script>
std::string replayed(const std::string& text) {
  Script script;
  std::istringstream in(text);
  std::string out;
  bool commands = true;
  for (std::string line; std::getline(in, line);) {
    if (line == "----") {
      commands = false;
      out += line + '\n' + script.log;
      script.log.clear();
    } else if (line.empty()) {
      commands = true;
      out += '\n';
    } else if (commands) {
      out += line + '\n';
      if (line[0] != '#') script.command(line);
    }
  }
  return out;
}

/// Compares every transcript of a folder; returns how many there are.
template <class Script>
std::size_t compare(const std::string& folder) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(PARLEY_SOURCE_DIR "/") + folder)) {
    if (entry.path().extension() != ".txt") continue;
    ++files;
    std::stringstream reviewed;
    reviewed << std::ifstream(entry.path()).rdbuf();
    const std::string now = replayed<Script>(reviewed.str());
    if (const char* rewrite = std::getenv("PARLEY_REWRITE"); rewrite && *rewrite == '1')
      std::ofstream(entry.path()) << now;
    else
      EXPECT_EQ(now, reviewed.str()) << entry.path().filename();
  }
  return files;
}

}  // namespace parley::transcripts
