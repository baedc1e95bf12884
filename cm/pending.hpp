// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The pending connections of all listeners of a Manager. cm/admission.hpp chooses whom to evict at one listener; this class adds
// the limits that all listeners share, and collects the data of TurnedAway. docs/cm.md describes the rules for users.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cm/endpoint_table.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// The limit that is reached.
enum class ReachedLimit : std::uint8_t { pending_max, endpoints_max, streams };

/// Peers that were turned away and not yet reported to the user.
struct TurnedAwayPeers {
  ReachedLimit scarce = ReachedLimit::pending_max;
  std::uint64_t gave_way = 0, refused = 0;
  Address peer{};
  std::optional<Duration> waited{};  // of that peer; none for a newcomer
  Step step{};                       // the peer's step of the set-up
  bool any() const { return gave_way + refused > 0; }
};

class Pending {
 public:
  /// The listener of connections that were adopted from another Manager. No endpoint has this id.
  static constexpr EndpointId adopted = ~EndpointId{0};

  explicit Pending(EndpointTable& ids) : ids_(ids) {}

  void open(EndpointId listener, std::uint32_t pending_max);
  void close(EndpointId listener);
  /// 0: no such listener.
  std::uint32_t limit_of(EndpointId listener) const;

  struct Answer {
    bool admitted = false;
    EndpointId evicted = 0;  ///< not 0: must be ended to make room
  };
  /// A new half-open connection at its listener.
  Answer admit(EndpointId id, const Address& peer);
  /// The ULP must decide, or the last event waits to be polled: the connection keeps its place and waits for this side.
  void our_turn(EndpointId id);
  void peers_turn(EndpointId id);
  /// Accepted, and the peer has no time limit for its first message: the connection no longer counts as pending, but is ended
  /// first when endpoints or streams run out.
  void await_first_message(EndpointId id, const Address& peer);
  void leave(EndpointId id);
  /// A limit that all listeners share is reached. Returns the half-open connection to end, at the listener with most of them. 0:
  /// none.
  EndpointId make_room();

  /// The data of the next TurnedAway of this listener. Null: no such listener.
  TurnedAwayPeers* turned(EndpointId listener);

 private:
  struct Listener {
    std::uint32_t pending_max;
    TurnedAwayPeers turned;
    Admission admission;  // at most pending_max plus the share
    explicit Listener(std::uint32_t max);
  };
  Listener* find(EndpointId listener) const;
  Listener* listener_of(EndpointId connection) const;

  EndpointTable& ids_;
  std::unordered_map<EndpointId, std::unique_ptr<Listener>> listeners_;
  std::vector<EndpointId> order_;  // in the order of listen()
  Admission silent_{EndpointTable::limit, 0};
};

}  // namespace parley::cm
