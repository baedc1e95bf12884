// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Implementation of neg::CmNegotiation: the connection for messages, and the connection that is the test's queue pair.
//
// initiator | responder        | input                            | what happens
// ----------+------------------+----------------------------------+----------------------------------------------------
// idle      |                  | open()                           | resolve the path to the server
// finding   |                  | Resolved                         | request the first connection
// calling   | idle             | Established; ConnectRequest      | post receives; accept
// talking   | talking          | Established                      | the session begins
//           |                  | the stage info is over           | the initiator requests the second connection, which the
//           |                  |                                  | responder accepts from the same address
//           |                  | the session is over              | Ended; both connections are disconnected
// leaving   | leaving          | Disconnected of both, or a limit | everything is released; a responder is idle again
#pragma once
#include <deque>

#include "cm/neg/cm_messages.hpp"
#include "parley/neg_cm.hpp"
#include "parley/neg_qp.hpp"

namespace parley::neg {

/// The second connection, between its queue pair's driver and the manager's events.
struct TestLink {
  cm::Manager& manager;
  Role role;
  Address peer;
  Duration timeout;
  Instant now{};
  Config config{};
  cm::Id id{};
  bool wanted = false;  // the session needs it now
  bool up = false;
  std::optional<Failure> failure{};
  std::unique_ptr<QpDriver> qp{};
  QpAttributes own{};
  Address local{};

  /// Called by the driver. Does the first steps if they have not been done.
  Outcome<std::optional<QpConnected>> connect();
  /// Creates the queue pair, and requests or accepts the connection.
  void make();
  void established();
  void fail(const cm::Failure& why);
};

class CmNegotiationImpl final : public CmNegotiation {
 public:
  CmNegotiationImpl(cm::Manager& manager, const CmNegotiationOptions& options);
  ~CmNegotiationImpl() override;
  Outcome<void> start(Instant now);

  void handle(Instant now, cm::Event& event) override;
  void turn(Instant now) override;
  Instant next_deadline() const override;
  std::optional<Event> poll_event() override;
  bool busy() const override { return phase_ != Phase::idle; }

 private:
  enum class Phase : std::uint8_t { idle, finding, calling, talking, leaving };
  Outcome<std::unique_ptr<Variant>> make_variant();
  void on(Instant now, cm::ConnectRequest& request);
  void open_control(Instant now, cm::Id id, Device& device);
  void on_established(Instant now, const cm::Established& up);
  void on_failed(Instant now, cm::Id id, const cm::Failure& why);
  void on_disconnected(Instant now, const cm::Disconnected& down);
  void begin_session(Instant now);
  void move(Instant now);
  void end(Instant now, std::optional<Failure> failure);
  void drop();

  cm::Manager& manager_;
  CmNegotiationOptions options_;
  Framework framework_;
  std::shared_ptr<TestLink> link_;  // of the current negotiation
  cm::Id listener_, control_;
  Phase phase_ = Phase::idle;
  bool control_up_ = false;
  Address local_, peer_;
  Instant since_{}, leave_by_ = never;
  std::unique_ptr<CmMessages> messages_;
  std::optional<Session> session_;
  std::deque<Event> events_;  // at most two per negotiation
};

}  // namespace parley::neg
