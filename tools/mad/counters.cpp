// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/mad/counters.hpp"

#include "mad/path_text.hpp"

namespace parley::tools {

namespace {

template <class Counters>
mad::Task<void> read_one(mad::Port& port, mad::Path path, CounterPlace place, CounterTally& tally,
                         const std::function<void(const CounterPlace&, const mad::Reply<Counters>&)>& take) {
  const auto counters = co_await port.perf_get<Counters>(path, Counters().set(Counters::port_select, place.port));
  if (!counters && counters.error().fault() == mad::Fault::cancelled) {
    tally.cut = true;
    co_return;
  }
  ++(counters ? tally.read : tally.lost);
  take(place, counters);
}

template <class Counters>
mad::Task<void> read_all(mad::Port& port, const MadSession& session, const std::vector<CounterPlace>& places,
                         const mad::Topology& topology, CounterTally& tally,
                         const std::function<void(const CounterPlace&, const mad::Reply<Counters>&)>& take) {
  std::size_t at = 0;
  const auto next = [&]() -> std::optional<mad::Task<void>> {
    if (at == places.size()) return std::nullopt;
    const CounterPlace place = places[at++];
    const mad::Path path = session.with_options(mad::Path::by_lid(topology.lid_of(place.node, place.port)));
    return read_one<Counters>(port, path, place, tally, take);
  };
  const mad::ScopeOptions limits{.on_error = mad::OnError::keep, .limit = 256};
  if (!co_await mad::run_each(port, limits, next) || at < places.size()) tally.cut = true;
}

}  // namespace

std::vector<CounterPlace> ports_with_counters(const mad::Topology& topology) {
  std::vector<CounterPlace> out;
  for (std::uint32_t i = 0; i < topology.nodes().size(); ++i)
    for (unsigned p = 1; p <= topology.nodes()[i].ports; ++p) {
      const auto number = static_cast<std::uint8_t>(p);
      if (topology.port(i, number).peer != mad::no_node && mad::is_unicast_lid(topology.lid_of(i, number)))
        out.push_back({i, number});
    }
  return out;
}

mad::Task<void> each_counters(MadSession& session, const std::vector<CounterPlace>& places,
                              const mad::Topology& topology, CounterTally& tally, TakeCounters take) {
  co_await read_all<wire::mad::PortCounters>(session.port(), session, places, topology, tally, take);
}

mad::Task<void> each_extended(MadSession& session, const std::vector<CounterPlace>& places,
                              const mad::Topology& topology, CounterTally& tally, TakeExtended take) {
  co_await read_all<wire::mad::PortCountersExtended>(session.port(), session, places, topology, tally, take);
}

}  // namespace parley::tools
