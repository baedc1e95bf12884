// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When and where a failed set-up is tried again: the backup addresses in turn and at once, then all of them again after
// a wait that doubles and is spread at random, so that many peers of one listener do not come back at the same time.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.hpp"
#include "cm/endpoint_table.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// Whether the same attempt may succeed later.
bool may_pass(const Failure& why);

class Retries {
 public:
  struct Again {
    Address peer;
    Duration wait{};  ///< half of the back-off up to all of it
  };

  explicit Retries(std::uint64_t seed) : rng_(seed) {}

  /// Errors: invalid_argument, bad_address; with the option's name.
  static Result<void> check(const ConnectOptions& options);
  /// Remembers nothing if there is one attempt only.
  void plan(EndpointId id, const Address& peer, const ConnectOptions& options);
  /// What to try after `why`; none: it is final. The plan is forgotten then.
  std::optional<Again> next(EndpointId id, const Failure& why);
  bool has_plan(EndpointId id) const { return plans_.contains(id); }
  void forget(EndpointId id) { plans_.erase(id); }
  std::size_t size() const { return plans_.size(); }

 private:
  struct Plan {
    std::vector<Address> peers;
    std::size_t at = 0;       // of peers
    std::uint32_t round = 1;  // of retry.rounds
    Retry retry;
    Duration back_off{};
  };
  std::map<EndpointId, Plan> plans_;  // at most one per id
  Rng rng_;
};

}  // namespace parley::cm
