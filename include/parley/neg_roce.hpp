// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "roce": negotiated queue pairs of Parley's own RoCE engine over UDP port 4791, without NIC, kernel module or
// root. docs/negotiation.md has its parameters; docs/roce.md describes the use of the port.
#pragma once
#include <memory>

#include "parley/neg_qp.hpp"
#include "parley/roce_host.hpp"

namespace parley::neg {

/// The engine. Packets move during run_once(), and during the calls of a negotiation to its queue pairs. Single-threaded,
/// like TcpPeers. A program drives both:
///
///   engine->run_once({}); peers->run_once({}); and if neither had anything to do: wait for engine->fd() and peers->fd(),
///   until the earlier next_deadline()
class RoceEngine {
 public:
  /// Uses the socket options, roce.seed and roce.address_base of `options`. Errors: no_space (no descriptors),
  /// invalid_argument.
  static Result<std::unique_ptr<RoceEngine>> open(const RoceHostOptions& options = {});
  virtual ~RoceEngine() = default;

  /// For make_builtin_plugin(). The drivers and their queue pairs may outlive the engine: packets then move only during calls
  /// to them.
  virtual QpDrivers drivers() = 0;
  // As in Host.
  virtual bool run_once(Duration wait) = 0;
  virtual int fd() const = 0;
  virtual Instant next_deadline() const = 0;
  /// As in RoceHost.
  virtual void set_tap(PacketTap tap) = 0;
  virtual RoceCounters counters() const = 0;
  virtual std::vector<RoceDropped> dropped() const = 0;
};

}  // namespace parley::neg
