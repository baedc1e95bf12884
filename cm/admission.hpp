// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Which connections may be pending at a listener, and which one is evicted if there is no room: the oldest half-open connection
// of the busiest address. Pure bookkeeping without a protocol; docs/cm.md explains the rules.
//
// A pending connection is half-open while it waits for its peer, and held while it waits for this side (for the user's
// decision). Only half-open connections are evicted. Addresses are counted twice: by network (an IPv4 address, or a /64 of
// IPv6, the usual allocation of one subscriber), and within a network by address.
//
// A newcomer         | room                                      | no room
// -------------------|-------------------------------------------|-------------------------------------------------
// network has none   | fewer than `max` are pending              | the oldest half-open one of the busiest address
// network has others | fewer than `max` - `share` are pending    | of the busiest network is evicted; if there is
//                    |                                           | none, the newcomer is refused
//
// The busiest is the one with the most half-open connections, including the newcomer. On a tie it is not the newcomer's, but
// the one whose oldest connection has waited longest. Each call is O(log n). Memory: at most `max` connections, and no more
// addresses than connections.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "parley/address.hpp"

namespace parley::cm {

/// Objects ranked by a count, highest first; on a tie by the smallest age. Only the call that adds an object allocates.
template <class T>
class Ranking {
 public:
  /// A count of 0 removes it.
  void set(T& thing, std::uint32_t count, std::uint64_t age) {
    const Rank to{count, age, &thing};
    typename std::set<Rank>::node_type node =
        thing.ranked.count == 0 ? std::move(spare_) : ranks_.extract(thing.ranked);
    if (count == 0) {
      spare_ = std::move(node);
    } else if (node.empty()) {
      ranks_.insert(to);
    } else {
      node.value() = to;
      ranks_.insert(std::move(node));
    }
    thing.ranked = to;
  }
  /// The first object; null: none.
  T* first() const { return ranks_.empty() ? nullptr : ranks_.begin()->thing; }

  struct Rank {
    std::uint32_t count = 0;
    std::uint64_t age = 0;  // unique
    T* thing = nullptr;
    bool operator<(const Rank& other) const { return count != other.count ? count > other.count : age < other.age; }
  };

 private:
  std::set<Rank> ranks_;
  typename std::set<Rank>::node_type spare_;  // a removed rank, reused by set()
};

class Admission {
 public:
  /// The caller's number for a connection, never 0.
  using Owner = std::uint64_t;

  /// Identifies a connection in this object. A stale or unknown ticket is ignored.
  struct Ticket {
    std::uint32_t entry = 0;
    std::uint32_t generation = 0;  // 0: none
    explicit operator bool() const { return generation != 0; }
  };

  struct Answer {
    Ticket ticket{};     ///< none: refused
    Owner gave_way = 0;  ///< not 0: this connection was evicted, and the caller must end it
  };

  /// `share` of the `max` places are reserved for networks without pending connections; less than `max`.
  Admission(std::uint32_t max, std::uint32_t share);
  Admission(Admission&&) = delete;

  /// A new half-open connection.
  Answer arrive(const Address& peer, Owner owner);
  /// The connection waits for this side.
  void hold(Ticket ticket);
  /// The connection waits for the peer from now on.
  void release(Ticket ticket);
  void leave(Ticket ticket);
  /// Room is needed for another reason: removes and returns the connection to evict. 0: none.
  Owner give_way();
  std::size_t size() const { return size_; }
  std::size_t half_open() const { return half_open_; }

 private:
  struct Network;
  static constexpr std::uint32_t nobody = 0xFFFFFFFF;
  /// An address. Its half-open connections are in a list, the longest waiting first.
  struct Source {
    Address address;
    Network* network = nullptr;
    std::uint32_t total = 0, half_open = 0;
    std::uint32_t first = nobody, last = nobody;
    Ranking<Source>::Rank ranked{};
  };
  struct Network {
    std::uint32_t total = 0, half_open = 0;
    std::map<Address, Source> sources;
    Ranking<Source> ranking;
    Ranking<Network>::Rank ranked{};
  };
  struct Entry {
    std::uint32_t generation = 0;
    bool used = false, held = false;
    std::uint32_t before = nobody, after = nobody;
    std::uint64_t since = 0;
    Owner owner = 0;
    Source* source = nullptr;
  };

  static Address network_of(const Address& peer);
  Entry* find(Ticket ticket);
  std::uint32_t add(Network& network, Source& source, Owner owner);
  void append(std::uint32_t at);
  void unlink(std::uint32_t at);
  void rank(Source& source);
  Owner remove(std::uint32_t at);
  Source* busiest(Network* newcomer_network, Source* newcomer) const;

  std::uint32_t max_, share_;
  std::size_t size_ = 0, half_open_ = 0;
  std::uint64_t clock_ = 0;  // counts additions: a smaller number means a longer wait
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  std::map<Address, Network> networks_;
  Ranking<Network> ranking_;
};

}  // namespace parley::cm
