// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The sum over the reports of several captures.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "capture/report.hpp"

namespace parley::capture {

struct Total {
  using ByStanding = std::array<std::uint64_t, 3>;

  ByStanding files{}, connections{}, negotiations{};  ///< by Standing
  std::uint64_t roce = 0;                             ///< the RoCE connections among `connections`
  std::uint64_t unread = 0;                           ///< files that were not read to their end; `files` includes them
  std::uint64_t errors = 0, warnings = 0;
  RuleCounts ignored;

  /// `whole`: the file was read to its end.
  void add(const FileReport& file, bool whole);
};
std::uint64_t sum(const Total::ByStanding& counts);

/// "3 files: 1 passed, 1 partial, 1 failed; 14 MPA connections: 12 passed, 1 partial, 1 failed; 1 error, 0 warnings"
std::string to_text(const Total& total);

}  // namespace parley::capture
