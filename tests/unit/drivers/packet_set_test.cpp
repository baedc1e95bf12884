// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set of UDP sockets by itself, where the system refuses what it seldom does.
#include "drivers/asio/packet_set.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/bytes_io.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/drivers/packet_asker.hpp"

namespace parley::packet_set_test {
namespace {

/// Its packets are a BTH and four octets.
struct Asker final : PacketAsker {
  static constexpr std::size_t packet_size = 16;
  Asker() : PacketAsker(packet_size) {}
};

// A socket for all addresses takes the place of the others; where it cannot be watched, they come back.
TEST(PacketSet, AddressesComeBackWhereTheSocketForAllOfThemCannotBeWatched) {
  Asker asker;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets(asker, {}, epoll, -1);
  const Address one = own_address(1, 0);
  asker.asks.push_back({.id = 1, .local = one, .peer = Address::any(Address::Family::v4, 0)});
  sockets.drain({});
  ASSERT_EQ(asker.bound.size(), 1U);
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

/// Sockets that another process has opened, as for this one.
struct Given final : asio_driver::PacketSockets {
  Result<int> open(const Address& local) override {
    std::error_code why;
    const int fd = asio_driver::packet_socket(local, PARLEY_ROCE_UDP_PORT, {}, why, asio_driver::Sharing::group);
    if (fd < 0) return tl::unexpected(Error(why));
    return fd;
  }
};

TEST(PacketSet, SocketsThatAreGivenMayShareAnAddress) {
  Given given;
  const Address one = own_address(1, 0);
  const auto bind = [&](Asker& asker, asio_driver::PacketSet& sockets, const Address& local) {
    asker.asks.push_back({.id = 1, .local = local, .peer = Address::any(Address::Family::v4, 0)});
    sockets.drain({});
  };
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  Asker first, second, alone, all;
  asio_driver::PacketSet of_first(first, {}, epoll, -1, &given), of_second(second, {}, epoll, -1, &given),
      of_alone(alone, {}, epoll, -1), of_all(all, {}, epoll, -1, &given);
  bind(first, of_first, one);
  bind(second, of_second, one);
  bind(alone, of_alone, one);
  bind(all, of_all, Address::any(Address::Family::v4, 0));
  EXPECT_EQ(first.bound.size(), 1U);
  EXPECT_EQ(second.bound.size(), 1U);
  EXPECT_EQ(alone.failed, make_error_code(Errc::address_in_use));
  EXPECT_EQ(all.failed, make_error_code(Errc::unsupported));
  ::close(epoll);
}

TEST(PacketSet, ClosesItsDescriptorsOnlyOnce) {
  Asker asker;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  int others[2] = {-1, -1};
  {
    asio_driver::PacketSet sockets(asker, {}, epoll, -1);
    asker.asks.push_back({.id = 1, .local = own_address(1, 0), .peer = Address::any(Address::Family::v4, 0)});
    sockets.drain({});
    ASSERT_EQ(asker.bound.size(), 1U);
    const Address group = Address::v4(239, 1, 2, 3, 0);
    (void)sockets.join(group);
    sockets.close_sockets();
    for (int& other : others) other = ::dup(epoll);  // under the numbers of the sockets
    sockets.leave(group);
  }
  for (const int other : others) {
    EXPECT_GE(::fcntl(other, F_GETFD), 0);
    ::close(other);
  }
  ::close(epoll);
}

/// The IPv4 groups to which sockets of this process are bound, each once for a socket.
std::vector<std::string> group_sockets() {
  std::vector<std::string> out;
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in at{};
    socklen_t size = sizeof at;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0 || at.sin_family != AF_INET) continue;
    std::array<std::uint8_t, 4> octets{};
    std::memcpy(octets.data(), &at.sin_addr, octets.size());
    if (octets[0] == 239) out.push_back(Address::v4(octets[0], octets[1], octets[2], octets[3], 0).to_string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(PacketSet, AGroupHasASocketUntilItIsLeft) {
  using Texts = std::vector<std::string>;
  Asker asker;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets(asker, {}, epoll, -1);
  const Address one = Address::v4(239, 1, 2, 4, 0), other = Address::v4(239, 1, 2, 5, 0);
  EXPECT_EQ(sockets.join(one).error(), Errc::wrong_state) << "no address is in use";
  for (const int number : {1, 2})  // of one interface
    asker.asks.push_back({.id = static_cast<BindId>(number),
                          .local = own_address(number, 0),
                          .peer = Address::any(Address::Family::v4, 0)});
  sockets.drain({});
  ASSERT_EQ(asker.bound.size(), 2U);
  for (int again = 0; again < 2; ++again) EXPECT_TRUE(sockets.join(one));
  EXPECT_EQ(group_sockets(), Texts{"239.1.2.4:0"}) << "two addresses, and joined twice";
  EXPECT_TRUE(sockets.join(other));
  EXPECT_EQ(group_sockets(), (Texts{"239.1.2.4:0", "239.1.2.5:0"}));
  EXPECT_FALSE(sockets.join(Address::v4(127, 1, 2, 3, 0))) << "no group";
  sockets.leave(one);
  EXPECT_EQ(group_sockets(), Texts{"239.1.2.5:0"});
  EXPECT_TRUE(sockets.join(one));
  sockets.leave(other);
  EXPECT_EQ(group_sockets(), Texts{"239.1.2.4:0"});
  ::close(epoll);  // from now on nothing is watched
  EXPECT_EQ(sockets.join(other).error(), Errc::no_space);
  EXPECT_EQ(group_sockets(), Texts{"239.1.2.4:0"});
  sockets.leave(one);
  EXPECT_EQ(group_sockets(), Texts());
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
    if (!qpns.empty()) store(out.data() + 4, qpns[way % qpns.size()], std::endian::big);  // IBA §9.2: of the BTH
    return packet_size;
  }
  Instant next_deadline() const override { return never; }

  Address local = own_address(1, 0), peer = own_address(2, 0);
  std::uint16_t next = 0, last = 0;
  std::uint64_t way = 0;
  std::vector<std::uint32_t> qpns{};  // destinations, in turn
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

// Linux gives a message to one socket as a whole: the first packet decides which.
TEST(PacketSet, PacketsForSeveralProcessesAtOneAddressShareNoMessage) {
  ManyPorts machine;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets(machine, {}, epoll, -1);
  machine.next = 20000;
  machine.last = 20000 + asio_driver::PacketSet::senders_max;
  sockets.drain({});
  ASSERT_FALSE(machine.failed);
  machine.qpns = {0x010001, 0x010002, 0x020001, 0x020002, PARLEY_IB_GSI_QPN, PARLEY_IB_GSI_QPN, 2, 3};
  machine.way = machine.qpns.size() - 1;
  machine.last += 8;
  std::vector<std::uint16_t> places;  // of each packet in its message
  sockets.set_tap([&places](const PacketTapRecord& record) { places.push_back(record.identification); });
  sockets.drain({});
  EXPECT_EQ(places, (std::vector<std::uint16_t>{0, 1, 0, 1, 0, 0, 0, 1}));
  ::close(epoll);
}

/// A set of sockets that has one address, and a plain socket at another one that receives what the set sends.
struct Sending : testing::Test {
  Asker asker;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  asio_driver::PacketSet sockets{asker, {}, epoll, -1};
  const Address here = own_address(1, 0), there = own_address(2, PARLEY_ROCE_UDP_PORT);
  int receiver = -1;

  void SetUp() override {
    std::error_code why;
    receiver = asio_driver::packet_socket(there, PARLEY_ROCE_UDP_PORT, {}, why);
    ASSERT_GE(receiver, 0) << why.message();
    const int on = 1;
    ASSERT_EQ(::setsockopt(receiver, IPPROTO_IP, IP_RECVTTL, &on, sizeof on), 0);
    asker.asks.push_back({.id = 1, .local = here, .peer = Address::any(Address::Family::v4, 0)});
    sockets.drain({});
    ASSERT_EQ(asker.bound.size(), 1U);
  }
  ~Sending() override {
    ::close(receiver);
    ::close(epoll);
  }
  /// The TTL with which the packet arrives; -1: it does not.
  int ttl_of(const PacketPath& path) {
    asker.paths.push_back(path);
    sockets.drain({});
    std::array<std::uint8_t, 64> octets{};
    alignas(cmsghdr) std::array<std::uint8_t, 64> control{};
    iovec piece{octets.data(), octets.size()};
    msghdr header{};
    header.msg_iov = &piece;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    if (::recvmsg(receiver, &header, MSG_DONTWAIT) <= 0) return -1;
    for (cmsghdr* at = CMSG_FIRSTHDR(&header); at != nullptr; at = CMSG_NXTHDR(&header, at)) {
      int ttl = 0;
      std::memcpy(&ttl, CMSG_DATA(at), sizeof ttl);
      if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TTL) return ttl;
    }
    return -1;
  }
  PacketPath path(std::uint8_t hop_limit) const {
    PacketPath out;
    out.local = here;
    out.peer = there;
    out.hop_limit = hop_limit;
    return out;
  }
};

TEST_F(Sending, APacketHasItsPathsHopLimit) {
  EXPECT_EQ(ttl_of(path(64)), 64);
  EXPECT_EQ(ttl_of(path(3)), 3);
  EXPECT_EQ(ttl_of(path(255)), 255);
}

// The answer to what was just sent cannot have arrived yet.
TEST_F(Sending, ATurnThatSendsLeavesTheSocketsToTheNextOneAndNeverTwiceInARow) {
  const std::array<std::uint8_t, 20> broken{};  // its ICRC is wrong
  Address to = here;
  to.port = PARLEY_ROCE_UDP_PORT;
  const asio_driver::SockAddr at = asio_driver::to_sockaddr(to);
  ASSERT_EQ(::sendto(receiver, broken.data(), broken.size(), 0, at.get(), at.size), 20);
  asker.paths.push_back(path(64));
  EXPECT_TRUE(sockets.turn({}));
  EXPECT_EQ(sockets.counters().bad_icrc, 0U);
  asker.paths.push_back(path(64));
  EXPECT_TRUE(sockets.turn({}));
  EXPECT_EQ(sockets.counters().bad_icrc, 1U);
}

TEST_F(Sending, AnAddressThatIsReleasedGivesBackItsUdpSourcePortsToo) {
  constexpr std::uint16_t source_port = 0xC123;
  PacketPath by_port = path(64);
  by_port.source_port = source_port;
  ASSERT_EQ(ttl_of(by_port), 64);
  std::error_code why;
  EXPECT_EQ(asio_driver::packet_socket(here, source_port, {}, why), -1);
  EXPECT_EQ(why, std::errc::address_in_use);
  asker.asks.push_back({.kind = PacketCommand::Kind::release, .id = 1});
  sockets.drain({});
  const int now_free = asio_driver::packet_socket(here, source_port, {}, why);
  EXPECT_GE(now_free, 0) << why.message();
  if (now_free >= 0) ::close(now_free);
}

}  // namespace
}  // namespace parley::packet_set_test
