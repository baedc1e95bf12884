// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The contract of every protocol machine. There is nothing to inherit from; this page is what reviewers hold code to.
//
//   - Inputs: handle_*(now, ...) and commands. Outputs: poll_transmit, poll_event, next_deadline. A machine never calls
//   out, but to the trace sink that it was given (base/trace.hpp), which never calls back, and within the command that
//   moves a stream to another driver (StreamMover in base/stream_port.hpp).
//   - `now` never goes back.
//   - After any input or command, drain transmit, then events, then read next_deadline().
//   - handle_deadline(now) may come early (nothing happens) or late (it happens then); never is "no deadline".
//   - Inputs are borrowed for the call. Outputs are owned by the machine until the next input or command.
//   - Every queue has a bound, stated beside its declaration. All chance comes from the machine's own Rng.
//   - A peer's bad octets are an event with a Failure, never an assertion, never an exception.
#pragma once
