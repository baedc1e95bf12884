// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two simulated hosts set up a connection over a link that loses their first segments; both ends then tell what was
// agreed. Virtual time: it takes no real second, and the same seed gives the same run.
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <variant>

#include <parley/cm.hpp>
#include <parley/sim.hpp>

namespace {

using namespace std::chrono_literals;
using parley::cm::Established;

/// What one end has seen so far.
struct End {
  std::optional<Established> up;
  std::string trouble;
};

/// Takes the events of a host's connection manager, and accepts whoever asks.
void drain(parley::sim::Host& host, End& end) {
  while (auto event = host.cm().poll_event()) {
    if (auto* request = std::get_if<parley::cm::ConnectRequest>(&*event)) {
      if (auto accepted = request->id.accept(); !accepted) end.trouble = accepted.error().message();
    } else if (auto* failed = std::get_if<parley::cm::ConnectFailed>(&*event)) {
      end.trouble = failed->why.to_string();
    } else if (auto* up = std::get_if<Established>(&*event)) {
      end.up = *up;
    }
  }
}

void print(const char* name, const Established& up) {
  const parley::mpa::Parameters& p = *up.mpa();
  const std::string rtr(parley::mpa::to_string(p.rtr));
  std::printf("%s: MPA revision %u, CRC %s, RTR %s, IRD %u, ORD %u, established after %.3f ms\n", name,
              unsigned{p.revision}, p.crc ? "on" : "off", rtr.c_str(), unsigned{p.ird}, unsigned{p.ord},
              std::chrono::duration<double, std::milli>(up.steps.established).count());
  for (const std::string& reason : p.reasons) std::printf("    %s\n", reason.c_str());
}

int fail(const std::string& why) {
  std::fprintf(stderr, "sim_connect: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  parley::sim::World world(1);
  auto a = world.add_host("a");
  auto b = world.add_host("b");
  if (!a || !b) return fail(a ? b.error() : a.error());
  if (auto link = world.add_link((*a)->id(), (*b)->id(), {.delay = 2us}); !link) return fail(link.error());
  world.set_drop_mask(0b11);  // the first SYN, and the one sent again

  parley::Address server = (*b)->address();
  server.port = 7471;
  if (auto listening = (*b)->cm().listen(server); !listening) return fail(listening.error().message());
  const parley::mpa::Options options{.rtr = parley::mpa::Rtr::read};
  if (auto id = (*a)->cm().connect(server, {.transport = options, .ird = 16, .ord = 8}); !id)
    return fail(id.error().message());

  End initiator, responder;
  const bool done = world.run_until(
      [&] {
        drain(**a, initiator);
        drain(**b, responder);
        return (initiator.up && responder.up) || !initiator.trouble.empty() || !responder.trouble.empty();
      },
      60s);
  if (!done) return fail("no connection within 60 s of virtual time");
  if (!initiator.up || !responder.up) return fail(initiator.trouble + responder.trouble);
  print("initiator a", *initiator.up);
  print("responder b", *responder.up);
  return 0;
}
