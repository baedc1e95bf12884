// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether a host answers for a GID. The kernel resolves its Ethernet address within the calls that need it, and waits
// one second if there is no answer; the GID comes from an untrusted peer. A thread therefore makes that call first,
// with its own objects.
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

/// Recent results: the queue pairs of one peer usually have the same GID, and an unreachable one should not be waited
/// for again and again.
class KnownPaths {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kept{1};
  static constexpr std::size_t most = 256;
  /// Device, port, index of this side's GID; the peer's GID.
  using Path = std::tuple<std::string, std::uint32_t, std::uint8_t, std::array<std::uint8_t, 16>>;

  /// None: it must be resolved.
  std::optional<Result<void>> find(const Path& path, Clock::time_point now) const;
  /// Stores that it is reachable, or unreachable. Local failures are not stored, because they may pass soon.
  void keep(const Path& path, const Result<void>& found, Clock::time_point now);

 private:
  std::map<Path, std::pair<Clock::time_point, Result<void>>> known_;  // valid until; at most `most`
};

/// Copies share counts and results. All copies belong to one thread.
class Resolver {
 public:
  static constexpr int open_max = 32;  ///< look-ups in progress

  /// True: the path is resolved, and the following calls do not wait. Waits for at most `longest`. Errors: timed_out
  /// (no answer yet), unreachable, no_space (too many look-ups), io.
  Result<void> resolve(const std::shared_ptr<NicDevice>& device, const AhAttr& path, std::chrono::milliseconds longest);

 private:
  Result<void> look_up(const std::shared_ptr<NicDevice>& device, const AhAttr& path, std::chrono::milliseconds longest);
  std::shared_ptr<std::atomic<int>> open_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<KnownPaths> known_ = std::make_shared<KnownPaths>();
};

/// Why a path is not resolved: the peer's GID is unreachable (invalid_peer_data), or this side's system or device
/// fails.
neg::Problem problem_of_path(const std::error_code& why);

}  // namespace parley::verbs
