// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ops/metrics/words.hpp"

#include "parley/result.hpp"
#include "parley/wire/neg.h"
#include "parley/wire/rdmap.h"

namespace parley::ops {

#define PARLEY_X(name, value, tagged, qn, text) {text, #name},
const LabelNames<12> opcode_words{{PARLEY_RDMAP_OPCODES(PARLEY_X)}};
#undef PARLEY_X

#define PARLEY_X(name, text) {#name, #name},
const LabelNames<28> reason_words{{PARLEY_ERRC(PARLEY_X)}};
#undef PARLEY_X

#define PARLEY_X(name, value, layer, text) {#name, #name},
const LabelNames<15> problem_words{{PARLEY_NEG_ERRORS(PARLEY_X)}};
#undef PARLEY_X

std::string_view reason_of(const std::error_code& code) {
  if (code.category() != error_category()) return other_word;
  const auto at = static_cast<std::size_t>(code.value());
  return at >= 1 && at <= reason_words.size() ? reason_words[at - 1].label : other_word;
}

}  // namespace parley::ops
