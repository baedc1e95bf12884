// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The policy of searches for the way to a peer, whoever carries them out: how many are under way at once, who waits for whom,
// and what is known without a search. No protocol, no system, no clock.
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

/// A way as it was found.
struct Found {
  /// Null, or without a reason: that somebody is there is all that is known.
  Device* device = nullptr;
  Address local{};
  TransportParameters parameters{};
  std::string reason{};
};

/// Why there was none.
struct NotFound {
  Step step{};
  std::error_code code{};
  std::string advice{};
  /// The same of another that asked for the way: what was found out `age` ago.
  Failure of(const Address& peer, Duration age) const;
};

class Resolver {
 public:
  explicit Resolver(const ResolvePolicy& policy) : policy_(policy) {}

  /// A way leads to an address, from an address; ports do not matter.
  struct Key {
    Key(const Address& to, const std::optional<Address>& from);
    Address peer;
    std::optional<Address> local;
    auto operator<=>(const Key&) const = default;
  };
  /// A search may begin, or need not: its answer is known since `at`.
  struct Turn {
    EndpointId id = 0;
    std::optional<NotFound> failed{};
    Instant at{};
  };

  /// An id wants to search; next() names it in its turn. `anew`: of a later attempt, which takes no older answer for an answer.
  void ask(EndpointId id, const Key& key, bool anew, Instant now);
  /// Who is due: its search is under way from here on, unless it has failed by what is known.
  std::optional<Turn> next(Instant now);
  bool has_turn() const { return !answered_.empty() || (!queue_.empty() && under_way_ < policy_.searches_max); }
  /// A way that was found so short a time ago that it is not searched anew. Null: there is none. Valid until the next call.
  const Found* known(const Key& key, Instant now) const;
  /// When that was.
  Instant known_since(const Key& key) const;

  /// How the search of an id under way ended; who waited for this one answer goes on.
  void found(EndpointId id, Found way, Instant now);
  void not_found(EndpointId id, const Failure& why, Instant now);
  /// The id wants nothing any more, or gave its search up; its place is free.
  /// Needs no memory.
  void leave(EndpointId id) noexcept;

  /// What is known of the address, or of ways through the device, may no longer hold.
  void forget(const Address& peer);
  void forget(const Device& device);

  std::uint32_t under_way() const { return under_way_; }
  std::size_t waiting() const { return asked_.size() - under_way_; }
  std::size_t known_count() const { return known_; }

 private:
  using Ids = std::list<EndpointId>;
  struct Peer {
    std::variant<std::monostate, Found, NotFound> known;
    Instant since{}, until{};
    std::size_t askers = 0;  // of asked_
    std::uint32_t under_way = 0;
    Ids followers;  // wait for the answer of the one that is under way
  };
  enum class Where : std::uint8_t { queue, follows, answered, under_way };
  struct Asked {
    std::map<Key, Peer>::iterator peer;
    bool anew = false;
    bool alone = false;  // waits for nobody's answer any more: somebody was there
    Where where = Where::queue;
    Ids::iterator place{};  // in queue_, or among the followers
  };
  using Peers = std::map<Key, Peer>;

  static bool fresh(const Peer& peer, Instant now) { return now < peer.until; }
  const NotFound* known_failure(const Asked& asked, Instant now) const;
  Peers::iterator take_out(std::map<EndpointId, Asked>::iterator asked) noexcept;
  void keep(Peer& peer, std::variant<std::monostate, Found, NotFound> what, Duration how_long, Instant now);
  void drop(Peer& peer) noexcept;
  void tidy(Peers::iterator peer) noexcept;
  template <class Of>
  void forget_if(Of of);

  ResolvePolicy policy_;
  Peers peers_;                        // with someone who asks: at most one per id; known besides: known_max
  std::map<EndpointId, Asked> asked_;  // each id once
  Ids queue_;                          // of asked_
  std::deque<Turn> answered_;          // of asked_
  std::size_t known_ = 0;              // of peers_
  std::uint32_t under_way_ = 0;        // at most searches_max
};

}  // namespace parley::cm
