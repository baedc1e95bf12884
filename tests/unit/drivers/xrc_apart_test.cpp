// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rows of docs/xrc.md that need both processes and packets, on Parley's own engine: each node is a broker, a process with the NIC
// and processes that are registered and receive.
#include "tests/unit/drivers/xrc_apart_kit.hpp"

#include <algorithm>

namespace parley::xrc::xrc_apart_test {
namespace {

using testing_apart::Nodes;

/// Three processes at node 1 that have registered with what node 0 has set up in band, each with room for four messages.
struct Three : Nodes {
  Three() {
    start(1, 3);
    start(0, 0);
    for (std::uint32_t i = 0; i < 3; ++i) member(1, i).receives = 4;
    connect(1);
    EXPECT_TRUE(all_joined(1));
    EXPECT_EQ(registrants(0), 4U) << "they and the service";
    for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(reaches(0, i));  // the service says which queue is whose
  }
  /// The service ends; the NIC goes on.
  void end_service() {
    node(1).serves = false;
    EXPECT_TRUE(until([&] { return registrants(0) == 3; }));
  }
  bool is_there() { return node(1).there[0]; }
};

TEST(XrcApart, Row01And02And34_WhoSetItUpMayLeaveAndAnyMayBeKilled) {
  Three w;
  w.end_service();
  for (std::uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(w.reaches(0, i)) << "the service set it up, and has left";
  w.leave(0);
  EXPECT_TRUE(w.reaches(0, 1));
  w.kill(1);
  EXPECT_TRUE(w.reaches(0, 2));
  EXPECT_EQ(w.registrants(0), 1U);
  EXPECT_TRUE(w.is_there());
}

TEST(XrcApart, Row03And34_WhatDiesAloneLeavesNothing) {
  Nodes w;
  w.start(1, 0);
  w.start(0, 0);
  w.connect(1);
  EXPECT_EQ(w.registrants(0), 1U) << "the service";
  w.kill_nic(1);  // and with it the service, before anybody has registered
  ASSERT_TRUE(w.until([&] { return !w.registrants(0); }));
  EXPECT_EQ(w.counters(1).destroyed, 1U);
  const asio_driver::Descriptor file(::open(w.domain_of(1).c_str(), O_RDONLY | O_CLOEXEC));
  const auto late = Link::open(w.options_of(1), true, file.fd);
  ASSERT_TRUE(late);
  const TgtId tgt = w.node(1).names[0];
  EXPECT_EQ((*late)->enlist(tgt).error(), make_error_code(Refusal::gone));
  EXPECT_EQ((*late)->enlist({tgt.qpn, 0}).error(), make_error_code(Refusal::gone)) << "its number rests";
}

TEST(XrcApart, Row04And34_TheLastDeathEndsItInEveryOrder) {
  std::array<std::uint32_t, 3> order{0, 1, 2};
  do {
    SCOPED_TRACE(testing::PrintToString(order));
    Three w;
    w.end_service();
    for (const std::uint32_t dies : order) {
      EXPECT_TRUE(w.is_there());
      EXPECT_TRUE(w.reaches(0, dies));
      w.kill(dies);
    }
    EXPECT_TRUE(w.until([&] { return !w.is_there() && !w.registrants(0); }));
    EXPECT_EQ(w.counters(1).destroyed, 1U);
  } while (std::next_permutation(order.begin(), order.end()) && !testing::Test::HasFailure());
}

TEST(XrcApart, WhenTheNicsProcessDiesTheOthersHearOfIt) {
  Three w;
  w.end_service();  // so that its process is not registered with anything
  w.kill_nic(1);
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_TRUE(w.until([&] { return w.member(1, i).removed == 2; })) << "the device, and the TGT queue pair";
  const auto seen = overview(w.options_of(1));
  ASSERT_TRUE(seen && seen->domains.size() == 1 && seen->domains[0].tgts.size() == 1);
  EXPECT_EQ(seen->domains[0].tgts[0].state, State::drain);
  EXPECT_EQ(seen->domains[0].tgts[0].why, EventKind::device_removed);
}

// Head-of-line blocking between two processes: the one that posts no receive holds up what is for the other, on its pair alone.
TEST(XrcApart, Row32_AFullQueueStallsItsPairAlone) {
  Nodes w;
  w.start(1, 2);
  w.start(0, 0);
  w.member(1, 1).receives = 4;
  w.connect(2);
  ASSERT_TRUE(w.all_joined(1));
  w.send(0, {0, 0});
  w.send(0, {0, 1});
  ASSERT_TRUE(w.until([&] { return w.node(1).rnr_sent >= 20; }));
  EXPECT_EQ(w.member(1, 1).heard, 0U) << "it has room, and waits all the same";
  EXPECT_TRUE(w.reaches(1, 1)) << "by the other pair";
  const std::uint32_t refused = w.node(1).rnr_sent;
  ASSERT_TRUE(w.until([&] { return w.node(1).rnr_sent >= refused + 20; }));
  EXPECT_EQ(w.member(1, 1).heard, 1U);
  EXPECT_EQ(w.node(0).sent, 1U);
  w.member(1, 0).receives = 1;
  EXPECT_TRUE(w.until([&] { return w.member(1, 0).heard == 1 && w.member(1, 1).heard == 2; }));
  EXPECT_TRUE(w.until([&] { return w.node(0).sent == 3; }));
  EXPECT_EQ(w.node(0).unsent, 0U);
  EXPECT_EQ(w.registrants(0), 3U);
}

TEST(XrcApart, Row37_CountsOfAnAllToAll) {
  constexpr std::uint32_t p = testing_apart::members_max;
  Nodes w;
  for (std::size_t n : {0, 1}) w.start(n, p);
  for (std::size_t n : {0, 1}) {
    for (std::uint32_t i = 0; i < p; ++i) w.member(n, i).receives = p;
    w.node(n).connects = p;  // one for each of its processes: there is one other node
  }
  for (std::size_t n : {0, 1}) ASSERT_TRUE(w.until([&] { return w.node(n).up == p && w.node(n).tgts == p; }));
  for (std::size_t n : {0, 1}) ASSERT_TRUE(w.all_joined(n));
  for (std::size_t n : {0, 1})
    for (std::uint32_t i = 0; i < p * p; ++i) w.send(n, {i / p, i % p});
  for (std::size_t n : {0, 1}) {
    ASSERT_TRUE(w.until([&] { return w.node(n).sent == p * p; }));
    for (std::uint32_t i = 0; i < p; ++i) {
      ASSERT_TRUE(w.until([&] { return w.member(n, i).heard == p; })) << i;
      std::set<std::uint32_t> senders;
      for (std::uint32_t at = 0; at < p; ++at) senders.insert(Reader(w.member(n, i).memory.at(at)).be32());
      EXPECT_EQ(senders.size(), p) << "each of the other node's, once";
      EXPECT_EQ(w.member(n, i).refused, 0U);
    }
    const auto seen = overview(w.options_of(n));
    ASSERT_TRUE(seen && seen->domains.size() == 1);
    const auto& tgts = seen->domains[0].tgts;
    EXPECT_EQ(tgts.size(), p) << "n * p, for n peers; of RC there would be n * p * p";
    for (const TgtView& t : tgts) EXPECT_EQ(t.registrants.size(), p + 1) << "its processes and the service";
    EXPECT_EQ(std::count(w.node(n).there.begin(), w.node(n).there.end(), true), p);
  }
}

}  // namespace
}  // namespace parley::xrc::xrc_apart_test
