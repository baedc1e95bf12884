// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a command exports as metrics.
#pragma once
#include <string>

namespace parley::ops {

class MetricsSource {
 public:
  virtual ~MetricsSource() = default;
  /// All metrics in Prometheus' format.
  virtual std::string text() const = 0;
};

}  // namespace parley::ops
