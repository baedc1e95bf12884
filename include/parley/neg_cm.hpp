// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The exchange of perftest with -R. Its messages go over a connection of a connection manager; a second connection is the
// queue pair of the test. For every provider whose peers support that: rdmacm, roce. docs/negotiation.md describes the
// messages.
#pragma once
#include <memory>
#include <optional>

#include "parley/cm.hpp"
#include "parley/neg_tcp.hpp"

namespace parley::neg {

struct CmNegotiationOptions {
  Role role = Role::initiator;
  Address address{};  ///< the server's; responder: the address to listen on
  Config config{};    ///< of the variant perftest, which checks "length" and the like itself
  SessionOptions session{};
  Duration connect_timeout = std::chrono::seconds(10);  ///< per connection (there are two); not 0
};

/// An initiator's single negotiation, or a listener's negotiations, one after the other. Single-threaded. The caller's loop
/// passes it the manager's events, and calls turn() after each turn of the host:
///
///   host->run_once(wait); while (auto event = host->cm().poll_event()) over->handle(host->now(), *event); over->turn(host->now());
class CmNegotiation {
 public:
  /// `manager` is not owned and must outlive this object. Errors: configuration_error; those of the manager.
  static Outcome<std::unique_ptr<CmNegotiation>> open(cm::Manager& manager, const CmNegotiationOptions& options,
                                                      Instant now);
  /// Resets all open connections.
  virtual ~CmNegotiation() = default;
  virtual void handle(Instant now, cm::Event& event) = 0;
  virtual void turn(Instant now) = 0;
  /// When turn() must be called at the latest.
  virtual Instant next_deadline() const = 0;
  /// Listening, ListenFailed or Ended (with a null `variant`).
  virtual std::optional<Event> poll_event() = 0;
  /// A negotiation is not over, or its connections are not closed yet.
  virtual bool busy() const = 0;
};

}  // namespace parley::neg
