// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The bounds of a run: those of the file, and defaults that grow with the scenario.
#include <algorithm>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {
namespace {

constexpr std::uint64_t events_min = 50'000'000, events_of_connection = 5000;
constexpr std::size_t frames_min = 1 << 20;
constexpr std::size_t frames_of_connection = 512;  // two send buffers in full segments
// Each host may flood so many frames at once, to all others: three announcements, and a question.
constexpr std::size_t floods_of_host = 4;

}  // namespace

ScenarioBounds bounds_of(const Scenario& scenario) {
  ScenarioBounds bounds = scenario.bounds;
  std::uint64_t connections = 0, hosts = 0;
  for (const ScenarioConnect& connect : scenario.connects) connections += connect.count;
  for (const ScenarioHost& host : scenario.hosts) hosts += host.is_switch ? 0 : 1;
  hosts = std::min<std::uint64_t>(hosts, discovered_hosts_max);
  const std::uint64_t floods = scenario.neighbours == Neighbours::known ? 0 : floods_of_host * hosts * hosts;
  if (!bounds.events) bounds.events = std::max(events_min, 2 * floods + events_of_connection * connections);
  if (!bounds.frames) bounds.frames = std::max<std::size_t>(frames_min, floods + frames_of_connection * connections);
  return bounds;
}

}  // namespace parley::sim
