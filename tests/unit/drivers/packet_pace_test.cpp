// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether the socket that a packet goes to has room for it, by what the system tells.
#include "drivers/asio/packet_pace.hpp"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <vector>

#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "parley/wire/ib.h"
#include "tests/unit/drivers/own_address.hpp"

namespace parley::packet_pace_test {
namespace {

using asio_driver::Descriptor;
using asio_driver::SocketPace;

class Pace : public testing::Test {
 protected:
  static constexpr std::size_t buffer = 256 << 10, packet = 1024;

  static int receiver_at(const Address& at) {
    std::error_code why;
    return asio_driver::packet_socket(at, PARLEY_ROCE_UDP_PORT, {.socket_buffer = buffer}, why);
  }
  void SetUp() override {
    ASSERT_GE(in_.fd, 0);
    pace_ = SocketPace::open();
    ASSERT_NE(pace_, nullptr);
  }
  void send() const {
    Address to = at_;
    to.port = PARLEY_ROCE_UDP_PORT;
    const auto name = asio_driver::to_sockaddr(to);
    const std::vector<std::uint8_t> octets(packet);
    ASSERT_EQ(::sendto(out_.fd, octets.data(), octets.size(), 0, name.get(), name.size), std::ssize(octets));
  }
  std::size_t received() const {
    std::uint8_t octets[packet];
    std::size_t n = 0;
    while (::recv(in_.fd, octets, sizeof octets, MSG_DONTWAIT) > 0) ++n;
    return n;
  }
  /// Sends while it may, at `now`; at most `most`.
  std::size_t send_all(Instant now, std::size_t most = 10000) {
    std::size_t n = 0;
    for (; n < most && pace_->may_send(now, peer_) <= now; ++n) {
      send();
      pace_->sent(peer_, 1, packet);
    }
    return n;
  }

  const Address at_ = own_address(5, 0);
  const Gid peer_ = gid_of(at_);
  const Descriptor in_{receiver_at(at_)}, out_{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  std::unique_ptr<SocketPace> pace_;
  Instant now_{std::chrono::seconds(1000)};
};

TEST_F(Pace, NothingIsLostWhereNobodyReads) {
  const std::size_t sent = send_all(now_);
  EXPECT_GT(sent, buffer / packet / 16);
  EXPECT_LT(sent, 10000U);
  const auto room = pace_->room_at(peer_);
  ASSERT_TRUE(room);
  EXPECT_GT(room->used, sent * packet);
  EXPECT_LT(room->used, room->size);
  EXPECT_EQ(pace_->may_send(now_, peer_), now_ + SocketPace::interval);
  EXPECT_EQ(send_all(now_ + SocketPace::interval), 0U);
  EXPECT_EQ(received(), sent);
  EXPECT_EQ(pace_->may_send(now_ + SocketPace::interval, peer_),
            now_ + 2 * SocketPace::interval);  // not asked again yet
  EXPECT_GT(send_all(now_ + 2 * SocketPace::interval), 0U);
}

// As if it was stopped: who sends must be able to serve others.
TEST_F(Pace, AReceiverThatReadsNothingForLongHoldsNobody) {
  const std::size_t sent = send_all(now_);
  now_ += SocketPace::patience;
  EXPECT_GT(send_all(now_ + SocketPace::interval, 10), 0U);
  EXPECT_GE(received(), sent);
}

TEST_F(Pace, AReceiverThatReadsNothingIsRememberedAmongManyPeers) {
  send_all(now_);
  EXPECT_GT(pace_->may_send(now_, peer_), now_);
  for (std::uint16_t i = 0; i < SocketPace::peers_max + 10; ++i)
    (void)pace_->may_send(
        now_, gid_of(Address::v4(192, 0, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i), 0)));
  now_ += SocketPace::patience;
  EXPECT_EQ(pace_->may_send(now_, peer_), now_);
}

// The only socket of an address is remembered, and asked alone.
TEST_F(Pace, ASocketInPlaceOfTheOnlyOneIsAsked) {
  send_all(now_);
  ASSERT_GT(pace_->may_send(now_, peer_), now_);
  const Address other = own_address(6, 0);
  {
    const Descriptor first(receiver_at(other));
    EXPECT_EQ(pace_->may_send(now_, gid_of(other)), now_);
  }
  pace_->sent(gid_of(other), 10000, packet);
  const Descriptor second(receiver_at(other));
  Address to = other;
  to.port = PARLEY_ROCE_UDP_PORT;
  const auto name = asio_driver::to_sockaddr(to);
  const std::vector<std::uint8_t> octets(packet);
  for (std::size_t n = 0; n < 4 * buffer / packet; ++n)
    (void)::sendto(out_.fd, octets.data(), octets.size(), 0, name.get(), name.size);
  EXPECT_GT(pace_->may_send(now_, gid_of(other)), now_) << "it is full";
}

TEST_F(Pace, PeersOnOtherHostsAreNotHeld) {
  const Gid elsewhere = gid_of(Address::v4(192, 0, 2, 1, 0));
  EXPECT_FALSE(pace_->room_at(elsewhere));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_LE(pace_->may_send(now_, elsewhere), now_);
    pace_->sent(elsewhere, 16, 4096);
  }
}

// Without the module of the protocol, the system answers no question. 253 is for experiments (RFC 3692): no system has it.
TEST(PaceOpen, NeedsASystemThatAnswers) {
  EXPECT_NE(SocketPace::open(), nullptr);
  EXPECT_EQ(SocketPace::open(253), nullptr);
}

}  // namespace
}  // namespace parley::packet_pace_test
