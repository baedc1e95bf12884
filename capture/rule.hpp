// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The rules that captures are judged by, as C++ sees the table in parley/wire/rules.h.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "parley/wire/rules.h"

namespace parley::capture {

enum class Severity : std::uint8_t {
  note,     ///< information, for example that octets are missing from the capture
  warning,  ///< a SHOULD was broken, or something looks wrong but cannot be proven from the capture
  error,    ///< a peer broke a MUST, proven by octets in the capture
};
std::string_view to_string(Severity severity);

enum class Rule : std::uint16_t {
#define PARLEY_X(name, id, clause, severity, needs, sentence) name,
  PARLEY_RULES(PARLEY_X)
#undef PARLEY_X
};

/// What a capture must hold to prove a breach.
enum class RuleNeeds : std::uint8_t {
#define PARLEY_X(name, text) name,
  PARLEY_RULE_NEEDS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(RuleNeeds needs);

/// A row of the table. The texts are static.
struct RuleFacts {
  Rule rule;
  std::string_view id;      ///< "mpa.crc"
  std::string_view clause;  ///< "RFC 5044 §4.4"
  Severity severity;
  RuleNeeds needs;
  std::string_view sentence;  ///< what the rule demands
};
const RuleFacts& facts_of(Rule rule);
/// In the order of the table.
std::span<const RuleFacts> all_rules();
/// The rule with this id; null if there is none.
const RuleFacts* find_rule(std::string_view id);

}  // namespace parley::capture
