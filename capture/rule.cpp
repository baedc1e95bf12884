// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rule.hpp"

#include <algorithm>

namespace parley::capture {
namespace {

constexpr RuleFacts table[] = {
#define PARLEY_X(name, id, clause, severity, needs, sentence) \
  {Rule::name, id, clause, Severity::severity, RuleNeeds::needs, sentence},
    PARLEY_RULES(PARLEY_X)
#undef PARLEY_X
};

}  // namespace

std::string_view to_string(RuleNeeds needs) {
  constexpr std::string_view texts[] = {
#define PARLEY_X(name, text) text,
      PARLEY_RULE_NEEDS(PARLEY_X)
#undef PARLEY_X
  };
  return texts[static_cast<std::size_t>(needs)];
}

const RuleFacts& facts_of(Rule rule) { return table[static_cast<std::size_t>(rule)]; }

std::span<const RuleFacts> all_rules() { return table; }

const RuleFacts* find_rule(std::string_view id) {
  const auto* const found =
      std::find_if(std::begin(table), std::end(table), [id](const auto& row) { return row.id == id; });
  return found == std::end(table) ? nullptr : found;
}

}  // namespace parley::capture
