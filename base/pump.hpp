// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver's half of the Machine contract, once for every driver: after any input, carry out what the machine asks
// and write what it has, until nothing is left to do.
#pragma once
#include "base/stream_port.hpp"

namespace parley {

/// Port: `void carry_out(const StreamCommand&)` and `void write(StreamId)`. write() gathers from the machine, writes
/// the stream takes and reports it by sent(); what is left over waits until the port finds the stream writable again.
/// Returns true if there was anything to do. It ends because each stream appears once per drain, and a blocked one does
/// not come back until there is new work for it.
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
