// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The contract of every protocol machine. There is no base class; reviewers check code against this page.
//
//   - Inputs: handle_*(now, ...) and commands. Outputs: poll_transmit, poll_event, next_deadline. A machine makes no calls
//     to other code, with two exceptions: its trace sink (base/trace.hpp), which never calls back; and, within the
//     command that moves a stream to another driver, StreamMover (base/stream_port.hpp).
//   - `now` is monotonic.
//   - After any input or command, drain transmit, then events, then read next_deadline().
//   - handle_deadline(now) may be called early (it does nothing) or late (it acts then); never means "no deadline".
//   - Inputs are borrowed for the call. Outputs are owned by the machine until the next input or command.
//   - Every queue has a bound, stated at its declaration. All random numbers come from the machine's own Rng.
//   - Invalid octets of a peer produce an event with a Failure, never an assertion or an exception.
#pragma once
