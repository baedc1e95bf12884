// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/bounds.hpp"

#include <fmt/format.h>

namespace parley::sim::check {
namespace {

constexpr std::string_view bounds_checker = "bounds";

void at_most(std::string_view what, std::size_t value, std::string_view key, std::size_t bound, Instant now,
             Judge& judge) {
  if (value > bound)
    judge.add(bounds_checker, now, {},
              fmt::format("{}: {} where at most {} are allowed ([bounds] {})", what, value, bound, key));
}

}  // namespace

void check_queues(const HostState& host, const ScenarioBounds& bounds, Instant now, Judge& judge) {
  at_most("octets in a send queue of " + host.name, host.counters.send_queue_peak, "send_queue", bounds.send_queue, now,
          judge);
  at_most("octets in a reassembly queue of " + host.name, host.counters.reassembly_peak, "reassembly",
          bounds.reassembly, now, judge);
}

void check_frames(const WorldCounters& counters, const ScenarioBounds& bounds, Instant now, Judge& judge) {
  if (bounds.frames) at_most("frames in flight", counters.frames_peak, "frames", *bounds.frames, now, judge);
}

void check_left_over(const HostState& host, bool silent, Instant now, Judge& judge) {
  if (!host.up) return;
  if (host.endpoints != host.endpoints_expected)
    judge.add(
        bounds_checker, now, {},
        fmt::format(
            "{} still holds {} endpoints at the end; expected {} (listeners and connections that no program closes)",
            host.name, host.endpoints, host.endpoints_expected));
  if (silent && host.counters.streams > host.streams_expected)
    judge.add(bounds_checker, now, {},
              fmt::format("{} still holds {} TCP connections when nothing is left to happen, {} were expected",
                          host.name, host.counters.streams, host.streams_expected));
}

}  // namespace parley::sim::check
