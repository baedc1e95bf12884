// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Limits how many requests of this side may be unanswered at once, in total and per peer. The others are queued: peers take turns,
// and the requests of each peer keep their order. Each call is O(log n).
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "base/gid.hpp"
#include "cm/ibcm/options.hpp"

namespace parley::cm::ibcm {

class Window {
 public:
  Window(std::uint32_t outstanding_max, std::uint32_t per_peer, std::uint32_t waiting_max)
      : outstanding_max_(outstanding_max), per_peer_(per_peer), waiting_max_(waiting_max) {}

  /// 0: starts at once. Otherwise it is queued at this place; call next() later. None: waiting_max are queued already.
  std::optional<std::uint64_t> enter(const Gid& peer, ConnectionId id);
  /// A request that had started is answered or over.
  void leave(const Gid& peer);
  /// Removes a queued request.
  void withdraw(const Gid& peer, std::uint64_t place);
  /// Starts and returns the next request.
  std::optional<ConnectionId> next();

  std::size_t outstanding() const { return outstanding_; }
  std::size_t waiting() const { return waiting_; }
  /// Those with a request.
  std::size_t peers() const { return peers_.size(); }

 private:
  struct Peer {
    std::uint32_t outstanding = 0;
    bool has_turn = false;                          // in turns_
    std::map<std::uint64_t, ConnectionId> waiting;  // by place
  };
  using At = std::map<Gid, Peer>::iterator;
  void settle(At at);

  std::uint32_t outstanding_max_, per_peer_, waiting_max_;
  std::size_t outstanding_ = 0, waiting_ = 0;
  std::uint64_t places_ = 0;
  std::map<Gid, Peer> peers_;  // those with a request, at most outstanding_max_ + waiting_max_
  std::deque<Gid> turns_;      // peers with queued requests and room for them; some may have withdrawn theirs since
};

}  // namespace parley::cm::ibcm
