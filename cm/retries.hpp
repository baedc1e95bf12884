// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When and where to retry a failed set-up: at the backup addresses in turn without a wait, then at all addresses again after a
// wait. The wait doubles each time and is randomized, so that the peers of one listener do not return at the same time. Also
// ConnectOptions::timeout, the limit for the whole set-up.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "cm/endpoint_table.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// Whether the same attempt may succeed later.
bool may_pass(const Failure& why);

class Retries {
 public:
  struct NextAttempt {
    Address peer;
    Duration wait{};  ///< random, between half of the back-off and all of it
  };

  explicit Retries(std::uint64_t seed) : rng_(seed) {}

  /// Errors: invalid_argument, bad_address; with the option's name.
  static Result<void> check(const ConnectOptions& options);
  /// Stores nothing if there is a single attempt without a time limit.
  void plan(EndpointId id, const Address& peer, const ConnectOptions& options);
  /// The first attempt starts; the time limit for all attempts runs from now.
  void begin(EndpointId id, Instant now);
  /// The next attempt after the failure `why`; none: the failure is final.
  std::optional<NextAttempt> next(EndpointId id, const Failure& why, Instant now);
  /// Attempts of that plan, including those that next() returned.
  std::uint32_t attempts(EndpointId id) const;
  bool has_plan(EndpointId id) const { return plans_.contains(id); }
  /// The set-up is over.
  void forget(EndpointId id);
  std::size_t size() const { return plans_.size(); }

  Instant next_deadline() const { return ends_.empty() ? never : ends_.begin()->first; }
  /// An id whose time limit has passed: nothing more is tried.
  std::optional<EndpointId> pop_late(Instant now);
  /// The id's ConnectOptions::timeout; zero: none.
  Duration timeout(EndpointId id) const;
  /// That time limit has passed.
  bool is_late(EndpointId id, Instant now) const;

 private:
  struct Plan {
    std::vector<Address> peers;
    std::size_t at = 0;       // index in peers
    std::uint32_t round = 1;  // of retry.rounds
    Retry retry;
    Duration back_off{};
    std::uint32_t attempts = 1;
    Duration timeout{};  // 0: none
    Instant end = never;
  };
  Duration spread(Duration back_off);
  std::map<EndpointId, Plan> plans_;               // at most one per id
  std::set<std::pair<Instant, EndpointId>> ends_;  // at most one per plan
  Rng rng_;
};

}  // namespace parley::cm
