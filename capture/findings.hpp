// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where the checks of one connection put what they find, and what the ladder will draw.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/report.hpp"

namespace parley::capture {

class Findings {
 public:
  /// Of findings that cite one rule and begin with the same words only the first `same_max` are kept, the rest counted.
  void add(std::uint64_t frame, std::optional<Side> side, Severity severity, std::string_view rule, std::string text,
           FindingId id = FindingId::none, std::string_view key = {}) {
    if (list_.size() >= list_max || ++seen_[{std::string(rule), text.substr(0, 40)}] > same_max) {
      ++dropped_;
      return;
    }
    list_.push_back({frame, severity, std::string(rule), std::move(text), side, id, key});
  }
  void note(std::uint64_t frame, std::optional<Side> side, std::string_view rule, std::string text) {
    add(frame, side, Severity::note, rule, std::move(text));
  }
  void warn(std::uint64_t frame, std::optional<Side> side, std::string_view rule, std::string text) {
    add(frame, side, Severity::warning, rule, std::move(text));
  }
  void error(std::uint64_t frame, std::optional<Side> side, std::string_view rule, std::string text,
             FindingId id = FindingId::none) {
    add(frame, side, Severity::error, rule, std::move(text), id);
  }
  const std::vector<Finding>& list() const { return list_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  static constexpr std::size_t list_max = 200;  // a person reads no more; a broken stream could give millions
  static constexpr std::size_t same_max = 10;
  std::vector<Finding> list_;
  // A new entry comes with one of the list's, which ends it: the peer's numbers may be among the first words.
  std::map<std::pair<std::string, std::string>, std::size_t> seen_;
  std::uint64_t dropped_ = 0;
};

}  // namespace parley::capture
