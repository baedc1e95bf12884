// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any text as a scenario file: it gives errors with a place and words, or a scenario that is written and read back as
// the same text again.
#include <string>

#include "base/assert.hpp"
#include "sim/scenario/scenario.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parley::sim;
  const std::string text(data, data + size);
  const auto scenario = parse_scenario(text, "fuzz.toml");
  if (!scenario) {
    PARLEY_ASSERT(!scenario.error().empty());
    for (const ScenarioError& error : scenario.error()) PARLEY_ASSERT(!error.text.empty());
    return 0;
  }
  const std::string written = to_toml(*scenario);
  const auto again = parse_scenario(written, "fuzz.toml");
  PARLEY_ASSERT(again.has_value());
  PARLEY_ASSERT(to_toml(*again) == written);
  return 0;
}
