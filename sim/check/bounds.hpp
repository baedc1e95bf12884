// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every queue stays within its bound. At the end, only the listeners' endpoints remain, and TCP has no stream without
// an owner.
#pragma once
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// Current resources of a host.
struct HostState {
  std::string name;
  bool up = true;
  HostCounters counters{};
  std::size_t endpoints = 0;           ///< cm::IwarpProvider::endpoint_count
  std::size_t endpoints_expected = 0;  ///< listeners, and connections that neither side closes
  std::size_t streams_expected = 0;    ///< connections that neither side closes
};

/// Peaks, checked at any time: TCP queues and frames in flight.
void check_queues(const HostState& host, const ScenarioBounds& bounds, Instant now, Judge& judge);
void check_frames(const WorldCounters& counters, const ScenarioBounds& bounds, Instant now, Judge& judge);
/// After the network has become silent. `silent`: no remaining event can change the state.
void check_left_over(const HostState& host, bool silent, Instant now, Judge& judge);

}  // namespace parley::sim::check
