// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whole trees in memory: 1 core, 2 distribution, 8 access nodes and 200 consumers, with loss, and nodes that die.
#include <gmock/gmock.h>

#include <algorithm>

#include "tests/unit/ssa/tree_kit.hpp"

namespace parley::ssa {
namespace tree_test {
namespace {

using namespace kit;

/// The largest second at the core from `from` on, and the mean of these seconds.
struct Wave {
  std::uint64_t largest = 0;
  double mean = 0;
};
Wave wave_of(const Tree& tree, Instant from) {
  const std::int64_t first = from.time_since_epoch() / 1s, last = tree.now.time_since_epoch() / 1s;
  Wave out;
  std::uint64_t sum = 0;
  for (std::int64_t second = first; second <= last; ++second) {
    const auto found = tree.at_core.find(second);
    const std::uint64_t n = found == tree.at_core.end() ? 0 : found->second;
    out.largest = std::max(out.largest, n);
    sum += n;
  }
  out.mean = static_cast<double>(sum) / static_cast<double>(last - first + 1);
  return out;
}
void expect_no_wave(const Tree& tree, Instant from) {
  const Wave wave = wave_of(tree, from);
  EXPECT_LE(static_cast<double>(wave.largest), 3 * wave.mean) << wave.mean << " datagrams a second at the core";
}

/// Boots all, and waits until every consumer has a parent and a backup.
void boot(Tree& tree) {
  tree.boot_all();
  ASSERT_TRUE(tree.run_until(120s, [&] { return tree.connected(true) == tree.shape.consumers; }))
      << tree.connected() << " connected, " << tree.connected(true) << " with backup";
}
/// The master's table is what the nodes say.
void expect_table_is_right(Tree& tree) {
  for (std::uint16_t lid = 2; lid < tree.hosts.size(); ++lid) {
    if (tree.hosts[lid].stopped) {
      EXPECT_EQ(tree.master->stage_of(gid_of(lid)), std::nullopt) << lid;
      continue;
    }
    const auto [parent, backup] = tree.master->parents_of(gid_of(lid));
    EXPECT_EQ(lid_of(parent), tree.parent_of(lid)) << lid;
    EXPECT_EQ(lid_of(backup), tree.backup_of(lid)) << lid;
  }
}
std::vector<std::uint16_t> children_of(Tree& tree, std::uint16_t parent) {
  std::vector<std::uint16_t> out;
  for (std::uint16_t i = 0; i < tree.shape.consumers; ++i)
    if (tree.parent_of(tree.consumer(i)) == parent) out.push_back(tree.consumer(i));
  return out;
}

struct SsaTree : testing::TestWithParam<std::tuple<int, int>> {
  SsaTree()
      : tree(static_cast<std::uint64_t>(std::get<0>(GetParam())), {},
             {.loss = {static_cast<std::uint32_t>(std::get<1>(GetParam())), 100}}) {}
  Tree tree;
};

TEST_P(SsaTree, ConnectsFromAColdBootWithoutAWaveAtTheCore) {
  boot(tree);
  expect_no_wave(tree, Instant{});
  tree.run(20s);
  EXPECT_EQ(tree.connected(true), 200U);
  EXPECT_EQ(tree.master->members(), 210U);
  for (std::uint16_t i = 0; i < 8; ++i) {
    const std::uint16_t lid = tree.access(i);
    EXPECT_TRUE(tree.parent_of(lid) == tree.distribution(0) || tree.parent_of(lid) == tree.distribution(1));
    EXPECT_THAT(children_of(tree, lid).size(), testing::AllOf(testing::Ge(15U), testing::Le(35U)));
  }
  for (std::uint16_t i = 0; i < 200; ++i) {
    const std::uint16_t lid = tree.consumer(i), parent = tree.parent_of(lid), backup = tree.backup_of(lid);
    EXPECT_NE(parent, backup);
    EXPECT_NE(tree.leaf(parent), tree.leaf(backup)) << "one switch must not take both";
    EXPECT_TRUE(parent >= tree.access(0) && parent < tree.consumer(0));
  }
}

TEST_P(SsaTree, ConsumersOfADeadAccessNodeAreOnTheirBackupsWithinThreeHeartbeats) {
  boot(tree);
  tree.run(20s);
  const std::uint16_t dead = tree.access(3);
  const std::vector<std::uint16_t> orphans = children_of(tree, dead);
  ASSERT_FALSE(orphans.empty());
  std::map<std::uint16_t, std::pair<std::uint16_t, std::uint64_t>> before;
  for (const std::uint16_t lid : orphans) before[lid] = {tree.backup_of(lid), tree.hosts[lid].queries};
  tree.kill(dead);
  const bool lossless = tree.network.loss.of == 0;
  tree.run(lossless ? 6s : 7s);
  for (const std::uint16_t lid : orphans) {
    EXPECT_TRUE(tree.is_connected(lid)) << lid;
    EXPECT_EQ(tree.parent_of(lid), before[lid].first);
    EXPECT_EQ(tree.hosts[lid].queries, before[lid].second) << "it asked the root";
  }
  EXPECT_TRUE(tree.run_until(60s, [&] { return tree.connected(true) == 200; })) << "new backups";
  tree.run(20s);
  EXPECT_EQ(tree.master->stage_of(gid_of(dead)), std::nullopt);
}

TEST_P(SsaTree, SurvivesTheDeathOfADistributionNodeAndOfTwoAccessNodes) {
  boot(tree);
  tree.run(10s);
  tree.kill(tree.distribution(0));
  tree.run(3s);
  tree.kill(tree.access(0));
  tree.kill(tree.access(5));
  EXPECT_TRUE(tree.run_until(120s, [&] { return tree.connected(true) == 200; }))
      << tree.connected() << " connected, " << tree.connected(true) << " with backup";
  for (std::uint16_t i = 0; i < 8; ++i)
    if (i != 0 && i != 5) {
      EXPECT_EQ(tree.parent_of(tree.access(i)), tree.distribution(1));
    }
}

TEST_P(SsaTree, ANewMasterKeepsTheShapeAndThereIsNoStorm) {
  boot(tree);
  tree.run(20s);
  std::map<std::uint16_t, std::uint16_t> parents;
  for (std::uint16_t lid = 2; lid < tree.hosts.size(); ++lid) parents[lid] = tree.parent_of(lid);
  const Instant handover = tree.now;
  tree.start_master({2, 1});
  EXPECT_TRUE(tree.run_until(90s, [&] { return tree.master->members() == 210; })) << tree.master->members();
  expect_no_wave(tree, handover);
  tree.run(20s);
  std::size_t moved = 0;
  for (const auto& [lid, parent] : parents) moved += tree.parent_of(lid) == parent ? 0 : 1;
  EXPECT_LE(moved, 4U) << "of 210";
  EXPECT_EQ(tree.connected(true), 200U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SsaTree, testing::Combine(testing::Values(1, 2), testing::Values(0, 1, 10)),
                         [](const auto& info) {
                           return "Seed" + std::to_string(std::get<0>(info.param)) + "Loss" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(SsaTrees, TheSameSeedIsTheSameRun) {
  const auto run = [](std::uint64_t seed) {
    Tree tree(seed, {.consumers = 40}, {.loss = {5, 100}});
    tree.boot_all();
    tree.run(15s);
    return std::tuple(tree.delivered, tree.lost, tree.connected(true), tree.master->counters().retransmitted);
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(SsaTrees, TheTableIsWhatTheNodesSay) {
  Tree tree(5, {.consumers = 60}, {.loss = {1, 100}});
  boot(tree);
  tree.run(20s);
  expect_table_is_right(tree);
  tree.kill(tree.access(2));
  tree.kill(tree.consumer(7));
  tree.run(60s);
  expect_table_is_right(tree);
}

TEST(SsaTrees, AStoppedConsumerIsForgottenAndReturns) {
  Tree tree(6, {.consumers = 40});
  boot(tree);
  tree.run(20s);
  const std::uint16_t lid = tree.consumer(9);
  tree.kill(lid);
  tree.run(40s);
  EXPECT_EQ(tree.master->stage_of(gid_of(lid)), std::nullopt);
  tree.resume(lid);
  EXPECT_TRUE(tree.run_until(6s, [&] { return tree.is_connected(lid); })) << "its backup takes it";
  EXPECT_TRUE(tree.run_until(120s, [&] { return tree.connected(true) == 40; }));
  tree.run(20s);
  EXPECT_EQ(tree.master->stage_of(gid_of(lid)), MemberStage::confirmed);
}

TEST(SsaTrees, ALinkThatFailsMovesOneConsumerOnly) {
  Tree tree(7, {.consumers = 40});
  boot(tree);
  tree.run(20s);
  const std::uint16_t lid = tree.consumer(3), parent = tree.parent_of(lid), backup = tree.backup_of(lid);
  tree.cut(lid, parent);
  tree.run(30s);
  EXPECT_EQ(tree.parent_of(lid), backup);
  EXPECT_TRUE(tree.node(lid).has_backup());
  EXPECT_NE(tree.backup_of(lid), parent);
  EXPECT_EQ(tree.master->counters().lost, 0U);
  EXPECT_EQ(tree.connected(true), 40U);
}

TEST(SsaTrees, ADistributionNodeThatWasCutOffFromItsOnlyParentReturns) {
  Tree tree(12, {.consumers = 20});
  boot(tree);
  tree.run(20s);
  tree.cut(Tree::core, tree.distribution(0));
  tree.run(8s);
  EXPECT_FALSE(tree.is_connected(tree.distribution(0)));
  tree.heal();
  EXPECT_TRUE(tree.run_until(30s, [&] { return tree.is_connected(tree.distribution(0)); }));
  EXPECT_TRUE(tree.run_until(120s, [&] { return tree.connected(true) == 20; }));
}

TEST(SsaTrees, ADeadDistributionNodeIsForgotten) {
  Tree tree(13, {.consumers = 20});
  boot(tree);
  tree.run(20s);
  tree.kill(tree.distribution(1));
  EXPECT_TRUE(tree.run_until(30s, [&] { return !tree.master->stage_of(gid_of(tree.distribution(1))); }));
}

TEST(SsaTrees, ConsumersThatBootBeforeAnyAccessNodeWaitForOne) {
  Tree tree(8, {.consumers = 40});
  tree.boot(Tree::core);
  for (std::uint16_t i = 0; i < 40; ++i) tree.boot(tree.consumer(i));
  tree.run(60s);
  EXPECT_EQ(tree.connected(), 0U);
  EXPECT_LE(tree.master->counters().hellos, 40U * 5U);
  for (std::uint16_t i = 0; i < 8; ++i) tree.boot(tree.access(i));
  for (std::uint16_t i = 0; i < 2; ++i) tree.boot(tree.distribution(i));
  EXPECT_TRUE(tree.run_until(60s, [&] { return tree.connected(true) == 40; })) << tree.connected();
}

TEST(SsaTrees, AnAccessNodeThatComesLateGetsItsShare) {
  Tree tree(9, {.access = 4, .consumers = 80});
  tree.kill(tree.access(3));
  tree.boot_all();
  tree.run(40s);
  EXPECT_EQ(tree.connected(true), 80U);
  tree.resume(tree.access(3));
  const std::uint64_t before = tree.master->counters().moved;
  tree.run(35s);
  EXPECT_LE(tree.master->counters().moved - before, 2U * 16U) << "moves of a rebalance are bounded";
  tree.run(120s);
  EXPECT_GE(children_of(tree, tree.access(3)).size(), 10U);
  EXPECT_EQ(tree.connected(true), 80U);
  const std::uint64_t settled = tree.master->counters().moved;
  tree.run(120s);
  EXPECT_EQ(tree.master->counters().moved, settled) << "it comes to rest";
}

TEST(SsaTrees, AllLeaveAndTheMasterForgetsThem) {
  Tree tree(10, {.consumers = 20});
  boot(tree);
  tree.run(20s);
  for (std::uint16_t lid = 2; lid < tree.hosts.size(); ++lid) tree.node(lid).leave(tree.now);
  for (std::uint16_t lid = 2; lid < tree.hosts.size(); ++lid) tree.resume(lid);
  tree.run(20s);
  EXPECT_EQ(tree.master->members(), 0U);
}

TEST(SsaTrees, AnEpochReachesEveryConsumer) {
  Tree tree(11, {.consumers = 60}, {.loss = {10, 100}});
  boot(tree);
  tree.master->set_counter(2);
  tree.node(Tree::core).handle_database(tree.now, {1, 2});
  tree.resume(Tree::core);
  const auto all_have_it = [&] {
    for (std::uint16_t i = 0; i < 60; ++i)
      if (tree.node(tree.consumer(i)).parent().epoch != Epoch{1, 2}) return false;
    return true;
  };
  EXPECT_TRUE(tree.run_until(10s, all_have_it)) << "lost pushes are made up by heartbeats";
}

}  // namespace
}  // namespace tree_test
}  // namespace parley::ssa
