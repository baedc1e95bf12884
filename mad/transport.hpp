// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Carries MADs for a port; implemented by drivers, the simulator and tests. send() and receive() never block. serve()
// and, once a second, poll_changed() may query the system or ibsim, which takes at most 0.1 s.
#pragma once
#include <span>

#include "mad/packet.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

/// Requests that a program answers.
struct ServedClass {
  std::uint8_t mgmt_class, class_version = 1;
  std::uint32_t oui = 0;                       ///< for vendor classes with an OUI
  std::span<const wire::mad::Method> methods;  ///< of the requests
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual const TransportFacts& facts() const = 0;
  virtual const LocalPort& local() const = 0;
  /// `mad`: 256 octets, or more if facts().rmpp. False: the queue is full; try again when the transport can send.
  /// Errors: the device or the peer of the socket is gone.
  virtual Result<bool> send(const Address& to, ConstBytes mad) = 0;
  /// A received datagram; its octets are valid until the next call. A datagram of this side may be returned: `refused`
  /// if it was never sent (no address, another partition), so that a retry is useless; `lost` if it was dropped on its
  /// way, which only ibsim reports.
  struct Received {
    Address from;
    ConstBytes mad;
    bool refused = false, lost = false;
  };
  /// None: nothing has arrived.
  virtual Result<std::optional<Received>> receive() = 0;
  /// Registers for these requests, if the transport delivers requests only to the program that has registered. Errors:
  /// another program has registered; the transport delivers no requests.
  virtual Result<void> serve(const ServedClass&) { return {}; }
  /// True once after local() has changed.
  virtual bool poll_changed() = 0;
  /// For poll(2) or epoll; -1: there is none (memory, the simulator).
  virtual int fd() const = 0;
  /// Whether send() returned false, and the transport still cannot send: wait for POLLOUT as well.
  virtual bool wants_to_send() const = 0;
};

}  // namespace parley::mad
