// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two ports in virtual time: one that asks, and one that serves.
#pragma once
#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {

inline constexpr std::uint16_t server_lid = 2;

/// What one sends the other receives after 10 us.
struct TwoPorts : testing::Test {
  MemoryTransport near, far;
  std::optional<Port> client, server;

  explicit TwoPorts(const PortOptions& options = {}) {
    far.local_.lid = server_lid;
    near.peer = [this](MemoryTransport&, const Address& to, ConstBytes mad) { carry(far, near, to, mad); };
    far.peer = [this](MemoryTransport&, const Address& to, ConstBytes mad) { carry(near, far, to, mad); };
    PortOptions asking = options, serving = options;
    asking.seed = 1;
    serving.seed = 2;
    client.emplace(near.facts(), near.local(), asking);
    server.emplace(far.facts(), far.local(), serving);
    server->serve();
  }
  static void carry(MemoryTransport& there, MemoryTransport& here, Address to, ConstBytes mad, Duration delay = 10us) {
    to.lid = here.local().lid;
    there.deliver(to, mad, delay);
  }
  /// Both have their turns until neither has anything to do at this time; when there is something next.
  Instant settle() {
    for (;;) {
      far.now = near.now;
      const bool here = *pump(*client, near, near.now), there = *pump(*server, far, far.now);
      if (!here && !there) break;
    }
    return std::min({near.next(), far.next(), client->next_deadline(), server->next_deadline()});
  }
  /// Runs both until `awaitable` is done, while `serving` answers.
  template <class S, class A>
  auto go_while(S serving, A awaitable) {
    auto served = server->start(std::move(serving));
    auto running = client->start(std::move(awaitable));
    while (true) {
      const Instant next = settle();
      if (running.done()) break;
      if (next == never) throw Hang();
      near.now = std::max(near.now, next);
    }
    for (int i = 0; i < 3; ++i) {  // what is still on its way
      near.now += 20us;
      settle();
    }
    return running.take();
  }
};

}  // namespace parley::mad
