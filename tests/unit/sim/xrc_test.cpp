// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// XRC on the simulator's HCAs: packets of an INI queue pair reach shared receive queues of several processes, through TGT queue
// pairs that were set up in band and that outlive the processes. Rows are numbered as in docs/xrc.md.
#include "tests/unit/sim/xrc_kit.hpp"

#include <algorithm>

#include "base/gid.hpp"
#include "sim/xrc/all_to_all.hpp"
#include "sim/xrc/churn.hpp"

namespace parley::sim::xrc_test {
namespace {
using namespace testing_xrc;
using xrc::TgtId;

/// The same under other seeds, and with packets lost.
template <class Scene>
void play(Scene scene, std::uint32_t loss_percent = 2) {
  for (std::uint64_t seed = 1; seed <= 6 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    XrcWorld w(seed, {.grace = 5s}, seed % 3 == 0 ? loss_percent : 0);
    scene(w);
  }
}

/// Three processes of which the first serves; the others are registered with what it set up.
struct Three {
  explicit Three(XrcWorld& w) : world(w), p(add(w)) {
    w.at_b([&] { w.b.serve(*p[0]); });
    ini = &w.connected(tgt);
    w.at_b([&] {
      for (std::size_t i : {1, 2}) EXPECT_EQ(refusal(p[i]->attachment().attach(tgt)), "none");
    });
  }
  static std::array<Proc*, 3> add(XrcWorld& w) {
    std::array<Proc*, 3> out{};
    w.at_b([&] {
      for (std::uint32_t i = 0; i < 3; ++i) out[i] = &w.b.add(i + 1);
    });
    return out;
  }
  bool survivors_receive() {
    return std::all_of(p.begin(), p.end(),
                       [&](Proc* one) { return one->member == nullptr || world.reaches(*ini, *one); });
  }
  XrcWorld& world;
  std::array<Proc*, 3> p;
  TgtId tgt{};
  Ini* ini = nullptr;
};

TEST(SimXrc, Row01And02And34_WhoSetItUpMayLeaveOrBeKilled) {
  for (const bool killed : {false, true})
    play([killed](XrcWorld& w) {
      Three three(w);
      EXPECT_EQ(w.b.up.front().second.qpn, three.ini->id.qp()->qp_num());
      EXPECT_TRUE(three.survivors_receive());
      w.at_b([&] { killed ? w.b.kill(*three.p[0]) : w.b.leave(*three.p[0]); });
      EXPECT_EQ(w.state(three.tgt), "rts");
      EXPECT_TRUE(three.survivors_receive());
      EXPECT_EQ(three.p[1]->got, 2U);
    });
}

TEST(SimXrc, Row03And34_OneThatDiesAloneLeavesNothing) {
  play([](XrcWorld& w) {
    Proc *p1 = nullptr, *p2 = nullptr;
    w.at_b([&] { p1 = &w.b.add(1), p2 = &w.b.add(2), w.b.serve(*p1); });
    TgtId tgt;
    Ini& ini = w.connected(tgt, 7471, 2);
    EXPECT_TRUE(w.b.is_there(tgt.qpn));
    w.at_b([&] { w.b.kill(*p1); });
    EXPECT_FALSE(w.b.is_there(tgt.qpn));
    w.at_b([&] {
      EXPECT_EQ(refusal(p2->attachment().attach(tgt)), "gone");
      EXPECT_EQ(refusal(p2->attachment().attach({tgt.qpn, 0})), "gone") << "its number rests";
    });
    EXPECT_EQ(w.b.node->registry().resting_count(), 1U);
    w.send(ini, p2->srqn());
    EXPECT_TRUE(w.until([&] { return !ini.done.empty(); }));
    EXPECT_EQ(ini.done.front(), WcStatus::retry_exc_err);
    EXPECT_EQ(p2->got, 0U);
  });
}

TEST(SimXrc, Row04And34_TheLastDeathEndsItInEveryOrder) {
  std::array<std::size_t, 3> order{0, 1, 2};
  std::uint64_t seed = 1;
  do {
    XrcWorld w(seed++);
    Three three(w);
    for (const std::size_t dies : order) {
      EXPECT_TRUE(three.survivors_receive());
      EXPECT_TRUE(w.b.is_there(three.tgt.qpn));
      w.at_b([&] { w.b.kill(*three.p[dies]); });
    }
    EXPECT_FALSE(w.b.is_there(three.tgt.qpn));
    EXPECT_EQ(w.b.node->registry().tgt_count(), 0U);
    EXPECT_EQ(w.b.node->registry().counters().destroyed, 1U);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(SimXrc, Row34_TheNumberOfAQueueIsAskedInBand) {
  play([](XrcWorld& w) {
    Three three(w);
    std::uint64_t asked = 0, nobody = 0;
    w.at_a([&] { asked = w.a.ask(w.to(), 2), nobody = w.a.ask(w.to(), 3); });
    ASSERT_TRUE(w.until([&] { return w.a.answers.size() == 2; }));
    EXPECT_EQ(w.a.answers[asked], three.p[2]->srqn());
    EXPECT_EQ(w.a.answers[nobody], 0U);
  });
}

// A Write to memory that its queue's domain of protection has not: the NIC takes the queue pair to ERR.
TEST(SimXrc, Row15_AFailureIsToldToEachOnce) {
  play([](XrcWorld& w) {
    std::vector<Proc*> procs;
    w.at_b([&] {
      for (std::uint32_t pid = 1; pid <= 5; ++pid) procs.push_back(&w.b.add(pid));
      w.b.serve(*procs[0], 7471);
    });
    TgtId tgt;
    Ini& ini = w.connected(tgt);
    w.at_b([&] {
      for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(refusal(procs[i]->attachment().attach(tgt)), "none");
    });
    w.at_a([&] {
      EXPECT_TRUE(ini.id.qp()->post_send({.opcode = SendWr::Opcode::rdma_write,
                                          .sges = {&w.a.sge, 1},
                                          .remote_addr = procs[1]->region.addr,
                                          .rkey = procs[1]->region.rkey + 1,
                                          .remote_srq_num = procs[1]->srqn()}));
    });
    ASSERT_TRUE(w.until([&] { return procs[4]->events.size() >= 2; }));
    for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(procs[i]->told(), "fatal peer_gone") << "the connection goes with it";
    w.at_b([&] {
      for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(refusal(procs[i]->attachment().release(tgt)), "none");
    });
    EXPECT_EQ(w.state(tgt), "gone");
    EXPECT_FALSE(w.b.is_there(tgt.qpn));
  });
}

TEST(SimXrc, Row19And20_ThePeersEndDrainsItWhoeverLetsGo) {
  play([](XrcWorld& w) {
    Three three(w);
    w.at_a([&] { three.ini->id.destroy(); });  // as when its process dies: its connection manager says so
    ASSERT_TRUE(w.until([&] { return !three.p[2]->events.empty(); }));
    EXPECT_EQ(three.p[1]->told(), "peer_gone");
    EXPECT_EQ(three.p[2]->told(), "peer_gone");
    EXPECT_EQ(w.state(three.tgt), "drain");
    w.at_b([&] {
      EXPECT_EQ(refusal(three.p[0]->attachment().attach(three.tgt)), "gone");
      EXPECT_EQ(refusal(three.p[1]->attachment().release(three.tgt)), "none");
    });
    EXPECT_TRUE(w.b.is_there(three.tgt.qpn)) << "the third one does not answer";
    w.world.run_for(6s);
    EXPECT_EQ(w.state(three.tgt), "gone");
    EXPECT_FALSE(w.b.is_there(three.tgt.qpn));
    EXPECT_EQ(w.b.node->registry().counters().reaped, 1U);
    w.at_b([&] { EXPECT_EQ(refusal(three.p[2]->attachment().release(three.tgt)), "gone"); });
  });
}

TEST(SimXrc, Row21And22_TwoMakeAndMoveTheSame) {
  XrcWorld w(1);
  Three three(w);
  w.at_b([&] {
    xrc::Attachment &one = three.p[1]->attachment(), &two = three.p[2]->attachment();
    const xrc::Peer peer{7, 0x99};
    const auto made = one.create(peer), same = two.create(peer);
    ASSERT_TRUE(made && same);
    const TgtId id = made->id;
    EXPECT_EQ(id, same->id);
    EXPECT_TRUE(same->existing);
    const auto says = [](const Result<bool>& moved) { return moved ? (*moved ? "already" : "moved") : refusal(moved); };
    const QpAttr init{.state = QpState::init, .access = Access::none, .pkey_index = 0, .port_num = 1};
    EXPECT_EQ(says(one.modify(id, init)), "moved");
    EXPECT_EQ(says(two.modify(id, init)), "already");
    QpAttr rtr{.state = QpState::rtr};
    rtr.ah = AhAttr{.grh = GlobalRoute{.dgid = gid_of(w.ha->address())}};
    rtr.path_mtu = Mtu::octets_1024;
    rtr.dest_qp_num = 0x99;
    rtr.rq_psn = 1;
    rtr.max_dest_rd_atomic = 1;
    rtr.min_rnr_timer = 12;
    EXPECT_EQ(says(two.modify(id, rtr)), "moved");
    EXPECT_EQ(says(one.modify(id, rtr)), "already") << "the NIC has no step from RTR to RTR";
    rtr.rq_psn = 2;
    EXPECT_EQ(says(one.modify(id, rtr)), "conflict");
    EXPECT_EQ(says(three.p[0]->attachment().modify(id, init)), "not_registered");
    EXPECT_EQ(refusal(one.release(id)), "none");
    EXPECT_TRUE(w.b.is_there(id.qpn));
    EXPECT_EQ(refusal(two.release(id)), "none");
    EXPECT_FALSE(w.b.is_there(id.qpn));
  });
}

// A child of fork has no membership, whatever it has of its parent's memory: it is refused, holds nothing up, and its parent goes on.
TEST(SimXrc, Row25_AForkedChildHasNothingOfItsParents) {
  play([](XrcWorld& w) {
    Three three(w);
    w.at_b([&] {
      xrc::Registry& registry = w.b.node->registry();
      const Instant now = w.world.now();
      xrc::MemberId none = three.p[1]->member->registrar.member();
      none.number += 1000;  // the node has never opened the domain for it
      xrc::LocalRegistrar registrar(registry, none, now);
      xrc::Device device(w.hb->device(), w.b.node->domain());
      xrc::Attachment child(registrar, device);
      EXPECT_EQ(refusal(child.attach(three.tgt)), "not_member");
      EXPECT_EQ(refusal(child.release(three.tgt)), "not_member");
      EXPECT_EQ(refusal(child.create()), "not_member");
      EXPECT_EQ(refusal(child.query(three.tgt)), "not_member");
      EXPECT_EQ(device.handle_count(), 0U);
    });
    EXPECT_TRUE(three.survivors_receive());
    for (Proc* p : three.p) w.at_b([&] { w.b.kill(*p); });
    EXPECT_FALSE(w.b.is_there(three.tgt.qpn)) << "the child does not keep it";
  });
}

// What the program becomes is another member: messages to the queue that it had are dropped, and the new queue gets its own as
// soon as it has registered.
TEST(SimXrc, Row26_ExecIsDeathAndANewMember) {
  play([](XrcWorld& w) {
    Three three(w);
    TgtId second;
    Ini& other = w.connected(second);
    const std::uint32_t before = three.p[1]->srqn();
    EXPECT_TRUE(w.reaches(*three.ini, *three.p[1]));
    Proc* after = nullptr;
    w.at_b([&] {
      w.b.kill(*three.p[1]);
      after = &w.b.add(2);  // the same process ID
      EXPECT_EQ(refusal(after->attachment().release(three.tgt)), "not_registered");
    });
    EXPECT_TRUE(three.survivors_receive());
    w.at_b([&] { EXPECT_EQ(refusal(after->attachment().attach(three.tgt)), "none"); });
    EXPECT_NE(after->srqn(), before);
    EXPECT_TRUE(w.reaches(*three.ini, *after));
    w.send(other, before);
    ASSERT_TRUE(w.until([&] { return !other.done.empty(); }));
    EXPECT_EQ(other.done.front(), WcStatus::retry_exc_err);
    EXPECT_EQ(three.p[1]->got, 1U) << "what came before it called exec";
    EXPECT_EQ(after->got, 1U);
    EXPECT_TRUE(w.reaches(*three.ini, *after));
  });
}

// OFED's calls have the number alone, upstream's the name. Both processes receive through the one queue pair, and the last of
// them ends it.
TEST(SimXrc, Row36_ByNumberAndByName) {
  play([](XrcWorld& w) {
    Proc *service = nullptr, *ofed = nullptr, *upstream = nullptr;
    w.at_b([&] { service = &w.b.add(1), ofed = &w.b.add(2), upstream = &w.b.add(3), w.b.serve(*service); });
    TgtId tgt;
    Ini& ini = w.connected(tgt);
    w.at_b([&] {
      const auto by_number = ofed->attachment().attach({tgt.qpn, 0});
      ASSERT_TRUE(by_number);
      EXPECT_EQ(by_number->id, tgt);
      EXPECT_EQ(refusal(upstream->attachment().attach(tgt)), "none");
      w.b.kill(*service);
    });
    EXPECT_TRUE(w.reaches(ini, *ofed));
    EXPECT_TRUE(w.reaches(ini, *upstream));
    w.at_b([&] { EXPECT_EQ(refusal(upstream->attachment().release(tgt)), "none"); });
    EXPECT_TRUE(w.b.is_there(tgt.qpn));
    EXPECT_TRUE(w.reaches(ini, *ofed));
    w.at_b([&] { EXPECT_EQ(refusal(ofed->attachment().release({tgt.qpn, 0})), "none"); });
    EXPECT_FALSE(w.b.is_there(tgt.qpn));
  });
}

// A queue that goes takes nothing with it. Its packets are dropped, so whoever sends there gives up: that ends the sender's queue
// pair, and this TGT queue pair with it; others do not notice.
TEST(SimXrc, Row31_AQueueThatGoes) {
  play([](XrcWorld& w) {
    Three three(w);
    TgtId second;
    Ini& other = w.connected(second);
    std::uint32_t gone = 0;
    w.at_b([&] {
      gone = three.p[1]->srqn();
      EXPECT_EQ(refusal(three.p[1]->attachment().destroy_srq(gone)), "none");
      three.p[1]->srq = nullptr;
    });
    EXPECT_TRUE(w.reaches(*three.ini, *three.p[2]));
    w.send(*three.ini, gone);
    w.send(*three.ini, three.p[2]->srqn());
    ASSERT_TRUE(w.until([&] { return three.ini->done.size() == 3; }));
    EXPECT_EQ(three.ini->done, (std::vector{WcStatus::success, WcStatus::retry_exc_err, WcStatus::wr_flush_err}));
    EXPECT_GE(w.b.counters().dropped_srqn, 7U);
    EXPECT_TRUE(w.reaches(other, *three.p[2]));
    EXPECT_EQ(w.state(second), "rts");
  });
}

// Head-of-line blocking: what waits for one queue holds up everything behind it on its pair, and on no other. Without loss: an
// RNR NAK is no progress, so each one that is lost uses up a retry for good.
TEST(SimXrc, Row32_AFullQueueStallsItsPairAlone) {
  play(
      [](XrcWorld& w) {
        Proc *empty = nullptr, *ready = nullptr;
        w.at_b([&] { empty = &w.b.add(1, 0), ready = &w.b.add(2), w.b.serve(*ready); });
        TgtId tgt, second;
        Ini &ini = w.connected(tgt), &other = w.connected(second);
        w.send(ini, empty->srqn());
        w.send(ini, ready->srqn());
        w.world.run_for(300ms);
        EXPECT_EQ(ready->got, 0U) << "it has room, and waits all the same";
        EXPECT_GE(w.b.counters().rnr_sent, 100U) << "every 0.64 ms";
        EXPECT_TRUE(w.reaches(other, *ready));
        w.at_b([&] { empty->post(1); });
        const Instant posted = w.world.now();
        ASSERT_TRUE(w.until([&] { return empty->got == 1 && ready->got == 2; }));
        EXPECT_LT(w.world.now() - posted, 2ms) << "the timer of the RNR NAK, 0.64 ms";
        EXPECT_EQ(w.state(tgt), "rts");
      },
      0);
}

TEST(SimXrc, Row32_AndUnderLossTheStallEndsThePair) {
  XrcWorld w(3, {.grace = 5s}, 10);
  Proc *empty = nullptr, *ready = nullptr;
  w.at_b([&] { empty = &w.b.add(1, 0), ready = &w.b.add(2), w.b.serve(*ready); });
  TgtId tgt;
  Ini& ini = w.connected(tgt);
  w.send(ini, empty->srqn());
  w.send(ini, ready->srqn());
  ASSERT_TRUE(w.until([&] { return ini.done.size() == 2; }));
  EXPECT_EQ(ini.done, (std::vector{WcStatus::retry_exc_err, WcStatus::wr_flush_err}));
  EXPECT_GE(w.b.counters().rnr_sent, 7U);
  EXPECT_EQ(ready->got, 0U);
}

TEST(SimXrc, Row33_NumbersThatNameNoQueueHere) {
  for (const bool of_another_domain : {false, true})
    play([of_another_domain](XrcWorld& w) {
      Three three(w);
      std::unique_ptr<XrcDomain> domain;
      std::unique_ptr<SharedReceiveQueue> foreign;
      std::uint32_t number = 0x42;
      w.at_b([&] {
        Device& device = w.hb->device();
        domain = device.open_xrcd().value();
        foreign = device.create_srq({.pd = three.p[1]->pd, .xrcd = domain.get(), .cq = three.p[1]->cq.get()}).value();
        if (of_another_domain) number = *foreign->srq_num();
      });
      w.send(*three.ini, number);
      ASSERT_TRUE(w.until([&] { return w.b.counters().dropped_srqn >= 3; }));
      EXPECT_EQ(w.state(three.tgt), "rts") << "it is dropped, and says nothing about the queue pair";
      EXPECT_EQ(three.p[1]->told(), "");
      ASSERT_TRUE(w.until([&] { return !three.ini->done.empty(); }));
      EXPECT_EQ(three.ini->done.front(), WcStatus::retry_exc_err);
      ASSERT_TRUE(w.until([&] { return !three.p[1]->events.empty(); })) << "its end is the sender's";
      EXPECT_EQ(three.p[1]->told(), "peer_gone");
      w.at_b([&] { foreign.reset(), domain.reset(); });
    });
}

// A request from the queue pair that a live TGT queue pair already has: REJ 10, and the old one drains.
TEST(SimXrc, Row35_APeerThatUsesItsNumberAgain) {
  play([](XrcWorld& w) {
    Three three(w);
    const FaultRule same{.match = {.message = MessageKind::cm_req},
                         .action = FaultAction::corrupt_roce,
                         .field = MessageField::queue_pair,
                         .value = three.ini->id.qp()->qp_num()};
    ASSERT_TRUE(w.world.add_fault(w.link, LinkDirection::forward, same));
    Ini& again = w.connect();
    ASSERT_TRUE(w.until([&] { return again.over; }));
    EXPECT_NE(again.why.find("(10)"), std::string::npos) << again.why;
    ASSERT_TRUE(w.until([&] { return !three.p[1]->events.empty() && !three.p[2]->events.empty(); }));
    EXPECT_EQ(three.p[1]->told(), "peer_reused");
    EXPECT_EQ(three.p[2]->told(), "peer_reused");
    EXPECT_EQ(w.state(three.tgt), "drain");
  });
}

TEST(SimXrc, AServiceThatCannotListenLeavesItToTheProgramToSaySo) {
  XrcWorld w(1);
  Three three(w);
  EXPECT_TRUE(three.p[0]->left.empty());
  w.at_b([&] { w.b.serve(*three.p[1]); });  // at the port of the first
  ASSERT_TRUE(w.until([&] { return !three.p[1]->left.empty(); }));
  EXPECT_TRUE(std::holds_alternative<cm::ConnectFailed>(three.p[1]->left.front()));
}

TEST(SimXrc, Row37_CountsOfAnAllToAll) {
  constexpr std::uint32_t nodes = 3, p = 6, peers = nodes - 1;
  for (const bool rc : {false, true}) {
    const auto report = run_all_to_all({.nodes = nodes, .processes = p, .rc = rc});
    ASSERT_TRUE(report) << report.error();
    EXPECT_TRUE(report->done) << report->trouble;
    for (const RankCount& node : report->nodes) {
      EXPECT_EQ(node.ini, rc ? 0U : p * peers);
      EXPECT_EQ(node.tgt, rc ? 0U : peers * p);
      EXPECT_EQ(node.handles, rc ? 0U : peers * p * p);
      EXPECT_EQ(node.rc, rc ? p * peers * p : 0U);
      EXPECT_EQ(node.received, p * peers * p);
    }
  }
}

TEST(SimXrc, Row14_PeersComeAndGo) {
  const auto drained = run_churn({.cycles = 400});
  ASSERT_TRUE(drained) << drained.error();
  EXPECT_EQ(drained->trouble, "");
  EXPECT_EQ(drained->cycles, 400U);
  EXPECT_EQ(drained->left, 0U);
  EXPECT_EQ(drained->counters.created, 400U);
  EXPECT_EQ(drained->counters.destroyed, 400U);
  EXPECT_EQ(drained->counters.reaped, 400U) << "one process never lets go";
  const auto all_let_go = run_churn({.cycles = 400, .deaf = 0});
  ASSERT_TRUE(all_let_go);
  EXPECT_EQ(all_let_go->trouble, "");
  EXPECT_GE(all_let_go->peak, 16U) << "those that are connected";
  EXPECT_LE(all_let_go->peak, 32U) << "and those that end while the next ones come";
  const auto kept = run_churn({.cycles = 100, .keep = true});
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->trouble, "");
  EXPECT_EQ(kept->left, 100U);
}

TEST(SimXrc, QuestionsAndAnswers) {
  EXPECT_EQ(xrc::srqn_question(31), (Bytes{'X', 'S', 'R', 'Q', 1, 1, 0, 0, 0, 0, 0, 31}));
  EXPECT_EQ(xrc::parse_srqn_question(xrc::srqn_question(31)), 31U);
  EXPECT_EQ(xrc::parse_srqn_answer(xrc::srqn_answer(0x20001)), 0x20001U);
  EXPECT_FALSE(xrc::parse_srqn_answer(xrc::srqn_question(31)));
  EXPECT_FALSE(xrc::parse_srqn_answer(xrc::srqn_answer(0)));
  EXPECT_FALSE(xrc::parse_srqn_answer(xrc::srqn_answer(1U << 24)));
  Bytes mangled = xrc::srqn_question(1);
  for (std::size_t at = 0; at < 8; ++at) {
    mangled[at] ^= 0x40;
    EXPECT_FALSE(xrc::parse_srqn_question(mangled)) << at;
    mangled[at] ^= 0x40;
  }
  mangled.pop_back();
  EXPECT_FALSE(xrc::parse_srqn_question(mangled));
}

}  // namespace
}  // namespace parley::sim::xrc_test
