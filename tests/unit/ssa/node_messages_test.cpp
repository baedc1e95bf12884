// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a node of the tree receives: which answers it takes, what it says of itself, and the counter of each refusal.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa {
namespace node_messages_test {
namespace {

using namespace kit;

TEST(SsaNodeMessages, OnlyTheAnswerToTheLastHelloIsTaken) {
  NodeBench b;
  b.node.start(b.now, at(master_lid));
  const auto hello_of = [&](std::uint64_t transaction) {
    return request_of<Method::set>(body_of<SsaHello>(b.hello).set(SsaHello::epoch, wire_of(b.master_epoch)),
                                   transaction);
  };
  b.receive(master_lid, b.hello_answer(hello_of(0)));
  EXPECT_EQ(b.node.counters().unexpected, 1U) << "no hello was sent";
  b.until(Method::set, master_lid);
  const std::uint32_t id = parse_message(b.last)->transaction_id;
  b.receive(master_lid, hello_of(id));
  EXPECT_EQ(b.node.counters().unexpected, 2U) << "a request";
  b.receive(master_lid, b.hello_answer(hello_of(id + 1)));
  EXPECT_EQ(b.node.counters().unexpected, 3U) << "the answer to another one";
  EXPECT_EQ(b.node.state(), NodeState::joining);
  EXPECT_EQ(b.node.master_epoch(), Epoch{});
  b.receive(master_lid, b.hello_answer(b.last));
  EXPECT_EQ(b.node.state(), NodeState::orphan);
  b.receive(master_lid, b.hello_answer(b.last));
  b.receive(master_lid, b.hello_answer(hello_of(0)));
  EXPECT_EQ(b.node.counters().unexpected, 5U) << "it is answered";
}

TEST(SsaNodeMessages, AnswersAMasterThatAsksForItsParents) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  const auto ask = [&](std::uint16_t from) {
    b.receive(from, request_of<Method::get>(SsaParent{}.set(SsaParent::epoch, wire_of(b.master_epoch))));
    return b.drain();
  };
  const auto sent = ask(master_lid);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to.lid, master_lid);
  EXPECT_EQ(status_of(sent[0].mad), 0);
  const auto answer = body_of<SsaParent>(sent[0].mad);
  EXPECT_EQ(answer.get(SsaParent::port_gid), gid_of(own_lid));
  EXPECT_EQ(answer.get(SsaParent::ticket), 2U);
  EXPECT_EQ(answer.get(SsaParent::roles), roles::access);
  EXPECT_EQ(answer.get(SsaParent::level), 2U);
  EXPECT_EQ(answer.get(SsaParent::ssa_key), tree_key);
  EXPECT_EQ(epoch_of(answer.get(SsaParent::epoch)), b.parent_epoch);
  EXPECT_EQ(answer.get(SsaParent::parent), endpoint_of(parent_lid));
  EXPECT_EQ(answer.get(SsaParent::backup), endpoint_of(backup_lid));
  EXPECT_EQ(b.node.counters().wrong_node + b.node.counters().replayed, 0U);
  EXPECT_TRUE(ask(stranger_lid).empty());
  EXPECT_EQ(b.node.counters().wrong_master, 1U);
  b.receive(master_lid,
            request_of<Method::set>(b.assignment(9, third_lid, 0).set(SsaParent::port_gid, gid_of(child_lid))));
  EXPECT_TRUE(b.drain().empty());
  EXPECT_EQ(b.node.counters().wrong_node, 1U);
  EXPECT_EQ(b.node.parent().gid(), gid_of(parent_lid));
}

TEST(SsaNodeMessages, EachRefusalHasItsCounter) {
  NodeBench b;
  const auto count = [&](std::uint64_t NodeCounters::*which, std::uint16_t from, const Datagram& mad) {
    const std::uint64_t before = b.node.counters().*which;
    b.receive(from, mad);
    return b.node.counters().*which - before;
  };
  Datagram cut = request_of<Method::get>(SsaParent{});
  cut[3] = 0x7F;
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid, cut), 1U) << "it does not run";
  b.connect(true);
  (void)b.drain();
  (void)b.events();
  EXPECT_EQ(count(&NodeCounters::malformed, master_lid, cut), 1U);
  const Datagram assignment = request_of<Method::set>(b.assignment(9, third_lid, 0));
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid,
                  answer_to(assignment, b.assignment(9, third_lid, 0).set(SsaParent::ssa_key, tree_key))),
            1U);
  const SsaLeave leave = SsaLeave{}.set(SsaLeave::ssa_key, tree_key).set(SsaLeave::port_gid, gid_of(own_lid));
  const Datagram leaving = request_of<Method::delete_>(leave);
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid, leaving), 1U);
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid, answer_to(leaving, leave)), 0U) << "sent without waiting";
  const SsaChildLost lost = SsaChildLost{}
                                .set(SsaChildLost::ssa_key, tree_key)
                                .set(SsaChildLost::port_gid, gid_of(own_lid))
                                .set(SsaChildLost::child_count, 1)
                                .set_at(SsaChildLost::child, 0, SsaChild{}.set(SsaChild::gid, gid_of(2)));
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid, request_of<Method::report>(lost)), 1U);
  EXPECT_EQ(count(&NodeCounters::unexpected, master_lid, answer_to(request_of<Method::report>(lost), lost)), 1U);
  // Answers of parents: to no request, of an uplink that waits for none.
  for (const std::uint32_t id : {0U, 1U, 4U}) {
    const Datagram hookup = request_of<Method::set>(b.hookup_of(own_lid), id);
    EXPECT_EQ(count(&NodeCounters::unexpected, parent_lid, b.hookup_answer(hookup, parent_lid)), 1U) << id;
  }
  b.until(Method::get, parent_lid);
  const Datagram beat = b.last;
  EXPECT_EQ(count(&NodeCounters::wrong_parent, backup_lid, b.hookup_answer(beat, backup_lid)), 0U)
      << "the backup is a parent, but was not asked";
  EXPECT_EQ(count(&NodeCounters::wrong_parent, stranger_lid, b.hookup_answer(beat, stranger_lid)), 1U);
  EXPECT_EQ(count(&NodeCounters::wrong_parent, stranger_lid, b.hookup_answer(beat, own_lid, AnswerStatus::denied)), 1U);
  EXPECT_EQ(b.node.counters().refused, 0U);
  EXPECT_EQ(b.node.state(), NodeState::connected);
  EXPECT_EQ(count(&NodeCounters::refused, parent_lid, b.hookup_answer(beat, own_lid, AnswerStatus::denied)), 1U);
  EXPECT_EQ(b.node.counters().parents_lost, 1U);
  EXPECT_EQ(b.node.parent().gid(), gid_of(backup_lid));
  EXPECT_EQ(count(&NodeCounters::children_refused, backup_lid, request_of<Method::set>(b.hookup_of(backup_lid))), 1U)
      << "a loop";
}

TEST(SsaNodeMessages, AChildKnowsWhomItHasAsked) {
  NodeBench b;
  b.connect(false);
  b.node.handle_database(b.now, {1, 8});
  (void)b.drain();
  for (const bool is_backup : {false, true}) {
    const auto lid = static_cast<std::uint16_t>(is_backup ? 21 : 20);
    b.receive(lid, request_of<Method::set>(b.hookup_of(lid).set(SsaHookup::is_backup, is_backup)));
    const auto sent = b.drain();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].to.lid, lid);
    const auto answer = body_of<SsaHookup>(sent[0].mad);
    EXPECT_EQ(answer.get(SsaHookup::ssa_key), tree_key);
    EXPECT_EQ(answer.get(SsaHookup::endpoint), endpoint_of(own_lid));
    EXPECT_EQ(epoch_of(answer.get(SsaHookup::epoch)), (Epoch{1, 8}));
    EXPECT_EQ(answer.get(SsaHookup::is_backup), is_backup);
    EXPECT_EQ(answer.get(SsaHookup::heartbeat), 2000U);
  }
  b.receive(child_lid + 5, request_of<Method::get>(b.hookup_of(child_lid + 5)));
  EXPECT_EQ(status_of(b.drain().at(0).mad), static_cast<std::uint16_t>(AnswerStatus::unknown_node));
  EXPECT_EQ(b.node.counters().children_refused, 1U);
  std::vector<NodeEvent::Kind> kinds;
  for (const NodeEvent& event : b.events()) kinds.push_back(event.kind);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), NodeEvent::Kind::child_connected), 2);
  b.receive(20, request_of<Method::delete_>(b.hookup_of(20)));
  const auto left = b.events();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].kind, NodeEvent::Kind::child_left);
  EXPECT_EQ(left[0].gid, gid_of(20));
  b.receive(20, request_of<Method::delete_>(b.hookup_of(20)));
  EXPECT_TRUE(b.events().empty()) << "it had left";
}

}  // namespace
}  // namespace node_messages_test
}  // namespace parley::ssa
