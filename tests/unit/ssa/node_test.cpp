// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A node of the tree alone: bounds of time, retries, and what it refuses.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/unit/ssa/node_kit.hpp"

namespace parley::ssa {
namespace node_test {
namespace {

using namespace kit;

constexpr std::uint16_t two_children[] = {20, 21};

std::size_t sent_to(const std::vector<Transmit>& sent, std::uint16_t lid) {
  return static_cast<std::size_t>(
      std::count_if(sent.begin(), sent.end(), [lid](const Transmit& t) { return t.to.lid == lid; }));
}

TEST(SsaNode, FirstHellosAreSpreadOverTheJoinTime) {
  std::set<Duration> times;
  std::array<int, 5> seconds{};
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    NodeOptions options = NodeBench::defaults();
    options.seed = seed;
    NodeBench b(options);
    b.node.start(b.now, at(master_lid));
    b.until(Method::set, master_lid);
    const Duration at = b.now.time_since_epoch();
    ASSERT_LE(at, 5s);
    times.insert(at);
    ++seconds[static_cast<std::size_t>(std::min<Duration>(at, 5s - 1ns) / 1s)];
  }
  EXPECT_EQ(times.size(), 500U);
  for (const int n : seconds) EXPECT_NEAR(n, 100, 40);
}

TEST(SsaNode, HellosWithoutAnswerAreRepeatedWithBackOffAndJitter) {
  NodeBench b;
  b.node.start(b.now, at(master_lid));
  b.until(Method::set, master_lid);
  const std::uint64_t id = parse_message(b.last)->transaction_id;
  Duration middle = 1s;
  for (int i = 0; i < 10; ++i) {
    const Instant before = b.now;
    b.until(Method::set, master_lid);
    EXPECT_GE(b.now - before, middle / 2);
    EXPECT_LE(b.now - before, middle * 3 / 2);
    EXPECT_EQ(parse_message(b.last)->transaction_id, id);
    middle = std::min<Duration>(2 * middle, 60s);
  }
  EXPECT_EQ(b.node.state(), NodeState::joining);
}

TEST(SsaNode, TheSameSeedMakesTheSameNode) {
  const auto run = [](std::uint64_t seed) {
    NodeOptions options = NodeBench::defaults();
    options.seed = seed;
    NodeBench b(options);
    b.connect(true);
    return std::pair(b.now, b.last);
  };
  EXPECT_EQ(run(3), run(3));
  EXPECT_NE(run(3), run(4));
}

TEST(SsaNode, AnOrphanGreetsAgainAfterTheTimeThatTheMasterNames) {
  NodeBench b;
  b.node.start(b.now, at(master_lid));
  b.until(Method::set, master_lid);
  b.receive(master_lid, b.hello_answer(b.last));
  EXPECT_EQ(b.node.state(), NodeState::orphan);
  const Instant before = b.now;
  b.until(Method::set, master_lid);
  EXPECT_GE(b.now - before, 3s) << "1.5 times the wait";
  EXPECT_LE(b.now - before, 5s) << "2.5 times the wait";
  EXPECT_EQ(b.node.state(), NodeState::joining);
}

/// The time of a silent parent, for any phase of the heartbeats.
TEST(SsaNode, ASilentParentIsReplacedByTheBackupWithinThreeHeartbeats) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    NodeOptions options = NodeBench::defaults();
    options.seed = seed;
    NodeBench b(options);
    b.connect(true);
    b.until(Method::get, parent_lid);
    b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
    const Instant death = b.now;
    bool asked_backup = false;
    while (!asked_backup && b.now - death < 20s) {
      for (const Transmit& sent : b.drain()) {
        const auto message = parse_message(sent.mad);
        ASSERT_NE(sent.to.lid, master_lid) << "it asks the root for nothing";
        if (sent.to.lid != backup_lid) continue;
        if (message->method == Method::get) b.receive(backup_lid, b.hookup_answer(sent.mad, backup_lid));
        if (message->method == Method::set) {
          b.receive(backup_lid, b.hookup_answer(sent.mad, backup_lid));
          asked_backup = true;
        }
      }
      if (!asked_backup) b.to_deadline();
    }
    EXPECT_EQ(b.node.state(), NodeState::connected);
    EXPECT_EQ(b.node.parent().gid(), gid_of(backup_lid));
    EXPECT_FALSE(b.node.has_backup());
    EXPECT_LE(b.now - death, 3 * 2s);
    EXPECT_GE(b.now - death, 2 * 2s) << "one or two lost heartbeats are not silence";
    EXPECT_EQ(b.node.counters().parents_lost, 1U);
  }
}

TEST(SsaNode, WithoutBackupItGreetsAgainAndNamesTheParentThatItLost) {
  NodeBench b;
  b.connect(false);
  b.node.handle_parent_lost(b.now, gid_of(parent_lid));
  EXPECT_EQ(b.node.state(), NodeState::joining);
  b.until(Method::set, master_lid);
  const auto hello = body_of<SsaHello>(b.last);
  EXPECT_EQ(hello.get(SsaHello::bad_parent_gid), gid_of(parent_lid));
  EXPECT_EQ(hello.get(SsaHello::node_flags) & flags::parent_lost, flags::parent_lost);
  EXPECT_EQ(hello.get(SsaHello::parent_gid), Gid{});
}

TEST(SsaNode, AssigningThePresentParentsChangesNothing) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  (void)b.events();
  b.assign(3, parent_lid, backup_lid);
  const auto sent = b.drain();
  ASSERT_EQ(sent.size(), 1U);
  const auto answer = body_of<SsaParent>(sent[0].mad);
  EXPECT_EQ(answer.get(SsaParent::parent).get(SsaEndpoint::gid), gid_of(parent_lid));
  EXPECT_EQ(answer.get(SsaParent::backup).get(SsaEndpoint::gid), gid_of(backup_lid));
  EXPECT_EQ(answer.get(SsaParent::node_flags) & (flags::has_parent | flags::has_backup),
            flags::has_parent | flags::has_backup);
  EXPECT_TRUE(b.events().empty());
  EXPECT_EQ(b.node.state(), NodeState::connected);
}

TEST(SsaNode, TheMasterConfirmsAPromotedBackupAndGivesAnother) {
  NodeBench b;
  b.connect(true);
  b.node.handle_parent_lost(b.now, gid_of(parent_lid));
  b.until(Method::set, backup_lid);
  EXPECT_FALSE(body_of<SsaHookup>(b.last).get(SsaHookup::is_backup));
  b.receive(backup_lid, b.hookup_answer(b.last, backup_lid));
  (void)b.drain();
  (void)b.events();
  b.assign(3, backup_lid, third_lid);
  EXPECT_EQ(b.node.state(), NodeState::connected);
  b.until(Method::set, third_lid);
  EXPECT_TRUE(body_of<SsaHookup>(b.last).get(SsaHookup::is_backup));
  b.receive(third_lid, b.hookup_answer(b.last, third_lid));
  EXPECT_TRUE(b.node.has_backup());
  EXPECT_EQ(b.node.counters().parents_lost, 1U);
}

TEST(SsaNode, RefusesWrongKeysEverywhere) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  const SsaLeave leave = SsaLeave{}.set(SsaLeave::port_gid, gid_of(child_lid));
  const SsaChildLost lost = SsaChildLost{}
                                .set(SsaChildLost::port_gid, gid_of(child_lid))
                                .set(SsaChildLost::child_count, 1)
                                .set_at(SsaChildLost::child, 0, SsaChild{}.set(SsaChild::gid, gid_of(2)));
  const SsaHello hello = SsaHello{}.set(SsaHello::port_gid, gid_of(child_lid)).set(SsaHello::roles, roles::consumer);
  const Datagram messages[] = {request_of<Method::set>(b.assignment(9, third_lid, 0), 1, 1),
                               request_of<Method::get>(SsaParent{}, 1, 1),
                               request_of<Method::set>(b.hookup_of(child_lid), 1, 1),
                               request_of<Method::get>(b.hookup_of(child_lid), 1, 1),
                               request_of<Method::send>(b.hookup_of(parent_lid), 1, 1),
                               request_of<Method::delete_>(b.hookup_of(child_lid), 1, 1),
                               request_of<Method::set>(hello, 1, 1),
                               request_of<Method::report>(lost, 1, 1),
                               request_of<Method::delete_>(leave, 1, 1)};
  for (const Datagram& mad : messages) b.receive(master_lid, mad);
  EXPECT_EQ(b.node.counters().wrong_key, std::size(messages));
  EXPECT_TRUE(b.drain().empty()) << "there is no answer";
  EXPECT_EQ(b.node.parent().gid(), gid_of(parent_lid));
  // Answers, too: the node has asked, and another key comes back.
  b.until(Method::get, parent_lid);
  auto answer = body_of<SsaHookup>(b.hookup_answer(b.last, parent_lid));
  b.receive(parent_lid, answer_to(b.last, answer.set(SsaHookup::ssa_key, 5)));
  EXPECT_EQ(b.node.counters().wrong_key, std::size(messages) + 1);
}

TEST(SsaNode, RefusesReplaysAndStrangers) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  const Datagram old = request_of<Method::set>(b.assignment(1, third_lid, 0));
  b.receive(master_lid, old);
  EXPECT_EQ(b.node.counters().replayed, 1U) << "an older ticket";
  b.master_epoch = {1, 4};
  b.assign(9, third_lid, 0);
  EXPECT_EQ(b.node.counters().replayed, 2U) << "an older version";
  b.master_epoch = {1, 5};
  b.receive(stranger_lid, request_of<Method::set>(b.assignment(9, third_lid, 0)));
  EXPECT_EQ(b.node.counters().wrong_master, 1U);
  b.receive(stranger_lid, request_of<Method::send>(b.hookup_of(parent_lid)));
  b.receive(parent_lid, request_of<Method::send>(b.hookup_of(third_lid)));
  EXPECT_EQ(b.node.counters().wrong_parent, 2U);
  EXPECT_TRUE(b.drain().empty());
  EXPECT_EQ(b.node.parent().gid(), gid_of(parent_lid));
}

TEST(SsaNode, AnEpochOfAParentIsAnnouncedOnceAndNeverBackwards) {
  NodeBench b;
  b.connect(true);
  (void)b.events();
  const auto push = [&](Epoch epoch, std::uint16_t from = parent_lid) {
    b.parent_epoch = epoch;
    b.receive(from, request_of<Method::send>(b.hookup_of(from)));
    std::vector<Epoch> out;
    for (const NodeEvent& event : b.events())
      if (event.kind == NodeEvent::Kind::new_epoch) out.push_back(event.epoch);
    return out;
  };
  EXPECT_THAT(push({1, 7}), testing::ElementsAre(Epoch{1, 7}));
  EXPECT_THAT(push({1, 7}), testing::IsEmpty());
  EXPECT_THAT(push({1, 6}), testing::IsEmpty());
  EXPECT_THAT(push({1, 9}, backup_lid), testing::IsEmpty()) << "the backup's version is not pulled";
  EXPECT_EQ(b.node.counters().replayed, 2U);
}

std::vector<Epoch> announced(NodeBench& b) {
  std::vector<Epoch> out;
  for (const NodeEvent& event : b.events())
    if (event.kind == NodeEvent::Kind::new_epoch) out.push_back(event.epoch);
  return out;
}
void push(NodeBench& b, Epoch epoch) {
  b.parent_epoch = epoch;
  b.receive(parent_lid, request_of<Method::send>(b.hookup_of(parent_lid)));
}

TEST(SsaNode, AFailedPullIsAnnouncedAgainWithTheNextHeartbeat) {
  NodeBench b;
  b.connect(true);
  push(b, {1, 7});
  (void)b.events();
  b.node.handle_pull_failed(gid_of(stranger_lid));
  b.until(Method::get, parent_lid);
  b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
  EXPECT_THAT(announced(b), testing::IsEmpty());
  b.node.handle_pull_failed(gid_of(parent_lid));
  EXPECT_THAT(announced(b), testing::IsEmpty()) << "not before the heartbeat";
  b.until(Method::get, parent_lid);
  b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
  EXPECT_THAT(announced(b), testing::ElementsAre(Epoch{1, 7}));
}

TEST(SsaNode, AnEpochThatDoesNotExistHoldsUpNoOther) {
  NodeBench b;
  b.connect(true);
  (void)b.events();
  push(b, {1, 0xFFFFFFFF});
  EXPECT_THAT(announced(b), testing::ElementsAre(Epoch{1, 0xFFFFFFFF}));
  b.node.handle_pull_failed(gid_of(parent_lid));
  b.parent_epoch = {1, 7};
  b.until(Method::get, parent_lid);
  b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
  EXPECT_THAT(announced(b), testing::ElementsAre(Epoch{1, 7}));
}

TEST(SsaNode, AVersionOfADeadParentIsPulledFromTheNext) {
  NodeBench b;
  b.connect(true);
  (void)b.events();
  push(b, {1, 7});
  EXPECT_THAT(announced(b), testing::ElementsAre(Epoch{1, 7}));
  b.node.handle_parent_lost(b.now, gid_of(parent_lid));
  b.until(Method::set, backup_lid);
  b.receive(backup_lid, b.hookup_answer(b.last, backup_lid));
  EXPECT_THAT(announced(b), testing::ElementsAre(Epoch{1, 7}));
}

TEST(SsaNode, AChildIsAtThePortWhereItHasHookedUp) {
  NodeBench b;
  b.connect(false);
  b.receive(child_lid, request_of<Method::set>(b.hookup_of(child_lid)));
  (void)b.drain();
  b.receive(stranger_lid, request_of<Method::set>(b.hookup_of(child_lid)));
  b.receive(stranger_lid, request_of<Method::get>(b.hookup_of(child_lid)));
  b.receive(stranger_lid, request_of<Method::delete_>(b.hookup_of(child_lid)));
  EXPECT_TRUE(b.drain().empty());
  EXPECT_EQ(b.node.counters().wrong_child, 3U);
  EXPECT_EQ(b.node.children().size(), 1U);
  b.node.handle_database(b.now, {1, 6});
  EXPECT_EQ(sent_to(b.drain(), child_lid), 1U);
}

TEST(SsaNode, AReportIsAnsweredByTheMasterOnly) {
  NodeBench b;
  b.connect(false);
  b.receive(child_lid, request_of<Method::set>(b.hookup_of(child_lid)));
  b.node.handle_child_lost(b.now, gid_of(child_lid));
  b.until(Method::report, master_lid);
  const Datagram report = b.last;
  const auto body = body_of<SsaChildLost>(report);
  b.receive(stranger_lid, answer_to(report, body));
  EXPECT_EQ(b.node.counters().wrong_master, 1U);
  b.receive(master_lid, answer_to(report, body, AnswerStatus::denied));
  EXPECT_EQ(b.node.counters().refused, 1U);
  b.until(Method::report, master_lid);
  EXPECT_EQ(b.last, report);
  b.receive(master_lid, answer_to(report, body));
  b.receive(master_lid, answer_to(report, body));
  EXPECT_EQ(b.node.counters().unexpected, 1U) << "the second one";
}

TEST(SsaNode, AReportKeepsItsChildrenWhenThereAreMoreThanItsBound) {
  Rng rng(1);
  LostReport report({}, 2);
  Instant now{};
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{20, 21}) report.add(now, gid_of(lid));
  now = report.next_deadline();
  ASSERT_TRUE(report.handle_deadline(now, rng));
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{22, 23}) report.add(now, gid_of(lid));
  EXPECT_THAT(report.batch(), testing::ElementsAre(gid_of(20), gid_of(21)));
  EXPECT_TRUE(report.handle_answer(now, report.transaction_id()));
  for (const std::uint16_t lid : std::initializer_list<std::uint16_t>{24, 25, 26}) report.add(now, gid_of(lid));
  now = report.next_deadline();
  ASSERT_TRUE(report.handle_deadline(now, rng));
  EXPECT_THAT(report.batch(), testing::ElementsAre(gid_of(25), gid_of(26)));
}

TEST(SsaNode, OnlyTheLowerHalfOfATransactionIdCounts) {
  NodeBench b;
  b.node.start(b.now, at(master_lid));
  b.until(Method::set, master_lid);
  Datagram answer = b.hello_answer(b.last);
  answer[8] ^= 0x55;
  answer[12] ^= 1;
  b.receive(master_lid, answer);
  EXPECT_EQ(b.node.state(), NodeState::joining);
  answer[12] ^= 1;
  b.receive(master_lid, answer);
  EXPECT_EQ(b.node.state(), NodeState::orphan);
}

TEST(SsaNode, WithoutBackupItAsksForOneAgainAfterABoundedTime) {
  NodeBench b;
  b.connect(false);
  (void)b.drain();
  int hellos = 0;
  const Instant before = b.now;
  Instant second{};
  while (hellos < 2 && b.now - before < 1000s) {
    for (const Transmit& sent : b.drain()) {
      if (sent.to.lid != master_lid) {
        b.receive(sent.to.lid, b.hookup_answer(sent.mad, sent.to.lid));
        continue;
      }
      ++hellos;
      second = b.now;
      b.receive(
          master_lid,
          answer_to(
              sent.mad,
              body_of<SsaHello>(sent.mad).set(SsaHello::epoch, wire_of(b.master_epoch)).set(SsaHello::wait, 600'000)));
    }
    b.to_deadline();
  }
  EXPECT_LE(second - before, 90s + 180s) << "60 s and 120 s, each times 0.5 to 1.5";
}

TEST(SsaNode, AParentCannotMakeAnIncarnationThePresentOne) {
  NodeBench b;
  b.connect(true);
  (void)b.events();
  b.parent_epoch = {0xFFFFFFFF, 1};
  b.receive(parent_lid, request_of<Method::send>(b.hookup_of(parent_lid)));
  EXPECT_TRUE(b.events().empty()) << "nothing is pulled before the master has said so";
  b.assign(3, backup_lid, parent_lid);
  EXPECT_EQ(b.node.parent().gid(), gid_of(backup_lid)) << "the present master is still obeyed";
  b.parent_epoch = {1, 5};
}

TEST(SsaNode, ANewIncarnationMakesItGreetAndKeepItsParent) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  (void)b.events();
  b.parent_epoch = {2, 1};
  const Instant before = b.now;
  b.receive(parent_lid, request_of<Method::send>(b.hookup_of(parent_lid)));
  for (int i = 0; i < 1000; ++i) {
    bool greeted = false;
    for (const Transmit& sent : b.drain()) {
      if (sent.to.lid == master_lid) {
        b.last = sent.mad;
        greeted = true;
      } else if (parse_message(sent.mad)->method == Method::get) {
        b.receive(sent.to.lid, b.hookup_answer(sent.mad, sent.to.lid));
      }
    }
    if (greeted) break;
    b.to_deadline();
  }
  EXPECT_LE(b.now - before, 30s);
  const auto hello = body_of<SsaHello>(b.last);
  EXPECT_EQ(hello.get(SsaHello::parent_gid), gid_of(parent_lid));
  EXPECT_EQ(b.node.state(), NodeState::connected);
  EXPECT_TRUE(b.events().empty());
  b.master_epoch = {2, 1};
  b.receive(master_lid, b.hello_answer(b.last, 1));
  const auto events = b.events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, NodeEvent::Kind::new_epoch);
  EXPECT_EQ(events[0].epoch, (Epoch{2, 1}));
  b.master_epoch = {1, 9};
  b.assign(99, third_lid, 0);
  EXPECT_EQ(b.node.counters().replayed, 1U) << "the old master has nothing to say";
}

TEST(SsaNode, RefusesToBeItsOwnParentOrAChildsChild) {
  NodeBench b;
  b.connect(false);
  b.receive(child_lid, request_of<Method::set>(b.hookup_of(child_lid)));
  (void)b.drain();
  for (const std::uint16_t wrong : {own_lid, child_lid}) {
    b.assign(5, wrong, 0);
    const auto sent = b.drain();
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(status_of(sent[0].mad), static_cast<std::uint16_t>(AnswerStatus::denied));
  }
  EXPECT_EQ(b.node.counters().wrong_parent, 2U);
  EXPECT_EQ(b.node.parent().gid(), gid_of(parent_lid));
}

TEST(SsaNode, TakesChildrenWhenItHasDataAndUpToItsBound) {
  NodeBench b;
  b.node.start(b.now, at(master_lid));
  const auto hook = [&](std::uint16_t lid) {
    (void)b.drain();
    b.receive(lid, request_of<Method::set>(b.hookup_of(lid)));
    const auto sent = b.drain();
    return sent.size() == 1 ? name_of(static_cast<AnswerStatus>(status_of(sent[0].mad))) : "no answer";
  };
  EXPECT_EQ(hook(20), "not_ready");
  NodeBench c;
  c.connect(false);
  std::swap(b, c);
  EXPECT_EQ(hook(20), "ok");
  EXPECT_EQ(hook(21), "ok");
  EXPECT_EQ(hook(22), "full");
  EXPECT_EQ(hook(20), "ok") << "a child may hook up again";
  EXPECT_EQ(b.node.children().size(), 2U);
  b.receive(21, request_of<Method::delete_>(b.hookup_of(21)));
  EXPECT_EQ(hook(22), "ok");
}

TEST(SsaNode, ReportsSilentChildrenTogetherUntilItIsAnswered) {
  NodeBench b;
  b.connect(false);
  for (const std::uint16_t lid : two_children) b.receive(lid, request_of<Method::set>(b.hookup_of(lid)));
  const Instant hooked = b.now;
  (void)b.drain();
  std::vector<Transmit> reports;
  while (reports.size() < 3 && b.now - hooked < 60s) {
    for (const Transmit& sent : b.drain()) {
      if (parse_message(sent.mad)->method == Method::get)
        b.receive(sent.to.lid, b.hookup_answer(sent.mad, sent.to.lid));
      if (parse_message(sent.mad)->method != Method::report) continue;
      if (reports.empty()) {
        EXPECT_LE(b.now - hooked, 2s * 7 / 2 + 100ms);
      }
      reports.push_back(sent);
    }
    b.to_deadline();
  }
  ASSERT_EQ(reports.size(), 3U) << "without an answer it is sent again";
  EXPECT_EQ(reports[0].mad, reports[2].mad);
  EXPECT_EQ(reports[0].to.lid, master_lid);
  const auto body = body_of<SsaChildLost>(reports[0].mad);
  EXPECT_EQ(body.get(SsaChildLost::child_count), 2);
  EXPECT_EQ(b.node.children().size(), 0U);
  b.receive(master_lid, answer_to(reports[0].mad, body));
  const Instant answered = b.now;
  while (b.now - answered < 60s) {
    for (const Transmit& sent : b.drain()) {
      EXPECT_NE(parse_message(sent.mad)->method, Method::report);
      if (parse_message(sent.mad)->method == Method::get)
        b.receive(sent.to.lid, b.hookup_answer(sent.mad, sent.to.lid));
    }
    b.to_deadline();
  }
}

TEST(SsaNode, PushesEachNewEpochToItsChildren) {
  NodeBench b;
  b.connect(false);
  for (const std::uint16_t lid : two_children)
    b.receive(lid, request_of<Method::set>(b.hookup_of(lid).set(SsaHookup::is_backup, lid == 21)));
  (void)b.drain();
  b.node.handle_database(b.now, {1, 6});
  const auto sent = b.drain();
  EXPECT_EQ(sent.size(), 1U) << "those whose backup it is pull from their parents";
  EXPECT_EQ(sent_to(sent, 20), 1U);
  EXPECT_EQ(epoch_of(body_of<SsaHookup>(sent[0].mad).get(SsaHookup::epoch)), (Epoch{1, 6}));
  b.node.handle_database(b.now, {1, 6});
  EXPECT_TRUE(b.drain().empty());
}

TEST(SsaNode, LeavesWithOneMessageToEach) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  b.node.leave(b.now);
  const auto sent = b.drain();
  EXPECT_EQ(sent.size(), 3U);
  for (const std::uint16_t lid : {master_lid, parent_lid, backup_lid}) EXPECT_EQ(sent_to(sent, lid), 1U);
  EXPECT_EQ(b.node.state(), NodeState::idle);
  EXPECT_EQ(b.node.next_deadline(), never);
}

TEST(SsaNode, OutputsAreBounded) {
  NodeBench b;
  b.connect(true);
  (void)b.drain();
  for (std::uint64_t i = 0; i < 10'000; ++i) b.receive(child_lid, request_of<Method::get>(b.hookup_of(child_lid), i));
  EXPECT_LE(b.drain().size(), 64U + 2U);
  EXPECT_GT(b.node.dropped(), 0U);
  EXPECT_EQ(b.node.state(), NodeState::connected);
}

TEST(SsaNode, SaysOfNoVersionThatItIsTheNewestWhileAnyNodeAboveCannot) {
  NodeBench b;
  const auto heartbeat = [&](Epoch has) {
    b.receive(child_lid, request_of<Method::get>(b.hookup_of(child_lid).set(SsaHookup::epoch, wire_of(has))));
    return epoch_of(body_of<SsaHookup>(b.drain().back().mad).get(SsaHookup::epoch));
  };
  b.connect(false);
  b.drain();
  b.receive(child_lid, request_of<Method::set>(b.hookup_of(child_lid)));
  EXPECT_TRUE(b.node.is_current());
  EXPECT_EQ(heartbeat(b.parent_epoch), b.parent_epoch);

  const Epoch own = b.parent_epoch;
  b.until(Method::get, parent_lid);
  b.parent_epoch = {};  // the parent is not current
  b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
  b.drain();
  EXPECT_FALSE(b.node.is_current());
  EXPECT_EQ(b.node.state(), NodeState::connected);
  EXPECT_EQ(heartbeat(own), Epoch{});
  EXPECT_EQ(heartbeat({1, 4}), own) << "an older version is replaced all the same";

  b.parent_epoch = own;
  b.until(Method::get, parent_lid);
  b.receive(parent_lid, b.hookup_answer(b.last, parent_lid));
  b.drain();
  EXPECT_TRUE(b.node.is_current());
  EXPECT_EQ(heartbeat(own), own);

  b.node.handle_parent_lost(b.now, gid_of(parent_lid));
  b.drain();
  EXPECT_FALSE(b.node.is_current());
  EXPECT_EQ(heartbeat(own), Epoch{});
}

TEST(SsaNode, ARootIsCurrentAsLongAsItsDriverSaysSo) {
  NodeOptions options = NodeBench::defaults();
  options.is_root = true;
  options.roles = roles::core;
  NodeBench b(options);
  b.node.start(b.now, at(own_lid));
  EXPECT_FALSE(b.node.is_current());
  b.node.handle_database(b.now, {1, 1});
  EXPECT_TRUE(b.node.is_current());
  b.node.set_root_current(false);
  EXPECT_FALSE(b.node.is_current());
}

}  // namespace
}  // namespace node_test
}  // namespace parley::ssa
