// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What makes two failures of simulated runs the same one: the checker, what its sentence says apart from figures and
// names, and how far the connection's set-up had got.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "sim/run/run.hpp"

namespace parley::tools {

class SimTrouble {
 public:
  /// The first thing that went wrong in a run of that scenario; its names count as one.
  SimTrouble(const sim::Scenario& scenario, const sim::RunReport& report);
  /// The same trouble in another run, as one line; none when it is not there.
  std::optional<std::string> find_in(const sim::RunReport& report) const;

  /// The sentence with # for figures, * for names and without what stands in brackets.
  static std::string message_class(std::string_view text, const std::set<std::string, std::less<>>& names);

 private:
  struct Key {
    std::string checker, message, phase;
    bool operator==(const Key&) const = default;
  };
  Key key_of(const sim::RunReport& report, const sim::Violation& violation) const;

  std::set<std::string, std::less<>> names_;  ///< of hosts and links
  sim::RunEnd end_ = sim::RunEnd::settled;
  std::optional<Key> key_;  ///< none: a bound was hit and no rule broken
  std::string pending_;     ///< then: what was open
};

}  // namespace parley::tools
