// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which connections of a capture the user selected: by number ("1,5-9"), or those that failed. It also defines the
// order in which they are shown.
#pragma once
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "capture/report.hpp"
#include "tools/options.hpp"

namespace parley::tools {

class ConnectionChoice {
 public:
  /// "5", "5-9", "1,5-9". Errors: usage.
  static Or<ConnectionChoice> parse(std::string_view text);
  void numbers_of(const ConnectionChoice& other) { ranges_ = other.ranges_; }
  void failed_only() { failed_only_ = true; }

  /// No selection: every connection is included.
  bool all() const { return ranges_.empty() && !failed_only_; }
  /// The highest selected number; 0 if no number was given.
  std::uint64_t highest() const;
  /// Indexes of the selected connections: failed ones first, then partial ones, otherwise in file order.
  std::vector<std::size_t> of(const capture::FileReport& file) const;

 private:
  static constexpr std::size_t ranges_max = 1000;
  bool has(std::uint64_t number) const;

  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;  // both ends are included
  bool failed_only_ = false;
};

/// Failed before partial before passed.
int rank(capture::Standing standing);

/// -n, --connection and --failed.
void add_connection_choice(Command sub, ConnectionChoice& choice);

}  // namespace parley::tools
