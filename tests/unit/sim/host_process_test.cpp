// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The program on a host ends or stops, and its system runs on.
#include "host_kit.hpp"

namespace parley::sim::testing_hosts {
namespace {

/// Plain TCP programs on two hosts, with one connection from a to b.
struct ConnectedPair {
  ConnectedPair() {
    for (std::size_t i = 0; i < 2; ++i) {
      cable.add();
      cable.hosts[i]->set_app(nullptr);
      cable.hosts[i]->set_machine(&tcp[i]);
    }
    cable.start();
    tcp[1].listen(with_port(cable.hosts[1]->address(), 7471));
    cable.hosts[1]->set_timer(Instant{}, 0);
    cable.run_for(1ms);
    stream = tcp[0].open(with_port(cable.hosts[1]->address(), 7471));
    turn(0);
    EXPECT_TRUE(cable.run_until([&] { return tcp[1].accepted == 1; }));
  }
  void turn(std::size_t i) { cable.hosts[i]->set_timer(cable.engine.now(), 0); }
  void say(ConstBytes octets) {
    tcp[0].say(stream, octets);
    turn(0);
  }

  std::array<PlainTcp, 2> tcp;
  Cable cable;
  StreamId stream = 0;
};

TEST(SimHostProcess, OctetsForAStoppedProgramWaitInItsSystem) {
  ConnectedPair p;
  const Bytes octets = pattern(1 << 20);
  p.cable.hosts[1]->stop_process();
  EXPECT_TRUE(p.cable.hosts[1]->process_stopped());
  p.say(octets);
  p.cable.run_for(20s);
  EXPECT_TRUE(p.tcp[1].streams[0].in.empty());
  EXPECT_GT(p.tcp[0].find(p.stream)->sent, 0U) << "its system acknowledges";
  EXPECT_LT(p.tcp[0].find(p.stream)->sent, octets.size()) << "up to its receive buffer";
  EXPECT_FALSE(p.tcp[0].find(p.stream)->timeout);
  p.cable.hosts[1]->continue_process();
  EXPECT_TRUE(p.cable.run_until([&] { return p.tcp[1].streams[0].in.size() == octets.size(); }));
  EXPECT_EQ(p.tcp[1].streams[0].in, octets);
}

TEST(SimHostProcess, AConnectionToAStoppedProgramIsAcceptedWhenItGoesOn) {
  ConnectedPair p;
  p.cable.hosts[1]->stop_process();
  const StreamId second = p.tcp[0].open(with_port(p.cable.hosts[1]->address(), 7471));
  p.turn(0);
  EXPECT_TRUE(p.cable.run_until([&] { return p.tcp[0].connected == 2; })) << "by its system";
  p.tcp[0].say(second, pattern(100));
  p.turn(0);
  p.cable.run_for(5s);
  EXPECT_EQ(p.tcp[1].accepted, 1);
  p.cable.hosts[1]->continue_process();
  EXPECT_TRUE(p.cable.run_until([&] { return p.tcp[1].accepted == 2 && p.tcp[1].streams[1].in.size() == 100; }));
}

TEST(SimHostProcess, TimersOfAStoppedProgramComeWhenItGoesOn) {
  Cable cable;
  Host& host = cable.add();
  cable.start();
  host.set_timer(Instant(1s), 7);
  host.stop_process();
  cable.run_for(4s);
  EXPECT_TRUE(cable.apps[0]->timers.empty());
  host.continue_process();
  const std::vector<std::pair<Instant, std::uint64_t>> late{{Instant(4s), 7}};
  EXPECT_EQ(cable.apps[0]->timers, late);
}

TEST(SimHostProcess, AProgramThatEndedHearsNothingUntilTheHostStartsAgain) {
  Cable cable;
  Host& host = cable.add();
  cable.start();
  host.set_timer(Instant(1s), 7);
  const int turns = cable.apps[0]->turns;
  host.end_process();
  host.end_process();
  EXPECT_EQ(cable.apps[0]->crashes, 1);
  cable.run_for(4s);
  EXPECT_TRUE(cable.apps[0]->timers.empty());
  EXPECT_EQ(cable.apps[0]->turns, turns);
  host.restart();
  EXPECT_EQ(cable.apps[0]->crashes, 1) << "it has no more to drop";
  EXPECT_EQ(cable.apps[0]->starts, 2);
}

TEST(SimHostProcess, APortOfAProgramThatEndedIsClosed) {
  Cable cable;
  std::array<cm::Id, 2> ids;
  for (int i = 0; i < 2; ++i) cable.add();
  cable.start();
  cable.apps[1]->crash = [&](Host&) { ids[1] = {}; };
  ids[1] = *cable.hosts[1]->cm().listen(Address::any(Address::Family::v4, 7471));
  cable.run_for(1ms);
  cable.hosts[1]->end_process();
  const auto resets = cable.hosts[1]->counters().resets_sent;
  ids[0] = *cable.hosts[0]->cm().connect(with_port(cable.hosts[1]->address(), 7471), {});
  EXPECT_TRUE(cable.run_until([&] { return cable.apps[0]->last<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(cable.apps[0]->last<cm::ConnectFailed>()->why.code, make_error_code(Errc::refused));
  EXPECT_GT(cable.hosts[1]->counters().resets_sent, resets);
  ids[0] = {};
}

}  // namespace
}  // namespace parley::sim::testing_hosts
