// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Drives one PacketMachine over UDP sockets, as MachineLoop drives a StreamMachine over TCP sockets. For users without
// provider and manager: a tester of RoCEv2 peers, negotiated queue pairs.
#pragma once
#include <memory>

#include "base/packet_groups.hpp"
#include "base/packet_port.hpp"
#include "drivers/clock.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

class PacketSockets;

class PacketLoop {
 public:
  /// `machine` and `sockets` are not owned and must outlive the loop; for `sockets` see PacketSet. Errors: no_space (no
  /// descriptors).
  static Result<std::unique_ptr<PacketLoop>> open(PacketMachine& machine, const RoceHostOptions& options = {},
                                                  PacketSockets* sockets = nullptr);
  ~PacketLoop();
  PacketLoop(const PacketLoop&) = delete;
  PacketLoop& operator=(const PacketLoop&) = delete;

  /// A turn; if nothing happened, a sleep of at most `wait` and another turn; true if anything happened.
  bool run_once(Duration wait);
  Instant now() const { return clock_now(); }
  /// Readable while a socket has input.
  int fd() const;
  /// PacketSet::blocked().
  bool blocked() const;
  /// PacketSet::close_sockets().
  void close_sockets() noexcept;
  /// Joins multicast groups on its sockets.
  PacketGroups& groups();
  void set_tap(PacketTap tap);
  RoceCounters counters() const;

 private:
  struct Body;
  explicit PacketLoop(std::unique_ptr<Body> body);
  bool turn();
  std::unique_ptr<Body> body_;
};

}  // namespace parley::asio_driver
