// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is written for people, as JSON has it for programs.
#pragma once
#include "base/json.hpp"
#include "parley/bytes.hpp"

namespace parley {

/// "not run" is not_run.
std::string json_word(std::string_view words);
/// Printable ASCII, every one of them.
bool printable(ConstBytes octets);
/// `length`, `hex`, and `text` if all octets are printable.
Json json_octets(ConstBytes octets);

}  // namespace parley
