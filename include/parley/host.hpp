// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection manager together with what drives it: plain TCP sockets (parley/tcp_host.hpp) or the machine's RDMA devices
// (parley/rdma_host.hpp). A program that names its provider by a word runs on either: open_host(). Single-threaded; the
// caller's loop drives it, or waits for it together with things of its own (docs/event-loop.md).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parley/cm.hpp"

namespace parley {

class Host {
 public:
  /// Connections that stand are reset: their peers do not take it for a graceful end.
  virtual ~Host() = default;

  virtual cm::Manager& cm() = 0;
  /// The first of its devices. Where there are several, Manager::devices() names them all.
  virtual Device& device() = 0;
  /// Handles what is ready, or waits up to `wait` for something to happen; true if anything did. With no wait, true
  /// may also mean that there is more to look at; false means that nothing is left to do now. A host on sockets belongs to the
  /// process that opened it: in a child of fork(2), which would take what its parent is sent, this throws std::system_error
  /// (Errc::wrong_state), and the destructor ends no connection.
  virtual bool run_once(Duration wait) = 0;
  /// One descriptor for the caller's own loop (poll, epoll): readable while the system has something for run_once()
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

  /// Resolves a name or number to addresses ("host", "192.0.2.1", "fe80::1%eth0"); blocks. Errors: bad_address.
  static Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);
};

/// "iwarp": TCP sockets, no NIC needed. "roce": RoCEv2 on UDP sockets, no NIC needed. "rdmacm": the machine's RDMA devices, of which the kernel sets up connections.
/// Errors: invalid_argument (no such provider), those of TcpHost::open() and RdmaHost::open().
Result<std::unique_ptr<Host>> open_host(std::string_view provider, const cm::ManagerOptions& options = {});

}  // namespace parley
