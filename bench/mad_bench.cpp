// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Management datagrams without a device: a port's cost of each RPC over a transport that answers at its next turn, the
// cost of reading and writing a PortInfo, and the time that RMPP needs to transfer a table of 13,284 NodeRecords.
#include <benchmark/benchmark.h>

#include "mad/loopback.hpp"

namespace parley::mad {
namespace {

using namespace wire::mad;

Instant no_time() { return Instant{}; }
void no_wait(Transport&, Instant) {}

PortOptions options_of(std::size_t window) {
  PortOptions options;
  options.window = {.start = window, .most = window};
  return options;
}

/// `window` tasks, each of which sends its requests one after the other.
void rpc_in_turn(benchmark::State& state) {
  const auto window = static_cast<std::size_t>(state.range(0));
  constexpr std::size_t each = 1000;
  Loopback transport(NodeInfo().set(NodeInfo::num_ports, 36));
  Port port(transport.facts(), transport.local(), options_of(window));
  const auto all = [window](Port& on) -> Task<Reply<void>> {
    Scope scope(on.executor());
    for (std::size_t i = 0; i < window; ++i) scope.spawn(ask_in_turn(on, static_cast<std::uint16_t>(i + 1), each));
    co_return co_await scope.join();
  };
  for (auto _ : state) benchmark::DoNotOptimize(run(port, transport, all(port), no_time, no_wait));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * each * window));
}
BENCHMARK(rpc_in_turn)->Arg(1)->Arg(16)->Arg(64);

/// One task for each request.
void rpc_by_children(benchmark::State& state) {
  constexpr std::size_t count = 10000;
  const auto window = static_cast<std::size_t>(state.range(0));
  Loopback transport(NodeInfo().set(NodeInfo::num_ports, 36));
  Port port(transport.facts(), transport.local(), options_of(window));
  for (auto _ : state)
    benchmark::DoNotOptimize(run(port, transport, ask_by_children(port, count, window), no_time, no_wait));
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * count));
}
BENCHMARK(rpc_by_children)->Arg(16)->Arg(64);

void port_info_decode(benchmark::State& state) {
  Bytes octets(64);
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::uint8_t>(i * 37);
  for (auto _ : state) {
    benchmark::DoNotOptimize(octets.data());
    const auto info = *PortInfo::parse(octets);
    std::uint64_t sum =
        info.get(PortInfo::m_key) + info.get(PortInfo::gid_prefix) + info.get(PortInfo::lid) +
        info.get(PortInfo::master_sm_lid) + info.get(PortInfo::capability_mask) + info.get(PortInfo::local_port_num) +
        info.get(PortInfo::link_width_active) + info.get(PortInfo::link_speed_active) +
        static_cast<std::uint64_t>(info.get(PortInfo::port_state)) +
        static_cast<std::uint64_t>(info.get(PortInfo::port_physical_state)) + info.get(PortInfo::lmc) +
        static_cast<std::uint64_t>(info.get(PortInfo::neighbor_mtu)) + info.get(PortInfo::master_sm_sl) +
        info.get(PortInfo::subnet_time_out) + info.get(PortInfo::link_speed_ext_active);
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(port_info_decode);

void port_info_encode(benchmark::State& state) {
  Bytes octets(64);
  std::uint16_t lid = 0;
  for (auto _ : state) {
    ++lid;
    PortInfo()
        .set(PortInfo::m_key, lid)
        .set(PortInfo::gid_prefix, 0xFE80000000000000)
        .set(PortInfo::lid, lid)
        .set(PortInfo::master_sm_lid, 1)
        .set(PortInfo::capability_mask, 0x2510868)
        .set(PortInfo::local_port_num, 3)
        .set(PortInfo::link_width_active, 2)
        .set(PortInfo::link_speed_active, 4)
        .set(PortInfo::port_state, PortState::active)
        .set(PortInfo::port_physical_state, PortPhysicalState::link_up)
        .set(PortInfo::lmc, 1)
        .set(PortInfo::neighbor_mtu, Mtu::m4096)
        .set(PortInfo::master_sm_sl, 1)
        .set(PortInfo::subnet_time_out, 18)
        .set(PortInfo::link_speed_ext_active, 1)
        .emit(octets);
    benchmark::DoNotOptimize(octets.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(port_info_encode);

void rmpp_table(benchmark::State& state) {
  Bytes message(rmpp::header_octets + std::size_t{13284} * 112);
  for (std::size_t i = 36; i < message.size(); ++i) message[i] = static_cast<std::uint8_t>(i);
  for (auto _ : state) {
    auto sender = *rmpp::Sender::create(message);
    rmpp::Receiver receiver;
    sender.start(Instant{});
    Datagram mad;
    for (bool moved = true; moved;) {
      moved = false;
      for (; sender.poll_transmit(mad); moved = true) receiver.handle(Instant{}, mad);
      for (; receiver.poll_transmit(mad); moved = true) sender.handle(Instant{}, mad);
    }
    if (receiver.outcome() != rmpp::Outcome::done || receiver.message().size() != message.size())
      state.SkipWithError("the table did not arrive");
  }
}
BENCHMARK(rmpp_table)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace parley::mad

BENCHMARK_MAIN();
