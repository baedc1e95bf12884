// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The pending connections of all listeners of a Manager. cm/admission.hpp chooses who is evicted at one listener; this
// adds the limits that all listeners share, and collects what TurnedAway reports. docs/cm.md has the rules as a user
// sees them.
#pragma once
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "cm/endpoint_table.hpp"
#include "parley/cm.hpp"

namespace parley::cm {

/// What ran out.
enum class Scarce : std::uint8_t { pending_max, endpoints_max, streams };

/// Peers that were turned away and not yet reported to the user.
struct Turned {
  Scarce scarce = Scarce::pending_max;
  std::uint64_t gave_way = 0, refused = 0;
  Address peer{};
  std::optional<Duration> waited{};  // that peer; none for a newcomer
  Step step{};                       // of the set-up in which it was
  bool any() const { return gave_way + refused > 0; }
};

class Pending {
 public:
  /// Stands for the listener of those that another Manager gave. No endpoint has this id.
  static constexpr EndpointId adopted = ~EndpointId{0};

  explicit Pending(EndpointTable& ids) : ids_(ids) {}

  void open(EndpointId listener, std::uint32_t pending_max);
  void close(EndpointId listener);
  /// 0: there is no such listener.
  std::uint32_t limit_of(EndpointId listener) const;

  struct Answer {
    bool admitted = false;
    EndpointId evicted = 0;  ///< not 0: must be ended to make room
  };
  /// A new half-open connection at its listener.
  Answer admit(EndpointId id, const Address& peer);
  /// The ULP has to decide, or the end waits to be polled: it still takes room, but there is nothing its peer can do.
  void our_turn(EndpointId id);
  void peers_turn(EndpointId id);
  /// Accepted, and nothing obliges the peer to send first within any time: it no longer counts as pending, but goes
  /// first when endpoints or streams run out.
  void await_first_message(EndpointId id, const Address& peer);
  void leave(EndpointId id);
  /// Something that all listeners share ran out: the half-open connection to end, at the listener with most of them.
  /// 0: there is none.
  EndpointId make_room();

  /// What TurnedAway will report of this listener. Null: there is no such listener.
  Turned* turned(EndpointId listener);

 private:
  struct Listener {
    std::uint32_t pending_max;
    Turned turned;
    Admission admission;  // at most pending_max and the share
    explicit Listener(std::uint32_t max);
  };
  Listener* find(EndpointId listener) const;
  Listener* listener_of(EndpointId connection) const;

  EndpointTable& ids_;
  std::unordered_map<EndpointId, std::unique_ptr<Listener>> listeners_;
  std::vector<EndpointId> order_;  // of listen()
  Admission silent_{EndpointTable::limit, 0};
};

}  // namespace parley::cm
