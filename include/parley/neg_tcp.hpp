// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Negotiations on plain TCP sockets: listens for peers, dials others, tries again and elsewhere, and tells how each one
// ended. Single-threaded; the caller's loop drives it, or waits for it together with things of its own, as TcpHost
// (docs/event-loop.md). Whoever has streams of another kind uses neg::Session.
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

/// One of the variants that a listener has.
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
  Duration connect_timeout = std::chrono::seconds(10);  ///< for each address; 0: the system's
};

struct PeersOptions {
  SessionOptions session{};                   ///< of the sessions that others begin
  std::uint32_t sessions_max = 1024;          ///< that others have begun and that are not over; at least 2
  std::uint64_t seed = 0;                     ///< of the random part of waits; TcpPeers, 0: drawn from the system
  Duration linger = std::chrono::seconds(1);  ///< for the last octets of a session that is over, and the peer's FIN
  /// Gets what the sessions of either side do, step by step (parley/trace.hpp), each under a number of its own; not
  /// owned, and must outlive this. Null: nothing is recorded.
  trace::Sink* trace = nullptr;
};

using DialId = std::uint64_t;
/// `local` has the port that the system chose, if it was to.
struct Listening {
  Address local;
};
struct ListenFailed {
  Address local;
  Failure why;
};
/// Another attempt follows.
struct Retrying {
  DialId dial = 0;
  Failure why;
  Address failed, next;
  Duration wait{};
};
struct Ended {
  DialId dial = 0;  ///< 0: the peer had begun it
  Address local, peer;
  Request request;
  std::optional<Failure> failure;  ///< none: all stages are over
  std::uint32_t attempts = 1;
  Duration took{};                   ///< from dial(), or from when the peer had connected
  std::deque<Exchange> history;      ///< of the last attempt
  std::vector<QpPair> agreed;        ///< the queue pairs that the variant names; none if it failed
  std::unique_ptr<Variant> variant;  ///< null where none was made
};
using Event = std::variant<Listening, ListenFailed, Retrying, Ended>;

class TcpPeers {
 public:
  /// `framework` stays the caller's and outlives this. Errors: no_space (no descriptors).
  static Result<std::unique_ptr<TcpPeers>> open(const Framework& framework, const PeersOptions& options = {});
  /// Sessions that are not over are reset.
  virtual ~TcpPeers() = default;

  /// Answered by Listening or ListenFailed. One address at a time. No offer: every variant that is not raw, as it is
  /// without configuration. Errors: those of Framework::find(); configuration_error (a second listener; a raw variant
  /// beside others: nothing tells which of them a peer means).
  virtual Outcome<void> listen(const Address& local, std::vector<Offer> offers = {}) = 0;
  virtual void stop_listening() = 0;
  /// Answered by exactly one Ended. Errors: those of Framework::make(); configuration_error (address, backups, retry, time
  /// limits).
  virtual Outcome<DialId> dial(Dial dial) = 0;
  virtual std::optional<Event> poll_event() = 0;
  /// Sessions of either side that are not over, and dials that wait.
  virtual std::size_t busy() const = 0;
  /// Streams that there are: those of sessions, and those that still owe their peer something. A program that ends gives
  /// them PeersOptions::linger.
  virtual std::size_t streams() const = 0;

  // As TcpHost's; no time limit is kept while nobody calls run_once().
  virtual bool run_once(Duration wait) = 0;
  virtual int fd() const = 0;
  virtual Instant next_deadline() const = 0;
  virtual void wake() noexcept = 0;
  virtual Instant now() const = 0;
  virtual void set_tap(Tap tap) = 0;
};

}  // namespace parley::neg
