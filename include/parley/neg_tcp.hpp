// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations on plain TCP sockets: listens for peers, dials others, retries and uses backup addresses, and reports how
// each negotiation ended. Single-threaded. The caller's loop drives it, or waits for it together with other descriptors,
// as for TcpHost (docs/event-loop.md). For streams of another kind, use neg::Session.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "parley/cm.hpp"
#include "parley/neg_session.hpp"
#include "parley/tcp_host.hpp"

namespace parley::neg {

/// A variant that a listener offers.
struct Offer {
  std::string plugin, variant;
  Config config{};
};

struct Dial {
  Request request{};
  Config config{};
  Address server{};
  std::vector<Address> backups{};  ///< at most cm::backups_max
  cm::Retry retry{};
  SessionOptions session{};
  Duration connect_timeout = std::chrono::seconds(10);  ///< per address; 0: the system's
};

struct PeersOptions {
  SessionOptions session{};                   ///< for sessions that peers start
  std::uint32_t sessions_max = 1024;          ///< sessions started by peers at once; at least 2
  std::uint64_t seed = 0;                     ///< for the random part of waits; TcpPeers, 0: drawn from the system
  Duration linger = std::chrono::seconds(1);  ///< for the last octets of a session that is over, and the peer's FIN
  /// Receives a trace of the sessions of both sides (parley/trace.hpp), each with its own number. Not owned; must outlive
  /// this object. Null: no trace.
  trace::Sink* trace = nullptr;
};

using DialId = std::uint64_t;
/// `local` has the actual port, also if the system chose it.
struct Listening {
  Address local;
};
struct ListenFailed {
  Address local;
  Failure why;
};
/// An attempt failed, and another one follows.
struct Retrying {
  DialId dial = 0;
  Failure why;
  Address failed, next;
  Duration wait{};
};
struct Ended {
  DialId dial = 0;  ///< 0: the peer started it
  Address local, peer;
  Request request;
  std::optional<Failure> failure;  ///< none: all stages were completed
  std::uint32_t attempts = 1;
  Duration took{};                   ///< since dial(), or since the peer connected
  std::deque<Exchange> history;      ///< of the last attempt
  std::vector<QpPair> agreed;        ///< the negotiated queue pairs; empty if it failed
  std::unique_ptr<Variant> variant;  ///< null if none was created
};
using Event = std::variant<Listening, ListenFailed, Retrying, Ended>;

class TcpPeers {
 public:
  /// `framework` is not owned and must outlive this object. Errors: no_space (no descriptors).
  static Result<std::unique_ptr<TcpPeers>> open(const Framework& framework, const PeersOptions& options = {});
  /// Resets all sessions that are not over.
  virtual ~TcpPeers() = default;

  /// Completes with Listening or ListenFailed. One address at a time. Without offers: every variant that is not raw, with
  /// default parameters. Errors: those of Framework::find(); configuration_error (a second listener; a raw variant together
  /// with others, because a peer cannot name one).
  virtual Outcome<void> listen(const Address& local, std::vector<Offer> offers = {}) = 0;
  virtual void stop_listening() = 0;
  /// Completes with exactly one Ended. Errors: those of Framework::make(); configuration_error (address, backups, retry,
  /// time limits).
  virtual Outcome<DialId> dial(Dial dial) = 0;
  virtual std::optional<Event> poll_event() = 0;
  /// Number of sessions, of both sides, that are not over, and of dials that wait.
  virtual std::size_t busy() const = 0;
  /// Number of open streams: those of sessions, and those that still have octets or a FIN to exchange. A program should keep
  /// these running for PeersOptions::linger before it ends.
  virtual std::size_t streams() const = 0;

  // As in TcpHost. Time limits are only enforced in run_once().
  virtual bool run_once(Duration wait) = 0;
  virtual int fd() const = 0;
  virtual Instant next_deadline() const = 0;
  virtual void wake() noexcept = 0;
  virtual Instant now() const = 0;
  virtual void set_tap(Tap tap) = 0;
};

}  // namespace parley::neg
