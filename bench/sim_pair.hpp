// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Two simulated hosts on one link, for all comparisons of sim_bench.
#pragma once
#include <array>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/sim_peer.hpp"
#include "parley/sim.hpp"

namespace parley::bench {

inline constexpr std::uint16_t first_port = 7471;
inline constexpr std::uint16_t ports = 8;  // each gives an address pair another 28,000 local ports

template <class T>
T valid(sim::Checked<T> checked) {
  if (!checked) throw std::runtime_error(checked.error());
  return std::move(*checked);
}

struct SimPair {
  explicit SimPair(sim::NicEngine engine = sim::NicEngine::iwarp) : world(1) {
    sim::HostOptions options;
    options.engine = engine;
    options.ipv6 = false;
    options.tcp.send_buffer = options.tcp.receive_buffer = sim_buffer;
    options.tcp.time_wait = std::chrono::microseconds(200);  // twice the MSL that ns-3 uses
    client = valid(world.add_host("client", options));
    server = valid(world.add_host("server", options));
    (void)valid(world.add_link(client->id(), server->id(),
                               {.rate_bps = sim_rate_bps, .delay = Duration(sim_delay_ns), .queue_octets = 4 << 20}));
  }
  Address server_at(std::uint64_t n) const {
    Address address = server->address();
    address.port = static_cast<std::uint16_t>(first_port + n % ports);
    return address;
  }
  /// The sample since the given start values.
  SimSample sample(double cpu_before, const sim::WorldCounters& before, Instant since) const {
    const sim::WorldCounters counters = world.counters();
    SimSample s;
    s.cpu_s = cpu_now() - cpu_before;
    s.packets = static_cast<double>(counters.packet_hops - before.packet_hops);
    s.events = static_cast<double>(counters.events - before.events);
    s.virtual_s = std::chrono::duration<double>(world.now() - since).count();
    return s;
  }
  sim::World world;
  sim::Host *client = nullptr, *server = nullptr;
};

/// Runs until `done` has reached the work's count. The connections that only stay open (work.alive) are set up before
/// the clock starts.
inline SimSample measure_connections(SimPair& pair, const ConnectionWork& work, const std::uint32_t& done) {
  const auto reach = [&](std::uint32_t n) {
    if (!pair.world.run_until([&] { return done >= n; }, std::chrono::hours(1)))
      throw std::runtime_error("connections do not come to an end");
  };
  reach(work.alive);
  const sim::WorldCounters counters = pair.world.counters();
  const Instant since = pair.world.now();
  const double before = cpu_now();
  reach(work.count);
  SimSample sample = pair.sample(before, counters, since);
  sample.connections = work.count - work.alive;
  return sample;
}

}  // namespace parley::bench
