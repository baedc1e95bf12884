// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Decides whether two simulated runs failed in the same way: the same checker, the same message apart from figures and
// names, and the same progress of the connection's set-up.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/run/run.hpp"

namespace parley::tools {

class SimTrouble {
 public:
  /// The first violation or bound in a run of `scenario`. All names in the scenario are treated as equal.
  SimTrouble(const sim::Scenario& scenario, const sim::RunReport& report);
  /// The same failure in another run, as one line; none if it did not occur.
  std::optional<std::string> find_in(const sim::RunReport& report) const;

  /// The message with # for figures, "time" for the unit of time after a figure, and * for names, without text in
  /// brackets.
  static std::string message_class(std::string_view text, const std::set<std::string, std::less<>>& names);

 private:
  struct Key {
    std::string checker, message, phase;
    bool operator==(const Key&) const = default;
  };
  Key key_of(const sim::RunReport& report, const sim::Violation& violation) const;

  std::set<std::string, std::less<>> names_;  ///< names of hosts and links
  sim::RunEnd end_ = sim::RunEnd::settled;
  std::optional<Key> key_;  ///< none if a bound was hit and no rule was violated
  std::string pending_;     ///< in that case: what was pending
};

}  // namespace parley::tools
