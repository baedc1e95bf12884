// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The times of cmtime(1): how long each step of connection set-up took, of all connections and of the slowest and quickest.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "parley/time.hpp"

namespace parley::tools {

/// In cmtime's order, and called as it calls them.
enum class CmStep : std::uint8_t {
  full_connect,
  create_id,
  bind_addr,
  resolve_addr,
  resolve_route,
  create_qp,
  connect,
  disconnect,
  destroy
};
inline constexpr std::size_t cm_step_count = 9;

class StepTable {
 public:
  /// Of one connection.
  void add(CmStep step, Instant begin, Instant end);
  /// A line for each step; of those that no connection had, `provider` is said not to have them.
  std::string text(std::string_view provider) const;
  /// {"create_id": {"total_us": ...}, ...}, with null for the steps that no connection had.
  Json json() const;

 private:
  struct Row {
    std::uint64_t count = 0;
    Instant first{}, last{};  ///< when the first one began and the last one ended
    Duration sum{}, max{}, min{};
  };
  std::array<Row, cm_step_count> rows_{};
};

}  // namespace parley::tools
