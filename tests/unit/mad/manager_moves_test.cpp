// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Another subnet manager takes over while requests to the old one's subnet administration are under way.
#include <gtest/gtest.h>

#include "tests/unit/mad/mad_kit.hpp"

namespace parley::mad {
namespace manager_moves_test {
namespace {

using namespace wire::mad;

struct PortManager : PortTest {
  static constexpr std::uint16_t old_lid = 2, new_lid = 5;

  /// The manager at old_lid has died; the port's LID of its manager changes when the second request leaves.
  PortManager() {
    transport.peer = [this](MemoryTransport& t, const Address& to, ConstBytes mad) {
      lids.push_back(to.lid);
      tids.push_back(read_bits(mad, 64, 64));
      if (lids.size() == 2) {
        t.local_.sm_lid = new_lid;
        t.changed = true;
      }
      if (to.lid == new_lid) t.deliver(to, answer_to(mad, PathRecord().set(PathRecord::dlid, 12).octets()));
    };
  }
  std::vector<std::uint16_t> lids;
  std::vector<std::uint64_t> tids;
};

TEST_F(PortManager, IsFollowedByWhatAskedTheOldOne) {
  const auto path = go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 12)));
  ASSERT_TRUE(path) << path.error().dump();
  EXPECT_EQ(path->get(PathRecord::dlid), 12);
  EXPECT_EQ(lids, (std::vector<std::uint16_t>{old_lid, old_lid, new_lid}));
  EXPECT_EQ(tids[0], tids[1]);
  EXPECT_NE(tids[1], tids[2]) << "a late answer of the old one is none of the new one";
  EXPECT_EQ(port().transactor().open_count(), 0U);
  EXPECT_EQ(port().counters().timeouts, 0U);
}

TEST_F(PortManager, HasAllRetriesOfARequestAnew) {
  transport.peer = [&, before = transport.peer](MemoryTransport& t, const Address& to, ConstBytes mad) {
    if (to.lid == new_lid && lids.size() < 5) return lids.push_back(to.lid);  // lost
    before(t, to, mad);
  };
  ASSERT_TRUE(go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 12))));
  EXPECT_EQ(lids, (std::vector<std::uint16_t>{old_lid, old_lid, new_lid, new_lid, new_lid, new_lid}));
}

TEST_F(PortManager, IsFollowedByWhatHasNotBeenSentYet) {
  options.destination_window = {.start = 1, .least = 1, .most = 1};
  auto all = [](Port& port) -> Task<unsigned> {
    unsigned good = 0;
    Scope scope(port.executor());
    auto one = [](Port& p, unsigned& count) -> Task<> {
      if (co_await p.sa_get(Query<PathRecord>().set(PathRecord::dlid, 12))) ++count;
    };
    for (int i = 0; i < 20; ++i) scope.spawn(one(port, good));
    (void)co_await scope.join();
    co_return good;
  };
  EXPECT_EQ(go(all(port())), 20U);
  EXPECT_EQ(std::count(lids.begin(), lids.end(), old_lid), 2) << "the first one alone, and its retry";
  EXPECT_EQ(port().transactor().open_count(), 0U);
}

TEST_F(PortManager, IsNotFollowedByRequestsToALidThatWasNamed) {
  Path named = Path::by_lid(7);
  named.retries = 2;
  const auto path = go(port().sa_get(named, Query<PathRecord>().set(PathRecord::dlid, 12)));
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().fault(), Fault::timeout);
  EXPECT_EQ(lids, (std::vector<std::uint16_t>{7, 7, 7}));
}

TEST_F(PortManager, IsNotFollowedByOtherClassesAtItsLid) {
  Path there = Path::by_lid(old_lid);
  there.retries = 2;
  EXPECT_FALSE(go(port().perf_get<PortCounters>(there)));
  EXPECT_EQ(lids, (std::vector<std::uint16_t>{old_lid, old_lid, old_lid}));
}

// Then there is no other to ask, but it may come back.
TEST_F(PortManager, ThatIsGoneWithoutAnotherEndsInATimeout) {
  transport.peer = [&](MemoryTransport& t, const Address& to, ConstBytes) {
    lids.push_back(to.lid);
    t.local_.sm_lid = 0;
    t.changed = true;
  };
  const auto path = go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 12)));
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().fault(), Fault::timeout);
  EXPECT_EQ(lids, std::vector<std::uint16_t>(4, old_lid));
  transport.peer = [](MemoryTransport& t, const Address& to, ConstBytes mad) {
    EXPECT_EQ(to.lid, old_lid);
    t.deliver(to, answer_to(mad, PathRecord().octets()));
  };
  EXPECT_TRUE(go(port().sa_get(Query<PathRecord>().set(PathRecord::dlid, 12))));
}

}  // namespace
}  // namespace manager_moves_test
}  // namespace parley::mad
