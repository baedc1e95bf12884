// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley over real sockets of this machine. Nothing sleeps: every wait is run_once under a deadline.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "drivers/asio/sockaddr.hpp"
#include "mpa/framer.hpp"
#include "parley/tcp_host.hpp"
#include "parley/wire/mpa.h"
#include "tests/unit/hang_limit.hpp"
#include "wire/mpa.hpp"

namespace parley::tcp_test {
namespace {

using namespace std::chrono_literals;

struct Peer {
  explicit Peer(const TcpHostOptions& options = {}) : host(std::move(*TcpHost::open(options))) {}
  cm::Manager& cm() { return host->cm(); }

  bool turn(Duration wait = 0ms) {
    const bool any = host->run_once(wait);
    while (auto event = host->cm().poll_event()) {
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event); request != nullptr && on_request)
        on_request(*request);
      events.push_back(std::move(*event));
    }
    return any;
  }
  template <class E>
  E* last() {
    for (auto at = events.rbegin(); at != events.rend(); ++at)
      if (E* found = std::get_if<E>(&*at)) return found;
    return nullptr;
  }
  template <class E>
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(), [](const cm::Event& e) { return std::holds_alternative<E>(e); }));
  }
  Address listen(const Address& local, const cm::ListenOptions& options = {}) {
    listener = *cm().listen(local, options);
    EXPECT_TRUE(run_until([&] { return last<cm::Listening>() || last<cm::ConnectFailed>(); }, {this}));
    return last<cm::Listening>() != nullptr ? last<cm::Listening>()->local : Address{};
  }

  static bool run_until(const std::function<bool()>& condition, std::initializer_list<Peer*> peers,
                        Duration limit = hang_limit) {
    const Instant end = (*peers.begin())->host->now() + limit;
    while (!condition()) {
      if ((*peers.begin())->host->now() > end) return false;
      bool any = false;
      for (Peer* peer : peers) any = peer->turn() || any;
      if (!any) (*peers.begin())->turn(1ms);
    }
    return true;
  }

  std::unique_ptr<TcpHost> host;
  std::vector<cm::Event> events;
  std::function<void(cm::ConnectRequest&)> on_request;
  cm::Id listener;
};

void accept_all(Peer& peer) {
  peer.on_request = [](cm::ConnectRequest& request) { (void)request.id.accept(); };
}

struct Memory {
  explicit Memory(Device& device, std::size_t size) : octets(size) {
    pd = *device.alloc_pd();
    cq = std::move(*device.create_cq(64));
    mr = *device.reg_mr(pd, octets, Access::local_write | Access::remote_write | Access::remote_read);
  }
  QpInit qp() const { return {.pd = pd, .send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 8, .max_recv_wr = 8}; }
  Sge all() const { return {.addr = mr.addr, .length = static_cast<std::uint32_t>(octets.size()), .lkey = mr.lkey}; }
  bool done(WcOpcode opcode) {
    std::array<WorkCompletion, 16> out;
    const std::size_t n = cq->poll(out);
    for (std::size_t i = 0; i < n; ++i) seen = seen || (out[i].opcode == opcode && out[i].status == WcStatus::success);
    return std::exchange(seen, false);
  }
  Bytes octets;
  PdHandle pd = 0;
  std::unique_ptr<CompletionQueue> cq;
  MemoryRegion mr;
  bool seen = false;
};

void connect_and_move_a_megabyte(const Address& bind) {
  Peer a, b;
  const Address to = b.listen(bind);
  ASSERT_NE(to.port, 0);
  Memory ma(a.host->device(), 1 << 20), mb(b.host->device(), 1 << 20);
  cm::Id server;
  b.on_request = [&](cm::ConnectRequest& request) {
    server = request.id;
    auto qp = server.create_qp(mb.qp());
    ASSERT_TRUE(qp);
    const Sge all = mb.all();
    ASSERT_TRUE((*qp)->post_recv({.sges = {&all, 1}}));
    ASSERT_TRUE(server.accept());
  };
  auto id = a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = ma.qp()});
  ASSERT_TRUE(id) << id.error().message();
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  EXPECT_EQ(server.peer_address(), id->local_address());
  EXPECT_EQ(server.local_address(), id->peer_address());
  for (std::size_t i = 0; i < ma.octets.size(); ++i) ma.octets[i] = static_cast<std::uint8_t>(i * 31 + (i >> 12));
  const Sge all = ma.all();
  ASSERT_TRUE(id->qp()->post_send({.opcode = SendWr::Opcode::send, .sges = {&all, 1}}));
  ASSERT_TRUE(Peer::run_until([&] { return mb.done(WcOpcode::recv); }, {&a, &b}));
  EXPECT_EQ(ma.octets, mb.octets);
  ASSERT_TRUE(id->disconnect());
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Disconnected>() && b.last<cm::Disconnected>(); }, {&a, &b}));
  EXPECT_TRUE(a.last<cm::Disconnected>()->graceful);
  EXPECT_TRUE(b.last<cm::Disconnected>()->graceful);
  id->destroy();
  server.destroy();
}

TEST(Drivers, Ipv4CarriesData) { connect_and_move_a_megabyte(Address::loopback(Address::Family::v4, 0)); }

bool has_ipv6() {
  const int fd = ::socket(AF_INET6, SOCK_STREAM, 0);
  const auto to = asio_driver::to_sockaddr(Address::loopback(Address::Family::v6, 0));
  const bool yes = fd >= 0 && ::bind(fd, to.get(), to.size) == 0;
  if (fd >= 0) ::close(fd);
  return yes;
}

TEST(Drivers, Ipv6CarriesData) {
  if (has_ipv6()) {
    connect_and_move_a_megabyte(Address::loopback(Address::Family::v6, 0));
    return;
  }
  // Without IPv6 the words must say so.
  Peer b;
  EXPECT_EQ(b.listen(Address::loopback(Address::Family::v6, 0)).port, 0);
  EXPECT_FALSE(b.last<cm::ConnectFailed>()->why.advice.empty());
}

// RFC 4007 §6: a link-local address means nothing without its interface.
TEST(Drivers, LinkLocalNeedsItsScope) {
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  bool tried = false;
  for (ifaddrs* at = list; at != nullptr && !tried; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET6) continue;
    asio_driver::SockAddr from;
    std::memcpy(&from.storage, at->ifa_addr, sizeof(sockaddr_in6));
    const Address local = asio_driver::from_sockaddr(from);
    if (!local.is_link_local()) continue;
    tried = true;
    connect_and_move_a_megabyte(local);
    // The same address by name of its interface.
    char text[INET6_ADDRSTRLEN];
    ASSERT_NE(::inet_ntop(AF_INET6, local.octets.data(), text, sizeof text), nullptr);
    const auto found = TcpHost::resolve(std::string(text) + "%" + at->ifa_name, 7);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->front().scope_id, local.scope_id);
  }
  ::freeifaddrs(list);
  if (tried || !has_ipv6()) return;
  Peer a;
  auto without = Address::parse("[fe80::1]:7471");
  ASSERT_TRUE(without);
  ASSERT_TRUE(a.cm().connect(*without));
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }, {&a}));
  EXPECT_FALSE(a.last<cm::ConnectFailed>()->why.advice.empty());
}

TEST(Drivers, RefusedInWords) {
  Peer a;
  Address gone;
  {
    Peer b;
    gone = b.listen(Address::loopback(Address::Family::v4, 0));
  }
  ASSERT_TRUE(a.cm().connect(gone));
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }, {&a}));
  const cm::Failure& why = a.last<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.step, mpa::step::tcp_connect);
  EXPECT_EQ(why.code, make_error_code(Errc::refused));
  EXPECT_NE(why.advice.find("listener"), std::string::npos) << why.to_string();
}

TEST(Drivers, PortInUseInWords) {
  Peer b, other;
  const Address taken = b.listen(Address::loopback(Address::Family::v4, 0));
  EXPECT_EQ(other.listen(taken).port, 0);
  ASSERT_NE(other.last<cm::ConnectFailed>(), nullptr);
  EXPECT_EQ(other.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::address_in_use));
  EXPECT_FALSE(other.last<cm::ConnectFailed>()->why.advice.empty());
}

// A listener that never accepts, with a full backlog, answers no SYN: the peer that cannot be reached.
TEST(Drivers, SilentPeerTimesOut) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  auto local = asio_driver::to_sockaddr(Address::loopback(Address::Family::v4, 0));
  ASSERT_EQ(::bind(fd, local.get(), local.size), 0);
  ASSERT_EQ(::listen(fd, 0), 0);
  ASSERT_EQ(::getsockname(fd, local.get(), &local.size), 0);
  Peer a;
  std::vector<cm::Id> ids;
  for (int i = 0; i < 8; ++i)
    ids.push_back(
        *a.cm().connect(asio_driver::from_sockaddr(local),
                        {.transport = mpa::Options{.timeouts = {.reply = 300ms}}, .transport_timeout = 200ms}));
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::ConnectFailed>() == ids.size(); }, {&a}));
  std::size_t unanswered = 0;
  for (const cm::Event& e : a.events) {
    const cm::Failure& why = std::get<cm::ConnectFailed>(e).why;
    EXPECT_EQ(why.code, make_error_code(Errc::timed_out)) << why.to_string();
    unanswered += why.step == mpa::step::tcp_connect;
  }
  EXPECT_GT(unanswered, 0U);
  ::close(fd);
}

TEST(Drivers, ResetIsReported) {
  Peer a, b;
  accept_all(b);
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  ASSERT_TRUE(a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::send}}));
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() != nullptr; }, {&a, &b}));
  b.last<cm::ConnectRequest>()->id.destroy();
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Disconnected>() != nullptr; }, {&a, &b}));
  EXPECT_EQ(a.last<cm::Disconnected>()->why.code, make_error_code(Errc::peer_reset));
}

// RFC 5044 §7.2: what is posted after the peer's FIN, in answer to what came with it, is still sent.
TEST(Drivers, HalfCloseStillAnswers) {
  Peer a, b;
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  Memory ma(a.host->device(), 4096), mb(b.host->device(), 4096);
  cm::Id server;
  b.on_request = [&](cm::ConnectRequest& request) {
    server = request.id;
    auto qp = server.create_qp(mb.qp());
    const Sge all = mb.all();
    ASSERT_TRUE((*qp)->post_recv({.sges = {&all, 1}}));
    ASSERT_TRUE(server.accept());
  };
  auto id = a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = ma.qp()});
  ASSERT_TRUE(id);
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  const Sge question = ma.all(), answer = mb.all();
  ASSERT_TRUE(id->qp()->post_recv({.sges = {&question, 1}}));
  ASSERT_TRUE(id->qp()->post_send({.opcode = SendWr::Opcode::send, .sges = {&question, 1}}));
  ASSERT_TRUE(id->disconnect());
  while (a.turn()) {
  }
  ASSERT_TRUE(Peer::run_until([&] { return mb.done(WcOpcode::recv); }, {&b}));
  ASSERT_TRUE(server.qp()->post_send({.opcode = SendWr::Opcode::send, .sges = {&answer, 1}}));
  ASSERT_TRUE(Peer::run_until([&] { return ma.done(WcOpcode::recv); }, {&a, &b}));
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Disconnected>() && b.last<cm::Disconnected>(); }, {&a, &b}));
  EXPECT_TRUE(a.last<cm::Disconnected>()->graceful) << a.last<cm::Disconnected>()->why.to_string();
  EXPECT_TRUE(b.last<cm::Disconnected>()->graceful) << b.last<cm::Disconnected>()->why.to_string();
  id->destroy();
  server.destroy();
}

// modify() is a user's call between two turns: the loop is due at once, and the next turn carries it out.
TEST(Drivers, AQueuePairMovedToErrEndsItsConnectionAtTheNextTurn) {
  Peer a, b;
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  accept_all(b);
  auto id = a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}});
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  while (a.turn()) {
  }
  ASSERT_TRUE(id->qp()->modify({.state = QpState::err}));
  EXPECT_LE(a.host->next_deadline(), a.host->now());
  for (int i = 0; i < 3; ++i) a.turn();
  ASSERT_NE(a.last<cm::Disconnected>(), nullptr);
  EXPECT_EQ(a.last<cm::Disconnected>()->why.code, Errc::cancelled);
  EXPECT_TRUE(Peer::run_until([&] { return b.last<cm::Disconnected>() != nullptr; }, {&b}));
}

// Two ends on one host that answer each other are read by habit; everything else must still get its turn.
TEST(Drivers, AnEndlessPingPongKeepsNobodyWaiting) {
  Peer host, other;
  const Address to = host.listen(Address::loopback(Address::Family::v4, 0));
  Memory ping(host.host->device(), 64), third(other.host->device(), 64);
  std::vector<std::unique_ptr<Memory>> accepted;
  std::vector<cm::Id> servers;
  host.on_request = [&](cm::ConnectRequest& request) {
    Memory& memory = *accepted.emplace_back(std::make_unique<Memory>(host.host->device(), 64));
    const Sge all = memory.all();
    auto qp = request.id.create_qp(memory.qp());
    ASSERT_TRUE(qp && (*qp)->post_recv({.sges = {&all, 1}}));
    ASSERT_TRUE(request.id.accept());
    servers.push_back(request.id);
  };
  auto near = host.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = ping.qp()});
  ASSERT_TRUE(Peer::run_until([&] { return host.count<cm::Established>() == 2; }, {&host}));
  auto far = other.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = third.qp()});
  ASSERT_TRUE(Peer::run_until([&] { return host.count<cm::Established>() == 3 && other.last<cm::Established>(); },
                              {&host, &other}));
  const Sge here = ping.all(), there = accepted[0]->all(), question = third.all();
  const auto bounce = [&](QueuePair& from, Memory& source, const Sge& out, Memory& target) {
    ASSERT_TRUE(from.post_recv({.sges = {&out, 1}}));
    ASSERT_TRUE(from.post_send({.sges = {&out, 1}}));
    ASSERT_TRUE(Peer::run_until([&] { return target.done(WcOpcode::recv); }, {&host}));
    (void)source.done(WcOpcode::send);
  };
  const auto round_trip = [&] {
    bounce(*near->qp(), ping, here, *accepted[0]);
    bounce(*servers[0].qp(), *accepted[0], there, ping);
  };
  for (int i = 0; i < 100; ++i) round_trip();
  ASSERT_TRUE(far->qp()->post_send({.sges = {&question, 1}}));
  while (other.turn()) {
  }
  bool arrived = false;
  for (int i = 0; i < 50 && !arrived; ++i) {
    round_trip();
    arrived = accepted[1]->done(WcOpcode::recv);
  }
  EXPECT_TRUE(arrived);
  // And its end, while the habit is fresh.
  for (int i = 0; i < 20; ++i) round_trip();
  ASSERT_TRUE(near->disconnect());
  EXPECT_TRUE(Peer::run_until([&] { return host.count<cm::Disconnected>() == 2; }, {&host}));
}

// A poller looks first at the socket that was busy; when it is told that nothing is left, that holds for all of them.
TEST(Drivers, PollingUntilNothingIsLeftServesEverySocket) {
  Peer a, b, c;
  Memory ma(a.host->device(), 64), mc(c.host->device(), 64);
  std::vector<std::unique_ptr<Memory>> accepted;
  b.on_request = [&](cm::ConnectRequest& request) {
    Memory& memory = *accepted.emplace_back(std::make_unique<Memory>(b.host->device(), 64));
    auto qp = request.id.create_qp(memory.qp());
    const Sge all = memory.all();
    for (int i = 0; i < 8; ++i) ASSERT_TRUE((*qp)->post_recv({.sges = {&all, 1}}));
    ASSERT_TRUE(request.id.accept());
  };
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  auto busy = a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = ma.qp()});
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  auto other = c.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = mc.qp()});
  ASSERT_TRUE(Peer::run_until([&] { return c.last<cm::Established>() && b.count<cm::Established>() == 2; }, {&b, &c}));
  const Sge out = ma.all(), question = mc.all();
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(busy->qp()->post_send({.sges = {&out, 1}}));
    while (a.turn()) {
    }
    ASSERT_TRUE(Peer::run_until([&] { return accepted[0]->done(WcOpcode::recv); }, {&b}));
  }
  ASSERT_TRUE(other->qp()->post_send({.sges = {&question, 1}}));
  while (c.turn()) {
  }
  for (int i = 0; i < 1000 && b.turn(); ++i) {
  }
  EXPECT_TRUE(accepted[1]->done(WcOpcode::recv));
}

// More small messages than one write takes at first: the rest follows without another call of the user's.
TEST(Drivers, SmallMessagesPostedTogetherAllArrive) {
  Peer a, b;
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  Memory ma(a.host->device(), 200), mb(b.host->device(), 200);
  const Sge out = ma.all(), in = mb.all();
  b.on_request = [&](cm::ConnectRequest& request) {
    auto qp = request.id.create_qp(mb.qp());
    for (int i = 0; i < 8; ++i) ASSERT_TRUE((*qp)->post_recv({.sges = {&in, 1}}));
    ASSERT_TRUE(request.id.accept());
  };
  auto id = a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}, .qp = ma.qp()});
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(id->qp()->post_send({.sges = {&out, 1}}));
  std::size_t arrived = 0;
  EXPECT_TRUE(Peer::run_until(
      [&] {
        std::array<WorkCompletion, 16> done;
        arrived += mb.cq->poll(done);
        return arrived == 8;
      },
      {&a, &b}));
}

TEST(Drivers, HundredAtOnceOnOneThread) {
  Peer a, b;
  accept_all(b);
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  std::vector<cm::Id> ids;
  for (int i = 0; i < 100; ++i) ids.push_back(*a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::write}}));
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::Established>() == 100 && b.count<cm::Established>() == 100; },
                              {&a, &b}));
  for (cm::Id id : ids) ASSERT_TRUE(id.disconnect());
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::Disconnected>() == 100 && b.count<cm::Disconnected>() == 100; },
                              {&a, &b}));
  for (const cm::Event& e : a.events) {
    const auto* gone = std::get_if<cm::Disconnected>(&e);
    EXPECT_TRUE(gone == nullptr || gone->graceful);
  }
}

// Out of descriptors: what is open goes on, and what waits is taken when there is room again.
TEST(Drivers, RunsOutOfDescriptorsAndRecovers) {
  Peer a, b({.streams_max = 3});
  accept_all(b);
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  std::vector<cm::Id> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(*a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::write}}));
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::Established>() == 3; }, {&a, &b}));
  for (int i = 0; i < 50; ++i) a.turn(), b.turn();
  EXPECT_EQ(a.count<cm::Established>(), 3U);
  ids[0].destroy();
  ids[1].destroy();
  EXPECT_TRUE(Peer::run_until([&] { return a.count<cm::Established>() == 5; }, {&a, &b}));

  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  Peer c;
  accept_all(c);
  const Address there = c.listen(Address::loopback(Address::Family::v4, 0));
  cm::Id waiting = *a.cm().connect(there, {.transport = mpa::Options{.rtr = mpa::Rtr::write}});
  while (a.turn()) {
  }
  const int next = ::dup(0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), old.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  for (int i = 0; i < 20; ++i) c.turn(1ms);
  EXPECT_EQ(c.count<cm::ConnectRequest>(), 0U);
  cm::Id refused = *a.cm().connect(there);
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::ConnectFailed>() != nullptr; }, {&a}));
  EXPECT_EQ(a.last<cm::ConnectFailed>()->why.code, make_error_code(Errc::no_space));
  EXPECT_NE(a.last<cm::ConnectFailed>()->why.advice.find("ulimit"), std::string::npos);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(Peer::run_until([&] { return a.count<cm::Established>() == 6; }, {&a, &c}));
  waiting.destroy();
  refused.destroy();
}

/// Of this process.
std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
}

TEST(Drivers, ConnectionsThatFailAtOnceLeaveNoDescriptorOpen) {
  Peer a;
  const std::ptrdiff_t before = open_descriptors();
  std::vector<cm::Id> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(*a.cm().connect(Address::v4(255, 255, 255, 255, 7471)));  // connect() refuses a broadcast address
    ids.push_back(*a.cm().connect(Address::loopback(Address::Family::v4, 7471),
                                  {.local = Address::v4(192, 0, 2, 99, 0)}));  // bind() a foreign one
  }
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::ConnectFailed>() == ids.size(); }, {&a}));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Drivers, RefusedConnectionsAndListenersLeaveNoDescriptorOpen) {
  Peer a, b;
  const Address taken = b.listen(Address::loopback(Address::Family::v4, 0));
  Address gone;
  {
    Peer c;
    gone = c.listen(Address::loopback(Address::Family::v4, 0));
  }
  const std::ptrdiff_t before = open_descriptors();
  std::vector<cm::Id> ids;
  for (int i = 0; i < 10; ++i) {
    ids.push_back(*a.cm().connect(gone));  // the system tells later, by a RST
    ids.push_back(*a.cm().listen(taken));
  }
  ASSERT_TRUE(Peer::run_until([&] { return a.count<cm::ConnectFailed>() == ids.size(); }, {&a}));
  EXPECT_EQ(open_descriptors(), before);
}

/// A socket that speaks MPA by hand, with blocking calls.
struct RawClient {
  explicit RawClient(const Address& to) : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto peer = asio_driver::to_sockaddr(to);
    EXPECT_EQ(::connect(fd, peer.get(), peer.size), 0);
  }
  ~RawClient() {
    if (fd >= 0) ::close(fd);
  }
  RawClient(const RawClient&) = delete;
  void say(ConstBytes octets) const {
    EXPECT_EQ(::send(fd, octets.data(), octets.size(), 0), static_cast<ssize_t>(octets.size()));
  }
  void reset() {
    const linger now{1, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(std::exchange(fd, -1));
  }
  int fd;
};

/// A host with one open connection, whose other end is such a socket.
struct ToRawClient {
  explicit ToRawClient(const TcpHostOptions& options = {}) : host(options), memory(host.host->device(), 1 << 20) {
    host.on_request = [this](cm::ConnectRequest& request) {
      id = request.id;
      EXPECT_TRUE(id.accept({.qp = memory.qp()}));
    };
    raw.emplace(host.listen(Address::loopback(Address::Family::v4, 0)));
    raw->say(*wire::MpaFrame{.key = wire::MpaKey::req, .flags = PARLEY_MPA_FLAG_C, .revision = 1}.emit());
    EXPECT_TRUE(Peer::run_until([&] { return host.last<cm::ConnectRequest>() != nullptr; }, {&host}));
    // A Write of no octets: 14 of header, and the CRC.
    mpa::Framer framer({.crc = true, .markers = false, .emss = 1460});
    const Bytes write{0xC1, 0x40, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    Bytes fpdu(framer.wire_size(write.size()));
    framer.frame(write, {}, fpdu);
    raw->say(fpdu);
    EXPECT_TRUE(Peer::run_until([&] { return host.last<cm::Established>() != nullptr; }, {&host}));
  }
  ~ToRawClient() { id.destroy(); }
  ToRawClient(const ToRawClient&) = delete;

  void send() {
    const Sge all = memory.all();
    EXPECT_TRUE(id.qp()->post_send({.opcode = SendWr::Opcode::send, .sges = {&all, 1}}));
  }
  void expect_reset() {
    ASSERT_TRUE(Peer::run_until([&] { return host.last<cm::Disconnected>() != nullptr; }, {&host}));
    const cm::Disconnected& told = *host.last<cm::Disconnected>();
    EXPECT_FALSE(told.graceful);
    EXPECT_EQ(told.why.code, make_error_code(Errc::peer_reset)) << told.why.to_string();
  }

  Peer host;
  Memory memory;
  cm::Id id;
  std::optional<RawClient> raw;
};

// Behind a FIN the system tells a RST as EPIPE (tcp(7)); to the user it is what it is.
TEST(Drivers, AResetBehindAFinIsReportedAsAReset) {
  ToRawClient t;
  for (int i = 0; i < 8; ++i) t.send();  // more than the system takes for a peer that does not read: it stays open
  ASSERT_EQ(::shutdown(t.raw->fd, SHUT_WR), 0);
  while (t.host.turn()) {
  }
  t.raw->reset();
  t.expect_reset();
}

TEST(Drivers, AResetBehindAFinIsReportedThoughNothingIsWritten) {
  ToRawClient t({.iwarp = {.half_close_grace = 60s}});
  ASSERT_EQ(::shutdown(t.raw->fd, SHUT_WR), 0);
  while (t.host.turn()) {
  }
  t.raw->reset();
  t.expect_reset();
}

// A write that fails takes the socket's error with it; the end of the stream that is read after it is no FIN.
TEST(Drivers, AResetThatAWriteMeetsFirstIsReportedAsAReset) {
  for (const bool fin : {false, true}) {
    ToRawClient t;
    if (fin) {
      ASSERT_EQ(::shutdown(t.raw->fd, SHUT_WR), 0);
    }
    t.raw->reset();
    t.send();
    t.expect_reset();
  }
}

TEST(Drivers, AResetLeavesNoDescriptorOpen) {
  ToRawClient t;
  const std::ptrdiff_t before = open_descriptors();
  t.raw->reset();
  t.expect_reset();
  EXPECT_EQ(open_descriptors(), before - 2) << "this end's and the other's";
}

TEST(Drivers, TapSeesEveryOctetOfBothSides) {
  Peer a, b;
  accept_all(b);
  Bytes sent, received;
  std::vector<TapRecord::Kind> kinds;
  a.host->set_tap([&](const TapRecord& r) {
    kinds.push_back(r.kind);
    if (r.kind == TapRecord::Kind::sent) sent.insert(sent.end(), r.octets.begin(), r.octets.end());
  });
  b.host->set_tap([&](const TapRecord& r) {
    if (r.kind == TapRecord::Kind::received) received.insert(received.end(), r.octets.begin(), r.octets.end());
  });
  const Address to = b.listen(Address::loopback(Address::Family::v4, 0));
  cm::Id id = *a.cm().connect(to, {.transport = mpa::Options{.rtr = mpa::Rtr::read}});
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Established>() && b.last<cm::Established>(); }, {&a, &b}));
  ASSERT_TRUE(id.disconnect());
  ASSERT_TRUE(Peer::run_until([&] { return a.last<cm::Disconnected>() && b.last<cm::Disconnected>(); }, {&a, &b}));
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent.size(), 24U + 52U) << "Request with enhanced data, Read RTR";
  using Kind = TapRecord::Kind;
  EXPECT_EQ(kinds.front(), Kind::connected);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), Kind::fin_sent), 1);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), Kind::fin_received), 1);
}

TEST(Drivers, WaitsNoLongerThanAskedAndWakesForDeadlines) {
  Peer a;
  const Instant start = a.host->now();
  EXPECT_FALSE(a.turn(20ms));
  EXPECT_GE(a.host->now() - start, 19ms);
}

TEST(Drivers, ResolvesNumbersAndRefusesNonsense) {
  const auto v4 = TcpHost::resolve("127.0.0.1", 7471);
  ASSERT_TRUE(v4);
  ASSERT_EQ(v4->size(), 1U);
  EXPECT_EQ(v4->front(), Address::loopback(Address::Family::v4, 7471));
  const auto v6 = TcpHost::resolve("::1", 1);
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->front(), Address::loopback(Address::Family::v6, 1));
  const auto name = TcpHost::resolve("localhost", 5);
  ASSERT_TRUE(name) << name.error().message();
  for (const Address& at : *name) EXPECT_EQ(at, Address::loopback(at.family, 5));
  const auto none = TcpHost::resolve("no such host", 1);
  EXPECT_EQ(none.error(), Errc::bad_address);
  EXPECT_EQ(none.error().sentence(), "host is neither an address nor a name that the system can resolve");
}

TEST(Drivers, OptionsThatAreRefusedAreNamed) {
  const auto congestion = TcpHost::open({.congestion = "nosuchthing"});
  EXPECT_EQ(congestion.error(), Errc::unsupported);
  EXPECT_NE(congestion.error().sentence().find("TcpHostOptions::congestion"), std::string::npos);
  EXPECT_TRUE(TcpHost::open({.congestion = "reno"}));
  const auto buffer = TcpHost::open({.receive_buffer = 0});
  EXPECT_EQ(buffer.error(), Errc::invalid_argument);
  EXPECT_EQ(buffer.error().sentence(), "TcpHostOptions::receive_buffer is 0; must be at least 1");
  const auto streams = TcpHost::open({.streams_max = 0});
  EXPECT_EQ(streams.error().sentence(), "TcpHostOptions::streams_max is 0; must be at least 1");
}

// "Up to Duration::max()" is a long wait and not a busy loop.
TEST(Drivers, TheLongestWaitWaits) {
  Peer b;
  const Address to = b.listen(Address::v4(127, 0, 0, 1, 0), {.transport = mpa::Options{.timeouts = {.request = 0s}}});
  std::thread peer([&] {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    const auto address = asio_driver::to_sockaddr(to);
    EXPECT_EQ(::connect(fd, address.get(), address.size), 0);
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, 50), 0) << "nobody speaks before the Request";
    ::close(fd);
  });
  int turns = 0;
  for (; b.last<cm::ConnectFailed>() == nullptr; ++turns) (void)b.turn(Duration::max());
  peer.join();
  EXPECT_LT(turns, 20);
}

}  // namespace
}  // namespace parley::tcp_test
