// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley on plain TCP sockets: a software RNIC, its connection manager and a socket driver in one object.
// No root, no kernel module, no NIC. Single-threaded; the caller's loop drives it, or waits for it together with things
// of its own (docs/event-loop.md).
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/cm.hpp"
#include "parley/iwarp.hpp"

namespace parley {

/// What holds for all connections of a host. What each may have of its own: cm::ConnectOptions, cm::ListenOptions
/// (backlog, pending_max), mpa::Options (timeouts).
struct TcpHostOptions {
  std::string congestion;                  ///< TCP_CONGESTION of every socket; empty: the system's default
  std::size_t receive_buffer = 256 << 10;  ///< octets read at once, shared by all streams; 1 to 1 GiB, 2048 are taken
  std::size_t streams_max = 65536;         ///< TCP connections at once; at least 1
  cm::ManagerOptions manager{};            ///< ids alive at once, seed of the waits between attempts
  cm::IwarpProviderOptions iwarp{};        ///< how connections close, tagged offsets
};

/// One step of a stream as it went over the socket, for ladders and pcapng writers.
struct TapRecord {
  Instant at;
  Address local, peer;
  enum class Kind : std::uint8_t {
    connected,
    accepted,
    sent,
    received,
    fin_sent,
    fin_received,
    rst_sent,
    rst_received
  };
  Kind kind = Kind::connected;
  ConstBytes octets{};  ///< sent, received: valid during the call only
};
using Tap = std::function<void(const TapRecord&)>;

class TcpHost {
 public:
  /// Errors: invalid_argument, unsupported (congestion control unknown to the system), no_space (no descriptors).
  static Result<std::unique_ptr<TcpHost>> open(const TcpHostOptions& options = {});
  virtual ~TcpHost() = default;

  virtual cm::Manager& cm() = 0;
  virtual Device& device() = 0;
  /// Handles what is ready, or waits up to `wait` for something to happen; true if anything did. With no wait, true
  /// may also mean that there is more to look at; false means that nothing is left to do now.
  virtual bool run_once(Duration wait) = 0;
  /// One descriptor for the caller's own loop (poll, epoll): readable while a socket has something for run_once()
  /// or after wake(). It belongs to the host: only wait on it; it is gone with the host.
  virtual int fd() const = 0;
  /// When run_once() must be called although fd() is not readable; never: no such time. Already past while
  /// commands or posted work wait for a turn, or events to be polled: of connections, of a completion channel, of the
  /// device. Any call but wake() may change it: ask right before waiting.
  virtual Instant next_deadline() const = 0;
  /// As next_deadline(), but not past because of events that wait to be polled: for a loop that polls one kind of them
  /// and leaves the rest to others.
  virtual Instant next_turn() const = 0;
  /// Makes fd() readable and a waiting run_once() return true; if none is waiting, the next one will not wait. The
  /// only call allowed from any thread at any time (even a signal handler) while the host lives; all others from one.
  virtual void wake() noexcept = 0;
  /// The driver's time: monotonic since an arbitrary origin.
  virtual Instant now() const = 0;
  /// Sees every octet; costs nothing when not set.
  virtual void set_tap(Tap tap) = 0;
  /// Resolves a name or number to addresses ("host", "192.0.2.1", "fe80::1%eth0"); blocks. Errors: bad_address.
  static Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);
};

}  // namespace parley
