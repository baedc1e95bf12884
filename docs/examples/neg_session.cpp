// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A program negotiates its own queue pairs (docs/negotiation.md): first with parley::neg::TcpPeers, which listens, dials and
// tries again, then with a parley::neg::Session over a stream that the program has anyway, here a socketpair.
//
// The queue pairs are behind a QpDriver. This one has numbers alone; a program's makes its queue pairs there.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <parley/neg_qp.hpp>
#include <parley/neg_tcp.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace {

namespace neg = parley::neg;
using parley::Instant;

class Numbers final : public neg::QpDriver {
 public:
  neg::Outcome<neg::QpAttributes> open() override {
    static std::uint32_t next = 0x11;
    return neg::QpAttributes{.qpn = next++, .lid = 1, .mtu = 4096, .ird = 16, .ord = 16};
  }
  neg::Outcome<void> to_rtr(const neg::QpPair&) override { return {}; }
  neg::Outcome<void> to_rts(const neg::QpPair&) override { return {}; }
};

neg::Framework make_framework() {
  neg::Framework framework;
  neg::QpDrivers drivers{.name = "numbers"};
  drivers.make = [](neg::Transport, const neg::Config&) -> neg::Outcome<std::unique_ptr<neg::QpDriver>> {
    return std::make_unique<Numbers>();
  };
  // A vendor's shared object would come from neg::load_plugin() of parley/neg_plugin.hpp.
  if (auto added = framework.add(neg::make_builtin_plugin(drivers)); !added)
    std::fprintf(stderr, "%s\n", added.error().to_string().c_str());
  return framework;
}

bool tell(const char* who, const std::optional<neg::Failure>& failure, const std::vector<neg::QpPair>& pairs) {
  if (failure) std::printf("%s: %s\n", who, failure->to_string().c_str());
  for (const neg::QpPair& pair : pairs)
    std::printf("%s: QPN %#x, the peer's %#x, path MTU %u\n", who, pair.local.qpn, pair.peer.qpn, pair.mtu);
  return !failure && !pairs.empty();
}

// Both sides in one thread; each would be a program of its own.
bool over_tcp(const neg::Framework& framework) {
  const neg::Config numbers{{"driver", "numbers"}};
  auto server = neg::TcpPeers::open(framework), client = neg::TcpPeers::open(framework);
  if (!server || !client) return false;
  if (!(*server)->listen(parley::Address::v4(127, 0, 0, 1, 0),
                         {{.plugin = "parley", .variant = "verbs-rc", .config = numbers}}))
    return false;
  int ended = 0, good = 0;
  while (ended < 2) {
    for (const auto& side : {server->get(), client->get()}) {
      side->run_once(std::chrono::milliseconds(1));
      while (auto event = side->poll_event()) {
        if (const auto* listening = std::get_if<neg::Listening>(&*event)) {
          neg::Dial dial;
          dial.request = {.plugin = "parley", .variant = "verbs-rc", .label = "an example"};
          dial.config = numbers;
          dial.server = listening->local;
          if (!(*client)->dial(std::move(dial))) return false;
        } else if (const auto* over = std::get_if<neg::Ended>(&*event)) {
          ++ended;
          good += tell(over->dial != 0 ? "client" : "server", over->failure, over->agreed) ? 1 : 0;
        } else if (std::holds_alternative<neg::ListenFailed>(*event)) {
          return false;
        }
      }
    }
  }
  return good == 2;
}

Instant now() {
  return Instant(std::chrono::duration_cast<parley::Duration>(std::chrono::steady_clock::now().time_since_epoch()));
}

// Until the session is over, and what it has said last has left.
void run(neg::Session& session, int fd) {
  std::array<std::uint8_t, 4096> in;
  for (;;) {
    const parley::Bytes out = session.poll_transmit();
    if (!out.empty() && ::send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0) session.handle_end(now(), "send failed");
    if (session.state() == neg::Session::State::over) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(session.next_deadline() - now());
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0))) == 0) {
      session.handle_deadline(now());
      continue;
    }
    const ssize_t n = ::recv(fd, in.data(), in.size(), 0);
    if (n > 0)
      session.handle_bytes(now(), {in.data(), static_cast<std::size_t>(n)});
    else
      session.handle_end(now(), "the stream has ended");
  }
}

bool over_a_stream(const neg::Framework& framework) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return false;
  const neg::Config numbers{{"driver", "numbers"}};
  auto variant = framework.make("parley", "verbs-rc", neg::Role::initiator, numbers);
  if (!variant) return false;
  auto client = neg::Session::initiate({.plugin = "parley", .variant = "verbs-rc"}, std::move(*variant), {}, now());
  auto server = neg::Session::respond(
      [&](const neg::Request& asked) {
        return framework.make(asked.plugin, asked.variant, neg::Role::responder, numbers);
      },
      {}, now());
  if (!client || !server) return false;
  std::thread other([&] { run(*server, ends[1]); });
  run(*client, ends[0]);
  other.join();
  ::close(ends[0]);
  ::close(ends[1]);
  return client->completed() && server->completed() && tell("over a stream", std::nullopt, *client->agreed());
}

}  // namespace

int main() {
  const neg::Framework framework = make_framework();
  return over_tcp(framework) && over_a_stream(framework) ? 0 : 1;
}
