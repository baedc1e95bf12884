// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The blocking way to run a task over a port: the clock, and waiting for the transport's descriptor.
//
//   const Result<Reply<NodeInfo>> info = run_blocking(port, transport, port.subn_get<NodeInfo>(path));
#pragma once
#include <functional>

#include "drivers/clock.hpp"
#include "mad/pump.hpp"

namespace parley::mad_driver {

struct RunHooks {
  /// Called in each turn; true ends the task: its requests end with Fault::cancelled, and it returns.
  std::function<bool()> stop = {};
  /// Called in each turn and, while nothing happens, every tenth of a second: for progress output.
  std::function<void()> tick = {};
};

/// The stop function that run() calls in each turn.
inline auto turn_of(const RunHooks& hooks) {
  return [&hooks] {
    if (hooks.tick) hooks.tick();
    return hooks.stop && hooks.stop();
  };
}

/// Waits until the transport has input, the deadline has passed, a signal arrived, or a tenth of a second has passed.
void wait_for(mad::Transport& transport, Instant deadline);

/// Runs the task to its end. Errors: the transport's; the task is then cancelled.
template <class A>
Result<mad::detail::Awaited<A>> run_blocking(mad::Port& port, mad::Transport& transport, A awaitable,
                                             const RunHooks& hooks = {}) {
  return mad::run(port, transport, std::move(awaitable), clock_now, wait_for, turn_of(hooks));
}

}  // namespace parley::mad_driver
