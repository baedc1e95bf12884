// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Several Managers on one host, and ids that migrate between them: the same of every provider. tests/unit/sim has the simulated
// hosts, tests/interop/nics the kernel's devices.
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/cm/packet_net.hpp"
#include "tests/unit/cm/test_net.hpp"
#include "tests/unit/printing.hpp"

namespace parley::managers_test {
namespace {

using namespace std::chrono_literals;

struct Iwarp {
  static inline const cm::TransportOptions options = mpa::Options{.rtr = mpa::Rtr::read};
  using Net = testing_net::Net;
  using Host = testing_net::Host;
};
struct Roce {
  static inline const cm::TransportOptions options{};
  using Net = packet_net::Net;
  using Host = packet_net::Host;
};

/// A Manager beside a host's own, and what it was told.
struct Beside : parley::test::EventLog {
  explicit Beside(cm::Manager& host) : manager(*host.open_beside()) {}
  cm::Manager& cm() { return *manager; }
  template <class E>
  std::vector<E*> all() {
    poll();
    return EventLog::all<E>();
  }
  template <class E>
  E* last() {
    poll();
    return EventLog::last<E>();
  }
  void poll() {
    while (auto event = manager->poll_event()) events.push_back(std::move(*event));
  }
  std::unique_ptr<cm::Manager> manager;
};

template <class Transport>
struct Managers : testing::Test {
  using Host = typename Transport::Host;
  Managers() : server(net.add_host(1)), client(net.add_host(2)), vs(server.cm.device()), vc(client.cm.device()) {}

  template <class E>
  static std::size_t count(Host& host) {
    return host.template all<E>().size();
  }
  template <class E, class Whose>
  bool wait(Whose& whose, std::size_t many = 1) {
    return net.run_until([&] { return whose.template all<E>().size() >= many; });
  }
  cm::Id listen(cm::Manager& manager, std::uint16_t port = 7471) {
    Address local = server.ip;
    local.port = port;
    return *manager.listen(local);
  }
  /// A request of the client's, which the host's own Manager has.
  cm::Id ask() {
    if (!listener) {
      listener = listen(server.cm);
      EXPECT_TRUE(wait<cm::Listening>(server));
    }
    const std::size_t before = count<cm::ConnectRequest>(server);
    asked.push_back(connect());
    EXPECT_TRUE(wait<cm::ConnectRequest>(server, before + 1));
    return server.template last<cm::ConnectRequest>()->id;
  }
  cm::Id connect(std::uint16_t port = 7471) {
    Address peer = server.ip;
    peer.port = port;
    return *client.cm.connect(peer, {.transport = Transport::options, .qp = vc.qp()});
  }
  void accept(cm::Id id) {
    ASSERT_TRUE(id.create_qp(vs.qp()));
    for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(vs.recv(*id.qp(), 4096 * i, 4096));
    ASSERT_TRUE(id.accept());
  }
  void exchange(cm::Id id) {
    const std::size_t before = vs.count(WcOpcode::recv);
    ASSERT_TRUE(vc.send(*asked.back().qp(), 0, 3000));
    EXPECT_TRUE(net.run_until([&] { return vs.count(WcOpcode::recv) > before; }));
    ASSERT_TRUE(vc.recv(*asked.back().qp(), 8192, 4096));
    const std::size_t back = vc.count(WcOpcode::recv);
    ASSERT_TRUE(vs.send(*id.qp(), 0, 100));
    EXPECT_TRUE(net.run_until([&] { return vc.count(WcOpcode::recv) > back; }));
  }

  Beside& beside(cm::Manager& host) {
    besides.push_back(std::make_unique<Beside>(host));
    return *besides.back();
  }

  typename Transport::Net net;
  Host& server;
  Host& client;
  Verbs vs, vc;
  std::vector<std::unique_ptr<Beside>> besides;
  cm::Id listener;
  std::vector<cm::Id> asked;  // by the client

  void TearDown() override {
    for (Host* host : {&server, &client})
      for (auto* e : host->template all<cm::ConnectRequest>()) e->id.destroy();
    for (cm::Id id : asked) id.destroy();
    listener.destroy();
  }
};
using Transports = testing::Types<Iwarp, Roce>;
struct Names {
  template <class T>
  static std::string GetName(int) {
    return std::is_same_v<T, Iwarp> ? "iwarp" : "roce";
  }
};
TYPED_TEST_SUITE(Managers, Transports, Names);

TYPED_TEST(Managers, ARequestIsAcceptedWhereItHasMigratedTo) {
  Beside& worker = this->beside(this->server.cm);
  cm::Id id = this->ask();
  cm::Id stale = id;
  ASSERT_TRUE(id.migrate(worker.cm()));
  EXPECT_FALSE(id == stale);
  EXPECT_EQ(stale.accept().error(), Errc::wrong_state);
  EXPECT_EQ(stale.create_qp(this->vs.qp()).error(), Errc::wrong_state);
  EXPECT_EQ(stale.peer_address().error(), Errc::wrong_state);
  EXPECT_EQ(stale.qp(), nullptr);
  stale.destroy();  // does nothing
  this->accept(id);
  ASSERT_TRUE((this->template wait<cm::Established>(worker)));
  EXPECT_TRUE(worker.template last<cm::Established>()->id == id);
  EXPECT_EQ(this->template count<cm::Established>(this->server), 0U);
  this->exchange(id);
  ASSERT_TRUE(id.disconnect());
  ASSERT_TRUE((this->template wait<cm::Disconnected>(worker)));
  EXPECT_TRUE(worker.template last<cm::Disconnected>()->graceful);
  EXPECT_EQ(this->template count<cm::Disconnected>(this->server), 0U);
}

TYPED_TEST(Managers, AnEstablishedConnectionMigratesWithItsQueuePairThereAndBack) {
  Beside& worker = this->beside(this->server.cm);
  cm::Id id = this->ask();
  this->accept(id);
  ASSERT_TRUE((this->template wait<cm::Established>(this->server)));
  QueuePair* const qp = id.qp();
  ASSERT_TRUE(id.migrate(worker.cm()));
  EXPECT_EQ(id.qp(), qp);
  this->exchange(id);
  ASSERT_TRUE(id.migrate(this->server.cm));
  this->exchange(id);
  ASSERT_TRUE(id.migrate(worker.cm()));
  this->asked.back().destroy();
  ASSERT_TRUE((this->template wait<cm::Disconnected>(worker)));
  EXPECT_TRUE(worker.template last<cm::Disconnected>()->id == id);
  EXPECT_EQ(this->template count<cm::Disconnected>(this->server), 0U);
}

TYPED_TEST(Managers, WhatWaitsOfAnIdGoesWithItInOrder) {
  Beside& one = this->beside(this->client.cm);
  Beside& other = this->beside(this->client.cm);
  cm::Id id = this->ask();
  cm::Id mine = this->asked.back();
  ASSERT_TRUE(mine.migrate(one.cm()));
  this->asked.back() = mine;
  ASSERT_TRUE(one.cm().post_event(1, mine));
  this->accept(id);
  ASSERT_TRUE((this->template wait<cm::Established>(this->server)));
  this->net.run_until([&] { return one.cm().has_events(); });
  ASSERT_TRUE(one.cm().post_event(2, mine));
  ASSERT_TRUE(one.cm().post_event(3));
  ASSERT_TRUE(mine.migrate(other.cm()));
  this->asked.back() = mine;
  EXPECT_TRUE(this->client.cm.any_events());
  EXPECT_FALSE(this->client.cm.has_events());
  (void)other.template all<cm::UserEvent>();
  std::vector<std::string> there;
  for (const cm::Event& e : other.events) {
    EXPECT_TRUE(std::visit([](const auto& event) { return event.id; }, e) == mine);
    if (const auto* user = std::get_if<cm::UserEvent>(&e)) there.push_back(std::to_string(user->value));
    if (std::holds_alternative<cm::Established>(e)) there.push_back("established");
  }
  EXPECT_EQ(there, (std::vector<std::string>{"1", "established", "2"}));
  const auto left = one.template all<cm::UserEvent>();
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0]->value, 3U);
}

TYPED_TEST(Managers, NewcomersGoWhereTheirListenerIs) {
  Beside& worker = this->beside(this->server.cm);
  cm::Id first = this->ask();  // at the host's own
  ASSERT_TRUE(this->listener.migrate(worker.cm()));
  this->asked.push_back(this->connect());
  ASSERT_TRUE((this->template wait<cm::ConnectRequest>(worker)));
  const auto& request = *worker.template last<cm::ConnectRequest>();
  EXPECT_TRUE(request.listener == this->listener);
  EXPECT_EQ(this->template count<cm::ConnectRequest>(this->server), 1U);
  ASSERT_TRUE(first.accept()) << "what was announced stays";
  ASSERT_TRUE((this->template wait<cm::Established>(this->server)));
  cm::Id second = request.id;
  ASSERT_TRUE(second.reject());
  EXPECT_TRUE((this->template wait<cm::Rejected>(this->client)));
  second.destroy();
}

TYPED_TEST(Managers, ARequestThatWaitsNamesItsListenerWhereThatIs) {
  Beside& worker = this->beside(this->server.cm);
  this->listener = this->listen(worker.cm());
  ASSERT_TRUE((this->template wait<cm::Listening>(worker)));
  this->asked.push_back(this->connect());
  ASSERT_TRUE(this->net.run_until([&] { return worker.cm().has_events(); }));
  ASSERT_TRUE(this->listener.migrate(this->server.cm));
  auto* request = worker.template last<cm::ConnectRequest>();
  ASSERT_NE(request, nullptr);
  EXPECT_TRUE(request->listener == this->listener);
  ASSERT_TRUE(request->id.accept());
  EXPECT_TRUE((this->template wait<cm::Established>(worker)));
}

TYPED_TEST(Managers, EachHasItsOwnListenersAndConnections) {
  Beside& worker = this->beside(this->server.cm);
  Beside& caller = this->beside(this->client.cm);
  (void)this->listen(worker.cm(), 7472);
  ASSERT_TRUE((this->template wait<cm::Listening>(worker)));
  Address peer = this->server.ip;
  peer.port = 7472;
  cm::Id mine = *caller.cm().connect(peer, {.transport = TypeParam::options});
  ASSERT_TRUE((this->template wait<cm::ConnectRequest>(worker)));
  cm::Id id = worker.template last<cm::ConnectRequest>()->id;
  this->accept(id);
  ASSERT_TRUE((this->template wait<cm::Established>(caller)));
  EXPECT_TRUE(caller.template last<cm::Established>()->id == mine);
  EXPECT_TRUE(this->server.events.empty());
  EXPECT_TRUE(this->client.events.empty());
  ASSERT_TRUE(caller.cm().resolve(peer));
  EXPECT_NE(caller.template last<cm::Resolved>(), nullptr);
}

TYPED_TEST(Managers, TheEndOfAManagerIsTheEndOfItsIdsAlone) {
  auto worker = std::make_unique<Beside>(this->server.cm);
  cm::Id stays = this->ask();
  this->accept(stays);
  ASSERT_TRUE((this->template wait<cm::Established>(this->client)));
  cm::Id goes = this->ask();
  ASSERT_TRUE(goes.migrate(worker->cm()));
  (void)this->listen(worker->cm(), 7472);
  ASSERT_TRUE((this->template wait<cm::Listening>(*worker)));
  worker.reset();
  EXPECT_TRUE(this->net.run_until([&] {  // over iWARP it comes again with revision 1
    return this->template count<cm::Retrying>(this->client) + this->template count<cm::Rejected>(this->client) +
               this->template count<cm::ConnectFailed>(this->client) >
           0;
  }));
  EXPECT_EQ(this->template count<cm::Disconnected>(this->client), 0U);
  ASSERT_TRUE(stays.disconnect());
  EXPECT_TRUE((this->template wait<cm::Disconnected>(this->server)));
  // Its place is free for the next one.
  Beside& next = this->beside(this->server.cm);
  (void)this->listen(next.cm(), 7472);
  EXPECT_TRUE((this->template wait<cm::Listening>(next)));
}

TYPED_TEST(Managers, OnlyOfTheSameHostAndOnlyWhatIsThere) {
  Beside& worker = this->beside(this->server.cm);
  cm::Id id = this->ask();
  const auto far = id.migrate(this->client.cm);
  ASSERT_FALSE(far);
  EXPECT_EQ(far.error(), Errc::invalid_argument);
  EXPECT_NE(far.error().message().find("another host"), std::string::npos) << far.error().message();
  EXPECT_TRUE(id.peer_address()) << "nothing has changed";
  ASSERT_TRUE(id.migrate(this->server.cm)) << "to where it is";
  cm::Id none;
  EXPECT_EQ(none.migrate(worker.cm()).error(), Errc::wrong_state);
  cm::Id gone = id;
  id.destroy();
  EXPECT_EQ(gone.migrate(worker.cm()).error(), Errc::wrong_state);
}

TYPED_TEST(Managers, TheBoundOfUserEventsHoldsWhereTheyMigrateTo) {
  Beside& worker = this->beside(this->server.cm);
  cm::Id id = this->ask();
  ASSERT_TRUE(this->server.cm.post_event(1, id));
  for (std::uint32_t i = 0; i < cm::user_events_max; ++i) ASSERT_TRUE(worker.cm().post_event(i));
  const auto full = id.migrate(worker.cm());
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error(), Errc::no_space);
  EXPECT_TRUE(id.peer_address()) << "nothing has changed";
  ASSERT_TRUE(worker.cm().poll_event());
  EXPECT_TRUE(id.migrate(worker.cm()));
  EXPECT_FALSE(worker.cm().post_event(0)) << "it counts there";
}

TYPED_TEST(Managers, AreBoundedAndFailBehindTheirHost) {
  auto provider = [] {
    if constexpr (std::is_same_v<TypeParam, Iwarp>)
      return cm::make_iwarp_provider({});
    else
      return cm::make_roce_provider({});
  }();
  auto host = std::make_unique<cm::Manager>(*provider);
  std::vector<std::unique_ptr<cm::Manager>> all;
  for (std::size_t i = 1; i < cm::managers_max; ++i) all.push_back(*host->open_beside());
  const auto full = all.back()->open_beside();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error(), Errc::no_space);
  all.erase(all.begin() + 7);
  EXPECT_TRUE(host->open_beside());
  cm::Manager& last = *all.back();
  cm::Id id = *last.listen(Address::v4(192, 0, 2, 1, 7471));
  host.reset();
  provider.reset();
  EXPECT_EQ(last.listen(Address::v4(192, 0, 2, 1, 7471)).error(), Errc::wrong_state);
  EXPECT_EQ(last.connect(Address::v4(192, 0, 2, 1, 7471)).error(), Errc::wrong_state);
  EXPECT_EQ(last.resolve(Address::v4(192, 0, 2, 1, 7471)).error(), Errc::wrong_state);
  EXPECT_EQ(last.open_beside().error(), Errc::wrong_state);
  EXPECT_EQ(last.post_event(1, id).error(), Errc::wrong_state);
  EXPECT_EQ(id.local_address().error(), Errc::wrong_state);
  EXPECT_TRUE(last.devices().empty());
  EXPECT_FALSE(last.poll_event());
  id.destroy();
}

TEST(ManagersIwarp, APeerThatHasNotAskedYetGoesWithTheListener) {
  testing_net::Net net;
  testing_net::Host& host = net.add_host(1);
  Beside worker(host.cm);
  cm::Id listener = *host.cm.listen(Address::any(Address::Family::v4, 7471));
  ASSERT_TRUE(net.run_until([&] { return host.last<cm::Listening>() != nullptr; }));
  testing_net::End& raw = net.raw_connect(host.last<cm::Listening>()->local);
  ASSERT_TRUE(net.run_until([&] { return raw.up; }));
  ASSERT_TRUE(listener.migrate(worker.cm()));
  Bytes request(20);
  constexpr std::string_view words = "MPA ID Req Frame\x40\x01";  // RFC 5044 §7.1.1: CRC asked for, revision 1
  std::copy(words.begin(), words.end(), request.begin());
  raw.send(request);
  ASSERT_TRUE(net.run_until([&] { return worker.last<cm::ConnectRequest>() != nullptr; }));
  EXPECT_EQ(host.last<cm::ConnectRequest>(), nullptr);
  worker.last<cm::ConnectRequest>()->id.destroy();
  listener.destroy();
}

}  // namespace
}  // namespace parley::managers_test
