// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host in an io_context of the test's own.
#include "parley/asio.hpp"

#include <gtest/gtest.h>
#include <boost/asio/use_future.hpp>

#include <future>

#include "tests/unit/hang_limit.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;
using boost::system::error_code;

const Address anywhere = Address::loopback(Address::Family::v4, 0);

struct Hosted {
  asio::io_context context;
  std::unique_ptr<TcpHost> host = std::move(*TcpHost::open());
  std::optional<AsioHost> loop{std::in_place, context, *host};
  std::vector<cm::Event> events;
  std::vector<error_code> errors;

  void wait_event() {
    loop->async_wait_event([this](error_code error, cm::Event event) {
      errors.push_back(error);
      if (!error) events.push_back(std::move(event));
    });
  }
  /// Runs the context until nothing is under way, under a limit.
  void run() {
    context.restart();
    context.run_for(hang_limit);
    EXPECT_TRUE(context.stopped()) << "something still waits";
  }
};

TEST(Asio, EventsComeToACallback) {
  Hosted t;
  ASSERT_TRUE(t.host->cm().listen(anywhere));
  t.wait_event();
  EXPECT_TRUE(t.errors.empty()) << "never from within the call";
  t.run();
  ASSERT_EQ(t.errors, std::vector<error_code>{error_code()});
  EXPECT_TRUE(std::holds_alternative<cm::Listening>(t.events[0]));
}

TEST(Asio, EventsComeToAFuture) {
  Hosted t;
  ASSERT_TRUE(t.host->cm().listen(anywhere));
  std::future<cm::Event> event = t.loop->async_wait_event(asio::use_future);
  t.run();
  EXPECT_TRUE(std::holds_alternative<cm::Listening>(event.get()));
}

TEST(Asio, TurnsComeFromTheDescriptorAndWake) {
  Hosted t;
  int turns = 0;
  t.loop->async_turn([&](error_code error) { turns += !error; });
  asio::post(t.context, [&] { t.host->wake(); });
  t.run();
  EXPECT_EQ(turns, 1);
}

TEST(Asio, CommandsDuringAWaitAreSeenAfterWake) {
  Hosted t;
  t.wait_event();
  asio::post(t.context, [&] {
    EXPECT_TRUE(t.host->cm().listen(anywhere));
    t.host->wake();
  });
  t.run();
  ASSERT_EQ(t.events.size(), 1U);
  EXPECT_TRUE(std::holds_alternative<cm::Listening>(t.events[0]));
}

TEST(Asio, DeadlinesComeFromTheTimer) {
  Hosted t;
  const auto silent = std::move(*TcpHost::open());  // TCP is answered by the system, the Request by nobody
  ASSERT_TRUE(silent->cm().listen(anywhere));
  silent->run_once(0ms);
  const Address to = std::get<cm::Listening>(*silent->cm().poll_event()).local;
  mpa::Options mpa;
  mpa.timeouts.reply = 20ms;
  ASSERT_TRUE(t.host->cm().connect(to, {.transport = mpa}));
  const Instant start = t.host->now();
  t.wait_event();
  t.run();
  ASSERT_EQ(t.events.size(), 1U);
  ASSERT_TRUE(std::holds_alternative<cm::ConnectFailed>(t.events[0]));
  EXPECT_EQ(std::get<cm::ConnectFailed>(t.events[0]).why.code, make_error_code(Errc::timed_out));
  EXPECT_GE(t.host->now() - start, 20ms);
}

// A completion channel has an event that nobody takes yet: whoever waits for events of connections does not turn for it.
TEST(Asio, AWaitForConnectionEventsRestsWhileACompletionEventWaits) {
  Hosted t;
  Device& device = t.host->device();
  const auto channel = std::move(*device.create_comp_channel());
  const auto cq = std::move(*device.create_cq({.capacity = 4, .channel = channel.get()}));
  const auto qp = std::move(*device.create_qp({.pd = *device.alloc_pd(), .send_cq = cq.get(), .recv_cq = cq.get()}));
  ASSERT_TRUE(cq->req_notify(Notify::next_comp));
  ASSERT_TRUE(qp->post_recv({.wr_id = 1}));
  ASSERT_TRUE(qp->modify({.state = QpState::err}));
  ASSERT_EQ(channel->waiting(), 1U);
  t.wait_event();
  int handlers = 0;
  while (handlers < 1000 && t.context.poll_one() != 0) ++handlers;
  EXPECT_LT(handlers, 1000) << "it spins";
  ASSERT_TRUE(t.host->cm().listen(anywhere));
  t.host->wake();
  t.run();
  ASSERT_EQ(t.events.size(), 1U);
}

TEST(Asio, OneWaitAtATime) {
  Hosted t;
  t.wait_event();
  error_code second;
  t.loop->async_turn([&](error_code error) {
    second = error;
    EXPECT_TRUE(t.host->cm().listen(anywhere));
    t.host->wake();
  });
  EXPECT_FALSE(second) << "never from within the call";
  t.run();
  EXPECT_EQ(second, asio::error::already_started);
  EXPECT_EQ(t.events.size(), 1U) << "the first goes on";
}

TEST(Asio, CancelEndsTheWaitAndLosesNothing) {
  Hosted t;
  t.loop->cancel();  // nothing is under way
  t.wait_event();
  asio::post(t.context, [&] { t.loop->cancel(); });
  t.run();
  ASSERT_EQ(t.errors, std::vector<error_code>{asio::error::operation_aborted});

  ASSERT_TRUE(t.host->cm().listen(anywhere));
  t.wait_event();
  t.loop->cancel();
  t.run();
  t.wait_event();  // if cancel() came first, the event is still there
  if (t.events.empty()) t.run();
  ASSERT_EQ(t.events.size(), 1U);
}

TEST(Asio, GoesWithWaitsUnderWay) {
  Hosted t;
  ASSERT_TRUE(t.host->cm().listen(anywhere));
  t.host->run_once(0ms);
  while (t.host->cm().poll_event()) {
  }
  t.wait_event();
  t.loop.reset();
  t.host.reset();
  t.run();
  EXPECT_EQ(t.errors, std::vector<error_code>{asio::error::operation_aborted});
}

TEST(Asio, AHostOutlivesItsLoop) {
  Hosted t;
  t.loop.reset();
  t.loop.emplace(t.context, *t.host);
  ASSERT_TRUE(t.host->cm().listen(anywhere));
  t.wait_event();
  t.run();
  EXPECT_EQ(t.events.size(), 1U);
}

}  // namespace
}  // namespace parley
