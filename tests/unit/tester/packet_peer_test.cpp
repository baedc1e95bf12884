// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The scripted peer over the packet seam: what it binds, sends, receives and waits for.
#include "tester/packet_peer.hpp"

#include <gtest/gtest.h>

#include <array>

namespace parley::tester {
namespace {

using namespace std::chrono_literals;

const Address here = Address::v4(192, 0, 2, 1, 0), there = Address::v4(192, 0, 2, 2, 0);

TEST(PacketPeer, BindsTowardsItsPeerAndSaysWhyNot) {
  PacketPeer peer;
  std::optional<Address> bound;
  const auto script = [](PacketPeer& p, std::optional<Address>& out) -> Task<> { out = co_await p.bind(there, 5s); };
  peer.start(Instant(1s), script(peer, bound));
  PacketCommand command;
  ASSERT_TRUE(peer.poll_command(command));
  EXPECT_EQ(command.peer, there);
  EXPECT_TRUE(command.local.is_any());
  peer.handle_bound(Instant(2s), command.id, here);
  EXPECT_TRUE(peer.done());
  EXPECT_EQ(bound, here);

  peer.start(Instant(3s), script(peer, bound));
  ASSERT_TRUE(peer.poll_command(command));
  peer.handle_bind_failed(Instant(4s), command.id, Error(Errc::address_in_use), here);
  EXPECT_TRUE(peer.done());
  EXPECT_EQ(bound, std::nullopt);
  EXPECT_EQ(peer.why(), Error(Errc::address_in_use).message());
}

TEST(PacketPeer, WaitsForAPacketAndNoLongerThanAsked) {
  PacketPeer peer;
  int came = 0;
  const auto script = [](PacketPeer& p, int& out) -> Task<> {
    for (int i = 0; i < 2; ++i) {
      const bool there_is_one = co_await p.until([&p] { return p.has_packet(); }, 3s);
      if (there_is_one) out += p.take().octets.front();
    }
  };
  peer.start(Instant(1s), script(peer, came));
  EXPECT_EQ(peer.next_deadline(), Instant(4s));
  const std::uint8_t packet[] = {7};
  peer.handle_packet(Instant(2s), {.local = here, .peer = there}, packet);
  EXPECT_EQ(came, 7);
  EXPECT_EQ(peer.next_deadline(), Instant(5s));
  peer.handle_deadline(Instant(4s));
  EXPECT_FALSE(peer.done());
  peer.handle_deadline(Instant(5s));
  EXPECT_TRUE(peer.done());
  EXPECT_EQ(peer.next_deadline(), never);
}

TEST(PacketPeer, KeepsNoMoreThanItsBounds) {
  PacketPeer peer;
  const Bytes packet(8, 1);
  for (std::size_t i = 0; i < PacketPeer::received_max + 5; ++i) {
    peer.handle_packet(Instant(1s), {.local = here, .peer = there}, packet);
    peer.send({.local = here, .peer = there}, packet);
  }
  peer.send({.local = here, .peer = there}, Bytes(PacketMachine::packet_max + 1));
  std::size_t received = 0, sent = 0;
  for (; peer.has_packet(); ++received) (void)peer.take();
  PacketPath path;
  std::array<std::uint8_t, PacketMachine::packet_max + 4> out;
  for (; peer.poll_packet(Instant(1s), path, out) != 0; ++sent) EXPECT_EQ(path.peer, there);
  EXPECT_EQ(received, PacketPeer::received_max);
  EXPECT_EQ(sent, PacketPeer::unsent_max);
}

TEST(PacketPeer, TellsOnceThatNothingCanBeReached) {
  PacketPeer peer;
  peer.handle_unreachable(Instant(1s), {.local = here, .peer = there},
                          std::make_error_code(std::errc::connection_refused));
  EXPECT_EQ(peer.take_unreachable(), std::make_error_code(std::errc::connection_refused).message());
  EXPECT_EQ(peer.take_unreachable(), "");
}

}  // namespace
}  // namespace parley::tester
