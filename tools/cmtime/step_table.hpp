// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The times of cmtime(1): how long each step of connection set-up took in total, on average, and for the slowest and
// the fastest connection.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "parley/time.hpp"

namespace parley::tools {

/// In the order and with the names of cmtime.
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
  /// Adds the step of one connection.
  void add(CmStep step, Instant begin, Instant end);
  /// One line per step. If there are steps without any measurement, a last line says that `provider` does not have
  /// them.
  std::string text(std::string_view provider) const;
  /// {"create_id": {"total_us": ...}, ...}, with null for the steps without any measurement.
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
