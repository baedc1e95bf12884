// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a daemon answers on its control socket, as lines: a text for people, an event with its members, a PathRecord, an
// error. The last line is the exit code; without it the answer is not complete.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::tools {

using AnswerValue = std::variant<std::monostate, bool, std::uint64_t, double, std::string>;
using AnswerMembers = std::vector<std::pair<std::string, AnswerValue>>;

struct AnswerLine {
  enum class Kind : std::uint8_t { text, event, record, error };
  Kind kind{};
  std::string text;       ///< text, error
  AnswerMembers members;  ///< event: the first is its name
  Bytes record;           ///< a PathRecord's octets
};

struct Answer {
  std::vector<AnswerLine> lines;
  int exit = 0;

  void text(std::string line) { lines.push_back({AnswerLine::Kind::text, std::move(line), {}, {}}); }
  void event(std::string name, AnswerMembers members);
  void record(ConstBytes octets) {
    lines.push_back({AnswerLine::Kind::record, {}, {}, Bytes(octets.begin(), octets.end())});
  }
  void error(int exit_code, std::string line);
};

/// Control characters in texts become spaces.
std::string emit(const Answer& answer);
/// Errors: malformed (names the line; an exit code that is not one of Exit, or that is 0 with an error line), truncated.
Result<Answer> parse_answer(std::string_view text);

}  // namespace parley::tools
