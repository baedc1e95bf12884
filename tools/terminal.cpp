// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

namespace parley::tools {

namespace {

// Select Graphic Rendition, ECMA-48 §8.3.117.
constexpr std::string_view red = "\x1b[31m", green = "\x1b[32m", yellow = "\x1b[33m", plain = "\x1b[0m";

struct ColouredWord {
  std::string_view word, colour;
};
constexpr std::array<ColouredWord, 11> verdicts = {{{"passed", green},
                                                    {"pass", green},
                                                    {"ok", green},
                                                    {"failed", red},
                                                    {"FAILED", red},
                                                    {"FAIL", red},
                                                    {"error", red},
                                                    {"errors", red},
                                                    {"partial", yellow},
                                                    {"warning", yellow},
                                                    {"warnings", yellow}}};

bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::string_view colour_of(std::string_view word) {
  const auto found =
      std::find_if(verdicts.begin(), verdicts.end(), [&](const ColouredWord& v) { return v.word == word; });
  return found == verdicts.end() ? std::string_view{} : found->colour;
}

/// Whether the text before the word on its line allows the word to be a verdict.
bool leads_in(std::string_view before) {
  if (before.empty() || before.ends_with("  ")) return true;
  if (before.back() != ' ') return false;
  before.remove_suffix(1);
  const std::size_t space = before.rfind(' ');
  const std::string_view token = before.substr(space == std::string_view::npos ? 0 : space + 1);
  const bool number = token.find_first_not_of("0123456789") == std::string_view::npos;
  if (number) return token.find_first_not_of('0') != std::string_view::npos;
  const bool mark = token == "\u2717" || token == "!";  // of a ladder
  return mark && (before.size() == token.size() || before.substr(0, before.size() - token.size()).ends_with("  "));
}

/// Whether the word is the verdict on a connection or a file, after its outcome or its name: "rejected, failed: 1
/// error".
bool stands_behind(std::string_view before, std::string_view behind) {
  return (before.ends_with(", ") || before.ends_with(": ")) &&
         (behind.empty() || behind.front() == ':' || behind.front() == ';');
}

bool leads_out(std::string_view behind) {
  return behind.empty() || std::string_view(" :,;.)").find(behind.front()) != std::string_view::npos;
}

void paint_line(std::string_view line, std::string& out) {
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at;
    while (end < line.size() && letter(line[end])) ++end;
    if (end == at) {
      out += line[at++];
      continue;
    }
    const std::string_view word = line.substr(at, end - at);
    const std::string_view colour = colour_of(word);
    const std::string_view before = line.substr(0, at), behind = line.substr(end);
    if (!colour.empty() && ((leads_in(before) && leads_out(behind)) || stands_behind(before, behind)))
      out.append(colour).append(word).append(plain);
    else
      out += word;
    at = end;
  }
}

}  // namespace

std::size_t terminal_columns(int descriptor) {
  winsize size{};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool is_terminal(int descriptor) {
  const char* term = std::getenv("TERM");
  return isatty(descriptor) == 1 && term != nullptr && std::string_view(term) != "dumb";
}

bool colour_refused() {
  const char* no = std::getenv("NO_COLOR");
  return no != nullptr && *no != '\0';
}

std::string painted(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (;;) {
    const std::size_t end = text.find('\n');
    paint_line(text.substr(0, end), out);
    if (end == std::string_view::npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace parley::tools
