// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Text that may hold anything, made safe for where it goes. The one place for it.
#pragma once
#include <string>
#include <string_view>

namespace parley {

/// For a terminal: control characters and octets that are not UTF-8 become '?'; with `ascii` so does everything beyond
/// ASCII.
std::string printable(std::string_view text, bool ascii);
/// For HTML: nothing in it can end an element, an attribute or the page.
std::string html_escape(std::string_view text);
/// For HTML, of text that may hold anything: printable(), then html_escape().
std::string html_text(std::string_view text);
/// For XML elements and attributes; what XML 1.0 §2.2 does not allow becomes U+FFFD.
std::string xml_escape(std::string_view text);
/// For a field of a CSV table: quoted where it must be (RFC 4180 §2), or where some readers would trim it.
std::string csv_quote(std::string_view value);
/// For a POSIX shell: one word.
std::string shell_word(std::string_view word);

}  // namespace parley
