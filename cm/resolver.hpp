// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The policy of path searches, independent of how they are done: how many are in progress at once, which ids wait for the same
// answer, and which answers are known without a search. No protocol, no system, no clock.
#pragma once
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <variant>

#include "cm/endpoint_table.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// A path that was found.
struct FoundPath {
  /// Null, or without a reason: it is only known that the peer exists.
  Device* device = nullptr;
  Address local{};
  TransportParameters parameters{};
  std::string reason{};
};

/// Why no path was found.
struct NotFound {
  Step step{};
  std::error_code code{};
  std::string advice{};
  /// The same failure for another id that asked for this path, `age` after it was found.
  Failure of(const Address& peer, Duration age) const;
};

class Resolver {
 public:
  explicit Resolver(const ResolvePolicy& policy) : policy_(policy) {}

  /// A path connects two addresses; ports do not matter.
  struct Key {
    Key(const Address& to, const std::optional<Address>& from);
    Address peer;
    std::optional<Address> local;
    auto operator<=>(const Key&) const = default;
  };
  /// A search may start; or is not needed, because its failure is known since `at`.
  struct NextSearch {
    EndpointId id = 0;
    std::optional<NotFound> failed{};
    Instant at{};
  };

  /// An id needs a path; next() returns it when it is its turn. `anew`: a later attempt, which does not accept known answers.
  void ask(EndpointId id, const Key& key, bool anew, Instant now);
  /// The next id. Its search is in progress from now on, unless it fails because of a known answer.
  std::optional<NextSearch> next(Instant now);
  bool has_turn() const { return !answered_.empty() || (!queue_.empty() && under_way_ < policy_.searches_max); }
  /// A path that was found recently enough to be used without a search. Null: none. Valid until the next call.
  const FoundPath* known(const Key& key, Instant now) const;
  /// When that path was found.
  Instant known_since(const Key& key) const;

  /// The search of an id ended; ids that wait for the same answer continue.
  void found(EndpointId id, FoundPath way, Instant now);
  void not_found(EndpointId id, const Failure& why, Instant now);
  /// The id no longer needs an answer, or gave up its search; its slot is free. Needs no memory.
  void leave(EndpointId id) noexcept;

  /// Known answers for the address, or for paths through the device, may be out of date.
  void forget(const Address& peer);
  void forget(const Device& device);

  std::uint32_t under_way() const { return under_way_; }
  std::size_t waiting() const { return queries_.size() - under_way_; }
  std::size_t known_count() const { return known_; }

 private:
  using Ids = std::list<EndpointId>;
  struct Peer {
    std::variant<std::monostate, FoundPath, NotFound> known;
    Instant since{}, until{};
    std::size_t askers = 0;  // number in queries_
    std::uint32_t under_way = 0;
    Ids followers;  // wait for the answer of the search in progress
  };
  enum class Where : std::uint8_t { queue, follows, answered, under_way };
  struct PendingQuery {
    std::map<Key, Peer>::iterator peer;
    bool anew = false;
    bool alone = false;  // waits for no other id's answer any more: the peer exists
    Where where = Where::queue;
    Ids::iterator place{};  // in queue_, or among the followers
  };
  using Peers = std::map<Key, Peer>;

  static bool fresh(const Peer& peer, Instant now) { return now < peer.until; }
  const NotFound* known_failure(const PendingQuery& query, Instant now) const;
  Peers::iterator remove_query(std::map<EndpointId, PendingQuery>::iterator query) noexcept;
  void keep(Peer& peer, std::variant<std::monostate, FoundPath, NotFound> what, Duration how_long, Instant now);
  void drop(Peer& peer) noexcept;
  void tidy(Peers::iterator peer) noexcept;
  template <class Of>
  void forget_if(Of of);

  ResolvePolicy policy_;
  Peers peers_;                                 // with ids that ask: at most one per id; only known: at most known_max
  std::map<EndpointId, PendingQuery> queries_;  // one entry per id
  Ids queue_;                                   // ids in queries_
  std::deque<NextSearch> answered_;             // ids in queries_
  std::size_t known_ = 0;                       // number in peers_ with a known answer
  std::uint32_t under_way_ = 0;                 // at most searches_max
};

}  // namespace parley::cm
