// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The set of UDP sockets on its calls of the system: full buffers, errors, interfaces, options. Two functions of the C library are
// replaced in this program, so that the system can refuse to send, and have any interfaces.
#include <gtest/gtest.h>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "base/gid.hpp"
#include "drivers/asio/packet_set.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/real_function.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/drivers/packet_asker.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::packet_calls_test {

/// What the next calls of this thread do.
struct Calls {
  int sends_passed = 0;       // these succeed first
  int sends_refused = 0;      // then so many fail with EAGAIN
  ifaddrs* places = nullptr;  // not null: the interfaces
};
thread_local Calls calls;

bool is_refused() {
  if (calls.sends_refused == 0) return false;
  if (calls.sends_passed > 0) {
    --calls.sends_passed;
    return false;
  }
  --calls.sends_refused;
  errno = EAGAIN;
  return true;
}

constinit RealFunction<ssize_t(int, const void*, std::size_t, int, const sockaddr*, socklen_t)> real_sendto{"sendto"};
constinit RealFunction<int(int, mmsghdr*, unsigned, int)> real_sendmmsg{"sendmmsg"};
constinit RealFunction<int(ifaddrs**)> real_getifaddrs{"getifaddrs"};
constinit RealFunction<void(ifaddrs*)> real_freeifaddrs{"freeifaddrs"};

}  // namespace parley::packet_calls_test

extern "C" {
ssize_t sendto(int fd, const void* data, size_t size, int flags, const sockaddr* to, socklen_t to_size) {
  return parley::packet_calls_test::is_refused()
             ? -1
             : parley::packet_calls_test::real_sendto.get()(fd, data, size, flags, to, to_size);
}
int sendmmsg(int fd, mmsghdr* messages, unsigned count, int flags) {
  return parley::packet_calls_test::is_refused()
             ? -1
             : parley::packet_calls_test::real_sendmmsg.get()(fd, messages, count, flags);
}
int getifaddrs(ifaddrs** out) noexcept {
  if (parley::packet_calls_test::calls.places == nullptr) return parley::packet_calls_test::real_getifaddrs.get()(out);
  *out = parley::packet_calls_test::calls.places;
  return 0;
}
void freeifaddrs(ifaddrs* list) noexcept {
  if (list != parley::packet_calls_test::calls.places) parley::packet_calls_test::real_freeifaddrs.get()(list);
}
}

namespace parley::packet_calls_test {
namespace {

constexpr std::size_t packet_size = 28;  // BTH and RETH, without ICRC

/// Has a place for the payload of received packets.
struct Machine final : PacketAsker {
  Machine() : PacketAsker(packet_calls_test::packet_size) {}
  void handle_packet(Instant, const PacketPath&, ConstBytes) override { ++received; }
  void handle_unreachable(Instant, const PacketPath&, std::error_code) override { ++unreachable; }
  PacketPlacement place_of(const PacketPath&, std::size_t size, ConstBytes packets) override {
    const std::size_t count = memory.empty() ? 0 : packets.size() / size;
    return {.count = count, .memory = MutBytes(memory).first(count * (size - 12 - asio_driver::icrc_size))};
  }
  void handle_placed(Instant, const PacketPath&, std::size_t size, ConstBytes packets) override {
    placed += packets.size() / size;
  }

  Bytes memory;
  std::size_t received = 0, placed = 0;
  int unreachable = 0;
};

/// A set that has the address `here`, and a socket at `there`.
struct PacketCalls : testing::Test {
  Machine machine;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  RoceHostOptions options;
  asio_driver::PacketSet sockets{machine, options, epoll, -1};
  const Address here = own_address(1, 0), there = own_address(2, PARLEY_ROCE_UDP_PORT);
  int peer = -1;

  void SetUp() override {
    std::error_code why;
    peer = asio_driver::packet_socket(there, PARLEY_ROCE_UDP_PORT, {}, why);
    ASSERT_GE(peer, 0) << why.message();
    machine.asks.push_back({.id = 1, .local = here, .peer = Address::any(Address::Family::v4, 0)});
    sockets.drain({});
    ASSERT_EQ(machine.bound.size(), 1U);
  }
  ~PacketCalls() override {
    calls = {};
    ::close(peer);
    ::close(epoll);
  }
  PacketPath path(std::uint16_t source_port = 0) const {
    PacketPath out;
    out.local = here;
    out.peer = there;
    out.source_port = source_port;
    return out;
  }
  /// The number that the next descriptor gets.
  static int next_descriptor() {
    const int out = ::dup(0);
    ::close(out);
    return out;
  }
  /// A datagram of the peer's whose ICRC is wrong.
  void send_to_set() const {
    const std::array<std::uint8_t, 20> broken{};
    Address to = here;
    to.port = PARLEY_ROCE_UDP_PORT;
    const asio_driver::SockAddr at = asio_driver::to_sockaddr(to);
    ASSERT_EQ(::sendto(peer, broken.data(), broken.size(), 0, at.get(), at.size), 20);
  }
  /// Datagrams that wait at the peer.
  std::size_t arrived() const {
    std::array<std::uint8_t, 2048> octets;
    std::size_t out = 0;
    while (::recv(peer, octets.data(), octets.size(), MSG_DONTWAIT) > 0) ++out;
    return out;
  }
};

// The system reports by EPOLLOUT that it accepts packets again, and not by any other event.
TEST_F(PacketCalls, PacketsThatTheSystemRefusesLeaveWhenItAcceptsThem) {
  calls.sends_refused = 1;
  machine.paths.push_back(path());
  sockets.drain({});
  EXPECT_TRUE(sockets.blocked());
  EXPECT_EQ(arrived(), 0U);
  EXPECT_TRUE(sockets.serve({}));
  EXPECT_FALSE(sockets.blocked());
  EXPECT_EQ(arrived(), 1U);
  EXPECT_EQ(sockets.counters().sent, 1U);
  EXPECT_EQ(sockets.counters().unsent, 0U);
}

// The receiving socket has no packet that waits: its input says nothing about the blocked one.
TEST_F(PacketCalls, InputOfAnotherSocketLetsNothingLeave) {
  calls.sends_refused = 1;
  machine.paths.push_back(path(0xC234));
  const int sender = next_descriptor();
  sockets.drain({});
  ASSERT_TRUE(sockets.blocked());
  epoll_event none{};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_DEL, sender, &none), 0) << "the sender's socket is the last that was opened";
  send_to_set();
  EXPECT_TRUE(sockets.serve({}));
  EXPECT_EQ(sockets.counters().bad_icrc, 1U);
  EXPECT_TRUE(sockets.blocked());
  EXPECT_EQ(arrived(), 0U);
}

// A packet that the system had not accepted is lost with its socket; those that left before it are not counted again.
TEST_F(PacketCalls, PacketsThatWaitForAReleasedAddressAreCountedAsUnsent) {
  constexpr std::uint16_t source_port = 0xC235;
  calls.sends_passed = 1;
  calls.sends_refused = 1 << 20;
  for (int i = 0; i < 3; ++i) machine.paths.push_back(path(source_port));
  for (int i = 0; i < 2; ++i) machine.paths.push_back(path());
  sockets.drain({});
  ASSERT_TRUE(sockets.blocked());
  EXPECT_EQ(sockets.counters().sent, 3U);
  machine.asks.push_back({.kind = PacketCommand::Kind::release, .id = 1});
  sockets.drain({});
  EXPECT_FALSE(sockets.blocked());
  EXPECT_EQ(sockets.counters().sent, 3U);
  EXPECT_EQ(sockets.counters().unsent, 2U);
}

// A second packet is part of the first one's message, if the system can segment. The tap sees both as they were sent.
TEST_F(PacketCalls, TheTapSeesPacketsWhosePayloadIsPlacedAtOnce) {
  constexpr std::size_t count = 3, size = 12 + 64 + asio_driver::icrc_size;
  machine.memory.resize(4096);
  std::size_t seen = 0;
  sockets.set_tap([&](const PacketTapRecord& record) { seen += !record.sent && record.octets.size() == size; });
  Bytes octets(count * size, 0x5A);
  wire::ib::RoceHeader header;
  header.source = gid_of(there);
  header.destination = gid_of(here);
  header.source_port = PARLEY_ROCE_UDP_PORT;
  for (std::size_t n = 0; n < count; ++n) {
    header.identification = static_cast<std::uint16_t>(n);
    wire::ib::seal(header, MutBytes(octets).subspan(n * size, size));
  }
  Address to = here;
  to.port = PARLEY_ROCE_UDP_PORT;
  asio_driver::SockAddr at = asio_driver::to_sockaddr(to);
  iovec piece{octets.data(), octets.size()};
  alignas(cmsghdr) std::array<std::uint8_t, CMSG_SPACE(sizeof(std::uint16_t))> control{};
  msghdr message{};
  message.msg_name = at.get();
  message.msg_namelen = at.size;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const segment = CMSG_FIRSTHDR(&message);
  segment->cmsg_level = IPPROTO_UDP;
  segment->cmsg_type = UDP_SEGMENT;
  segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
  const std::uint16_t each = size;
  std::memcpy(CMSG_DATA(segment), &each, sizeof each);
  ASSERT_GT(::sendmsg(peer, &message, 0), 0) << std::strerror(errno);
  EXPECT_TRUE(sockets.serve({}));
  EXPECT_EQ(machine.placed + machine.received, count);
  EXPECT_GT(machine.placed, 0U);
  EXPECT_EQ(seen, count);
}

// An ICMP error of a socket whose receive buffer is full is not queued: it only makes the next call fail.
TEST_F(PacketCalls, AnErrorWithoutRoomInTheQueueCostsNoReceivedPacket) {
  std::error_code why;
  RoceHostOptions small;
  small.socket_buffer = 1;  // the least that the system gives
  Machine other;
  asio_driver::PacketSet set(other, small, epoll, -1);
  const Address local = own_address(3, 0);
  other.asks.push_back({.id = 1, .local = local, .peer = Address::any(Address::Family::v4, 0)});
  set.drain({});
  ASSERT_EQ(other.bound.size(), 1U);
  const std::array<std::uint8_t, 20> broken{};
  Address to = local;
  to.port = PARLEY_ROCE_UDP_PORT;
  const asio_driver::SockAddr at = asio_driver::to_sockaddr(to);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(::sendto(peer, broken.data(), broken.size(), 0, at.get(), at.size), 20);
  PacketPath closed;
  closed.local = local;
  closed.peer = own_address(4, 0);  // a closed port of this host
  other.paths.push_back(closed);
  set.drain({});
  EXPECT_TRUE(set.serve({}));
  EXPECT_EQ(other.unreachable, 0) << "the error found room";
  EXPECT_GT(set.counters().bad_icrc, 0U);
}

TEST(PacketSocket, ASocketOfAnAddressReceivesCoalescedPacketsIfThatIsWanted) {
  for (const bool offload : {true, false}) {
    std::error_code why;
    const int fd = asio_driver::packet_socket(own_address(5, 0), PARLEY_ROCE_UDP_PORT, {.offload = offload}, why);
    ASSERT_GE(fd, 0) << why.message();
    int value = -1;
    socklen_t size = sizeof value;
    EXPECT_EQ(::getsockopt(fd, IPPROTO_UDP, UDP_GRO, &value, &size), 0);
    EXPECT_EQ(value, offload ? 1 : 0);
    ::close(fd);
  }
}

TEST(PacketSocket, AnAddressIsOfItsInterface) {
  const std::uint32_t loopback = ::if_nametoindex("lo");
  EXPECT_EQ(asio_driver::interface_of(Address::v4(127, 0, 0, 1, 0)), loopback);
  EXPECT_EQ(asio_driver::interface_of(Address::v4(192, 0, 2, 77, 0)), 0U);
}

TEST(PacketSocket, InterfacesAreThoseThatAreUpWithTheirWholeAddress) {
  std::array<char, 3> name{'l', 'o', '\0'};
  sockaddr_in v4{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(0xC0000201)}, .sin_zero = {}};
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  for (std::size_t i = 0; i < 16; ++i) v6.sin6_addr.s6_addr[i] = static_cast<std::uint8_t>(0x20 + i);
  std::array<ifaddrs, 5> list{};
  for (std::size_t i = 0; i < list.size(); ++i) {
    list[i].ifa_next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    list[i].ifa_name = name.data();
    list[i].ifa_flags = i < 3 ? IFF_UP : 0;
  }
  list[0].ifa_addr = nullptr;  // as of an interface without addresses
  list[1].ifa_addr = list[3].ifa_addr = reinterpret_cast<sockaddr*>(&v4);
  list[2].ifa_addr = list[4].ifa_addr = reinterpret_cast<sockaddr*>(&v6);
  calls.places = list.data();
  const auto of_v4 = asio_driver::interface_addresses(Address::Family::v4);
  const auto of_v6 = asio_driver::interface_addresses(Address::Family::v6);
  calls = {};
  ASSERT_EQ(of_v4.size(), 1U);
  EXPECT_EQ(of_v4[0].address, Address::v4(192, 0, 2, 1, 0));
  ASSERT_EQ(of_v6.size(), 1U);
  EXPECT_TRUE(std::equal(of_v6[0].address.octets.begin(), of_v6[0].address.octets.end(), v6.sin6_addr.s6_addr));
  EXPECT_EQ(of_v6[0].interface, ::if_nametoindex("lo"));
}

// A program may have closed its standard input: the socket then has descriptor 0.
TEST(PacketSocket, DescriptorZeroIsOneLikeTheOthers) {
  const int input = ::dup(0);
  Machine machine;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  {
    asio_driver::PacketSet sockets(machine, {}, epoll, -1);
    ::close(0);
    machine.asks.push_back(
        {.id = 1, .local = Address::any(Address::Family::v4, 0), .peer = Address::v4(127, 0, 0, 1, 0)});
    sockets.drain({});
    ASSERT_EQ(machine.bound.size(), 1U) << machine.failed.message();
    asio_driver::SockAddr at;
    at.size = sizeof at.storage;
    ASSERT_EQ(::getsockname(0, at.get(), &at.size), 0);
    Address local = asio_driver::from_sockaddr(at);
    EXPECT_EQ(local.port, PARLEY_ROCE_UDP_PORT);
    local.port = 0;
    EXPECT_EQ(local, machine.bound.front()) << "it opened another one and left this";
  }
  if (input >= 0) {
    ::dup2(input, 0);
    ::close(input);
  }
  ::close(epoll);
}

// Three reasons of a port in use, each with its own way out; with the kernel's rxe there is one.
TEST(PacketSocket, WhoHasThePortDecidesWhatAnErrorProposes) {
  const Address all = Address::any(Address::Family::v4, 0), one = Address::v4(192, 0, 2, 1, 0);
  const auto said = [](const Address& local, bool of_all) {
    return asio_driver::port_in_use(local, of_all).sentence();
  };
  const bool rxe = said(one, true).find("rxe") != std::string::npos;
  EXPECT_EQ(said(all, true), said(all, false)) << "an own socket for all addresses cannot be beside another one";
  EXPECT_EQ(said(one, true) == said(one, false), rxe);
}

}  // namespace
}  // namespace parley::packet_calls_test
