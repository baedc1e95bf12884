// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Many drawn fabrics whose answers get lost, doubled, late and wrong: every request ends in what its destination does, and nothing is left.
#include <gtest/gtest.h>

#include "base/rng.hpp"
#include "tests/unit/mad/mad_kit.hpp"
#include "tests/unit/mad/seed_count.hpp"

namespace parley::mad {
namespace seeds_test {
namespace {

using namespace wire::mad;

// What a destination does is its LID's last digit.
enum Nature { good, dead, busy, busy_at_first, loops, redirects, fails, wrong_length, refuses, good_too, natures };

struct Fabric {
  Rng rng;
  std::map<std::uint16_t, int> asked{};

  void handle(MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (rng.below(10) == 0) return;  // lost on the way there
    const unsigned nature = to.lid % natures;
    ClassPortInfo elsewhere;
    elsewhere.set(ClassPortInfo::redirect_qp, 1).set(ClassPortInfo::redirect_q_key, general_qkey);
    const auto own = static_cast<std::uint8_t>(to.lid);
    const Datagram right = answer_to(mad, PortCounters().set(PortCounters::port_select, own).octets());
    Datagram answer = right;
    if (nature == dead) return;
    if (nature == refuses) return t.deliver(to, mad, 5us, true);
    if (nature == busy || (nature == busy_at_first && asked[to.lid]++ < 3)) write_bits(answer, 32, 16, 1);
    if (nature == fails) write_bits(answer, 32, 16, 0x1C);
    if (nature == redirects || nature == loops) {
      const int next = to.lid - (nature == loops ? 0 : nature);
      answer = answer_to(mad, elsewhere.set(ClassPortInfo::redirect_lid, static_cast<std::uint16_t>(next)).octets(), 2);
    }
    if (nature == wrong_length) return t.deliver(to, ConstBytes(answer).first(100 + rng.below(100)), 5us);
    spoil(t, to, right);
    if (rng.below(10) == 0) return;  // lost on the way back
    const Duration delay = rng.below(20) == 0 ? Duration(12ms) : Duration(1000 + rng.below(100000));
    t.deliver(to, answer, delay);
    if (rng.below(5) == 0) t.deliver(to, answer, delay * 2);
  }
  /// Beside the answer, one that is to be passed over.
  void spoil(MemoryTransport& t, Address from, Datagram wrong) {
    switch (rng.below(16)) {
      case 0: wrong[15] ^= 0x40; break;
      case 1: wrong[1] = 0x03; break;
      case 2: wrong[3] = 0x01; break;
      case 3: from.lid ^= 0x100; break;
      case 4: wrong[8] ^= 1; break;
      default: return;
    }
    t.deliver(from, wrong, Duration(500));
  }
};

std::optional<Fault> due_to(std::uint16_t lid) {
  switch (static_cast<Nature>(lid % natures)) {
    case dead: return Fault::timeout;
    case busy: return Fault::busy;
    case loops: return Fault::redirect_loop;
    case fails: return Fault::status;
    case wrong_length: return Fault::malformed;
    case refuses: return Fault::refused;
    default: return std::nullopt;
  }
}

Path path_to(std::uint16_t lid) {
  Path path = Path::by_lid(lid);
  path.timeout = 10ms;
  path.retries = 30;
  return path;
}

/// What is wrong with it; empty if nothing.
std::string run_seed(std::uint64_t seed, std::size_t requests) {
  Fabric fabric{Rng(seed)};
  MemoryTransport transport;
  transport.peer = [&fabric](MemoryTransport& t, const Address& to, ConstBytes mad) {
    t.log.clear();
    fabric.handle(t, to, mad);
  };
  PortOptions options{.seed = seed, .wait_max = 20ms};
  options.window.start = 1 + seed % 16;
  options.destination_window.start = 1 + seed % 3;
  Port port(transport.facts(), transport.local(), options);
  std::string wrong;
  auto one = [&wrong](Port& on, std::uint16_t lid) -> Task<> {
    const auto counters = co_await on.perf_get<PortCounters>(path_to(lid));
    const std::optional<Fault> due = due_to(lid);
    const auto was = counters ? std::nullopt : std::optional(counters.error().fault());
    const int answering = lid % natures == redirects ? lid - redirects : lid;
    if (was != due || (counters && counters->get(PortCounters::port_select) != (answering & 0xFF)))
      wrong += "LID " + std::to_string(lid) + (counters ? " answered" : ": " + counters.error().message());
  };
  auto all = [&](Port& on) -> Task<> {
    Scope scope(on.executor(), {.limit = 8});
    for (std::size_t i = 0; i < requests && co_await scope.room(); ++i)
      scope.spawn(one(on, static_cast<std::uint16_t>(10 + fabric.rng.below(40))));
    (void)co_await scope.join();
  };
  run_in(port, transport, all(port));
  if (port.transactor().open_count() != 0 || port.transactor().under_way() != 0) wrong += "requests are left";
  if (port.executor().frames().in_use() != 0) wrong += "tasks are left";
  if (port.next_deadline() != never) wrong += "a deadline is left";
  return wrong;
}

TEST(PortSeeds, EndEveryRequestInWhatItsDestinationDoes) {
  for (std::uint64_t seed = 1; seed <= seed_count(); ++seed) {
    std::string wrong;
    ASSERT_NO_THROW(wrong = run_seed(seed, 20)) << "seed " << seed;
    ASSERT_EQ(wrong, "") << "seed " << seed;
  }
}

}  // namespace
}  // namespace seeds_test
}  // namespace parley::mad
