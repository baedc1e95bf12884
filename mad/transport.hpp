// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What carries MADs for a port: an implementation is a driver, the simulator or a test. Sending and receiving never block; serve() and, once
// a second, poll_changed() may ask the system or ibsim, which takes it a tenth of a second at most.
#pragma once
#include <span>

#include "mad/packet.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

/// Requests that a program answers.
struct Served {
  std::uint8_t mgmt_class, class_version = 1;
  std::uint32_t oui = 0;                       ///< of a vendor's class that has one
  std::span<const wire::mad::Method> methods;  ///< of which
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const TransportFacts& facts() const = 0;
  virtual const LocalPort& local() const = 0;
  /// `mad`: 256 octets, more where facts().rmpp. False: its queue is full; try again when it can send.
  /// Errors: the device is gone, the peer of a socket is gone.
  virtual Result<bool> send(const Address& to, ConstBytes mad) = 0;
  /// What came, whose octets stay until the next call; none: nothing is there. A datagram of this side may come back: `refused` if it
  /// was never sent (no address, another partition), so that a retry is no use; `lost` if it was dropped on its way, of which ibsim tells.
  struct Received {
    Address from;
    ConstBytes mad;
    bool refused = false, lost = false;
  };
  virtual Result<std::optional<Received>> receive() = 0;
  /// Has these requests brought, where they come to nobody else than who has asked for them. Errors: another program has them; the
  /// transport brings none.
  virtual Result<void> serve(const Served&) { return {}; }
  /// True once after local() has changed.
  virtual bool poll_changed() = 0;
  /// To be waited for with poll(2) or epoll; -1 where there is none (memory, the simulator).
  virtual int fd() const = 0;
  /// Whether send() answered false and has not been worth another try since: wait for POLLOUT as well.
  virtual bool wants_to_send() const = 0;
};

}  // namespace parley::mad
