// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set of UDP sockets by itself, where the system refuses what it seldom does.
#include "drivers/asio/packet_set.hpp"

#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <deque>

#include "drivers/asio/packet_socket.hpp"
#include "tests/unit/drivers/own_address.hpp"

namespace parley::packet_set_test {
namespace {

/// Asks for addresses, and hears what became of them.
struct Asker final : PacketMachine {
  void handle_bound(Instant, BindId, const Address&) override { ++bound; }
  void handle_bind_failed(Instant, BindId, const Error& why, const Address&) override { failed = why.code(); }
  void handle_packet(Instant, const PacketPath&, ConstBytes) override {}
  void handle_unreachable(Instant, const PacketPath&, std::error_code) override {}
  void handle_deadline(Instant) override {}
  bool poll_command(PacketCommand& out) override {
    if (asks.empty()) return false;
    out = asks.front();
    asks.pop_front();
    return true;
  }
  std::size_t poll_packet(Instant, PacketPath&, MutBytes) override { return 0; }
  Instant next_deadline() const override { return never; }
  std::deque<PacketCommand> asks;
  int bound = 0;
  std::error_code failed;
};

// A socket for all addresses takes the place of the others; where it cannot be watched, they come back.
TEST(PacketSet, AddressesComeBackWhereTheSocketForAllOfThemCannotBeWatched) {
  Asker asker;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets(asker, {}, epoll, -1);
  const Address one = own_address(1, 0);
  asker.asks.push_back({.id = 1, .local = one, .peer = Address::any(Address::Family::v4, 0)});
  sockets.drain({});
  ASSERT_EQ(asker.bound, 1);
  ::close(epoll);  // from now on nothing is watched
  asker.asks.push_back(
      {.id = 2, .local = Address::any(Address::Family::v4, 0), .peer = Address::any(Address::Family::v4, 0)});
  sockets.drain({});
  EXPECT_TRUE(asker.failed) << "not bound, or not watched";
  std::error_code why;
  const int other = asio_driver::packet_socket(one, PARLEY_ROCE_UDP_PORT, {}, why);
  EXPECT_EQ(other, -1) << "the address was given up";
  EXPECT_EQ(why, std::errc::address_in_use);
  if (other >= 0) ::close(other);
}

}  // namespace
}  // namespace parley::packet_set_test
