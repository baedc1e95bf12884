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
/// The parameters agreed or offered, on any transport. `ird` and `ord` of this side are used where the transport's
/// parameters have none.
Json parameters_json(const cm::TransportParameters& parameters, mpa::Role role, cm::Id id, std::uint16_t ird,
                     std::uint16_t ord);
Json failure_json(const cm::Failure& failure, const std::string& peer);
Json terminate_json(const parley::iwarp::TerminateInfo& terminate);

std::string private_data_text(ConstBytes octets);
/// "revision 2, CRC on, markers none, RTR read, IRD 32, ORD 32 (negotiated)"
std::string parameters_text(const mpa::Parameters& parameters, mpa::Role role);
/// The agreed parameters of a transport without MPA: "parley0, QP 17 to 18, ...".
std::string agreed_text(const cm::Established& established);

/// The exit code for a failure: environment if the system or the network prevents the connection, failed if the peer
/// refused it.
Exit exit_for(const cm::Failure& failure);
/// False while the connection closes: the QP accepts no more work, which is not an error.
inline bool accepts_work(const QueuePair& qp) { return qp.state() == QpState::init || qp.state() == QpState::rts; }
/// Why a connection ended unexpectedly, with the Terminate if there was one.
std::string end_text(const cm::Disconnected& end, const std::string& peer);
/// Why listening failed or ended.
std::string listen_failure_text(const cm::Failure& why, const Address& local);
/// The message of an error.
std::string message_of(const std::error_code& error);
std::string message_of(const Error& error);

/// Peers that were turned away before their connection had a number: "no room: 976 half-open connections gave way,
/// ...".
std::string turned_away_text(const cm::TurnedAway& event);

/// Accumulates these events, so that a flood of peers does not cause a flood of lines.
class TurnedAwayNews {
 public:
  static constexpr Duration interval = std::chrono::seconds(1);
  void add(const cm::TurnedAway& event);
  /// The accumulated events: at once if none were returned within the last `interval`, otherwise once per `interval`.
  std::optional<cm::TurnedAway> poll(Instant now);
  /// The remaining events, at any time.
  std::optional<cm::TurnedAway> finish() { return std::exchange(news_, std::nullopt); }
  /// When poll() will return something.
  Instant next() const { return news_ ? not_before_ : never; }

 private:
  std::optional<cm::TurnedAway> news_;
  Instant not_before_{};
};

/// Counts of the connections of one command.
struct Tally {
  std::uint64_t started = 0;  ///< connect() called, or ConnectRequest received
  std::uint64_t established = 0;
  std::uint64_t rejected = 0;
  std::uint64_t failed = 0;   ///< set-up failed
  std::uint64_t retried = 0;  ///< retried by other means
  std::uint64_t disconnected = 0;
  std::uint64_t broken = 0;  ///< of the disconnected ones: not gracefully
  // For listeners: peers that had not sent a Request yet.
  std::uint64_t gave_way = 0;  ///< half-open and reset to make room
  std::uint64_t refused = 0;   ///< reset at once, because no connection could be evicted
};

/// Prints each event once and counts it.
class Reporter {
 public:
  explicit Reporter(Output& out, bool quiet = false) : out_(out), quiet_(quiet) {}

  /// Registers an initiator's connection: no later event carries its peer.
  void started(cm::Id id, const Address& peer);
  void event(const cm::Event& event);
  const Tally& tally() const { return tally_; }
  Json tally_json() const;
  std::string peer(cm::Id id) const;
  /// Call this when no more events will arrive for `id`.
  void forget(cm::Id id) { known_.erase(id.number()); }
  /// The connection's number in this command's output.
  std::uint64_t number(cm::Id id) const { return known(id).number; }
  /// False: no text for failed set-ups, because the command ends with that error on standard error.
  void report_failures(bool tell) { report_failures_ = tell; }

 private:
  struct ReportedConnection {
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
  void on(const cm::Resolved&) {}      // doctor handles it itself
  void on(const cm::TimewaitExit&) {}  // connect --time-wait handles it itself
  ReportedConnection known(cm::Id id) const;

  Output& out_;
  bool quiet_;
  bool report_failures_ = true;
  Tally tally_;
  std::map<std::uint64_t, ReportedConnection> known_;  ///< live connections only
};

}  // namespace parley::tools
