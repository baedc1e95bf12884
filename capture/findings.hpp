// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Where the checks of one connection put what they find.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/report.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {

/// A finding is a rule of the table (capture/rule.hpp), a known departure (wire/ib/quirks.hpp), or a remark that cites nothing.
class Findings {
 public:
  /// Clause and severity are those of the rule.
  void add(std::uint64_t frame, std::optional<Side> side, Rule rule, std::string text) {
    const RuleFacts& facts = facts_of(rule);
    keep({frame, facts.severity, std::string(facts.clause), std::move(text), side, rule});
  }
  /// A note about what the capture shows or lacks; no rule is at stake.
  void remark(std::uint64_t frame, std::optional<Side> side, std::string text) {
    keep({frame, Severity::note, "", std::move(text), side, {}});
  }
  /// A note: the peer is known to depart from the standard like that.
  void departure(std::uint64_t frame, Side side, const wire::ib::DepartureFacts& what, std::string text) {
    keep({frame, Severity::note, std::string(what.clause), std::move(text), side, {}, what.name});
  }
  const std::vector<Finding>& kept() const { return list_; }
  /// By frame; the last one says how many are not listed. `last_frame`: of the connection.
  std::vector<Finding> listed(std::uint64_t last_frame) const;

 private:
  void keep(Finding finding);
  static constexpr std::size_t list_max = 200;  // a person reads no more; a broken stream could give millions
  /// Of findings that cite one clause and begin with the same words only the first `same_max` are kept, the rest counted.
  static constexpr std::size_t same_max = 10;
  std::vector<Finding> list_;
  // A new entry comes with one of the list's, which ends it: the peer's numbers may be among the first words.
  std::map<std::pair<std::string, std::string>, std::size_t> seen_;
  std::uint64_t dropped_ = 0;
};

}  // namespace parley::capture
