// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A connection manager and the driver that runs it: plain TCP sockets (parley/tcp_host.hpp), RoCEv2 on UDP sockets
// (parley/roce_host.hpp) or the machine's RDMA devices (parley/rdma_host.hpp). open_host() selects one by name.
// Single-threaded. The caller's loop either lets the host wait, or waits for it together with other descriptors
// (docs/event-loop.md).
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "parley/cm.hpp"

namespace parley {

class Host {
 public:
  /// Resets all open connections, so that no peer mistakes this for a graceful close.
  virtual ~Host() = default;

  virtual cm::Manager& cm() = 0;
  /// The first device. If there are several, Manager::devices() returns all of them.
  virtual Device& device() = 0;
  /// Handles what is ready, or waits up to `wait` for something to happen. Returns true if it handled anything. With a
  /// zero wait, true may also mean that more work is ready; false means that no work is ready now. A host on sockets
  /// belongs to the process that opened it. In a child of fork(2), which would read packets meant for its parent, this
  /// call throws std::system_error (Errc::wrong_state), and the destructor leaves the connections alone.
  virtual bool run_once(Duration wait) = 0;
  /// A descriptor for the caller's event loop (poll, epoll). It is readable while the system has something for run_once(),
  /// and after wake(). It belongs to the host and is closed with it: only wait on it.
  virtual int fd() const = 0;
  /// When run_once() must be called even if fd() is not readable; never: no such time. In the past while commands or
  /// posted work wait for a turn, or while events wait to be polled (from a connection, a completion channel or the
  /// device). Any call except wake() may change it: query it right before each wait.
  virtual Instant next_deadline() const = 0;
  /// Like next_deadline(), but ignores events that wait to be polled: for a loop that polls one kind of event and leaves
  /// the others to other code.
  virtual Instant next_turn() const = 0;
  /// Makes fd() readable and a waiting run_once() return true; if none is waiting, the next one does not wait. This is
  /// the only call that any thread, or a signal handler, may make at any time while the host exists. All other calls must
  /// come from one thread.
  virtual void wake() noexcept = 0;
  /// The driver's time: monotonic since an arbitrary origin.
  virtual Instant now() const = 0;

  /// Resolves a name or numeric address ("host", "192.0.2.1", "fe80::1%eth0"). Blocks. Errors: bad_address.
  static Result<std::vector<Address>> resolve(const std::string& host, std::uint16_t port);
};

/// Opens the host of a provider. "iwarp": TCP sockets, no NIC needed. "roce": RoCEv2 on UDP sockets, no NIC needed.
/// "rdmacm": the machine's RDMA devices, whose connections the kernel sets up. Errors: invalid_argument (unknown provider),
/// those of TcpHost::open(), RoceHost::open() and RdmaHost::open().
Result<std::unique_ptr<Host>> open_host(std::string_view provider, const cm::ManagerOptions& options = {});

}  // namespace parley
