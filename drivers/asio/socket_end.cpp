// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/socket_end.hpp"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "drivers/asio/sockaddr.hpp"

namespace parley::asio_driver {
namespace {

constexpr std::int64_t seconds_most = 32767;  // Linux: MAX_TCP_KEEPIDLE
constexpr std::int64_t own_delay = 1;         // seconds by which the system's own keepalives follow the owner's
constexpr int probe_interval = 1;             // seconds between keepalives that are not answered
constexpr int probes_most = 127;              // Linux: MAX_TCP_KEEPCNT; TCP_USER_TIMEOUT ends it before

}  // namespace

void reset_when_closed(int fd, bool reset) noexcept {
  const linger how{reset ? 1 : 0, 0};
  (void)::setsockopt(fd, SOL_SOCKET, SO_LINGER, &how, sizeof how);
}

void watch_peer(int fd, Duration keepalive, Duration dead_after) noexcept {
  if (dead_after > Duration{}) {
    // Linux checks an idle connection only when a keepalive timer expires, and measures unacknowledged data from its first
    // retransmission.
    const Duration least = std::max<Duration>(dead_after - std::chrono::seconds(probe_interval), dead_after / 2);
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(least).count();
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::min<std::int64_t>(milliseconds, INT32_MAX)));
  }
  if (keepalive <= Duration{}) return;
  let_rest(fd, keepalive);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, probe_interval);
  if (dead_after > Duration{}) set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes_most);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

Duration in_whole_seconds(Duration keepalive) noexcept {
  if (keepalive <= Duration{}) return {};
  const std::int64_t seconds = std::chrono::ceil<std::chrono::seconds>(keepalive).count();
  return std::chrono::seconds(std::min(seconds, seconds_most - own_delay));
}

// Linux restarts the timer when the option is set: an idle time that has passed already expires at its next tick.
void ask_peer(int fd) noexcept { set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 1); }

void let_rest(int fd, Duration keepalive) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(in_whole_seconds(keepalive)).count();
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(seconds + own_delay));
}

bool all_acknowledged(int fd, bool fin_queued) noexcept {
  int queued = 0;
  return ::ioctl(fd, SIOCOUTQ, &queued) != 0 || queued <= (fin_queued ? 1 : 0);
}

// An ICMP error about an established stream is stored until the stream's own timeout, and then reported instead of
// ETIMEDOUT. The others are what Linux makes of ICMP's and ICMPv6's codes (RFC 1122 §4.2.3.9; RFC 4443 §3).
bool means_silence(int error) noexcept {
  static constexpr int silent[] = {ETIMEDOUT,    EHOSTUNREACH, ENETUNREACH, EHOSTDOWN,  ENETDOWN, ENONET,
                                   ECONNREFUSED, ENOPROTOOPT,  EPROTO,      EOPNOTSUPP, EACCES,   EMSGSIZE};
  return std::ranges::find(silent, error) != std::ranges::end(silent);
}

}  // namespace parley::asio_driver
