// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A host in somebody else's event loop: fd(), next_deadline() and wake() tell all that a loop needs to know.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <utility>

#include "parley/tcp_host.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::event_loop_test {
namespace {

using namespace std::chrono_literals;

bool readable(const TcpHost& host) {
  pollfd waits{.fd = host.fd(), .events = POLLIN, .revents = 0};
  return ::poll(&waits, 1, 0) == 1;
}

bool due(const TcpHost& host) { return host.next_deadline() <= host.now(); }

/// Turns until nothing is left to do, and takes the events.
std::vector<cm::Event> settle(TcpHost& host) {
  std::vector<cm::Event> events;
  while (host.run_once(0ms))
    while (auto event = host.cm().poll_event()) events.push_back(std::move(*event));
  return events;
}

/// Hosts in a loop of the test's own: poll() over the descriptors, for as long as the deadlines allow and no longer.
/// run_once() is never called for a host that does not ask for it, so a wake-up that is lost is a test that fails.
struct Loop {
  struct Member {
    TcpHost& host;
    std::function<void(cm::Event&)> on_event;
    std::function<void()> on_turn = [] {};
  };
  std::vector<Member> members;

  int timeout(Instant end) const {
    Duration left = end - members.front().host.now();
    for (const Member& member : members)
      if (const Instant at = member.host.next_deadline(); at != never) left = std::min(left, at - member.host.now());
    return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::max(left, Duration{})).count());
  }
  bool run_until(const std::function<bool()>& condition) {
    const Instant end = members.front().host.now() + hang_limit;
    while (!condition()) {
      if (members.front().host.now() >= end) return false;
      std::vector<pollfd> waits;
      for (const Member& member : members) waits.push_back({.fd = member.host.fd(), .events = POLLIN, .revents = 0});
      EXPECT_GE(::poll(waits.data(), waits.size(), timeout(end)), 0);
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (waits[i].revents == 0 && !due(members[i].host)) continue;
        members[i].host.run_once(0ms);
        while (auto event = members[i].host.cm().poll_event()) members[i].on_event(*event);
        members[i].on_turn();
      }
    }
    return true;
  }
};

struct Memory {
  Memory(Device& device, std::size_t size) : octets(size) {
    pd = *device.alloc_pd();
    cq = std::move(*device.create_cq(64));
    mr = *device.reg_mr(pd, octets, Access::local_write);
  }
  QpInit qp() const { return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 8, .max_recv_wr = 8}; }
  Sge all() const { return {.addr = mr.addr, .length = static_cast<std::uint32_t>(octets.size()), .lkey = mr.lkey}; }
  void count() {
    std::array<WorkCompletion, 8> out;
    for (std::size_t n = cq->poll(out); n > 0; n = cq->poll(out))
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(out[i].status, WcStatus::success);
        ++(out[i].opcode == WcOpcode::recv ? received : sent);
      }
  }
  Bytes octets;
  PdHandle pd = 0;
  std::unique_ptr<CompletionQueue> cq;
  MemoryRegion mr;
  int sent = 0, received = 0;
};

std::unique_ptr<TcpHost> open_host() { return std::move(*TcpHost::open()); }

const Address anywhere = Address::loopback(Address::Family::v4, 0);

TEST(EventLoop, IdleHostAsksForNothing) {
  const auto host = open_host();
  EXPECT_FALSE(host->run_once(0ms));
  EXPECT_GE(host->fd(), 0);
  EXPECT_FALSE(readable(*host));
  EXPECT_EQ(host->next_deadline(), never);
}

TEST(EventLoop, CommandsAndEventsThatWaitAreDueNow) {
  const auto host = open_host();
  auto listener = *host->cm().listen(anywhere);
  EXPECT_TRUE(due(*host)) << "listen() waits for a turn";
  EXPECT_TRUE(host->run_once(0ms));
  EXPECT_TRUE(due(*host)) << "Listening waits for poll_event()";
  const auto events = settle(*host);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_FALSE(due(*host));
  EXPECT_FALSE(readable(*host));

  listener.destroy();
  EXPECT_TRUE(due(*host)) << "the socket is closed in a turn";
  settle(*host);
  EXPECT_EQ(host->next_deadline(), never);
}

TEST(EventLoop, DeadlineIsTheEarliestOfTheConnections) {
  const auto server = open_host(), client = open_host();
  (void)*server->cm().listen(anywhere);
  const auto listening = settle(*server);
  const Address to = std::get<cm::Listening>(listening.at(0)).local;
  const Instant before = client->now();
  mpa::Options mpa;
  mpa.timeouts.reply = 3s;
  ASSERT_TRUE(client->cm().connect(to, {.transport = mpa}));
  settle(*client);  // TCP is answered by the system: the Request is out, and nobody reads it
  EXPECT_GE(client->next_deadline(), before + 3s);
  EXPECT_LE(client->next_deadline(), client->now() + 3s);
  EXPECT_FALSE(readable(*client));
  EXPECT_TRUE(readable(*server));
}

// A completion channel has no descriptor: the host's tell when to look into it.
TEST(EventLoop, CompletionEventsThatWaitAreDueNow) {
  const auto server = open_host(), client = open_host();
  Memory at_client(client->device(), 64), at_server(server->device(), 64);
  const auto channel = std::move(*server->device().create_comp_channel());
  at_server.cq = std::move(*server->device().create_cq({.capacity = 64, .channel = channel.get()}));
  const Sge in = at_server.all(), out = at_client.all();
  Address to;
  cm::Id asking, answering;
  const auto on_server = [&](cm::Event& event) {
    if (auto* listening = std::get_if<cm::Listening>(&event)) to = listening->local;
    if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
      answering = request->id;
      ASSERT_TRUE((*answering.create_qp(at_server.qp()))->post_recv({.sges = {&in, 1}}));
      ASSERT_TRUE(answering.accept());
    }
  };
  bool up = false;
  Loop loop{{{*server, on_server},
             {*client, [&](cm::Event& event) { up = up || std::holds_alternative<cm::Established>(event); }}}};
  (void)server->cm().listen(anywhere);
  ASSERT_TRUE(loop.run_until([&] { return to.port != 0; }));
  asking = *client->cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = at_client.qp()});
  ASSERT_TRUE(loop.run_until([&] { return up; }));
  settle(*server), settle(*client);
  ASSERT_TRUE(at_server.cq->req_notify(Notify::next_comp));
  ASSERT_TRUE(asking.qp()->post_send({.sges = {&out, 1}}));
  ASSERT_TRUE(loop.run_until([&] { return channel->waiting() > 0; }));
  EXPECT_TRUE(due(*server)) << "the event waits for the user";
  EXPECT_TRUE(server->run_once(1h)) << "and nobody sleeps over it";
  EXPECT_EQ(channel->poll_event(), at_server.cq.get());
  at_server.count();
  EXPECT_EQ(at_server.received, 1);
  EXPECT_FALSE(server->run_once(0ms));
}

// Set-up, 200 messages of 100,000 octets there and back, and the end: all of it by poll().
TEST(EventLoop, PollCarriesConnectionsAndData) {
  constexpr int rounds = 200;
  const auto server = open_host(), client = open_host();
  Memory at_server(server->device(), 100'000), at_client(client->device(), 100'000);
  Address to;
  cm::Id answering, asking;
  int ended = 0;
  const auto receive = [](cm::Id& id, const Memory& memory) {
    const Sge all = memory.all();
    EXPECT_TRUE(id.qp()->post_recv({.sges = {&all, 1}}));
  };
  const auto send = [](cm::Id& id, const Memory& memory) {
    const Sge all = memory.all();
    EXPECT_TRUE(id.qp()->post_send({.sges = {&all, 1}}));
  };
  Loop loop;
  loop.members.push_back({*server, [&](cm::Event& event) {
                            if (auto* up = std::get_if<cm::Listening>(&event)) to = up->local;
                            if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
                              answering = request->id;
                              ASSERT_TRUE(answering.create_qp(at_server.qp()));
                              receive(answering, at_server);
                              ASSERT_TRUE(answering.accept());
                            }
                            if (auto* end = std::get_if<cm::Disconnected>(&event)) ended += end->graceful;
                          }});
  loop.members.back().on_turn = [&] {
    const int before = at_server.received;
    at_server.count();
    for (int i = before; i < at_server.received; ++i) {
      if (at_server.received < rounds) receive(answering, at_server);
      send(answering, at_server);
    }
  };
  (void)*server->cm().listen(anywhere);
  ASSERT_TRUE(loop.run_until([&] { return to.port != 0; }));

  loop.members.push_back({*client, [&](cm::Event& event) {
                            if (std::holds_alternative<cm::Established>(event)) {
                              receive(asking, at_client);
                              send(asking, at_client);
                            }
                            if (auto* end = std::get_if<cm::Disconnected>(&event)) ended += end->graceful;
                          }});
  loop.members.back().on_turn = [&] {
    const int before = at_client.received;
    at_client.count();
    if (at_client.received == before) return;
    if (at_client.received == rounds) {
      EXPECT_TRUE(asking.disconnect());
      return;
    }
    receive(asking, at_client);
    send(asking, at_client);
  };
  asking = *client->cm().connect(to, {.qp = at_client.qp()});
  EXPECT_TRUE(loop.run_until([&] { return ended == 2; }));
  EXPECT_EQ(at_client.received, rounds);
  EXPECT_EQ(at_server.received, rounds);
}

TEST(EventLoop, WorkPostedBetweenTurnsIsDueNow) {
  const auto server = open_host(), client = open_host();
  Memory at_server(server->device(), 8), at_client(client->device(), 8);
  bool up = false;
  cm::Id asking;
  Address to;
  Loop loop;
  loop.members.push_back({*server, [&](cm::Event& event) {
                            if (auto* listening = std::get_if<cm::Listening>(&event)) to = listening->local;
                            if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
                              ASSERT_TRUE(request->id.create_qp(at_server.qp()));
                              const Sge all = at_server.all();
                              ASSERT_TRUE(request->id.qp()->post_recv({.sges = {&all, 1}}));
                              ASSERT_TRUE(request->id.accept());
                            }
                          }});
  loop.members.back().on_turn = [&] { at_server.count(); };
  loop.members.push_back({*client, [&](cm::Event& event) { up = std::holds_alternative<cm::Established>(event); }});
  (void)*server->cm().listen(anywhere);
  ASSERT_TRUE(loop.run_until([&] { return to.port != 0; }));
  asking = *client->cm().connect(to, {.qp = at_client.qp(), .keepalive = 0s});
  ASSERT_TRUE(loop.run_until([&] { return up; }));
  settle(*client);
  ASSERT_EQ(client->next_deadline(), never);
  const Sge all = at_client.all();
  ASSERT_TRUE(asking.qp()->post_send({.sges = {&all, 1}}));
  EXPECT_TRUE(due(*client));
  EXPECT_TRUE(loop.run_until([&] { return at_server.received == 1; }));
  settle(*client);
  asking.destroy();
  EXPECT_TRUE(due(*client)) << "the reset leaves in a turn";
}

TEST(EventLoop, WakeMakesTheDescriptorReadableForOneTurn) {
  const auto host = open_host();
  host->wake();
  host->wake();
  EXPECT_TRUE(readable(*host));
  EXPECT_TRUE(host->run_once(0ms));
  EXPECT_FALSE(readable(*host));
  EXPECT_FALSE(host->run_once(0ms));
  host->wake();
  EXPECT_TRUE(host->run_once(hang_limit)) << "a wake-up before the wait is not lost";
}

TEST(EventLoop, WakeEndsTheWaitOfAnotherThread) {
  const auto host = open_host();
  for (int i = 0; i < 50; ++i) {
    std::thread other([&host] { host->wake(); });
    EXPECT_TRUE(host->run_once(hang_limit));
    other.join();
    settle(*host);
  }
}

}  // namespace
}  // namespace parley::event_loop_test
