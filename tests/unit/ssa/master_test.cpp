// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The master alone, with members of which nothing exists but the messages: bounds, and members that have no place.
#include <gtest/gtest.h>

#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa {
namespace master_test {
namespace {

using namespace kit;

struct MasterBench {
  explicit MasterBench(MasterOptions o = options()) : master(std::move(o)) { master.start(now); }
  static MasterOptions options() {
    MasterOptions o;
    o.key = tree_key;
    o.root = gid_of(master_lid);
    o.root_endpoint = endpoint_of(master_lid);
    o.epoch = {5, 3};
    return o;
  }
  static SsaHello hello(std::uint16_t lid, std::uint8_t node_roles) {
    return SsaHello{}
        .set(SsaHello::epoch, wire_of({5, 3}))
        .set(SsaHello::port_gid, gid_of(lid))
        .set(SsaHello::roles, node_roles);
  }
  static SsaHello hello_of_child(std::uint16_t lid, std::uint8_t node_roles, std::uint16_t parent, unsigned more = 0) {
    return hello(lid, node_roles)
        .set(SsaHello::node_flags, static_cast<std::uint8_t>(flags::has_parent | more))
        .set(SsaHello::parent_gid, gid_of(parent));
  }
  std::vector<Transmit> drain() {
    std::vector<Transmit> out;
    while (auto sent = master.poll_transmit()) out.push_back(std::move(*sent));
    return out;
  }
  /// The status of the answer.
  std::string greet(const SsaHello& body, const mad::Address& from) {
    master.handle_message(now, from, request_of<Method::set>(body));
    std::string out = "no answer";
    for (const Transmit& sent : drain())
      if (parse_message(sent.mad)->is_answer)
        out = name_of(static_cast<AnswerStatus>(status_of(sent.mad)));
      else
        requests.push_back({now, sent});
    return out;
  }
  std::string greet(const SsaHello& body) { return greet(body, at(lid_of(body.get(SsaHello::port_gid)))); }
  void run(Duration time) {
    const Instant end = now + time;
    while (master.next_deadline() <= end) {
      now = std::max(now, master.next_deadline());
      master.handle_deadline(now);
      for (const Transmit& sent : drain()) requests.push_back({now, sent});
    }
    now = end;
  }
  std::size_t assignments_to(std::uint16_t lid) const {
    std::size_t n = 0;
    for (const auto& [when, t] : requests) n += t.to.lid == lid && t.mad[3] == 2 ? 1U : 0U;
    return n;
  }
  void leave(std::uint16_t lid) {
    master.handle_message(
        now, at(lid),
        request_of<Method::delete_>(
            SsaLeave{}.set(SsaLeave::port_gid, gid_of(lid)).set(SsaLeave::ticket, std::uint64_t{1} << 40)));
    (void)drain();
  }

  Instant now{};
  Master master;
  std::vector<std::pair<Instant, Transmit>> requests;
};

TEST(SsaMaster, RefusesRolesThatThePortMayNotHave) {
  MasterOptions o = MasterBench::options();
  o.roles_of = [](const Gid& gid) { return lid_of(gid) == 10 ? roles::access : roles::consumer; };
  MasterBench b(o);
  EXPECT_EQ(b.greet(b.hello(10, roles::access)), "ok");
  EXPECT_EQ(b.greet(b.hello(11, roles::access)), "denied");
  EXPECT_EQ(b.greet(b.hello(10, roles::access | roles::distribution)), "denied");
  EXPECT_EQ(b.greet(b.hello(11, roles::consumer)), "ok");
  EXPECT_EQ(b.master.counters().denied, 2U);
}

TEST(SsaMaster, ALaterMasterIsBelievedOnlyAfterTheOtherChecks) {
  MasterOptions o = MasterBench::options();
  o.roles_of = [](const Gid&) { return roles::consumer; };
  MasterBench b(o);
  const auto later = wire_of({6, 1});
  EXPECT_EQ(b.greet(b.hello(10, roles::access).set(SsaHello::epoch, later)), "denied");
  EXPECT_EQ(b.greet(b.hello(10, roles::consumer).set(SsaHello::tree, "other").set(SsaHello::epoch, later)), "denied");
  EXPECT_FALSE(b.master.poll_event());
  EXPECT_EQ(b.greet(b.hello(10, roles::consumer).set(SsaHello::epoch, later)), "not_master");
  EXPECT_EQ(b.master.poll_event()->kind, MasterEvent::Kind::newer_master);
  EXPECT_EQ(b.master.counters().newer_masters, 1U);
}

TEST(SsaMaster, OnRoceTheGidOfTheSenderIsThatOfTheMember) {
  MasterBench b;
  mad::Address from;
  from.grh.emplace().gid = gid_of(11);
  EXPECT_EQ(b.greet(b.hello(10, roles::access), from), "denied");
  EXPECT_EQ(b.greet(b.hello(11, roles::access), from), "ok");
  EXPECT_EQ(b.master.counters().wrong_node, 1U);
}

/// Members that have no place and are silent leave room for others.
TEST(SsaMaster, AFloodOfHellosFillsTheTableForABoundedTime) {
  MasterOptions o = MasterBench::options();
  o.members_max = 50;
  MasterBench b(o);
  for (std::uint16_t i = 0; i < 50; ++i) {
    ASSERT_EQ(b.greet(b.hello(static_cast<std::uint16_t>(100 + i), roles::consumer)), "ok");
  }
  EXPECT_EQ(b.greet(b.hello(10, roles::access)), "full");
  EXPECT_EQ(b.greet(b.hello(100, roles::consumer)), "ok") << "a member may greet again";
  EXPECT_EQ(b.master.counters().full, 1U);
  b.run(30s);
  EXPECT_EQ(b.master.members(), 50U);
  EXPECT_EQ(b.greet(b.hello(101, roles::consumer)), "ok");
  b.run(20s);
  EXPECT_EQ(b.master.members(), 1U) << "one has greeted again";
  EXPECT_EQ(b.greet(b.hello(10, roles::access)), "ok");
}

TEST(SsaMaster, AMemberThatRefusesItsParentsIsForgotten) {
  MasterBench b;
  ASSERT_EQ(b.greet(b.hello(10, roles::distribution)), "ok");
  for (int i = 0; i < 20; ++i) {
    for (const auto& [when, request] : std::exchange(b.requests, {}))
      b.master.handle_message(b.now, at(10),
                              answer_to(request.mad, body_of<SsaParent>(request.mad), AnswerStatus::denied));
    for (const Transmit& sent : b.drain()) b.requests.push_back({b.now, sent});
  }
  EXPECT_EQ(b.master.counters().assignments, 4U);
  EXPECT_EQ(b.master.stage_of(gid_of(10)), MemberStage::waiting);
  b.run(40s);
  EXPECT_EQ(b.master.stage_of(gid_of(10)), std::nullopt);
}

TEST(SsaMaster, AtMostTheWindowHasNoAnswer) {
  MasterOptions o = MasterBench::options();
  o.window = 3;
  MasterBench b(o);
  ASSERT_EQ(b.greet(b.hello_of_child(10, roles::access, master_lid, flags::has_backup)), "ok");
  for (std::uint16_t lid = 100; lid < 120; ++lid) ASSERT_EQ(b.greet(b.hello(lid, roles::consumer)), "ok");
  std::size_t most = 0;
  for (int i = 0; i < 200; ++i) {
    b.run(50ms);
    most = std::max(most, b.master.count(MemberStage::asked));
  }
  EXPECT_EQ(most, 3U);
}

/// Each leaves while it is in line, and its id is used again: the pace is that of a line with the members that are there.
TEST(SsaMaster, NodesThatComeAndGoLeaveNothingInTheLine) {
  MasterBench b;
  ASSERT_EQ(b.greet(b.hello_of_child(10, roles::access, master_lid, flags::has_backup)), "ok");
  for (std::uint16_t i = 0; i < 500; ++i) {
    ASSERT_EQ(b.greet(b.hello(static_cast<std::uint16_t>(100 + i), roles::consumer)), "ok");
    b.leave(static_cast<std::uint16_t>(100 + i));
  }
  EXPECT_EQ(b.master.members(), 1U);
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{20, 21})
    ASSERT_EQ(b.greet(b.hello(lid, roles::consumer)), "ok");
  b.run(6100ms);
  ASSERT_EQ(b.requests.size(), 2U);
  EXPECT_EQ(b.requests[1].first - b.requests[0].first, 50ms);
}

/// One consumer never gets a place: there is no room for it.
TEST(SsaMaster, HellosOfFurtherParentsDoNotPostponePlacement) {
  MasterOptions o = MasterBench::options();
  o.placement.capacity = 2;
  MasterBench b(o);
  ASSERT_EQ(b.greet(b.hello_of_child(10, roles::access, master_lid, flags::has_backup)), "ok");
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{20, 21, 22})
    ASSERT_EQ(b.greet(b.hello(lid, roles::consumer)), "ok");
  b.run(8s);
  ASSERT_EQ(b.assignments_to(22), 0U);
  ASSERT_EQ(b.greet(b.hello(12, roles::access)), "ok");
  b.run(10ms);
  EXPECT_EQ(b.assignments_to(12), 1U);
  EXPECT_EQ(b.assignments_to(22), 1U) << "the new access node has room for it";
}

/// A tree of two access nodes: there is no other backup than the one that was lost.
TEST(SsaMaster, ANodeWithoutItsBackupIsToldOfItAgain) {
  MasterBench b;
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{10, 11})
    ASSERT_EQ(b.greet(b.hello_of_child(lid, roles::access, master_lid, flags::has_backup)), "ok");
  b.run(7s);
  ASSERT_EQ(b.greet(b.hello_of_child(100, roles::consumer, 10)), "ok");
  b.run(1s);
  const std::size_t before = b.assignments_to(100);
  ASSERT_GT(before, 0U);
  EXPECT_EQ(b.master.parents_of(gid_of(100)), std::pair(gid_of(10), gid_of(11)));
  ASSERT_EQ(b.greet(b.hello_of_child(100, roles::consumer, 10, flags::has_backup)), "ok");
  b.run(10s);
  EXPECT_EQ(b.assignments_to(100), before) << "it has all";
  ASSERT_EQ(b.greet(b.hello_of_child(100, roles::consumer, 10)), "ok");
  b.run(100ms);
  EXPECT_EQ(b.assignments_to(100), before + 1);
  EXPECT_EQ(b.master.parents_of(gid_of(100)), std::pair(gid_of(10), gid_of(11)));
}

/// It has been asked when the parent that it named comes.
TEST(SsaMaster, TheParentThatANodeNamesMayComeWhileTheNodeIsAsked) {
  MasterOptions o = MasterBench::options();
  o.window = 1;
  MasterBench b(o);
  ASSERT_EQ(b.greet(b.hello_of_child(10, roles::access, master_lid, flags::has_backup)), "ok");
  ASSERT_EQ(b.greet(b.hello(20, roles::consumer)), "ok");
  ASSERT_EQ(b.greet(b.hello_of_child(20, roles::consumer, 11)), "ok") << "it stays in line";
  b.run(7s);
  ASSERT_EQ(b.master.stage_of(gid_of(20)), MemberStage::asked);
  b.leave(10);
  ASSERT_EQ(b.greet(b.hello_of_child(11, roles::access, master_lid, flags::has_backup)), "ok");
  b.run(40s);
  EXPECT_EQ(b.master.stage_of(gid_of(20)), std::nullopt) << "it does not answer";
  ASSERT_EQ(b.greet(b.hello(12, roles::distribution)), "ok");
  b.run(10ms);
  EXPECT_EQ(b.assignments_to(12), 1U) << "the window is free again";
}

/// A member reports a parent that the master does not know. The master asks again.
TEST(SsaMaster, AnUnknownParentOfAMemberIsNotTaken) {
  MasterBench b;
  ASSERT_EQ(b.greet(b.hello(10, roles::distribution)), "ok");
  ASSERT_EQ(b.requests.size(), 1U);
  const auto answer = [&b](const SsaParent& body) {
    b.master.handle_message(b.now, at(10), answer_to(b.requests.back().second.mad, body));
  };
  answer(body_of<SsaParent>(b.requests.back().second.mad));
  while (b.requests.size() < 2 && b.master.next_deadline() != never) b.run(b.master.next_deadline() - b.now);
  ASSERT_EQ(b.requests.size(), 2U);
  ASSERT_EQ(b.master.stage_of(gid_of(10)), MemberStage::asked);
  answer(body_of<SsaParent>(b.requests.back().second.mad)
             .set(SsaParent::node_flags, flags::has_parent)
             .set(SsaParent::parent, endpoint_of(99)));
  EXPECT_EQ(b.master.stage_of(gid_of(10)), MemberStage::assigned);
  EXPECT_EQ(b.master.parents_of(gid_of(10)).first, gid_of(master_lid));
}

/// Drivers (umad) use the upper half themselves.
TEST(SsaMaster, OnlyTheLowerHalfOfATransactionIdCounts) {
  MasterBench b;
  ASSERT_EQ(b.greet(b.hello(10, roles::distribution)), "ok");
  ASSERT_EQ(b.requests.size(), 1U);
  Datagram answer = answer_to(b.requests[0].second.mad, body_of<SsaParent>(b.requests[0].second.mad));
  answer[8] ^= 0x55;
  answer[12] ^= 1;
  b.master.handle_message(b.now, at(10), answer);
  EXPECT_EQ(b.master.stage_of(gid_of(10)), MemberStage::asked);
  EXPECT_EQ(b.master.counters().unexpected, 1U);
  answer[12] ^= 1;
  b.master.handle_message(b.now, at(10), answer);
  EXPECT_EQ(b.master.stage_of(gid_of(10)), MemberStage::assigned);
}

}  // namespace
}  // namespace master_test
}  // namespace parley::ssa
