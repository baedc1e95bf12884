// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The simulator's event queue compared with std::priority_queue, by the hold model: take the earliest event, push it
// again a random time later. Both get the same times, and their orders of events are compared before they are timed.
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <stdexcept>
#include <vector>

#include "base/rng.hpp"
#include "bench/harness.hpp"
#include "sim/net/event_queue.hpp"

namespace parley::bench {
namespace {

/// As in a network of fast links: 70 % of the events follow after about a microsecond (serialisation), 25 % after 10 us
/// (propagation), 5 % after a millisecond (timers).
std::int64_t increment(Rng& rng) {
  const std::uint64_t draw = rng.next();
  const std::uint64_t kind = draw & 255, spread = draw >> 8 & 0xFFFF;
  if (kind < 180) return static_cast<std::int64_t>(100 + spread * 20 / 1000);
  if (kind < 243) return static_cast<std::int64_t>(10'000 + spread / 1000);
  return static_cast<std::int64_t>(200'000 + spread * 16);
}

struct Taken {
  std::int64_t at;
  std::uint32_t handle;
};

class Standard {
 public:
  void push(std::int64_t at, std::uint32_t handle) { queue_.push({at, sequence_++, handle}); }
  Taken pop() {
    const Entry top = queue_.top();
    queue_.pop();
    return {top.at, top.handle};
  }

 private:
  struct Entry {
    std::int64_t at;
    std::uint32_t sequence, handle;  // 16 octets in total
    bool operator>(const Entry& other) const { return at != other.at ? at > other.at : sequence > other.sequence; }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> queue_;
  std::uint32_t sequence_ = 0;
};

class Parleys {
 public:
  void push(std::int64_t at, std::uint32_t handle) { queue_.push(Instant(Duration(at)), handle); }
  Taken pop() {
    const auto popped = queue_.pop();
    return {popped.at.time_since_epoch().count(), popped.handle};
  }

 private:
  sim::EventQueue queue_;
};

/// Repeatedly takes and pushes events, of which `pending` are in the queue.
template <class Queue>
class Hold {
 public:
  explicit Hold(std::uint32_t pending) : rng_(pending) {
    for (std::uint32_t i = 0; i < pending; ++i) queue_.push(increment(rng_), i);
    for (std::uint32_t i = 0; i < 3 * pending; ++i) turn();  // until the distribution is stationary
  }
  Taken turn() {
    const Taken taken = queue_.pop();
    queue_.push(taken.at + increment(rng_), taken.handle);
    return taken;
  }
  Sample measure(double seconds) {
    const Stopwatch watch;
    double count = 0;
    do {
      for (int i = 0; i < 20'000; ++i) (void)turn();
      count += 20'000;
    } while (watch.wall_s() < seconds);
    return watch.stop(count);
  }

 private:
  Queue queue_;
  Rng rng_;
};

void compare_order(std::uint32_t pending) {
  Hold<Standard> standard(pending);
  Hold<Parleys> parleys(pending);
  for (std::uint32_t i = 0; i < 2 * pending; ++i) {
    const Taken a = standard.turn(), b = parleys.turn();
    if (a.at != b.at || a.handle != b.handle) throw std::runtime_error("the two queues disagree about the order");
  }
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv, "event_queue_bench: the event queue beside std::priority_queue");
  if (!settings) return 2;
  Report report("event_queue_bench", *settings);
  report.section("take the earliest event and push it again (hold model); ties in push order");
  for (const std::uint32_t pending : {1'000u, 10'000u, 100'000u, 1'000'000u}) {
    if (settings->quick && pending > 100'000) continue;
    compare_order(std::min(pending, 100'000u));
    Hold<Parleys> parleys(pending);
    Hold<Standard> standard(pending);
    const auto samples = alternate({{"parley", [&] { return parleys.measure(settings->seconds); }},
                                    {"std", [&] { return standard.measure(settings->seconds); }}},
                                   settings->rounds);
    const auto time_ns = [&](std::size_t who) { return 1e9 / median_of(samples[who], Reading::per_cpu_second); };
    report.add({.what = fmt::format("{} pending", pending),
                .unit = "ns",
                .figure = time_ns(0),
                .limit_name = "std::priority_queue",
                .limit = time_ns(1),
                .ratio = median_ratio(samples[1], samples[0], Reading::per_second),
                .cpu_ratio = median_ratio(samples[1], samples[0], Reading::per_cpu_second),
                .goal_kind = pending < 10'000 ? Row::Goal::none : Row::Goal::ratio_at_most,
                .goal = 0.6});
  }
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("event_queue_bench", parley::bench::run, argc, argv); }
