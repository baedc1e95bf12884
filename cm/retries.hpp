// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// When and where a failed set-up is tried again: the backup addresses in turn and at once, then all of them again after
// a wait that doubles and is spread at random, so that many peers of one listener do not come back at the same time. And
// when the time for all of it is over.
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
  struct Again {
    Address peer;
    Duration wait{};  ///< half of the back-off up to all of it
  };

  explicit Retries(std::uint64_t seed) : rng_(seed) {}

  /// Errors: invalid_argument, bad_address; with the option's name.
  static Result<void> check(const ConnectOptions& options);
  /// Remembers nothing if there is one attempt only, and any time for it.
  void plan(EndpointId id, const Address& peer, const ConnectOptions& options);
  /// The first attempt begins; the time for all of them runs from now.
  void begin(EndpointId id, Instant now);
  /// What to try after `why`; none: it is final.
  std::optional<Again> next(EndpointId id, const Failure& why, Instant now);
  /// Of that plan, those that next() named included.
  std::uint32_t attempts(EndpointId id) const;
  bool has_plan(EndpointId id) const { return plans_.contains(id); }
  /// When the set-up is over.
  void forget(EndpointId id);
  std::size_t size() const { return plans_.size(); }

  Instant next_deadline() const { return ends_.empty() ? never : ends_.begin()->first; }
  /// One whose time is over: nothing more is tried after it.
  std::optional<EndpointId> pop_late(Instant now);
  /// ConnectOptions::timeout of it; zero: none.
  Duration timeout(EndpointId id) const;
  /// That time is over.
  bool is_late(EndpointId id, Instant now) const;

 private:
  struct Plan {
    std::vector<Address> peers;
    std::size_t at = 0;       // of peers
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
