// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// R11 with a broker that dies: what its successor learns of the carriers of a device.
#include "tests/unit/xrc/world.hpp"

namespace parley::xrc::carriers_test {
namespace {
using namespace kit;

// R11. A member that was informed that the device was removed still counts the carriers that remain.
TEST(XrcBroker, TheNextOneMissesACarrierThatHadReportedItsDevice) {
  play([](World& w) {
    Node& nic = w.process(1, {.st_dev = 8, .st_ino = 100}, false, true, true);
    Node& p1 = w.process(2);
    w.settle();
    EXPECT_EQ(w.said(nic, {.ask = RequestType::report_device, .kind = EventKind::device_removed}), "none");
    w.settle();
    EXPECT_EQ(World::names(p1), "device_removed");
    w.kill(nic);
    w.crash_broker();
    w.start_broker();
    w.settle();
    w.wait(3s);
    EXPECT_EQ(World::names(p1), "device_removed device_removed");
  });
}

// R11. Also where the next broker dies before the carrier could return.
TEST(XrcBroker, TheNextOneMissesACarrierThatDiedWithIt) {
  for (const bool carrier_died : {true, false})
    play(
        [carrier_died](World& w) {
          const auto next_broker = [&w] {
            w.crash_broker();
            w.start_broker();
            w.settle();
          };
          Node& p1 = w.process(1);
          w.wait(2s);
          const TgtId id = w.receiver(p1, peer);
          Node &nic = w.process(2, {.st_dev = 8, .st_ino = 100}, false, true, true), &idle = w.process(3);
          w.settle();
          if (carrier_died) w.kill(nic);
          next_broker();
          next_broker();
          EXPECT_EQ(World::names(p1), "");
          w.wait(3s);
          EXPECT_EQ(World::names(p1), carrier_died ? "device_removed device_removed" : "");
          EXPECT_EQ(w.state(id), carrier_died ? "drain" : "rtr");
          w.kill(nic);
          next_broker();
          w.wait(3s);
          EXPECT_EQ(World::names(p1), "device_removed device_removed");
          EXPECT_EQ(World::names(idle), "device_removed");
        },
        lasting());
}

// R11. A member without registrations, too.
TEST(XrcBroker, InformsAMemberWhoseConnectionBrokeOfACarrierThatDiedMeanwhile) {
  for (const bool carrier_died : {true, false})
    play([carrier_died](World& w) {
      Node& nic = w.process(1, {.st_dev = 8, .st_ino = 100}, false, true, true);
      Node &idle = w.process(2), &stays = w.process(3);
      w.settle();
      for (const bool stopped : {false, true}) {  // it connects again at once, or later
        idle.stopped = stopped;
        w.cut(idle);
        if (stopped && carrier_died) w.kill(nic);
        w.settle();
      }
      idle.stopped = false;
      w.settle();
      EXPECT_EQ(World::names(idle), carrier_died ? "device_removed" : "");
      EXPECT_EQ(World::names(stays), carrier_died ? "device_removed" : "");
      w.cut(idle);
      w.settle();
      EXPECT_EQ(World::names(idle), carrier_died ? "device_removed" : "") << "once only";
      w.kill(nic);
      w.settle();
      EXPECT_EQ(World::names(idle), "device_removed");
    });
}

// R11. The carrier itself connects again as a new one.
TEST(XrcBroker, InformsOthersOfACarrierWhoseConnectionBroke) {
  play(
      [](World& w) {
        Node& nic = w.process(1, {.st_dev = 8, .st_ino = 100}, false, true, true);
        Node& idle = w.process(2);
        w.settle();
        w.cut(nic);
        w.settle();
        EXPECT_EQ(World::names(idle), "device_removed");
        EXPECT_EQ(World::names(nic), "");
        w.crash_broker();
        w.start_broker();
        w.settle();
        w.wait(3s);
        EXPECT_EQ(World::names(idle), "device_removed") << "the carrier has returned";
      },
      lasting());
}

}  // namespace
}  // namespace parley::xrc::carriers_test
