// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The progress of a long command: a bar that redraws itself on a terminal, and an occasional line otherwise. It goes to
// standard error, so that standard output is the same with and without it.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tools/output.hpp"

namespace parley::tools {

class Progress {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// Smaller files are done before a user would notice a bar.
  static constexpr std::uint64_t octets_min = 16 << 20;
  /// `total` 0: unknown. `unit` names the things counted: "seeds".
  Progress(Output& out, std::string unit, std::uint64_t total, bool terminal = standard_error_is_terminal());
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows the state if the last output is old enough. `remark` follows the figures: "2 failed".
  void update(std::uint64_t done, std::string_view remark = {}, Time now = std::chrono::steady_clock::now());
  /// Removes the bar, so that a line can be printed. The next update draws it again.
  void clear();

  static bool standard_error_is_terminal();
  /// "[######......] 50% 10000/20000 seeds, 2 failed, 12 s left"
  static std::string bar(std::uint64_t done, std::uint64_t total, std::string_view unit, std::string_view remark,
                         std::chrono::milliseconds elapsed, std::size_t width);

 private:
  Output& out_;
  std::string unit_;
  std::uint64_t total_;
  bool terminal_;
  Time began_, shown_;
  bool drawn_ = false;
};

}  // namespace parley::tools
