// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether somebody answers for a GID. The kernel looks up its Ethernet address within the calls that need it, and waits for
// a second where nobody has it; a peer says what it likes. So a thread makes that call first, with objects of its own.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>

#include "drivers/verbs/device.hpp"

namespace parley::verbs {

/// Copies count together.
class Resolver {
 public:
  static constexpr int open_max = 32;  ///< look-ups that are not over

  /// True: the path is known, and the calls that follow do not wait. Waits for at most `longest`. Errors: timed_out
  /// (nobody has answered yet), unreachable, no_space (too many look-ups), io.
  Result<void> resolve(const std::shared_ptr<NicDevice>& device, const AhAttr& path, std::chrono::milliseconds longest);

 private:
  std::shared_ptr<std::atomic<int>> open_ = std::make_shared<std::atomic<int>>(0);
};

}  // namespace parley::verbs
