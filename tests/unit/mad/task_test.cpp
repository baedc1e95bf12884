// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Tasks over a port: several at once, in which order, what stops them, and what becomes of their errors.
#include <gtest/gtest.h>

#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {
namespace task_test {
namespace {

using namespace wire::mad;

struct PortTasks : PortTest {
  PortTasks() {
    transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
      if (to.lid >= 100) return;  // nobody is there
      t.deliver(to, answer_to(mad, NodeInfo().set(NodeInfo::num_ports, static_cast<std::uint8_t>(to.lid)).octets(),
                              to.lid == 66 ? 0x001C : 0));
    };
  }
  std::vector<unsigned> lids_sent() const {
    std::vector<unsigned> out;
    for (const auto& [to, mad] : transport.log) out.push_back(to.lid);
    return out;
  }
};

Task<Reply<unsigned>> ports_of(Port& port, std::uint16_t lid) {
  Path path = Path::by_lid(lid);
  path.retries = 0;
  const Reply<NodeInfo> info = co_await port.subn_get<NodeInfo>(path);
  if (!info) co_return tl::unexpected(MadError(info.error()).about("asking LID " + std::to_string(lid)));
  co_return info->get(NodeInfo::num_ports);
}

TEST_F(PortTasks, GivesValuesOfAllOfDifferentTypes) {
  auto both = [](Port& port) -> Task<unsigned> {
    auto [a, b] = co_await when_all(port, ports_of(port, 3), port.subn_get<NodeInfo>(Path::by_lid(4)));
    co_return *a + b->get(NodeInfo::num_ports);
  };
  EXPECT_EQ(go(both(port())), 7U);
}

TEST_F(PortTasks, KeepsTheOthersWhenOneOfAllFails) {
  auto three = [](Port& port) -> Task<std::vector<Reply<unsigned>>> {
    std::vector<Task<Reply<unsigned>>> tasks;
    for (const std::uint16_t lid : std::array<std::uint16_t, 3>{5, 66, 7}) tasks.push_back(ports_of(port, lid));
    co_return co_await when_all(port, std::move(tasks));
  };
  const auto out = go(three(port()));
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0], 5U);
  EXPECT_EQ(out[1].error().fault(), Fault::status);
  EXPECT_EQ(out[1].error().context(), std::vector<std::string>{"asking LID 66"});
  EXPECT_EQ(out[2], 7U);
}

TEST_F(PortTasks, StopsSiblingsOfOneThatFails) {
  auto scope_of = [](Port& port) -> Task<Reply<void>> {
    Scope scope(port.executor());
    scope.spawn(ports_of(port, 100));  // would wait for a second
    scope.spawn(ports_of(port, 66));
    co_return co_await scope.join();
  };
  const Reply<void> out = go(scope_of(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().fault(), Fault::status);
  EXPECT_LT(transport.now - Instant{}, 1ms);
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

TEST_F(PortTasks, KeepsSiblingsWhereTheScopeSaysSo) {
  auto scope_of = [](Port& port) -> Task<Reply<void>> {
    Scope scope(port.executor(), {.on_error = OnError::keep});
    scope.spawn(ports_of(port, 100));
    scope.spawn(ports_of(port, 66));
    co_return co_await scope.join();
  };
  const Reply<void> out = go(scope_of(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().fault(), Fault::status) << "the first error is the one that counts";
  EXPECT_EQ(transport.now - Instant{}, 1s);
}

TEST_F(PortTasks, RunsChildrenInOrderAndBounded) {
  std::size_t most = 0;
  auto many = [&most](Port& port) -> Task<Reply<void>> {
    std::uint16_t lid = 0;
    co_return co_await run_each(port, {.limit = 3}, [&]() -> std::optional<Task<Reply<unsigned>>> {
      most = std::max(most, port.transactor().open_count());
      if (++lid > 20) return std::nullopt;
      return ports_of(port, lid);
    });
  };
  EXPECT_TRUE(go(many(port())));
  std::vector<unsigned> all(20);
  for (unsigned i = 0; i < 20; ++i) all[i] = i + 1;
  EXPECT_EQ(lids_sent(), all);
  EXPECT_LE(most, 3U);
}

TEST_F(PortTasks, EndsBoundedChildrenAtTheFirstError) {
  int made_so_far = 0;
  auto many = [&made_so_far](Port& port) -> Task<Reply<void>> {
    co_return co_await run_each(port, {.limit = 1}, [&]() -> std::optional<Task<Reply<unsigned>>> {
      return ports_of(port, ++made_so_far == 4 ? 66 : 9);
    });
  };
  const Reply<void> out = go(many(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().status(), 0x001C);
  EXPECT_EQ(made_so_far, 4);
}

TEST_F(PortTasks, StopsAtTheTasksDeadline) {
  auto late = [](Port& port) -> Task<Reply<unsigned>> {
    co_return co_await with_deadline(port, 10ms, ports_of(port, 100));
  };
  const Reply<unsigned> out = go(late(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().fault(), Fault::deadline);
  EXPECT_EQ(transport.now - Instant{}, 10ms);
}

TEST_F(PortTasks, StopsScopesWithinAStoppedOne) {
  auto inner = [](Port& port) -> Task<Reply<unsigned>> {
    auto [a, b] = co_await when_all(port, ports_of(port, 100), ports_of(port, 101));
    co_return a ? b : a;
  };
  auto outer = [&inner](Port& port) -> Task<Reply<unsigned>> {
    co_return co_await with_deadline(port, 5ms, inner(port));
  };
  const Reply<unsigned> out = go(outer(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().fault(), Fault::deadline);
  EXPECT_EQ(transport.now - Instant{}, 5ms);
}

TEST_F(PortTasks, RefusesWhatIsAskedInAStoppedScope) {
  auto asks_on = [](Port& port) -> Task<Reply<unsigned>> {
    (void)co_await ports_of(port, 100);
    co_return co_await ports_of(port, 3);
  };
  auto outer = [&](Port& port) -> Task<Reply<unsigned>> { co_return co_await with_deadline(port, 5ms, asks_on(port)); };
  const Reply<unsigned> out = go(outer(port()));
  ASSERT_FALSE(out);
  EXPECT_EQ(out.error().fault(), Fault::deadline);
  EXPECT_EQ(lids_sent(), std::vector<unsigned>{100});
}

TEST_F(PortTasks, SleepsAndIsWoken) {
  auto sleeps = [](Port& port) -> Task<bool> { co_return co_await port.sleep(3s); };
  EXPECT_TRUE(go(sleeps(port())));
  EXPECT_EQ(transport.now - Instant{}, 3s);
  auto stopped = [&](Port& port) -> Task<bool> { co_return co_await with_deadline(port, 1s, sleeps(port)); };
  EXPECT_FALSE(go(stopped(port())));
  EXPECT_EQ(transport.now - Instant{}, 4s);
}

TEST_F(PortTasks, EndsWhatIsLeftWhenItIsDropped) {
  {
    auto running = port().start(ports_of(port(), 100));
    ASSERT_TRUE(pump(port(), transport, transport.now));
    EXPECT_FALSE(running.done());
    EXPECT_EQ(port().transactor().open_count(), 1U);
  }
  EXPECT_EQ(port().transactor().open_count(), 0U);
  EXPECT_EQ(port().transactor().under_way(), 0U);
  EXPECT_EQ(port().executor().frames().in_use(), 0U);
}

TEST_F(PortTasks, BringsAnExceptionToWhoWaits) {
  auto throws = [](Port& port) -> Task<Reply<unsigned>> {
    (void)co_await ports_of(port, 3);
    throw std::runtime_error("bad luck");
  };
  auto waits = [&throws](Port& port) -> Task<Reply<void>> {
    Scope scope(port.executor());
    scope.spawn(throws(port));
    scope.spawn(ports_of(port, 100));
    co_return co_await scope.join();
  };
  EXPECT_THROW((void)go(waits(port())), std::runtime_error);
  EXPECT_EQ(port().executor().frames().in_use(), 0U);
}

TEST_F(PortTasks, KeepsToTheWindows) {
  options.window = {.start = 6, .most = 6};
  options.destination_window = {.start = 2, .most = 2};
  transport.peer = {};
  auto many = [](Port& port) -> Task<> {
    Scope scope(port.executor(), {.on_error = OnError::keep});
    for (const std::uint16_t lid : std::array<std::uint16_t, 11>{1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4})
      scope.spawn(ports_of(port, lid));
    (void)co_await scope.join();
  };
  auto running = port().start(many(port()));
  ASSERT_TRUE(pump(port(), transport, transport.now));
  EXPECT_EQ(lids_sent(), (std::vector<unsigned>{1, 1, 2, 2, 3, 3}));
  EXPECT_EQ(port().transactor().under_way(), 6U);
  const auto [to, mad] = transport.log[0];
  transport.deliver(to, answer_to(mad, NodeInfo().octets()), 0s);
  ASSERT_TRUE(pump(port(), transport, transport.now));
  EXPECT_EQ(lids_sent(), (std::vector<unsigned>{1, 1, 2, 2, 3, 3, 4})) << "the next one of LID 1 had to wait";
}

TEST_F(PortTasks, TakesAWholeChainWithoutDeepeningTheStack) {
  auto loop = [](Port& port) -> Task<unsigned> {
    auto one = [](Port&) -> Task<unsigned> { co_return 1U; };
    unsigned sum = 0;
    for (int i = 0; i < 200000; ++i) sum += co_await one(port);
    co_return sum;
  };
  EXPECT_EQ(go(loop(port())), 200000U);
}

}  // namespace
}  // namespace task_test
}  // namespace parley::mad
