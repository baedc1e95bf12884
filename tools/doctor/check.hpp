// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One item of `parley doctor`.
#pragma once
#include <cstdint>
#include <string>

#include "base/json.hpp"

namespace parley::tools {

enum class Verdict : std::uint8_t { works, limited, fails };

struct Check {
  std::string name;
  Verdict verdict = Verdict::works;
  std::string found;   ///< the result, as a sentence
  std::string advice;  ///< advice to the user; empty: none
  Json details = Json::object();
};

}  // namespace parley::tools
