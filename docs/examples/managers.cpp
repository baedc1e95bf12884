// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Several Managers on one host, as event channels are to librdmacm: one listens, two workers each get every second request, and
// a third hears of the ends. managers [PROVIDER [ADDRESS]]: "iwarp" (by default), "roce" or "rdmacm", with an address of this
// machine, to which it connects to itself.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include <parley/cm.hpp>
#include <parley/host.hpp>

namespace {

using namespace std::chrono_literals;
namespace cm = parley::cm;

constexpr std::size_t connections = 6;

template <class T>
T need(parley::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "managers: %s\n", result.error().message().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

[[noreturn]] void fail(const cm::Failure& why) {
  std::fprintf(stderr, "managers: %s\n", why.to_string().c_str());
  std::exit(1);
}

/// A part of the program with a Manager of its own: it never sees the others' events.
struct Part {
  std::unique_ptr<cm::Manager> manager;
  std::vector<cm::Id> mine;
  std::size_t established = 0, ended = 0;

  void turn() {
    while (auto event = manager->poll_event()) {
      if (auto* up = std::get_if<cm::Established>(&*event)) ++established, mine.push_back(up->id);
      if (auto* down = std::get_if<cm::Disconnected>(&*event)) ++ended, down->id.destroy();
      if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) fail(failed->why);
      if (auto* rejected = std::get_if<cm::Rejected>(&*event)) fail(rejected->why);
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  auto host = need(parley::open_host(argc > 1 ? argv[1] : "iwarp"));
  parley::Address address = need(parley::Address::parse(argc > 2 ? argv[2] : "127.0.0.1"));
  Part client{need(host->cm().open_beside())}, ends{need(host->cm().open_beside())};
  std::array<Part, 2> workers{Part{need(host->cm().open_beside())}, Part{need(host->cm().open_beside())}};

  // Over iWARP the initiator says that it is ready, so that the other side has its Established.
  cm::ConnectOptions options;
  if (argc < 2 || std::string(argv[1]) == "iwarp")
    options.transport = parley::mpa::Options{.rtr = parley::mpa::Rtr::read};
  cm::Id listener = need(host->cm().listen(address));
  std::size_t requests = 0;
  const parley::Instant end = host->now() + 30s;
  while (client.ended < connections || ends.ended < connections) {
    if (host->now() > end) {
      std::fprintf(stderr, "managers: %zu connections of %zu after 30 s\n", client.ended, connections);
      return 1;
    }
    host->run_once(100ms);
    // The host's own Manager listens, and hands out.
    while (auto event = host->cm().poll_event()) {
      if (auto* listening = std::get_if<cm::Listening>(&*event))
        for (std::size_t i = 0; i < connections; ++i) need(client.manager->connect(listening->local, options));
      if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) fail(failed->why);
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) {
        need(request->id.migrate(*workers[requests++ % workers.size()].manager));
        need(request->id.accept());
      }
    }
    client.turn();
    // A worker gives its connections on when they stand.
    for (Part& worker : workers) {
      worker.turn();
      for (cm::Id& id : std::exchange(worker.mine, {})) need(id.migrate(*ends.manager));
    }
    ends.turn();
    if (workers[0].established + workers[1].established == connections)
      for (cm::Id& id : std::exchange(client.mine, {})) need(id.disconnect());
  }
  std::printf("%zu connections: %zu and %zu established at the workers, %zu ended where they went\n", requests,
              workers[0].established, workers[1].established, ends.ended);
  listener.destroy();
  return 0;
}
