// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parents and backups by hops and load, and moves that are bounded.
#include <gtest/gtest.h>

#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa {
namespace placement_test {
namespace {

using namespace kit;

constexpr Placement::Id none = Placement::none;

/// The core is 0, distribution nodes 1 and 2, access nodes 3 to 6, consumers from 10 on; the id is the LID, too. The leaf
/// switch of a LID is its rest by 4.
struct SsaPlacement : testing::Test {
  static std::uint64_t leaf(const Gid& gid) { return 1U + lid_of(gid) % 4U; }
  static TreeTopology topology() {
    return {[](const Gid& a, const Gid& b) { return leaf(a) == leaf(b) ? 2U : 4U; },
            [](const Gid& a) { return leaf(a); }};
  }
  void add(Placement::Id id, std::uint8_t node_roles, bool is_root = false) {
    p.add(id, gid_of(static_cast<std::uint16_t>(id)), node_roles, is_root);
  }
  void place(Placement::Id id) {
    const Placement::Id parent = p.choose_parent(id);
    p.assign(id, {parent, p.choose_backup(id, parent)});
  }
  void SetUp() override {
    add(0, roles::core, true);
    for (Placement::Id id = 1; id <= 2; ++id) add(id, roles::distribution), place(id);
    for (Placement::Id id = 3; id <= 6; ++id) add(id, roles::access), place(id);
  }
  void add_consumers(Placement::Id first, Placement::Id count) {
    for (Placement::Id id = first; id < first + count; ++id) add(id, roles::consumer), place(id);
  }
  Placement p{topology(), {.capacity = 12}};
};

TEST_F(SsaPlacement, LayersFollowTheRoles) {
  EXPECT_EQ(p.of(1), (Placement::Choice{0, none}));
  EXPECT_EQ(p.of(3).backup + p.of(3).parent, 1U + 2U) << "an access node has both distribution nodes";
  add(10, roles::consumer);
  for (const Placement::Id wrong : {0U, 1U, 2U, 10U}) EXPECT_FALSE(p.can_be_parent(10, wrong)) << wrong;
  EXPECT_TRUE(p.can_be_parent(10, 3));
  EXPECT_FALSE(p.can_be_parent(3, 10));
  EXPECT_FALSE(p.can_be_parent(1, 3));
  add(11, roles::distribution | roles::access);
  EXPECT_TRUE(p.can_be_parent(10, 11));
  EXPECT_TRUE(p.can_be_parent(3, 11));
  EXPECT_FALSE(p.can_be_parent(11, 1)) << "both are in the same layer";
}

TEST_F(SsaPlacement, ANearParentIsPreferredUntilItHasMoreLoadThanAHopIsWorth) {
  for (Placement::Id id = 11; id <= 43; id += 4) {  // all at the leaf of access node 3
    add(id, roles::consumer);
    place(id);
  }
  EXPECT_EQ(p.load(3), 9U) << "2 hops are worth 8 children more; the others have none";
  add(47, roles::consumer);
  place(47);
  EXPECT_NE(p.of(47).parent, 3U);
}

TEST_F(SsaPlacement, BackupsAreAtOtherLeafSwitchesAndSpread) {
  add(7, roles::access);  // at the leaf of 3
  place(7);
  add_consumers(10, 40);
  for (Placement::Id id = 10; id < 50; ++id) {
    const auto [parent, backup] = p.of(id);
    ASSERT_NE(parent, none);
    ASSERT_NE(backup, none);
    EXPECT_NE(leaf(gid_of(static_cast<std::uint16_t>(parent))), leaf(gid_of(static_cast<std::uint16_t>(backup))));
  }
  for (Placement::Id id = 3; id <= 7; ++id) {
    EXPECT_LE(p.load(id), 12U);
    EXPECT_LE(p.backup_load(id), 12U);
  }
}

TEST_F(SsaPlacement, CapacityAndExclusionHold) {
  add_consumers(10, 48);
  for (Placement::Id id = 3; id <= 6; ++id) EXPECT_EQ(p.load(id), 12U);
  add(100, roles::consumer);
  EXPECT_EQ(p.choose_parent(100), none);
  p.assign(10, {});
  const Placement::Id free = p.choose_parent(100);
  ASSERT_NE(free, none);
  EXPECT_EQ(p.choose_parent(100, free), none);
  p.set_available(free, false);
  EXPECT_EQ(p.choose_parent(100), none);
}

TEST_F(SsaPlacement, ABackupOfTheOnlyLeafIsBetterThanNone) {
  Placement q(topology());
  q.add(0, gid_of(0), roles::core, true);
  q.add(1, gid_of(1), roles::access);
  q.add(2, gid_of(5), roles::access);  // the same leaf
  q.add(3, gid_of(9), roles::consumer);
  EXPECT_EQ(q.choose_parent(3), 1U);
  EXPECT_EQ(q.choose_backup(3, 1), 2U);
  EXPECT_EQ(q.choose_backup(3, 1, 2), none);
}

TEST_F(SsaPlacement, RebalancingIsBoundedAndComesToRest) {
  for (Placement::Id id = 4; id <= 6; ++id) p.set_available(id, false);
  for (Placement::Id id = 10; id < 22; ++id) add(id, roles::consumer), place(id);
  EXPECT_EQ(p.load(3), 12U);
  for (Placement::Id id = 4; id <= 6; ++id) p.set_available(id, true);
  EXPECT_EQ(p.rebalance(2).size(), 2U);
  EXPECT_EQ(p.load(3), 10U);
  std::size_t moves = 0;
  for (int i = 0; i < 20; ++i) moves += p.rebalance(2).size();
  EXPECT_LE(moves, 8U);
  EXPECT_TRUE(p.rebalance(100).empty());
  for (Placement::Id id = 3; id <= 6; ++id) EXPECT_LE(p.load(id), 4U) << "a third more than the mean of 3";
  for (Placement::Id id = 10; id < 22; ++id) EXPECT_NE(p.of(id).parent, p.of(id).backup);
}

TEST_F(SsaPlacement, LeavingTheRootIsBoundedToo) {
  Placement q(topology());
  q.add(0, gid_of(0), roles::core, true);
  for (const std::uint16_t id : std::initializer_list<std::uint16_t>{3, 4, 5, 6, 7}) {
    q.add(id, gid_of(id), roles::access);
    q.assign(id, {q.choose_parent(id), none});
    ASSERT_EQ(q.of(id).parent, 0U) << "there is no distribution node yet";
  }
  q.add(1, gid_of(1), roles::distribution);
  q.assign(1, {0, none});
  EXPECT_TRUE(q.rebalance(0).empty());
  EXPECT_EQ(q.rebalance(2), (std::vector<Placement::Id>{3, 4}));
  EXPECT_EQ(q.load(0), 4U);
  EXPECT_EQ(q.load(1), 2U);
  EXPECT_EQ(q.rebalance(1), (std::vector<Placement::Id>{5}));
  EXPECT_EQ(q.rebalance(9), (std::vector<Placement::Id>{6, 7}));
  EXPECT_EQ(q.load(0), 1U);
  EXPECT_TRUE(q.rebalance(9).empty());
}

TEST_F(SsaPlacement, WhatIsRemovedIsNotCounted) {
  add_consumers(10, 8);
  std::size_t before = 0, after = 0;
  for (Placement::Id id = 3; id <= 6; ++id) before += p.load(id) + p.backup_load(id);
  for (Placement::Id id = 10; id < 18; ++id) p.remove(id);
  for (Placement::Id id = 3; id <= 6; ++id) after += p.load(id) + p.backup_load(id);
  EXPECT_EQ(before, 16U);
  EXPECT_EQ(after, 0U);
}

}  // namespace
}  // namespace placement_test
}  // namespace parley::ssa
