// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Carries packets between a Port and a Transport, and runs a task to its end in a loop. The caller supplies the loop's
// clock and its wait function.
#pragma once
#include <utility>

#include "mad/port.hpp"
#include "mad/transport.hpp"

namespace parley::mad {

/// One turn: received packets, deadlines, tasks, packets to send. True if anything was done: there may be more at once.
/// After false, wait for the transport's fd (also for writing, if wants_to_send()) or port.next_deadline(). Errors: the
/// transport's.
Result<bool> pump(Port& port, Transport& transport, Instant now);

/// Runs until the task has ended. `clock()` returns the time. `wait(transport, deadline)` blocks until the transport
/// has something or the deadline passes. `stop()` is called in each turn; true cancels the task, which then runs to its
/// end. Errors: the transport's; the task is then destroyed where it waits.
template <class A, class ClockFn, class WaitFn, class StopFn>
Result<detail::Awaited<A>> run(Port& port, Transport& transport, A awaitable, ClockFn clock, WaitFn wait, StopFn stop) {
  auto running = port.start(std::move(awaitable));
  bool stopped = false;
  while (!running.done()) {
    const Result<bool> moved = pump(port, transport, clock());
    if (!moved) return tl::unexpected(moved.error());
    if (stop() && !std::exchange(stopped, true))
      running.cancel();
    else if (!*moved && !running.done())
      wait(transport, port.next_deadline());
  }
  if constexpr (std::is_void_v<detail::Awaited<A>>)
    return running.take(), Result<void>();
  else
    return running.take();
}
template <class A, class ClockFn, class WaitFn>
Result<detail::Awaited<A>> run(Port& port, Transport& transport, A awaitable, ClockFn clock, WaitFn wait) {
  return run(port, transport, std::move(awaitable), clock, wait, [] { return false; });
}

}  // namespace parley::mad
