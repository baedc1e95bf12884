// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Arbitrary text made safe for its destination. All code uses these functions.
#pragma once
#include <string>
#include <string_view>

namespace parley {

/// For a terminal: control characters and octets that are not UTF-8 become '?'; with `ascii`, so do all characters
/// beyond ASCII.
std::string printable(std::string_view text, bool ascii);
/// For HTML: the text cannot end an element, an attribute or the page.
std::string html_escape(std::string_view text);
/// For HTML, from arbitrary text: printable(), then html_escape().
std::string html_text(std::string_view text);
/// For XML elements and attributes; characters that XML 1.0 §2.2 does not allow become U+FFFD.
std::string xml_escape(std::string_view text);
/// For a field of a CSV table: quoted if required (RFC 4180 §2), or if some readers would trim it.
std::string csv_quote(std::string_view value);
/// For a POSIX shell: as one word.
std::string shell_word(std::string_view word);

}  // namespace parley
