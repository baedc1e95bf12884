// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A worker thread gives messages to the thread of the hosts, which waits in poll(): TcpHost::wake() ends the wait. It is
// the only call that the worker makes.
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "echo.hpp"

namespace {

using parley::TcpHost;

class Mailbox {
 public:
  void put(std::string text) {
    const std::lock_guard lock(mutex_);
    letters_.push_back(std::move(text));
  }
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(letters_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> letters_;
};

// Milliseconds until the host must have a turn whatever its descriptor says, rounded up; -1 is for ever.
int timeout_of(const TcpHost& host) {
  const parley::Instant deadline = host.next_deadline();
  if (deadline == parley::never) return -1;
  const auto left = std::max(deadline - host.now(), parley::Duration{});
  return static_cast<int>(
      std::min(std::chrono::ceil<std::chrono::milliseconds>(left).count(), std::int64_t{3'600'000}));
}

bool sooner(int a, int b) { return b < 0 || (a >= 0 && a < b); }

}  // namespace

int main() {
  echo::End server, client;
  Mailbox mailbox;
  std::vector<std::string> unsent;
  int echoed = 0;
  server.on_message = [&](std::string_view text) { server.send(text); };
  client.on_message = [&](std::string_view text) {
    std::printf("echoed: %.*s\n", static_cast<int>(text.size()), text.data());
    if (++echoed == 3) echo::must(client.id.disconnect());
  };
  echo::must(server.host->cm().listen(parley::Address::loopback(parley::Address::Family::v4, 0)));

  std::thread worker([&mailbox, &host = *client.host] {
    for (int i = 1; i <= 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // hard at work
      mailbox.put("result " + std::to_string(i));
      host.wake();
    }
  });

  int waiting_for = 0;
  while (!client.over || !server.over) {
    std::array<pollfd, 2> waits{pollfd{.fd = server.host->fd(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = client.host->fd(), .events = POLLIN, .revents = 0}};
    const int a = timeout_of(*server.host), b = timeout_of(*client.host);
    ::poll(waits.data(), waits.size(), sooner(a, b) ? a : b);
    for (echo::End* end : {&server, &client}) {  // a turn that has nothing to do costs little
      end->host->run_once(parley::Duration{});
      end->drain();
    }
    if (server.listening.port != 0 && !client.id) {
      client.id = echo::must(client.host->cm().connect(
          server.listening, {.transport = parley::mpa::Options{.rtr = parley::mpa::Rtr::read}, .qp = client.qp()}));
      client.receive();
    }
    for (std::string& text : mailbox.take()) unsent.push_back(std::move(text));
    if (client.established && waiting_for == echoed && !unsent.empty()) {
      client.send(unsent.front());
      unsent.erase(unsent.begin());
      ++waiting_for;
    }
  }
  worker.join();
  std::printf("%d results were sent and came back\n", echoed);
  return echoed == 3 ? 0 : 1;
}
