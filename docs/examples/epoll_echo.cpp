// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two hosts in one epoll loop, beside a timer of the program's own: a server that echoes, and a client that sends what
// the timer tells it to.
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

#include "echo.hpp"

namespace {

using parley::TcpHost;

// Milliseconds until a host must have a turn whatever its descriptor says, rounded up; -1 is for ever.
int timeout_of(std::initializer_list<const TcpHost*> hosts) {
  int least = -1;
  for (const TcpHost* host : hosts) {
    const parley::Instant deadline = host->next_deadline();
    if (deadline == parley::never) continue;
    const auto left = std::max(deadline - host->now(), parley::Duration{});
    const auto ms = std::min(std::chrono::ceil<std::chrono::milliseconds>(left).count(), std::int64_t{3'600'000});
    if (least < 0 || ms < least) least = static_cast<int>(ms);
  }
  return least;
}

void add(int set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;  // level-triggered: a host need not finish its work in one turn
  event.data.fd = fd;
  if (::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) != 0) std::perror("epoll_ctl"), std::exit(1);
}

int timer_of(long period_ns) {
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  const itimerspec every{.it_interval = {0, period_ns}, .it_value = {0, period_ns}};
  if (timer < 0 || ::timerfd_settime(timer, 0, &every, nullptr) != 0) std::perror("timerfd"), std::exit(1);
  return timer;
}

}  // namespace

int main() {
  echo::End server, client;
  server.on_message = [&](std::string_view text) { server.send(text); };
  int sent = 0, echoed = 0;
  client.on_message = [&](std::string_view text) {
    std::printf("echoed: %.*s\n", static_cast<int>(text.size()), text.data());
    if (++echoed == 3) echo::must(client.id.disconnect());
  };
  echo::must(server.host->cm().listen(parley::Address::loopback(parley::Address::Family::v4, 0)));

  const int set = ::epoll_create1(EPOLL_CLOEXEC), timer = timer_of(2'000'000);
  for (const int fd : {server.host->fd(), client.host->fd(), timer}) add(set, fd);
  while (!client.over || !server.over) {
    std::array<epoll_event, 8> events;
    const int n = ::epoll_wait(set, events.data(), events.size(), timeout_of({server.host.get(), client.host.get()}));
    for (echo::End* end : {&server, &client}) {
      const auto ready = [&](const epoll_event& event) { return event.data.fd == end->host->fd(); };
      if (!std::any_of(events.begin(), events.begin() + std::max(n, 0), ready) &&
          end->host->next_deadline() > end->host->now())
        continue;
      end->host->run_once(parley::Duration{});
      end->drain();
    }
    if (server.listening.port != 0 && !client.id) {
      client.id = echo::must(client.host->cm().connect(
          server.listening, {.transport = parley::mpa::Options{.rtr = parley::mpa::Rtr::read}, .qp = client.qp()}));
      client.receive();
    }
    std::uint64_t ticks = 0;  // the program's own work, in the same loop
    if (::read(timer, &ticks, sizeof ticks) == sizeof ticks && client.established && sent < 3)
      client.send("message " + std::to_string(++sent));
  }
  ::close(timer);
  ::close(set);
  std::printf("%d of %d came back\n", echoed, sent);
  return echoed == 3 ? 0 : 1;
}
