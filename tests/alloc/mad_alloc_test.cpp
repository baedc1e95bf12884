// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A port of management datagrams that has run for a while asks for no memory: not for a request, its task, its timer or its answer.
#include <gtest/gtest.h>

#include "mad/loopback.hpp"
#include "tests/alloc/failing_new.hpp"

namespace parley::mad {
namespace {

using namespace std::chrono_literals;

Instant now{};

template <class A>
auto go(Port& port, Loopback& transport, A awaitable) {
  const auto clock = [] { return now += 1us; };
  const auto wait = [](Transport&, Instant deadline) { now = std::max(now, deadline); };
  return *run(port, transport, std::move(awaitable), clock, wait);
}

TEST(MadAllocations, AreNoneForARequestInSteadyState) {
  Loopback transport(wire::mad::NodeInfo().set(wire::mad::NodeInfo::num_ports, 2));
  Port port(transport.facts(), transport.local());
  ASSERT_EQ(go(port, transport, ask_in_turn(port, 5, 100)), 200U);
  const std::uint64_t before = failing_new::made();
  EXPECT_EQ(go(port, transport, ask_in_turn(port, 5, 10000)), 20000U);
  EXPECT_EQ(failing_new::made() - before, 0U);
}

TEST(MadAllocations, AreNoneForATaskAndItsRequestInSteadyState) {
  Loopback transport(wire::mad::NodeInfo{});
  Port port(transport.facts(), transport.local());
  ASSERT_TRUE(go(port, transport, ask_by_children(port, 1000, 40)));
  const std::uint64_t before = failing_new::made();
  EXPECT_TRUE(go(port, transport, ask_by_children(port, 10000, 40)));
  EXPECT_EQ(failing_new::made() - before, 0U);
}

Task<unsigned> sleep_on_deadlines(Port& port, int times) {
  const auto nap = [](Port& on) -> Task<unsigned> { co_return (co_await on.sleep(1ms)) ? 1U : 0U; };
  unsigned slept = 0;
  for (int i = 0; i < times; ++i) slept += co_await with_deadline(port, 1s, nap(port));
  co_return slept;
}

TEST(MadAllocations, AreNoneForTimersAndScopesInSteadyState) {
  Loopback transport(wire::mad::NodeInfo{});
  Port port(transport.facts(), transport.local());
  ASSERT_EQ(go(port, transport, sleep_on_deadlines(port, 10)), 10U);
  const std::uint64_t before = failing_new::made();
  EXPECT_EQ(go(port, transport, sleep_on_deadlines(port, 1000)), 1000U);
  EXPECT_EQ(failing_new::made() - before, 0U);
}

}  // namespace
}  // namespace parley::mad
