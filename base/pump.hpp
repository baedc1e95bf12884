// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver's part of the machine contract (base/machine.hpp), for all drivers: after any input, carry out the
// machine's commands and write its output until nothing is left.
#pragma once
#include "base/stream_port.hpp"

namespace parley {

/// Port: `void carry_out(const StreamCommand&)` and `void write(StreamId)`. write() gathers from the machine, writes
/// what the stream accepts, and reports it by sent(); the rest waits until the port finds the stream writable again.
/// Returns true if it did anything. It terminates because each stream appears once per drain, and a blocked stream
/// returns only with new work.
template <class Port>
bool pump(StreamMachine& machine, Port& port) {
  bool any = false;
  for (;;) {
    StreamCommand command;
    while (machine.poll_command(command)) {
      port.carry_out(command);
      any = true;
    }
    const StreamId stream = machine.poll_ready();
    if (stream == 0) return any;
    port.write(stream);
    any = true;
  }
}

}  // namespace parley
