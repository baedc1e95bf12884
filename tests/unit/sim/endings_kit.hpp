// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ways in which an end of a connection can end, for tables of what checkers say of each pair.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "sim/check/history.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::sim::check {

struct Ending {
  std::string_view name;
  void (*make)(End&);
};

inline void come_up(End& end) {
  end.told = {{.what = CmEventKind::established}};
  end.transfers_done = true;
}
inline void be_told(End& end, CmEventKind what, std::string_view words) {
  end.told.push_back({.what = what, .has_code = true, .words = std::string(words)});
}

inline constexpr Ending endings[] = {
    {"nothing told", [](End&) {}},
    {"up", come_up},
    {"up, not all transferred",
     [](End& end) {
       come_up(end);
       end.transfers_done = false;
     }},
    {"closed",
     [](End& end) {
       come_up(end);
       end.told.push_back({.what = CmEventKind::disconnected, .graceful = true});
     }},
    {"failed in close",
     [](End& end) {
       come_up(end);
       be_told(end, CmEventKind::disconnected, "no FIN");
       end.told.back().in_close = true;
     }},
    {"cut",
     [](End& end) {
       come_up(end);
       be_told(end, CmEventKind::disconnected, "an RST");
     }},
    {"rejected", [](End& end) { be_told(end, CmEventKind::rejected, "code 4"); }},
    {"refused", [](End& end) { end.refused = true; }},
    {"failed", [](End& end) { be_told(end, CmEventKind::failed, "time-out"); }},
    {"crashed",
     [](End& end) {
       come_up(end);
       end.crashed = true;
     }},
    {"given up", [](End& end) { end.dropped = true; }},
};

/// Stands for longer words in a table: a letter each, and "." for none.
class Legend {
 public:
  std::string letter(const std::string& words) {
    if (words.empty()) return ".";
    const auto at = std::find(words_.begin(), words_.end(), words) - words_.begin();
    if (at == static_cast<std::ptrdiff_t>(words_.size())) words_.push_back(words);
    return at < 26 ? std::string(1, static_cast<char>('a' + at))
                   : fmt::format("{}{}", static_cast<char>('a' + at / 26 - 1), static_cast<char>('a' + at % 26));
  }
  std::string text() {
    std::string out;
    for (const std::string& words : words_) out += fmt::format("  {}: {}\n", letter(words), words);
    return out;
  }

 private:
  std::vector<std::string> words_;
};

}  // namespace parley::sim::check
