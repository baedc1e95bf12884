// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The service IDs of a port that several processes share: requests for one can be delivered to one process only.
#pragma once
#include <cerrno>
#include <cstdint>
#include <vector>

namespace parley::preload::ucma {

class Services {
 public:
  virtual ~Services() = default;
  static constexpr int undecided = EINPROGRESS;

  /// Has requests for the service at these GIDs delivered to this process. Returns 0 or an errno: EADDRINUSE (another
  /// process has it at one of them), ENOMEM; or `undecided`: call it again, in the same thread, when that is known. A
  /// service may be claimed several times.
  virtual int claim(std::uint64_t service, const std::vector<std::uint8_t>& gids) = 0;
  /// Ends one claim with the same arguments.
  virtual void release(std::uint64_t service, const std::vector<std::uint8_t>& gids) noexcept = 0;
};

}  // namespace parley::preload::ucma
