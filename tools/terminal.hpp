// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a terminal can and a file cannot: columns that are known, and colours.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace parley::tools {

/// Columns of the terminal that the descriptor is; 0 when it is none, or does not say.
std::size_t terminal_columns(int descriptor);
/// The descriptor is a terminal that knows control sequences.
bool is_terminal(int descriptor);
/// $NO_COLOR is set and not empty (https://no-color.org): no colours unless they are asked for.
bool colour_refused();

/// The text with its words of judgement in colour: passed green; failed, error red; partial, warning yellow. Only where
/// such a word stands as a verdict: at the begin of a line, behind two spaces or a mark, behind a number other than 0,
/// or as the standing of what is named before it ("rejected, failed: 1 error"). In a sentence it is a word like others.
std::string painted(std::string_view text);

}  // namespace parley::tools
