// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Collects the findings of one connection.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/report.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {

/// A finding cites a rule of the table (capture/rule.hpp) or a known departure (wire/ib/quirks.hpp). A remark cites
/// nothing.
class Findings {
 public:
  /// Reports a breach of `rule`, with the rule's clause and severity.
  void add(std::uint64_t frame, std::optional<Side> side, Rule rule, std::string text) {
    const RuleFacts& facts = facts_of(rule);
    keep({frame, facts.severity, std::string(facts.clause), std::move(text), side, rule});
  }
  /// Adds a note about what the capture shows or lacks. It cites no rule.
  void remark(std::uint64_t frame, std::optional<Side> side, std::string text) {
    keep({frame, Severity::note, "", std::move(text), side, {}});
  }
  /// Adds a note that `side` shows a known departure from the standard.
  void departure(std::uint64_t frame, Side side, const wire::ib::DepartureFacts& what, std::string text) {
    keep({frame, Severity::note, std::string(what.clause), std::move(text), side, {}, what.name});
  }
  const std::vector<Finding>& kept() const { return list_; }
  /// The findings by frame. If some were dropped, a note at `last_frame` (the connection's last) has their number.
  std::vector<Finding> listed(std::uint64_t last_frame) const;

 private:
  void keep(Finding finding);
  static constexpr std::size_t list_max = 200;  // a broken stream could cause millions
  /// Findings kept of those with the same clause and the same first 40 characters. Further ones are only counted.
  static constexpr std::size_t same_max = 10;
  std::vector<Finding> list_;
  // By clause and first characters. At most list_max entries: a new entry is added only together with one of `list_`.
  std::map<std::pair<std::string, std::string>, std::size_t> seen_;
  std::uint64_t dropped_ = 0;
};

}  // namespace parley::capture
