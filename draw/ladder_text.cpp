// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "draw/ladder_text.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::draw {
namespace {

Duration since_start(Instant at) { return std::max(at - Instant{}, Duration{}); }

}  // namespace

std::string ladder_time(Instant at) { return decimal_seconds(since_start(at), 6); }

std::string ladder_exact_time(Instant at) { return decimal_seconds(since_start(at), 9); }

std::string ladder_exact_seconds(Instant at) { return ladder_exact_time(at) + " s"; }

std::string_view result_class(std::string_view result) {
  return result.starts_with("passed") ? "good" : result.starts_with("partial") ? "warn" : "bad";
}

}  // namespace parley::draw
