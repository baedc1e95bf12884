// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exchange of perftest with -R: its messages go over a connection that a connection manager has set up, and a second
// connection is the queue pair of the test. Over every provider whose peers know that: rdmacm, roce. docs/negotiation.md
// has what is exchanged.
#pragma once
#include <memory>
#include <optional>

#include "parley/cm.hpp"
#include "parley/neg_tcp.hpp"

namespace parley::neg {

struct CmNegotiationOptions {
  Role role = Role::initiator;
  Address address{};  ///< the server's; responder: where it listens
  Config config{};    ///< of the variant perftest; "length" and the like are its own business
  SessionOptions session{};
  Duration connect_timeout = std::chrono::seconds(10);  ///< for each of the two connections; not 0
};

/// The initiator's one negotiation, or those of a listener, one after the other. One thread's. The caller's loop gives it the
/// manager's events and a turn behind each of the host's:
///
///   host->run_once(wait); while (auto event = host->cm().poll_event()) over->handle(host->now(), *event); over->turn(host->now());
class CmNegotiation {
 public:
  /// `manager` stays the caller's and outlives this. Errors: configuration_error; those of the manager.
  static Outcome<std::unique_ptr<CmNegotiation>> open(cm::Manager& manager, const CmNegotiationOptions& options,
                                                      Instant now);
  /// Connections that stand are reset.
  virtual ~CmNegotiation() = default;
  virtual void handle(Instant now, cm::Event& event) = 0;
  virtual void turn(Instant now) = 0;
  /// turn() is due then, whatever happens.
  virtual Instant next_deadline() const = 0;
  /// Listening, ListenFailed or Ended (whose `variant` is null).
  virtual std::optional<Event> poll_event() = 0;
  /// A negotiation is not over, or its connections are not gone.
  virtual bool busy() const = 0;
};

}  // namespace parley::neg
