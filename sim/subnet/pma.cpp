// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/sma_impl.hpp"
#include "wire/mad/pm.hpp"

namespace parley::sim::subnet {

namespace {

using namespace wire::mad;

constexpr std::uint8_t all_ports = 0xFF;

struct Counts {
  std::array<std::uint64_t, 4> traffic{};  ///< in the order of Baseline
  std::uint64_t xmit_discards = 0, rcv_errors = 0, relay_errors = 0, vl15_dropped = 0, link_downed = 0,
                link_recovered = 0, link_integrity = 0, overruns = 0;
};

std::array<std::uint64_t, 4> total_of(const Traffic& traffic) {
  return {traffic.sent * packet_words, traffic.received * packet_words, traffic.sent, traffic.received};
}

void add(Counts& out, State& state, std::uint32_t port, bool extended) {
  const auto total = total_of(state.traffic(port));
  const Baseline* const base = state.find_baseline(port);
  for (std::size_t i = 0; i < total.size(); ++i)
    out.traffic[i] += total[i] - (base == nullptr ? 0 : extended ? base->extended[i] : base->counters[i]);
  const Errors& errors = state.errors(port);
  out.xmit_discards += errors.xmit_discards;
  out.rcv_errors += errors.rcv_errors;
  out.relay_errors += errors.relay_errors;
  out.vl15_dropped += errors.vl15_dropped;
  out.link_downed += errors.link_downed;
  out.link_recovered += errors.link_recovered;
  out.link_integrity += errors.link_integrity;
  out.overruns += errors.overruns;
}

/// Bits of CounterSelect, IBA §16.1.3.5.
void reset_counters(State& state, std::uint32_t port, std::uint32_t select) {
  const auto chosen = [select](unsigned bit) { return (select >> bit & 1) != 0; };
  Errors& errors = state.errors(port);
  if (chosen(1)) errors.link_recovered = 0;
  if (chosen(2)) errors.link_downed = 0;
  if (chosen(3)) errors.rcv_errors = 0;
  if (chosen(5)) errors.relay_errors = 0;
  if (chosen(6)) errors.xmit_discards = 0;
  if (chosen(9)) errors.link_integrity = 0;
  if (chosen(10)) errors.overruns = 0;
  if (chosen(11)) errors.vl15_dropped = 0;
  if ((select & 0xF000) == 0) return;
  const auto total = total_of(state.traffic(port));
  for (std::size_t i = 0; i < total.size(); ++i)
    if (chosen(static_cast<unsigned>(12 + i))) state.baseline(port).counters[i] = total[i];
}

/// IBA §16.1.4.11.
void reset_extended(State& state, std::uint32_t port, std::uint32_t select) {
  if ((select & 0x3F) == 0) return;
  const auto total = total_of(state.traffic(port));
  for (unsigned i = 0; i < total.size(); ++i)
    if ((select >> i & 1) != 0) state.baseline(port).extended[i] = total[i];
}

template <class T>
T capped(std::uint64_t value, T limit) {
  return static_cast<T>(std::min<std::uint64_t>(value, limit));
}

void put_counters(MutBytes data, const Counts& counts) {
  PortCounters out;
  copy_members(out, *PortCounters::parse(data), PortCounters::port_select, PortCounters::counter_select);
  const auto put16 = [&](auto member, std::uint64_t value) { out.set(member, capped<std::uint16_t>(value, 0xFFFF)); };
  const auto put32 = [&](auto member, std::uint64_t value) {
    out.set(member, capped<std::uint32_t>(value, 0xFFFFFFFF));
  };
  out.set(PortCounters::link_downed_counter, capped<std::uint8_t>(counts.link_downed, 0xFF));
  out.set(PortCounters::link_error_recovery_counter, capped<std::uint8_t>(counts.link_recovered, 0xFF));
  out.set(PortCounters::local_link_integrity_errors, capped<std::uint8_t>(counts.link_integrity, 0xF));
  out.set(PortCounters::excessive_buffer_overrun_errors, capped<std::uint8_t>(counts.overruns, 0xF));
  put16(PortCounters::port_rcv_errors, counts.rcv_errors);
  put16(PortCounters::port_rcv_switch_relay_errors, counts.relay_errors);
  put16(PortCounters::port_xmit_discards, counts.xmit_discards);
  put16(PortCounters::vl15_dropped, counts.vl15_dropped);
  put32(PortCounters::port_xmit_data, counts.traffic[0]);
  put32(PortCounters::port_rcv_data, counts.traffic[1]);
  put32(PortCounters::port_xmit_pkts, counts.traffic[2]);
  put32(PortCounters::port_rcv_pkts, counts.traffic[3]);
  put(data, out);
}

void put_extended(MutBytes data, const Counts& counts) {
  PortCountersExtended out;
  copy_members(out, *PortCountersExtended::parse(data), PortCountersExtended::port_select,
               PortCountersExtended::counter_select);
  out.set(PortCountersExtended::port_xmit_data, counts.traffic[0])
      .set(PortCountersExtended::port_rcv_data, counts.traffic[1]);
  out.set(PortCountersExtended::port_xmit_pkts, counts.traffic[2])
      .set(PortCountersExtended::port_rcv_pkts, counts.traffic[3]);
  out.set(PortCountersExtended::port_unicast_xmit_pkts, counts.traffic[2]);
  out.set(PortCountersExtended::port_unicast_rcv_pkts, counts.traffic[3]);
  put(data, out);
}

/// A request with PortSelect: one port, or the sum of all ports of a switch.
std::uint16_t answer_counters(State& state, const AgentRequest& request, bool extended, MutBytes data) {
  const Port& entry = state.port(request.port);
  const Node& node = state.node_of(entry);
  const std::uint8_t select = data[1];
  const auto mask = static_cast<std::uint32_t>(read_bits(data, 16, 16));
  std::uint32_t first = node.first_port, last = first + node.ports;
  if (select != all_ports || !node.is_switch()) {
    first = last = state.port_of(entry.node, select);
    if (first == nowhere) return status_invalid;
  }
  Counts counts;
  for (std::uint32_t port = first; port <= last; ++port) {
    if (request.set) extended ? reset_extended(state, port, mask) : reset_counters(state, port, mask);
    add(counts, state, port, extended);
  }
  extended ? put_extended(data, counts) : put_counters(data, counts);
  return 0;
}

std::uint16_t answer_class_port_info(const State& state, const AgentRequest& request, MutBytes data) {
  if (request.set) return status_unsupported_attribute;
  constexpr std::uint16_t all_port_select = 1 << 8, extended_width = 1 << 9;
  ClassPortInfo info;
  info.set(ClassPortInfo::base_version, 1).set(ClassPortInfo::class_version, 1).set(ClassPortInfo::resp_time_value, 18);
  info.set(ClassPortInfo::capability_mask,
           state.node_of(state.port(request.port)).is_switch() ? all_port_select | extended_width : extended_width);
  put(data, info);
  return 0;
}

}  // namespace

std::uint16_t answer_perf(State& state, const AgentRequest& request, MutBytes data) {
  switch (request.attribute) {
    case ClassPortInfo::attribute: return answer_class_port_info(state, request, data);
    case PortCounters::attribute: return answer_counters(state, request, false, data);
    case PortCountersExtended::attribute: return answer_counters(state, request, true, data);
    default: return status_unsupported_attribute;
  }
}

}  // namespace parley::sim::subnet
