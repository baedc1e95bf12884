// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Queries on the table of commands and options (tools/cli.hpp): the command that some words name, the command that a
// mistyped word may have meant, and the possible next words of a command line.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli.hpp"
#include "tools/options.hpp"

namespace parley::tools {

/// The command that the words name, from `app` down. Errors: usage.
Or<Command> find_command(const Command& app, std::span<const std::string> words);
/// "no command 'chekc'; did you mean 'check'? there are: check, ladder"
std::string no_command(const Command& app, std::string_view word);

/// The long option of `app` that is nearest to `word`; empty if none is near.
std::string nearest_option(const Command& app, std::string_view word);

/// How many of the words after the program's name come before a Command::rest(); all of them if the command that they
/// name has none.
std::size_t words_before_rest(const Command& app, std::span<const std::string> words);

struct Candidate {
  std::string word, help;
};
struct Completion {
  std::vector<Candidate> words;
  bool files = false;  ///< names of files fit too
};
/// Candidates for the last of `words`, which may be empty or incomplete.
Completion complete(const Command& app, std::span<const std::string> words);

}  // namespace parley::tools
