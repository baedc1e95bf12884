// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Several Managers on a simulated host, with either engine: tests/unit/cm/managers_test.cpp has the whole contract.
#include "host_kit.hpp"
#include "parley/mpa.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// b's own Manager listens, and gives each request to the one beside it.
struct Handing {
  explicit Handing(NicEngine engine) {
    HostOptions options;
    options.engine = engine;
    cable.add(options);
    cable.add(options);
    b().start = [this](Host& host) {
      worker = *host.cm().open_beside();
      listener = *host.cm().listen(Address::any(Address::Family::v4, 7471));
    };
    b().crash = [this](Host&) { worker.reset(), own = {}; };
    b().request = [this](cm::ConnectRequest& request) {
      own = request.id;
      EXPECT_TRUE(own.migrate(*worker));
      EXPECT_TRUE(own.accept());
    };
    b().turn = [this](Host&) {
      while (worker && worker->has_events()) events.push_back(*worker->poll_event());
    };
    if (engine == NicEngine::iwarp) connecting.transport = mpa::Options{.rtr = mpa::Rtr::read};
    cable.start();
    asked = *ha().cm().connect(with_port(hb().address(Address::Family::v4, 0), 7471), connecting);
  }
  TestApp& a() { return *cable.apps[0]; }
  TestApp& b() { return *cable.apps[1]; }
  Host& ha() { return *cable.hosts[0]; }
  Host& hb() { return *cable.hosts[1]; }
  template <class E>
  bool has() const {
    return std::any_of(events.begin(), events.end(), [](const cm::Event& e) { return std::holds_alternative<E>(e); });
  }
  bool up() { return has<cm::Established>() && a().last<cm::Established>() != nullptr; }

  Cable cable;
  cm::ConnectOptions connecting;
  std::unique_ptr<cm::Manager> worker;
  std::vector<cm::Event> events;  // the worker's
  cm::Id listener, own, asked;
};

class SimManagers : public testing::TestWithParam<NicEngine> {};

TEST_P(SimManagers, AConnectionIsTheirsToWhomItMigrated) {
  Handing p(GetParam());
  ASSERT_TRUE(p.cable.run_until([&] { return p.up(); }));
  EXPECT_EQ(p.b().last<cm::Established>(), nullptr);
  ASSERT_TRUE(p.ha().cm().poll_event() == std::nullopt);
  ASSERT_TRUE(p.asked.disconnect());
  ASSERT_TRUE(p.cable.run_until([&] { return p.has<cm::Disconnected>(); }));
  EXPECT_EQ(p.b().last<cm::Disconnected>(), nullptr);
}

TEST_P(SimManagers, AHostThatCrashesTakesAllOfThemWithIt) {
  Handing p(GetParam());
  ASSERT_TRUE(p.cable.run_until([&] { return p.up(); }));
  p.hb().crash();
  EXPECT_EQ(p.worker, nullptr);
  p.events.clear();
  p.hb().restart();
  p.asked.destroy();
  p.asked = *p.ha().cm().connect(with_port(p.hb().address(Address::Family::v4, 0), 7471), p.connecting);
  EXPECT_TRUE(p.cable.run_until([&] { return p.has<cm::Established>(); }));
}

TEST_P(SimManagers, OneThatOutlivesItsHostsIncarnationFails) {
  Handing p(GetParam());
  ASSERT_TRUE(p.cable.run_until([&] { return p.up(); }));
  p.b().crash = nullptr;
  p.hb().crash();
  EXPECT_EQ(p.worker->listen(Address::any(Address::Family::v4, 7473)).error(), Errc::wrong_state);
  EXPECT_EQ(p.own.disconnect().error(), Errc::wrong_state);
  p.own.destroy();
  p.worker.reset();
}

INSTANTIATE_TEST_SUITE_P(Engines, SimManagers, testing::Values(NicEngine::iwarp, NicEngine::roce),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace parley::sim::testing_hosts
