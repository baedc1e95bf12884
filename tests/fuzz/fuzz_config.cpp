// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Any text as a file of settings, and any texts as variables: each setting is given once at most, with a value and a
// place; each error has a place and words; and what the file says does not depend on the variables.
#include <string>

#include "base/assert.hpp"
#include "ops/config/settings.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace parley;
  using namespace parley::ops;
  const std::string text(data, data + size);
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const GivenSettings plain = read_settings(text, "fuzz.toml", none);
  for (const SettingError& error : plain.errors) {
    PARLEY_ASSERT(error.where.starts_with("fuzz.toml"));
    PARLEY_ASSERT(!error.text.empty());
  }
  for (std::size_t i = 0; i < plain.given.size(); ++i) {
    PARLEY_ASSERT(plain.given[i].origin == Origin::file);
    PARLEY_ASSERT(plain.given[i].where.starts_with("fuzz.toml:"));
    PARLEY_ASSERT(i == 0 || plain.given[i - 1].setting < plain.given[i].setting);
  }
  // Every other variable, with a part of the text for a value.
  std::size_t asked = 0;
  const GivenSettings both = read_settings(text, "fuzz.toml", [&](const std::string&) -> std::optional<std::string> {
    if (++asked % 2 == 0) return std::nullopt;
    return text.substr(0, asked);
  });
  PARLEY_ASSERT(both.errors.size() >= plain.errors.size());
  for (const SettingValue& given : plain.given) {
    const SettingValue* now = both.find(*given.setting);
    if (now == nullptr) {  // its variable is wrong
      PARLEY_ASSERT(both.errors.size() > plain.errors.size());
      continue;
    }
    PARLEY_ASSERT(now->origin == Origin::environment || (now->value == given.value && now->where == given.where));
  }
  (void)meant_variable("PARLEY_" + text);
  return 0;
}
