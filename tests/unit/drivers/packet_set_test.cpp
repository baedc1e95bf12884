// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set of UDP sockets by itself, where the system refuses what it seldom does.
#include "drivers/asio/packet_set.hpp"

#include <gtest/gtest.h>

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <vector>

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

/// Sends a short packet from each of many UDP source ports in turn, as queue pairs do that send keepalives.
struct ManyPorts final : PacketMachine {
  static constexpr std::size_t packet_size = 28;  // BTH and RETH

  void handle_bound(Instant, BindId, const Address&) override {}
  void handle_bind_failed(Instant, BindId, const Error& why, const Address&) override { failed = why.code(); }
  void handle_packet(Instant, const PacketPath&, ConstBytes) override {}
  void handle_unreachable(Instant, const PacketPath&, std::error_code) override {}
  void handle_deadline(Instant) override {}
  bool poll_command(PacketCommand& out) override {
    if (bound) return false;
    bound = true;
    out = {.id = 1, .local = local, .peer = Address::any(Address::Family::v4, 0)};
    return true;
  }
  std::size_t poll_packet(Instant, PacketPath& to, MutBytes out) override {
    if (next == last) return 0;
    to = {.local = local, .peer = peer, .source_port = next++, .way = ++way};
    std::fill_n(out.begin(), packet_size, std::uint8_t{0});
    return packet_size;
  }
  Instant next_deadline() const override { return never; }

  Address local = own_address(1, 0), peer = own_address(2, 0);
  std::uint16_t next = 0, last = 0;
  std::uint64_t way = 0;
  bool bound = false;
  std::error_code failed;
};

// The number of a packet in its message to the system is its IPv4 identification.
TEST(PacketSet, FlowsWithoutASocketOfTheirOwnShareMessages) {
  constexpr std::uint16_t first = 20000;
  constexpr auto own = static_cast<std::uint16_t>(asio_driver::PacketSet::senders_max);
  ManyPorts machine;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets(machine, {}, epoll, -1);
  machine.next = first;
  machine.last = first + own;
  sockets.drain({});
  ASSERT_FALSE(machine.failed);
  std::vector<PacketTapRecord> sent;
  sockets.set_tap([&sent](const PacketTapRecord& record) { sent.push_back(record); });
  machine.last += asio_driver::PacketSet::sent_at_once;
  sockets.drain({});
  ASSERT_EQ(sent.size(), asio_driver::PacketSet::sent_at_once);
  for (std::size_t n = 0; n < sent.size(); ++n) {
    EXPECT_EQ(sent[n].source_port, PARLEY_ROCE_UDP_PORT);
    EXPECT_EQ(sent[n].identification, n);
  }
  machine.next = first;
  machine.last = first + 2;
  sent.clear();
  sockets.drain({});
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].source_port, first) << "a flow lost its socket";
  EXPECT_EQ(sent[1].source_port, first + 1);
  EXPECT_EQ(sockets.counters().unsent, 0U);
  ::close(epoll);
}

}  // namespace
}  // namespace parley::packet_set_test
