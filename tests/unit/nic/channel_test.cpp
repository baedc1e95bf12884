// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Completion channels and the events of shared receive queues. IBA 1.x §11.4.2: one event for each request to be told,
// of what came after it.
#include "test_pair.hpp"

namespace parley::nic::iwarp::test {
namespace {

/// a sends to b, whose receives complete in a queue with a channel.
struct Told {
  Pair p;
  std::unique_ptr<CompletionChannel> channel = p.b.device->create_comp_channel().value();
  std::unique_ptr<CompletionQueue> cq = p.b.device->create_cq({.capacity = 64, .channel = channel.get()}).value();
  Buffer from{*p.a.device, p.a.pd, 8}, to{*p.b.device, p.b.pd, 8};

  Told() {
    p.b.qp = p.b.device->create_stream_qp({.pd = p.b.pd, .send_cq = p.b.send_cq.get(), .recv_cq = cq.get()}).value();
    p.connect();
    for (std::uint64_t i = 0; i < 16; ++i) EXPECT_TRUE(p.b.recv(i, {to.all()}));
  }
  void message(bool solicited = false) {
    const Sge sge = from.all();
    ASSERT_TRUE(p.a.qp->post_send({.sges = {&sge, 1}, .solicited = solicited}));
    p.run();
  }
  /// How many events are told from now on; all of this queue.
  std::size_t events() {
    std::size_t n = 0;
    for (; const CompletionQueue* told = channel->poll_event(); ++n) EXPECT_EQ(told, cq.get());
    return n;
  }
};

TEST(NicChannel, OneEventForEachArming) {
  Told t;
  t.message();
  EXPECT_EQ(t.events(), 0U) << "nobody asked";
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  EXPECT_EQ(t.channel->waiting(), 0U) << "what was there before makes no event";
  t.message();
  t.message();
  EXPECT_EQ(t.channel->waiting(), 1U);
  EXPECT_TRUE(t.p.b.device->has_events());
  EXPECT_EQ(t.events(), 1U);
  EXPECT_FALSE(t.p.b.device->has_events());
  t.message();
  EXPECT_EQ(t.events(), 0U) << "not armed again";
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  t.message();
  EXPECT_EQ(t.events(), 1U);
}

TEST(NicChannel, EventsOfOneQueueMerge) {
  Told t;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
    t.message();
  }
  EXPECT_EQ(t.channel->waiting(), 1U);
  EXPECT_EQ(t.events(), 1U);
}

TEST(NicChannel, SolicitedOnlyWaitsForTheFlagOrAFailure) {
  Told t;
  ASSERT_TRUE(t.cq->req_notify(Notify::solicited));
  t.message(false);
  EXPECT_EQ(t.events(), 0U);
  t.message(true);
  EXPECT_EQ(t.events(), 1U);
  // RFC 7306 §6: Immediate Data with Solicited Event.
  ASSERT_TRUE(t.cq->req_notify(Notify::solicited));
  ASSERT_TRUE(t.p.a.qp->post_immediate({.data = 1}));
  t.p.run();
  EXPECT_EQ(t.events(), 0U);
  ASSERT_TRUE(t.p.a.qp->post_immediate({.data = 2, .solicited = true}));
  t.p.run();
  EXPECT_EQ(t.events(), 1U);
  ASSERT_TRUE(t.cq->req_notify(Notify::solicited));
  t.p.b.qp->flush();
  EXPECT_EQ(t.events(), 1U);
}

// What was asked for first holds: a request for less does not take it back, one for more adds to it.
TEST(NicChannel, TheWiderRequestHolds) {
  for (const auto& [first, second] :
       {std::pair{Notify::next_comp, Notify::solicited}, std::pair{Notify::solicited, Notify::next_comp}}) {
    Told t;
    ASSERT_TRUE(t.cq->req_notify(first));
    ASSERT_TRUE(t.cq->req_notify(second));
    t.message(false);
    EXPECT_EQ(t.events(), 1U);
  }
}

TEST(NicChannel, QueuesAreToldInTheOrderInWhichTheyCompleted) {
  Told t;
  auto other = t.p.b.device->create_cq({.capacity = 4, .channel = t.channel.get()}).value();
  auto second =
      t.p.b.device->create_stream_qp({.pd = t.p.b.pd, .send_cq = other.get(), .recv_cq = other.get()}).value();
  ASSERT_TRUE(second->post_recv({}));
  ASSERT_TRUE(other->req_notify(Notify::next_comp));
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  t.message();
  second->flush();
  EXPECT_EQ(t.channel->waiting(), 2U);
  EXPECT_EQ(t.channel->poll_event(), t.cq.get());
  EXPECT_EQ(t.channel->poll_event(), other.get());
  EXPECT_EQ(t.channel->poll_event(), nullptr);
}

TEST(NicChannel, ArmingNeedsALiveChannel) {
  Told t;
  const auto refused = t.p.b.send_cq->req_notify(Notify::next_comp);
  EXPECT_EQ(refused.error(), Errc::wrong_state);
  EXPECT_NE(refused.error().sentence().find("without CqInit::channel"), std::string::npos);
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  t.channel.reset();
  t.message();  // tells nobody
  EXPECT_FALSE(t.p.b.device->has_events());
  EXPECT_NE(t.cq->req_notify(Notify::next_comp).error().sentence().find("is gone"), std::string::npos);
}

TEST(NicChannel, ADestroyedQueueTakesItsEventAlong) {
  Told t;
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  t.message();
  EXPECT_EQ(t.channel->waiting(), 1U);
  ASSERT_TRUE(t.cq->req_notify(Notify::next_comp));
  t.cq.reset();
  EXPECT_EQ(t.channel->waiting(), 0U);
  t.message();  // the queue pair still completes into what is left of it
  EXPECT_EQ(t.channel->poll_event(), nullptr);
}

TEST(NicChannel, AChannelOfAnotherDeviceIsRefused) {
  Side a, b;
  const auto foreign = a.device->create_comp_channel().value();
  const auto refused = b.device->create_cq({.capacity = 4, .channel = foreign.get()});
  EXPECT_EQ(refused.error(), Errc::invalid_argument);
  EXPECT_NE(refused.error().sentence().find("CqInit::channel"), std::string::npos);
}

/// A shared receive queue of 8 with `posted` receives and the armed limit.
struct Shared {
  Pair p{true};
  Buffer from{*p.a.device, p.a.pd, 8}, to{*p.b.device, p.b.pd, 8};

  void post(std::uint64_t n) {
    const Sge sge = to.all();
    for (std::uint64_t i = 0; i < n; ++i) ASSERT_TRUE(p.b.srq->post_recv({.wr_id = i, .sges = {&sge, 1}}));
  }
  void message() {
    ASSERT_TRUE(p.a.send(1, {from.all()}));
    p.run();
  }
  SharedReceiveQueue* told() {
    const auto event = p.b.device->poll_async_event();
    return event ? std::get<SrqLimitReached>(*event).srq : nullptr;
  }
};

TEST(NicSrqLimit, IsToldOnceWhenFewerArePosted) {
  Shared s;
  s.p.connect();
  s.post(4);
  ASSERT_TRUE(s.p.b.srq->modify({.srq_limit = 3}));
  EXPECT_EQ(s.p.b.srq->query().srq_limit, 3U);
  s.message();
  EXPECT_EQ(s.told(), nullptr) << "3 are posted";
  s.message();
  EXPECT_TRUE(s.p.b.device->has_events());
  EXPECT_EQ(s.told(), s.p.b.srq.get());
  EXPECT_FALSE(s.p.b.device->has_events());
  EXPECT_EQ(s.p.b.srq->query().srq_limit, 0U) << "armed for one event";
  s.message();
  EXPECT_EQ(s.told(), nullptr);
  ASSERT_TRUE(s.p.b.srq->modify({.srq_limit = 5}));
  EXPECT_EQ(s.told(), s.p.b.srq.get()) << "fewer are posted already";
  ASSERT_TRUE(s.p.b.srq->modify({.srq_limit = 5}));
  s.p.b.srq.reset();
  EXPECT_EQ(s.told(), nullptr) << "it takes its event along";
}

TEST(NicSrqLimit, WhatCannotBeIsRefusedByName) {
  Shared s;
  const auto words = [](const Error& error, std::string_view part) {
    EXPECT_NE(error.sentence().find(part), std::string::npos) << error.sentence();
  };
  const auto high = s.p.b.srq->modify({.srq_limit = 257});
  EXPECT_EQ(high.error(), Errc::invalid_argument);
  words(high.error(), "SrqAttr::srq_limit is 257; it is at most the capacity, 256");
  const auto resized = s.p.b.srq->modify({.max_wr = 512});
  EXPECT_EQ(resized.error(), Errc::unsupported);
  words(resized.error(), "SrqAttr::max_wr");
  EXPECT_EQ(s.p.b.srq->query().max_wr, 256U);
  EXPECT_FALSE(s.p.b.srq->srq_num().has_value());
}

}  // namespace
}  // namespace parley::nic::iwarp::test
