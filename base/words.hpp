// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Words of a line of a file.
#pragma once
#include <algorithm>
#include <string_view>

namespace parley {

/// The next word of `line`, which is removed from it. Empty: there is none. Spaces, tabs and carriage returns are between words.
inline std::string_view take_word(std::string_view& line) {
  constexpr std::string_view blanks = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(blanks), line.size()));
  const std::string_view word = line.substr(0, line.find_first_of(blanks));
  line.remove_prefix(word.size());
  return word;
}

}  // namespace parley
