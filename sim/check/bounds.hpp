// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every queue stays within its bound, and at the end nothing is left over: endpoints are down to the listeners, TCP
// keeps no stream without an owner.
#pragma once
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// What a host holds, at the end or at any time.
struct HostState {
  std::string name;
  bool up = true;
  HostCounters counters{};
  std::size_t endpoints = 0;           ///< cm::IwarpProvider::endpoint_count
  std::size_t endpoints_expected = 0;  ///< listeners, and connections that nobody closes
  std::size_t streams_expected = 0;    ///< connections that nobody closes
};

/// Peaks, checked at any time: TCP queues and frames in flight.
void check_queues(const HostState& host, const ScenarioBounds& bounds, Instant now, Judge& judge);
void check_frames(const WorldCounters& counters, const ScenarioBounds& bounds, Instant now, Judge& judge);
/// After everything has fallen silent. `silent`: no event is left that could still change it.
void check_left_over(const HostState& host, bool silent, Instant now, Judge& judge);

}  // namespace parley::sim::check
