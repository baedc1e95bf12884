// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "draw/ladder_text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::draw {
namespace {

std::uint64_t nanoseconds(Instant at) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(at.time_since_epoch().count(), 0));
}

}  // namespace

std::string ladder_time(Instant at) {
  const std::uint64_t ns = nanoseconds(at);
  return fmt::format("{}.{:06}", ns / 1'000'000'000, ns % 1'000'000'000 / 1000);
}

std::string ladder_exact_time(Instant at) {
  const std::uint64_t ns = nanoseconds(at);
  return fmt::format("{}.{:09}", ns / 1'000'000'000, ns % 1'000'000'000);
}

std::string_view result_class(std::string_view result) {
  return result.starts_with("passed") ? "good" : result.starts_with("partial") ? "warn" : "bad";
}

}  // namespace parley::draw
