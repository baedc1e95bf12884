// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/run.hpp"

#include <poll.h>

#include <algorithm>

namespace parley::mad_driver {

void wait_for(mad::Transport& transport, Instant deadline) {
  constexpr Duration longest = std::chrono::milliseconds(100);
  const Duration left = std::clamp(deadline - clock_now(), Duration(0), longest);
  const timespec patience{.tv_sec = 0, .tv_nsec = static_cast<long>(left.count())};
  // A single descriptor: unlike epoll, poll needs no update for it.
  pollfd one{transport.fd(), POLLIN, 0};
  if (transport.wants_to_send()) one.events |= POLLOUT;
  static_cast<void>(::ppoll(&one, 1, &patience, nullptr));
}

}  // namespace parley::mad_driver
