// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connection events for people and for programs: one text block or one JSON object per event (schema: docs/cli.md).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "parley/cm.hpp"
#include "tools/output.hpp"

namespace parley::tools {

Json parameters_json(const mpa::Parameters& parameters, mpa::Role role);
/// What was agreed, or offered, on any transport. `depths`: of this side, where the transport's own do not say.
Json parameters_json(const cm::TransportParameters& parameters, mpa::Role role, cm::Id id, std::uint16_t ird,
                     std::uint16_t ord);
Json failure_json(const cm::Failure& failure, const std::string& peer);
Json terminate_json(const parley::iwarp::TerminateInfo& terminate);

std::string private_data_text(ConstBytes octets);
/// "revision 2, CRC on, markers none, RTR read, IRD 32, ORD 32 (negotiated)"
std::string parameters_text(const mpa::Parameters& parameters, mpa::Role role);
/// What a transport without MPA has agreed on: "parley0, QP 17 to 18, ...".
std::string agreed_text(const cm::Established& established);

/// The exit code that a failure means: the system or the network is in the way, or the peer said no.
Exit exit_for(const cm::Failure& failure);
/// False: the connection closes and takes no more work, which is no fault.
inline bool accepts_work(const QueuePair& qp) { return qp.state() == QpState::init || qp.state() == QpState::rts; }
/// How a connection ended against our will, with the Terminate if there was one.
std::string end_text(const cm::Disconnected& end, const std::string& peer);
/// Why there is no listener, or no more.
std::string listen_failure_text(const cm::Failure& why, const Address& local);
/// An error of a call, in words.
std::string words(const std::error_code& error);
std::string words(const Error& error);

/// Peers that were turned away before they had a number: "976 half-open connections gave way, ...".
std::string turned_away_text(const cm::TurnedAway& event);

/// Sums up such news, so that a flood of peers is no flood of lines.
class TurnedAwayNews {
 public:
  static constexpr Duration interval = std::chrono::seconds(1);
  void add(const cm::TurnedAway& event);
  /// What has come together: at once when nothing was told for an interval, and then once in each.
  std::optional<cm::TurnedAway> poll(Instant now);
  /// The rest, whatever the time.
  std::optional<cm::TurnedAway> finish() { return std::exchange(news_, std::nullopt); }
  /// When poll() will have something.
  Instant next() const { return news_ ? not_before_ : never; }

 private:
  std::optional<cm::TurnedAway> news_;
  Instant not_before_{};
};

/// What became of the connections of one command.
struct Tally {
  std::uint64_t started = 0;  ///< connect() called, or ConnectRequest received
  std::uint64_t established = 0;
  std::uint64_t rejected = 0;
  std::uint64_t failed = 0;   ///< set-up failed
  std::uint64_t retried = 0;  ///< went on by other means
  std::uint64_t disconnected = 0;
  std::uint64_t broken = 0;  ///< of these: not graceful
  // Listeners, of peers that sent no Request yet:
  std::uint64_t gave_way = 0;  ///< half-open, and reset to make room
  std::uint64_t refused = 0;   ///< reset at once, because no connection could be evicted
};

/// Prints each event once and counts it.
class Reporter {
 public:
  explicit Reporter(Output& out, bool quiet = false) : out_(out), quiet_(quiet) {}

  /// Names an initiator's connection, whose peer no later event carries.
  void started(cm::Id id, const Address& peer);
  void event(const cm::Event& event);
  const Tally& tally() const { return tally_; }
  Json tally_json() const;
  std::string peer(cm::Id id) const;
  /// No more events will come for it.
  void forget(cm::Id id) { known_.erase(id.number()); }
  /// The connection's number in this command's output.
  std::uint64_t number(cm::Id id) const { return known(id).number; }
  /// False: failed set-ups are not told in text, because the command ends with them on standard error.
  void tell_failures(bool tell) { tell_failures_ = tell; }

 private:
  struct Known {
    std::uint64_t number = 0;  ///< 1 for the command's first connection, and so on
    std::string peer;
    mpa::Role role = mpa::Role::initiator;
  };
  void emit(const std::string& text, const Json& object, bool tell = true);
  void learn(cm::Id id, const Address& peer, mpa::Role role);
  void on(const cm::Listening& e);
  void on(const cm::ConnectRequest& e);
  void on(const cm::Established& e);
  void on(const cm::Rejected& e);
  void on(const cm::ConnectFailed& e);
  void on(const cm::Retrying& e);
  void on(const cm::Disconnected& e);
  void on(const cm::TurnedAway& e);
  void on(const cm::AddressChanged& e);
  void on(const cm::DeviceRemoved& e);
  void on(const cm::UserEvent&) {}     // no command posts any
  void on(const cm::Resolved&) {}      // doctor looks at it itself
  void on(const cm::TimewaitExit&) {}  // connect --time-wait, likewise
  Known known(cm::Id id) const;

  Output& out_;
  bool quiet_;
  bool tell_failures_ = true;
  Tally tally_;
  std::map<std::uint64_t, Known> known_;  ///< live connections only
};

}  // namespace parley::tools
