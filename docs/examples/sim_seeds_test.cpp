// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A test of an own program over many seeds: a client that gives up a set-up after 50 ms tries again, up to five times, and each
// seed loses other segments. With PARLEY_SIM_SEEDS=1..5000 it runs longer; a failure is shown as a ladder with the faults that it
// needs.
#include <chrono>
#include <optional>
#include <variant>

#include <parley/sim_test.hpp>

namespace {

using namespace std::chrono_literals;
namespace cm = parley::cm;
namespace sim = parley::sim;

class Server : public sim::App {
 public:
  void on_start(sim::Host& host) override {
    ASSERT_TRUE(host.cm().listen(parley::Address::any(parley::Address::Family::v4, 7471)));
  }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event())
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}
};

class Client : public sim::App {
 public:
  explicit Client(parley::Address server) : server_(server) {}
  bool connected = false;
  int tries = 0;

  void on_start(sim::Host& host) override { connect(host); }
  void on_turn(sim::Host& host) override {
    while (auto event = host.cm().poll_event()) {
      if (std::holds_alternative<cm::Established>(*event)) connected = true;
      if (std::holds_alternative<cm::ConnectFailed>(*event)) connect(host);
    }
  }
  void on_crash(sim::Host&) override {}
  void on_timer(sim::Host&, std::uint64_t) override {}

 private:
  void connect(sim::Host& host) {
    if (++tries > 5) return;
    cm::ConnectOptions options{.transport = parley::mpa::Options{.rtr = parley::mpa::Rtr::read}};
    options.timeout = 50ms;
    EXPECT_TRUE(host.cm().connect(server_, options));
  }
  parley::Address server_;
};

TEST(Client, ConnectsOverALossyLink) {
  sim::expect_for_seeds({.seeds = {1, 50}}, [](sim::Trial& trial) {
    sim::World world(trial.seed());
    sim::Host& a = **world.add_host("a");
    sim::Host& b = **world.add_host("b");
    const sim::LinkId link = *world.add_link(a.id(), b.id(), {.delay = 2us});
    parley::Address address = b.address();
    address.port = 7471;
    Client client(address);
    Server server;
    a.set_app(&client);
    b.set_app(&server);
    ASSERT_TRUE(trial.add_fault(world, link, sim::LinkDirection::both,
                                {.match = {.message = sim::MessageKind::tcp_data}, .chance = {1, 10}}));
    trial.watch(world);
    EXPECT_TRUE(world.run_until([&] { return client.connected; }, 10s)) << client.tries << " tries";
    a.set_app(nullptr);
    b.set_app(nullptr);
  });
}

}  // namespace
