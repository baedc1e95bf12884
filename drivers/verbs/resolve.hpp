// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether somebody answers for a GID. The kernel looks up its Ethernet address within the calls that need it, and waits for
// a second where nobody has it; a peer says what it likes. So a thread makes that call first, with objects of its own.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "drivers/verbs/device.hpp"
#include "parley/neg.hpp"

namespace parley::verbs {

/// What was found out a moment ago: the queue pairs of one peer mostly have one GID, and one that leads nowhere is not
/// waited for again and again.
class KnownPaths {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kept{1};
  static constexpr std::size_t most = 256;
  /// Device, port, index of this side's GID; the peer's.
  using Path = std::tuple<std::string, std::uint32_t, std::uint8_t, std::array<std::uint8_t, 16>>;

  /// None: it must be looked up.
  std::optional<Result<void>> find(const Path& path, Clock::time_point now) const;
  /// Keeps that it is known, or that it leads nowhere; what fails on this side may be over soon.
  void keep(const Path& path, const Result<void>& found, Clock::time_point now);

 private:
  std::map<Path, std::pair<Clock::time_point, Result<void>>> known_;  // until when; at most `most`
};

/// Copies count, and know, together. One thread's, with its copies.
class Resolver {
 public:
  static constexpr int open_max = 32;  ///< look-ups that are not over

  /// True: the path is known, and the calls that follow do not wait. Waits for at most `longest`. Errors: timed_out
  /// (nobody has answered yet), unreachable, no_space (too many look-ups), io.
  Result<void> resolve(const std::shared_ptr<NicDevice>& device, const AhAttr& path, std::chrono::milliseconds longest);

 private:
  Result<void> look_up(const std::shared_ptr<NicDevice>& device, const AhAttr& path, std::chrono::milliseconds longest);
  std::shared_ptr<std::atomic<int>> open_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<KnownPaths> known_ = std::make_shared<KnownPaths>();
};

/// Why a path is not known: the peer's GID leads nowhere (invalid_peer_data), or this side's system or device fails.
neg::Problem problem_of_path(const std::error_code& why);

}  // namespace parley::verbs
