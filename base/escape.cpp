// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/escape.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace parley {
namespace {

/// U+0080 to U+009F: some terminals act on them.
bool c1_control(std::string_view character) {
  return character.size() == 2 && character[0] == '\xC2' && static_cast<unsigned char>(character[1]) < 0xA0;
}

/// Half of a surrogate pair, encoded as if it were a character, which UTF-8 forbids (RFC 3629 §3).
bool surrogate_half(std::string_view text) {
  const auto octet = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  return text.size() >= 3 && octet(0) == 0xED && (octet(1) & 0xE0) == 0xA0 && (octet(2) & 0xC0) == 0x80;
}

/// Whether XML 1.0 §2.2 allows the character, which is well-formed UTF-8.
bool in_xml(std::string_view character) {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first >= 0x20 || first == '\t' || first == '\n' || first == '\r';
  return character != "\xEF\xBF\xBE" && character != "\xEF\xBF\xBF";
}

bool plain_in_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/+,:@%=").find(c) != std::string_view::npos;
}

}  // namespace

std::string printable(std::string_view text, bool ascii) {
  std::string out;
  while (!text.empty()) {
    std::size_t n = utf8_length(text);
    if (c1_control(text.substr(0, n))) n = 0;
    const auto c = static_cast<unsigned char>(text.front());
    if (n == 0 || c < 0x20 || c == 0x7F || (ascii && n > 1))
      out += '?';
    else
      out += text.substr(0, n);
    text.remove_prefix(std::max<std::size_t>(n, 1));
  }
  return out;
}

std::string html_escape(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  return out;
}

std::string html_text(std::string_view text) { return html_escape(printable(text, false)); }

std::string xml_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t n = utf8_length(text);
    const std::string_view character = text.substr(0, n);
    if (n == 0 || !in_xml(character)) {
      out += "\xEF\xBF\xBD";
    } else {
      switch (character.front()) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        // Unescaped, a parser would turn these into spaces in attributes (XML 1.0 §3.3.3).
        case '\n': out += "&#10;"; break;
        case '\r': out += "&#13;"; break;
        case '\t': out += "&#9;"; break;
        default: out += character;
      }
    }
    text.remove_prefix(surrogate_half(text) ? 3 : std::max<std::size_t>(n, 1));
  }
  return out;
}

std::string csv_quote(std::string_view value) {
  // RFC 4180 §2.6, §2.7; a space at either end is quoted as well, since some readers trim it.
  const bool spaced = !value.empty() && (value.front() == ' ' || value.back() == ' ');
  if (!spaced && value.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(value);
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string shell_word(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain_in_shell)) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace parley
