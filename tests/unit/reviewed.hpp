// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tables that a reviewer reads: they stand in tests/states, and a test holds them to what the code does now. With
// PARLEY_REWRITE=1 in the environment the file is written anew: read every line that changes.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

namespace parley {

/// A cell of a table: at least one blank behind the text.
inline std::string pad(std::string_view text, std::size_t width) {
  std::string out(text);
  out.resize(std::max(width, out.size() + 1), ' ');
  return out;
}

inline void expect_as_reviewed(const std::string& name, const std::string& now) {
  const std::string path = PARLEY_SOURCE_DIR "/tests/states/" + name;
  if (const char* rewrite = std::getenv("PARLEY_REWRITE"); rewrite && *rewrite == '1') std::ofstream(path) << now;
  std::ifstream file(path);
  ASSERT_TRUE(file) << path << " is missing; write it with PARLEY_REWRITE=1";
  std::stringstream reviewed;
  reviewed << file.rdbuf();
  EXPECT_EQ(reviewed.str(), now) << "the code behaves otherwise than " << path << " says";
}

}  // namespace parley
