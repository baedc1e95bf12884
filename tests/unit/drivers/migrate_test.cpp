// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Requests that go from one host to another over real sockets. Nothing sleeps: every wait is run_once under a deadline.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "drivers/asio/sockaddr.hpp"
#include "parley/tcp_host.hpp"
#include "tests/unit/cm/test_net.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/verbs_kit.hpp"

namespace parley {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t message = 20000;

/// A host, what it was told, and a way to wait for more.
struct Mover {
  explicit Mover(const TcpHostOptions& options = {})
      : host(std::move(*TcpHost::open(options))), verbs(host->device()) {}

  bool until(const std::function<bool()>& condition, Duration limit = hang_limit) {
    for (const Instant end = host->now() + limit; !condition();) {
      if (host->now() > end) return false;
      host->run_once(1ms);
      while (auto event = host->cm().poll_event()) events.push_back(std::move(*event));
    }
    return true;
  }
  template <class E>
  E* last() {
    for (auto at = events.rbegin(); at != events.rend(); ++at)
      if (E* found = std::get_if<E>(&*at)) return found;
    return nullptr;
  }
  template <class E>
  bool has() {
    return last<E>() != nullptr;
  }
  Address listen() {
    EXPECT_TRUE(host->cm().listen(Address::loopback(Address::Family::v4, 0)));
    EXPECT_TRUE(until([&] { return has<cm::Listening>(); }));
    return has<cm::Listening>() ? last<cm::Listening>()->local : Address{};
  }

  std::unique_ptr<TcpHost> host;
  Verbs verbs;
  std::vector<cm::Event> events;
};

/// A TCP client in the test's hand, which has sent a Request of revision 1.
struct Raw {
  explicit Raw(const Address& to) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const asio_driver::SockAddr address = asio_driver::to_sockaddr(to);
    EXPECT_EQ(::connect(fd, address.get(), address.size), 0);
    send("MPA ID Req Frame\x40\x01\0\0");
  }
  ~Raw() { close(); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  template <std::size_t N>
  void send(const char (&octets)[N]) {
    EXPECT_EQ(::send(fd, octets, N - 1, MSG_NOSIGNAL), static_cast<ssize_t>(N - 1));
  }
  /// -1 and ECONNRESET after a RST, 0 after a FIN.
  ssize_t receive() {
    std::array<char, 256> in;
    return ::recv(fd, in.data(), in.size(), 0);
  }
  void close() {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  int fd;
};

cm::DetachedRequest detached(Mover& from) {
  EXPECT_TRUE(from.until([&] { return from.has<cm::ConnectRequest>(); }));
  auto out = from.host->cm().detach(std::move(*from.last<cm::ConnectRequest>()));
  EXPECT_TRUE(out) << out.error().message();
  from.events.clear();
  return std::move(*out);
}

TEST(DriversMigrate, WhatCameInBetweenIsReadByTheNewHost) {
  Mover front, worker;
  Raw raw(front.listen());
  cm::DetachedRequest migrant = detached(front);
  raw.send("x");  // before the Reply nothing may come
  front.host->run_once({});
  pollfd waits{.fd = front.host->fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&waits, 1, 0), 0) << "it is none of the first host's business";
  ASSERT_TRUE(worker.host->cm().adopt(std::move(migrant)));
  ASSERT_TRUE(worker.until([&] { return worker.has<cm::ConnectFailed>(); }));
  EXPECT_EQ(worker.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::extra_octets));
  front.host->run_once({});
  EXPECT_FALSE(front.host->cm().has_events());
}

TEST(DriversMigrate, APeerThatWentInBetweenEndsAtTheNewHost) {
  Mover front, worker;
  Raw raw(front.listen());
  cm::DetachedRequest migrant = detached(front);
  const linger now{1, 0};
  ASSERT_EQ(::setsockopt(raw.fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  raw.close();
  ASSERT_TRUE(worker.host->cm().adopt(std::move(migrant)));
  ASSERT_TRUE(worker.until([&] { return worker.has<cm::ConnectFailed>(); }));
  EXPECT_EQ(worker.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::peer_reset));
}

TEST(DriversMigrate, ADestroyedMigrantResetsItsPeerAndLeavesNoDescriptor) {
  Mover front;
  Raw raw(front.listen());
  std::optional<cm::DetachedRequest> migrant = detached(front);
  const int before = ::dup(raw.fd);
  ::close(before);
  migrant.reset();
  EXPECT_EQ(raw.receive(), -1);
  EXPECT_EQ(errno, ECONNRESET);
  const int after = ::dup(raw.fd);
  ::close(after);
  EXPECT_LT(after, before) << "the lowest free number is that of the migrant's socket, or lower";
}

TEST(DriversMigrate, TheHostThatItCameFromMayGo) {
  Mover worker;
  auto front = std::make_unique<Mover>();
  Mover client;
  const auto id = client.host->cm().connect(front->listen(), {.transport = mpa::Options{.rtr = mpa::Rtr::read}});
  ASSERT_TRUE(id);
  std::optional<cm::DetachedRequest> migrant;
  ASSERT_TRUE(client.until([&] {
    front->host->run_once({});
    while (auto event = front->host->cm().poll_event()) front->events.push_back(std::move(*event));
    return front->has<cm::ConnectRequest>();
  }));
  migrant.emplace(detached(*front));
  front.reset();
  auto server = worker.host->cm().adopt(std::move(*migrant));
  ASSERT_TRUE(server) << server.error().message();
  ASSERT_TRUE(server->accept());
  ASSERT_TRUE(worker.until([&] {
    (void)client.until([] { return true; });
    client.host->run_once({});
    while (auto event = client.host->cm().poll_event()) client.events.push_back(std::move(*event));
    return worker.has<cm::Established>();
  }));
}

TEST(DriversMigrate, OneMoreStreamThanTheHostTakesIsRefusedAndStaysWithTheCaller) {
  Mover front, worker({.streams_max = 1});
  Raw first(front.listen());
  const Address to = front.last<cm::Listening>()->local;
  cm::DetachedRequest one = detached(front);
  Raw second(to);
  cm::DetachedRequest other = detached(front);
  auto id = worker.host->cm().adopt(std::move(one));
  ASSERT_TRUE(id) << id.error().message();
  const auto refused = worker.host->cm().adopt(std::move(other));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::no_space);
  EXPECT_NE(refused.error().message().find("streams_max"), std::string::npos) << refused.error().message();
  id->destroy();
  worker.host->run_once({});
  EXPECT_TRUE(worker.host->cm().adopt(std::move(other)));
}

TEST(DriversMigrate, ARequestOfAnotherKindOfHostIsRefused) {
  testing_net::Net net;
  testing_net::Host& front = net.add_host(1);
  testing_net::Host& client = net.add_host(2);
  ASSERT_TRUE(front.cm.listen(Address::any(Address::Family::v4, 7471)));
  ASSERT_TRUE(net.run_until([&] { return front.last<cm::Listening>() != nullptr; }));
  ASSERT_TRUE(client.cm.connect(front.last<cm::Listening>()->local));
  ASSERT_TRUE(net.run_until([&] { return front.last<cm::ConnectRequest>() != nullptr; }));
  auto migrant = front.cm.detach(std::move(*front.last<cm::ConnectRequest>()));
  ASSERT_TRUE(migrant);
  Mover worker;
  const auto refused = worker.host->cm().adopt(std::move(*migrant));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error(), Errc::unsupported);
  EXPECT_NE(refused.error().message().find("not a socket"), std::string::npos) << refused.error().message();
  EXPECT_TRUE(*migrant) << "still the caller's";
}

/// A thread with a host of its own, which accepts what it is handed and answers one message with the same octets.
struct Worker {
  void hand(cm::DetachedRequest migrant) {
    {
      const std::lock_guard lock(mutex);
      inbox.push_back(std::move(migrant));
    }
    mover.host->wake();
  }
  void take() {
    std::vector<cm::DetachedRequest> taken;
    {
      const std::lock_guard lock(mutex);
      taken.swap(inbox);
    }
    for (cm::DetachedRequest& migrant : taken) {
      auto id = mover.host->cm().adopt(std::move(migrant));
      if (!id) return;
      const auto qp = id->create_qp(mover.verbs.qp());
      if (!qp || !mover.verbs.recv(**qp, 0, message) || !id->accept()) return;
      server = *id;
    }
  }
  /// Until the peer has gone.
  void run() {
    done = mover.until([&] {
      take();
      if (!answered && server && mover.verbs.saw(WcOpcode::recv))
        answered = mover.verbs.send(*server.qp(), 0, message).has_value();
      return mover.has<cm::Disconnected>();
    });
  }

  Mover mover;
  std::mutex mutex;
  std::vector<cm::DetachedRequest> inbox;
  cm::Id server;
  bool answered = false, done = false;
};

TEST(DriversMigrate, AnotherThreadsHostAcceptsAndMovesData) {
  Mover front;  // listens in a thread of its own, as the worker works
  Worker worker;
  const Address to = front.listen();
  bool listened = false;
  std::atomic<bool> over = false;
  std::thread working([&] { worker.run(); });
  std::thread listening([&] {
    listened = front.until([&] { return front.has<cm::ConnectRequest>(); });
    if (!listened) return;
    auto migrant = front.host->cm().detach(std::move(*front.last<cm::ConnectRequest>()));
    listened = migrant.has_value();
    if (listened) worker.hand(std::move(*migrant));
    front.events.clear();
    (void)front.until([&] { return over.load(); });  // it goes on with its own
  });
  Mover client;
  for (std::size_t i = 0; i < message; ++i) client.verbs.memory[32768 + i] = static_cast<std::uint8_t>(i * 7);
  const auto id =
      client.host->cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = client.verbs.qp()});
  ASSERT_TRUE(id);
  cm::Id own = *id;
  EXPECT_TRUE(client.verbs.recv(*own.qp(), 0, message));
  EXPECT_TRUE(client.until([&] { return client.has<cm::Established>(); }));
  EXPECT_TRUE(client.verbs.send(*own.qp(), 32768, message));
  EXPECT_TRUE(client.until([&] { return client.verbs.saw(WcOpcode::recv); }));
  EXPECT_TRUE(own.disconnect());
  EXPECT_TRUE(client.until([&] { return client.has<cm::Disconnected>(); }));
  working.join();
  over = true;
  front.host->wake();
  listening.join();
  EXPECT_TRUE(listened);
  EXPECT_TRUE(worker.done);
  EXPECT_TRUE(std::equal(client.verbs.memory.begin(), client.verbs.memory.begin() + message,
                         client.verbs.memory.begin() + 32768))
      << "what the worker sent back";
  EXPECT_TRUE(worker.mover.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(front.events.empty());
}

}  // namespace
}  // namespace parley
