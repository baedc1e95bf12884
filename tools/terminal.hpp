// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Properties of a terminal: its width and its colours.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace parley::tools {

/// The width of the terminal behind the descriptor in columns; 0 if it is not a terminal or its width is unknown.
std::size_t terminal_columns(int descriptor);
/// Whether the descriptor is a terminal that understands control sequences.
bool is_terminal(int descriptor);
/// Whether $NO_COLOR is set and not empty (https://no-color.org): no colours unless an option asks for them.
bool colour_refused();

/// Colours the verdicts in a text: passed green; failed and error red; partial and warning yellow. A word is a verdict
/// at the beginning of a line, after two spaces or a mark, after a number other than 0, or as the verdict on what is
/// named before it ("rejected, failed: 1 error"). Within a sentence it is not coloured.
std::string painted(std::string_view text);

}  // namespace parley::tools
