// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Drives one StreamMachine over TCP sockets: the only place where a thread sleeps, inside Asio.
#pragma once
#include <algorithm>
#include <memory>

#include "drivers/asio/stream_set.hpp"
#include "drivers/clock.hpp"

namespace parley::asio_driver {

class MachineLoop {
 public:
  /// `machine` is not owned and must outlive the loop. Errors: invalid_argument, unsupported (congestion control
  /// unknown to the system), no_space (no descriptors).
  static Result<std::unique_ptr<MachineLoop>> open(StreamMachine& machine, const TcpHostOptions& options = {});
  ~MachineLoop();
  MachineLoop(const MachineLoop&) = delete;
  MachineLoop& operator=(const MachineLoop&) = delete;

  /// One turn without waiting; true if anything happened. `polling`: the caller will not sleep (StreamSet::serve).
  bool turn(bool polling = false);
  /// Sleeps until a socket is ready, the machine's next deadline, or `longest`.
  void sleep(Duration longest);
  /// A turn; if nothing happened, a sleep and another turn; true if anything happened.
  bool run_once(Duration wait) {
    if (turn(wait <= Duration{})) return true;
    if (wait <= Duration{}) return false;
    sleep(wait);
    return turn();
  }
  /// Moves streams from this loop to another, and from others to this one.
  StreamMover& mover() { return streams_; }
  // As in TcpHost, as far as the machine's deadline allows.
  int fd() const;
  Instant next_deadline() const { return std::min(machine_.next_deadline(), streams_.next_deadline()); }
  void wake() noexcept;
  Instant now() const { return clock_now(); }
  void set_tap(Tap tap) { streams_.set_tap(std::move(tap)); }

 private:
  struct Waiter;  // keeps Asio out of this header
  MachineLoop(StreamMachine& machine, const TcpHostOptions& options);

  StreamMachine& machine_;
  std::unique_ptr<Waiter> waiter_;  // owns the descriptor that streams_ uses
  StreamSet streams_;
  bool skipped_ = false;
};

}  // namespace parley::asio_driver
