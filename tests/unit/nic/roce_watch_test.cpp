// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// QpWatch: how a queue pair asks a silent peer, and when it takes it for dead.
#include "tests/unit/nic/roce_link.hpp"
#include "tests/unit/printing.hpp"

namespace parley::nic::roce::test {
namespace {

constexpr QpWatch watch{.keepalive = 5s, .dead_after = 12s};

/// World::run() ends with the last thing that happens; here time passes.
struct Slow : World {
  void pass(Duration time) {
    const Instant until = now + time;
    run(time);
    now = until;
  }
};

struct Watched : Slow {
  std::size_t writes = 0;  // RDMA Writes from a
  bool dead = false;       // b, or the path to it: nothing passes

  explicit Watched(const QpWatch& of_a = watch, const Terms& terms = {}) {
    filter = [this](std::size_t, Frame& frame) {
      if (frame.to_b && frame.operation() == Operation::write_only) {
        ++writes;
        const auto packet = frame.parsed();
        EXPECT_EQ(packet.reth.dma_length, 0U);
        EXPECT_TRUE(packet.payload.empty());
        EXPECT_TRUE(packet.bth.ack_req);
      }
      return !dead;
    };
    connect(terms);
    a.qp->watch(now, of_a);
  }
  QpFailure::Cause cause() const { return a.qp->failure().cause; }
};

TEST(RoceWatch, AnIdlePeerIsAskedEachInterval) {
  Watched w;
  w.pass(4999ms);
  EXPECT_EQ(w.writes, 0U);
  w.pass(2ms);
  EXPECT_EQ(w.writes, 1U);
  w.pass(60s);
  EXPECT_EQ(w.writes, 13U) << "each answer begins the silence anew, 10 us behind the question";
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.b.qp->state(), QpState::rts);
}

/// Connections of two devices, which both sides watch from one instant on.
struct Crowd : Slow {
  explicit Crowd(std::size_t connections) {
    for (std::size_t i = 0; i < connections; ++i) {
      connect();
      for (Side* side : {&a, &b}) {
        side->qp->watch(now, watch);
        qps.push_back(std::move(side->qp));
      }
    }
    filter = [this](std::size_t, Frame& frame) {
      if (frame.operation() == Operation::write_only) {
        ++(frame.to_b ? by_a : by_b);
        most_at_once = std::max(most_at_once, ++asked[now]);
      }
      return true;
    };
  }
  std::size_t dead() const {
    return static_cast<std::size_t>(
        std::count_if(qps.begin(), qps.end(), [](const auto& qp) { return qp->state() != QpState::rts; }));
  }
  std::vector<std::unique_ptr<RoceQp>> qps;
  std::map<Instant, std::size_t> asked;
  std::size_t by_a = 0, by_b = 0, most_at_once = 0;
};

// The receive buffer of a UDP socket does not hold more.
TEST(RoceWatch, ManyIdlePeersAreAskedAFewAtATimeAndByOneSide) {
  Crowd crowd(1000);
  crowd.pass(5s + 300ms);
  EXPECT_EQ(crowd.by_a, 1000U);
  crowd.pass(55s);
  EXPECT_EQ(crowd.by_b, 0U) << "the question of a shows that a is there";
  EXPECT_GE(crowd.by_a, 11'000U);
  EXPECT_LE(crowd.by_a, 12'000U);
  EXPECT_LE(crowd.most_at_once, 128U);
  EXPECT_EQ(crowd.dead(), 0U);
}

TEST(RoceWatch, ManySilentPeersAreDeadAfterTheTimeGiven) {
  Crowd crowd(1000);
  crowd.filter = [](std::size_t, Frame&) { return false; };
  crowd.pass(11990ms);
  EXPECT_EQ(crowd.dead(), 0U);
  crowd.pass(20ms);
  EXPECT_EQ(crowd.dead(), 2000U);
}

TEST(RoceWatch, ADrainedQueuePairAsksNobody) {
  Watched w;
  ASSERT_TRUE(w.a.qp->modify({.state = QpState::sqd}));
  w.pass(60s);
  EXPECT_EQ(w.writes, 0U);
  EXPECT_EQ(w.a.qp->state(), QpState::sqd);
}

TEST(RoceWatch, AKeepaliveCostsNeitherSideAnything) {
  Watched w(watch, {.depth = 1});
  Buffer memory(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {memory.all()}));
  w.pass(6s);
  ASSERT_EQ(w.writes, 1U);
  EXPECT_TRUE(w.a.sends().empty());
  EXPECT_TRUE(w.b.recvs().empty());
  EXPECT_EQ(w.a.qp->sends_open(), 0U);
}

TEST(RoceWatch, AKeepaliveTakesNoPlaceOfTheSendQueue) {
  Slow w;
  w.a.make(QpType::rc, 1);
  w.b.make(QpType::rc);
  w.connect();
  w.a.qp->watch(w.now, watch);
  bool lost = true;
  w.filter = [&](std::size_t, Frame&) { return !lost; };
  w.pass(5100ms);
  EXPECT_EQ(w.a.qp->sends_open(), 0U);
  Buffer from(*w.a.device, w.a.pd, 64), to(*w.b.device, w.b.pd, 64);
  ASSERT_TRUE(w.b.recv(1, {to.all()}));
  ASSERT_TRUE(w.a.send(2, {from.all()})) << "max_send_wr is 1, and the keepalive is not acknowledged yet";
  EXPECT_EQ(w.a.qp->sends_open(), 1U);
  lost = false;
  w.pass(1s);
  const auto done = w.a.sends();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 2U);
  EXPECT_EQ(done[0].status, WcStatus::success);
}

TEST(RoceWatch, APeerThatTalksIsNotAsked) {
  Watched w;
  w.b.qp->watch(w.now, {.keepalive = 1s, .dead_after = 3s});
  w.pass(60s);
  EXPECT_EQ(w.writes, 0U) << "the keepalives of b show that it lives";
}

TEST(RoceWatch, ASilentPeerIsDeadAfterTheTimeGiven) {
  Watched w;
  w.dead = true;
  w.pass(11990ms);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  w.pass(20ms);
  EXPECT_EQ(w.a.qp->state(), QpState::err);
  EXPECT_EQ(w.cause(), QpFailure::Cause::silence);
  EXPECT_EQ(w.a.qp->failure().elapsed, 12s);
  EXPECT_EQ(w.a.notices(), std::vector{QueuePairEvent::Kind::qp_fatal});
  EXPECT_TRUE(w.a.sends().empty()) << "nothing of the program's was under way";
}

TEST(RoceWatch, APeerThatComesBackInTimeLives) {
  Watched w;
  w.dead = true;
  w.pass(11400ms);  // it is asked at 11.5 s for the last time
  w.dead = false;
  w.pass(60s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
}

TEST(RoceWatch, WithoutKeepaliveAnIdleConnectionLasts) {
  Watched w({.keepalive = {}, .dead_after = 2s});
  w.dead = true;
  w.pass(3600s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.writes, 0U);
}

TEST(RoceWatch, ARequestIsBoundedByTheTimeGivenEvenIfItsRetriesAreNot) {
  Watched w({.keepalive = {}, .dead_after = 2s}, {.timeout = 20});  // 4.3 s
  w.dead = true;
  w.pass(100s);
  Buffer memory(*w.a.device, w.a.pd, 64);
  ASSERT_TRUE(w.a.send(1, {memory.all()}));
  w.pass(1990ms);
  EXPECT_EQ(w.a.qp->state(), QpState::rts) << "the hundred seconds before it do not count";
  w.pass(2s);
  EXPECT_EQ(w.cause(), QpFailure::Cause::silence);
  const auto done = w.a.sends();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::retry_exc_err);
}

TEST(RoceWatch, RetriesOfARequestAreTold) {
  Watched w(watch, {.timeout = 14, .retry = 3});  // 67 ms
  w.dead = true;
  Buffer memory(*w.a.device, w.a.pd, 64);
  ASSERT_TRUE(w.a.send(1, {memory.all()}));
  w.pass(2s);
  const QpFailure& why = w.a.qp->failure();
  EXPECT_EQ(why.cause, QpFailure::Cause::no_ack);
  EXPECT_EQ(why.retries, 3U);
  EXPECT_GE(why.elapsed, 4 * 67ms);
  EXPECT_LT(why.elapsed, 5 * 68ms);
}

TEST(RoceWatch, ARequestBehindALostKeepaliveFailsWithItsOwnStatus) {
  Watched w;
  w.dead = true;
  w.pass(5100ms);
  Buffer memory(*w.a.device, w.a.pd, 64);
  ASSERT_TRUE(w.a.send(9, {memory.all()}));
  w.pass(2s);
  const auto done = w.a.sends();
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 9U);
  EXPECT_EQ(done[0].status, WcStatus::retry_exc_err);
}

// Their retries would take 34 s.
TEST(RoceWatch, ARequestOfASilentPeerDoesNotPutOffTheVerdict) {
  for (const Duration posted : {4900ms, 8000ms, 11900ms}) {
    Watched w(watch, {.timeout = 20});
    w.dead = true;
    w.pass(posted);
    Buffer memory(*w.a.device, w.a.pd, 64);
    ASSERT_TRUE(w.a.send(1, {memory.all()}));
    w.pass(11990ms - posted);
    EXPECT_EQ(w.a.qp->state(), QpState::rts);
    w.pass(20ms);
    EXPECT_EQ(w.cause(), QpFailure::Cause::silence);
    EXPECT_EQ(w.a.sends().size(), 1U);
  }
}

TEST(RoceWatch, TheManagerIsWarnedOnceOfEachSilence) {
  Watched w({.keepalive = 5s, .dead_after = 12s, .warning = 2s});
  w.a.qp->owner = 1;
  const auto warnings = [&w] {
    std::size_t n = 0;
    while (const auto notice = w.a.device->poll_notice()) n += std::holds_alternative<PeerSilent>(notice->what);
    return n;
  };
  w.pass(31s);  // asked at 30 s
  EXPECT_EQ(warnings(), 0U);
  for (int i = 0; i < 2; ++i) {
    w.dead = true;
    w.pass(8900ms);
    EXPECT_EQ(warnings(), 0U);
    w.pass(1200ms);
    EXPECT_EQ(warnings(), 1U);
    w.dead = false;
    w.pass(600ms);  // it is asked, and answers
    EXPECT_EQ(warnings(), 0U);
  }
}

TEST(RoceWatch, OneWordOfIcmpIsNotBelieved) {
  Watched w;
  w.pass(1s);
  w.a.qp->handle_unreachable(w.now);
  w.pass(1s);
  EXPECT_EQ(w.writes, 1U) << "the peer is asked, and answers";
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  w.a.qp->handle_unreachable(w.now);  // the first one since it answered
  w.pass(1s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
}

TEST(RoceWatch, TwoWordsOfIcmpAre) {
  Watched w;
  w.dead = true;
  w.pass(1s);
  w.a.qp->handle_unreachable(w.now);
  w.pass(100ms);
  w.a.qp->handle_unreachable(w.now);
  EXPECT_EQ(w.a.qp->state(), QpState::rts) << "of one burst";
  w.pass(101ms);
  w.a.qp->handle_unreachable(w.now);
  EXPECT_EQ(w.a.qp->state(), QpState::err);
  EXPECT_EQ(w.cause(), QpFailure::Cause::unreachable);
}

TEST(RoceWatch, WhoIsNotWatchedIsLeftAlone) {
  Watched w(QpWatch{});
  w.dead = true;
  w.a.qp->handle_unreachable(w.now);
  w.pass(1s);
  w.a.qp->handle_unreachable(w.now);
  w.pass(3600s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.writes, 0U);
}

TEST(RoceWatch, AHostThatWasStoppedAsksBeforeItJudges) {
  Watched w;
  w.pass(1s);
  w.now += 60s;  // nobody had a turn
  w.pass(2s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.writes, 1U);
}

TEST(RoceWatch, UnreliableQueuePairsAskNobody) {
  Watched w(watch, {.type = QpType::uc});
  w.dead = true;
  w.pass(3600s);
  EXPECT_EQ(w.a.qp->state(), QpState::rts);
  EXPECT_EQ(w.writes, 0U);
}

TEST(RoceWatch, ANakIsTold) {
  Watched w;
  Buffer memory(*w.a.device, w.a.pd, 64);
  const Sge piece = memory.all();
  SendWr wr{.wr_id = 1, .sges = {&piece, 1}};
  wr.opcode = SendWr::Opcode::rdma_write;
  wr.remote_addr = 1;
  wr.rkey = 0x12345;
  ASSERT_TRUE(w.a.qp->post_send(wr));
  w.filter = nullptr;
  w.pass(1s);
  EXPECT_EQ(w.cause(), QpFailure::Cause::nak);
  EXPECT_EQ(w.a.qp->failure().code, static_cast<std::uint8_t>(Nak::remote_access_error));
  EXPECT_EQ(w.b.qp->failure().cause, QpFailure::Cause::sent_nak);
  EXPECT_EQ(w.b.qp->failure().code, static_cast<std::uint8_t>(Nak::remote_access_error));
}

}  // namespace
}  // namespace parley::nic::roce::test
