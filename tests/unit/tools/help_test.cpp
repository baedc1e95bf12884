// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What `parley completion` offers beside what `--help` shows, for every command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "tools/output.hpp"

namespace parley::tools {
namespace {

using Words = std::vector<std::string>;

std::string printed(Words words) {
  words.insert(words.begin(), "parley");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  EXPECT_EQ(run_command_line(static_cast<int>(argv.size()), argv.data(), out, err), 0) << err.str();
  return out.str();
}

Words with(Words path, const Words& more) {
  path.insert(path.end(), more.begin(), more.end());
  return path;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// The names of the subcommands in a help text: "  name  what it does" below "Subcommands:", to the next empty line.
Words subcommands(const std::string& help) {
  static const std::regex form("^  ([a-z]+) .*");
  Words names;
  bool below = false;
  std::smatch found;
  for (const std::string& line : lines_of(help)) {
    if (line == "Subcommands:" || line.empty())
      below = !line.empty();
    else if (below && std::regex_match(line, found, form))
      names.push_back(found[1]);
  }
  return names;
}

std::set<std::string> long_options(const std::string& help) {
  static const std::regex line_form("^ {2,4}-.*"), name_form("(^|[ ,])(--[a-z][a-z0-9-]*)(?=$|[ ,{])");
  std::set<std::string> names;
  for (const std::string& line : lines_of(help))
    if (std::regex_match(line, line_form))
      for (std::sregex_iterator at(line.begin(), line.end(), name_form), end; at != end; ++at) names.insert((*at)[2]);
  return names;
}

/// Compares the command at this path and those below it. Returns their number.
std::size_t compare(const Words& path) {
  const std::string help = printed(with(path, {"--help"}));
  std::set<std::string> offered;
  for (const std::string& line : lines_of(printed(with({"completion", "bash", "--"}, with(path, {"--"})))))
    if (line.starts_with("--")) offered.insert(line.substr(0, line.find('\t')));
  EXPECT_EQ(offered, long_options(help)) << testing::PrintToString(path);
  std::size_t compared = 1;
  for (const std::string& name : subcommands(help)) compared += compare(with(path, {name}));
  return compared;
}

TEST(ToolsCompletion, OffersTheOptionsOfEveryHelp) { EXPECT_GT(compare({}), 60u); }

}  // namespace
}  // namespace parley::tools
