// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCE over real UDP sockets on loopback: addresses, ports, the ICRC as the system's headers make it, offload.
#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <system_error>

#include "base/gid.hpp"
#include "drivers/asio/packet_socket.hpp"
#include "drivers/clock.hpp"
#include "parley/host.hpp"
#include "parley/roce.hpp"
#include "parley/roce_host.hpp"
#include "tests/unit/drivers/own_address.hpp"
#include "tests/unit/hang_limit.hpp"
#include "tests/unit/printing.hpp"
#include "tests/unit/verbs_kit.hpp"
#include "wire/ib/sealer.hpp"

namespace parley::roce_host_test {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t port = 7174;
Address own_address(unsigned n) { return parley::own_address(n, port); }

/// Two hosts on one thread, until something comes true; bounded by ten seconds of a busy machine.
struct Two {
  explicit Two(const RoceHostOptions& options = {})
      : server(std::move(*RoceHost::open(options))), client(std::move(*RoceHost::open(options))) {}
  bool run_until(const std::function<bool()>& done) {
    const Instant end = clock_now() + hang_limit;
    while (!done()) {
      if (clock_now() > end) return false;
      server->run_once({});
      while (auto event = server->cm().poll_event()) server_events.push_back(std::move(*event));
      client->run_once(1ms);
      while (auto event = client->cm().poll_event()) client_events.push_back(std::move(*event));
    }
    return true;
  }
  template <class E>
  static E* last(std::vector<cm::Event>& events) {
    E* out = nullptr;
    for (cm::Event& e : events)
      if (E* found = std::get_if<E>(&e)) out = found;
    return out;
  }
  template <class E>
  E* at_client() {
    return last<E>(client_events);
  }
  template <class E>
  E* at_server() {
    return last<E>(server_events);
  }
  std::unique_ptr<RoceHost> server, client;
  std::vector<cm::Event> server_events, client_events;
};

void carries_data(Two& two, const Address& listener) {
  ASSERT_TRUE(two.server->cm().listen(listener));
  ASSERT_TRUE(two.run_until([&] { return !two.server_events.empty(); }));
  ASSERT_NE(two.at_server<cm::Listening>(), nullptr) << two.at_server<cm::ConnectFailed>()->why.to_string();
  Verbs a(two.server->device(), 1 << 20), b(two.client->device(), 1 << 20);
  Address peer = listener;
  if (peer.is_any()) peer = Address::loopback(peer.family, port);
  cm::ConnectOptions options;
  options.qp = b.qp();
  const auto id = two.client->cm().connect(peer, options);
  ASSERT_TRUE(id) << id.error().message();
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::ConnectRequest>() != nullptr; }));
  cm::Id accepted = two.at_server<cm::ConnectRequest>()->id;
  ASSERT_TRUE(accepted.create_qp(a.qp()));
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(a.recv(*accepted.qp(), i * 200'000, 200'000, i));
  ASSERT_TRUE(accepted.accept());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Established>() && two.at_server<cm::Established>(); }));
  for (std::size_t i = 0; i < b.memory.size(); ++i) b.memory[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(b.send(*id->qp(), i * 200'000, 200'000 - i, i));
  ASSERT_TRUE(two.run_until([&] { return b.count(WcOpcode::send) == 4 && a.count(WcOpcode::recv) == 4; }));
  for (std::ptrdiff_t i = 0; i < 4; ++i)
    EXPECT_TRUE(std::equal(a.memory.begin() + i * 200'000, a.memory.begin() + (i + 1) * 200'000 - i,
                           b.memory.begin() + i * 200'000));
  // A Write to where the first Send went, and a Read of it to the end of the own memory.
  const Sge written = b.at(300'000, 199'001), read = b.at(800'000, 199'001);
  ASSERT_TRUE(id->qp()->post_send(
      {.opcode = SendWr::Opcode::rdma_write, .sges = {&written, 1}, .remote_addr = a.mr.addr, .rkey = a.mr.rkey}));
  ASSERT_TRUE(id->qp()->post_send(
      {.opcode = SendWr::Opcode::rdma_read, .sges = {&read, 1}, .remote_addr = a.mr.addr, .rkey = a.mr.rkey}));
  ASSERT_TRUE(two.run_until([&] { return b.saw(WcOpcode::rdma_write) && b.saw(WcOpcode::rdma_read); }));
  for (const std::ptrdiff_t in : {0, 800'000})
    EXPECT_TRUE(
        std::equal(b.memory.begin() + 300'000, b.memory.begin() + 499'001, (in == 0 ? a : b).memory.begin() + in));
  EXPECT_EQ(two.server->counters().bad_icrc, 0u);
  EXPECT_EQ(two.client->counters().bad_icrc, 0u);
  ASSERT_TRUE(cm::Id(*id).disconnect());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Disconnected>() && two.at_server<cm::Disconnected>(); }));
  EXPECT_TRUE(two.at_client<cm::Disconnected>()->graceful) << two.at_client<cm::Disconnected>()->why.to_string();
}

TEST(RoceHost, CarriesDataBetweenTwoAddressesOfOneHost) {
  Two two;
  carries_data(two, own_address(1));
}

TEST(RoceHost, CarriesDataWithoutOffload) {
  Two two({.offload = false});
  carries_data(two, own_address(1));
}

/// A connection of the client's to the listener at `at`, up on both sides.
struct Link {
  Link(Two& two, const Address& at, Verbs& server_verbs, Verbs& client_verbs) {
    const std::size_t before = two.server_events.size() + two.client_events.size();
    cm::ConnectOptions options;
    options.qp = client_verbs.qp();
    client = *two.client->cm().connect(at, options);
    two.run_until([&] { return two.server_events.size() + two.client_events.size() > before; });
    server = two.at_server<cm::ConnectRequest>()->id;
    EXPECT_TRUE(server.create_qp(server_verbs.qp()));
    EXPECT_TRUE(server.accept());
    EXPECT_TRUE(
        two.run_until([&] { return client.qp()->state() == QpState::rts && server.qp()->state() == QpState::rts; }));
  }
  cm::Id client, server;
};

TEST(RoceHost, RejectsAndMessagesAreCountedWhereTheyWereSentAndReceived) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(1)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  Verbs b(two.client->device(), 64);
  cm::ConnectOptions options;
  options.qp = b.qp();
  ASSERT_TRUE(two.client->cm().connect(own_address(1), options));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::ConnectRequest>() != nullptr; }));
  ASSERT_TRUE(cm::Id(two.at_server<cm::ConnectRequest>()->id).reject());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Rejected>() != nullptr; }));
  // Sent and received, of those that were at all.
  using Counts = std::map<std::string, std::pair<std::uint64_t, std::uint64_t>>;
  const auto rejects = [](const RoceHost& host) {
    Counts out;
    for (const RoceRejects& each : host.rejects())
      if (each.sent + each.received != 0) out[std::string(each.reason)] = {each.sent, each.received};
    return out;
  };
  const auto count = [](const RoceHost& host, std::string_view type) {
    for (const RoceMessages& each : host.messages())
      if (each.type == type) return std::pair(each.sent - each.resent, each.received);
    return std::pair<std::uint64_t, std::uint64_t>();
  };
  EXPECT_EQ(rejects(*two.server), (Counts{{"consumer_reject", {1, 0}}}));
  EXPECT_EQ(rejects(*two.client), (Counts{{"consumer_reject", {0, 1}}}));
  EXPECT_EQ(count(*two.server, "ib_rej"), (std::pair<std::uint64_t, std::uint64_t>(1, 0)));
  EXPECT_EQ(count(*two.client, "ib_rej"), (std::pair<std::uint64_t, std::uint64_t>(0, 1)));
  EXPECT_EQ(count(*two.client, "ib_req").first, 1U);
  EXPECT_GE(count(*two.server, "ib_req").second, 1U);
}

// More flows than a host keeps the ICRC's share of, whose packets leave in turn.
TEST(RoceHost, CarriesDataOfManyConnectionsAtOnce) {
  constexpr std::size_t links = 24, size = 4000;
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(1)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  Verbs a(two.server->device(), links * size), b(two.client->device(), links * size);
  std::vector<Link> all;
  for (std::size_t i = 0; i < links; ++i) all.emplace_back(two, own_address(1), a, b);
  for (std::size_t i = 0; i < b.memory.size(); ++i) b.memory[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
  for (std::size_t i = 0; i < links; ++i) {
    ASSERT_TRUE(a.recv(*all[i].server.qp(), i * size, size));
    ASSERT_TRUE(b.send(*all[i].client.qp(), i * size, size - i));
  }
  ASSERT_TRUE(two.run_until([&] { return b.count(WcOpcode::send) == links && a.count(WcOpcode::recv) == links; }));
  for (std::size_t i = 0; i < links; ++i) {
    const auto at = static_cast<std::ptrdiff_t>(i * size), end = at + static_cast<std::ptrdiff_t>(size - i);
    EXPECT_TRUE(std::equal(a.memory.begin() + at, a.memory.begin() + end, b.memory.begin() + at)) << i;
  }
  EXPECT_EQ(two.server->counters().bad_icrc + two.client->counters().bad_icrc, 0u);
}

/// Packets that leave in the turn which receives a Send, and in the next, for which the program has posted an answer.
std::pair<std::uint64_t, std::uint64_t> sent_for_an_answer(Duration ack_delay) {
  RoceHostOptions options;
  options.roce.ack_delay = ack_delay;
  Two two(options);
  EXPECT_TRUE(two.server->cm().listen(own_address(1)));
  EXPECT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  Verbs a(two.server->device()), b(two.client->device());
  Link link(two, own_address(1), a, b);
  EXPECT_TRUE(a.recv(*link.server.qp(), 0, 64));
  EXPECT_TRUE(b.recv(*link.client.qp(), 0, 64));
  EXPECT_TRUE(b.send(*link.client.qp(), 1000, 64));
  std::uint64_t before = 0;
  const Instant end = clock_now() + hang_limit;
  while (!a.saw(WcOpcode::recv) && clock_now() < end) {
    two.client->run_once({});
    before = two.server->counters().sent;
    two.server->run_once({});
  }
  const std::uint64_t received = two.server->counters().sent;
  EXPECT_TRUE(a.send(*link.server.qp(), 1000, 64));
  two.server->run_once({});
  const std::uint64_t answered = two.server->counters().sent;
  EXPECT_TRUE(two.run_until([&] { return b.saw(WcOpcode::recv) && b.saw(WcOpcode::send) && a.saw(WcOpcode::send); }));
  return {received - before, answered - received};
}

TEST(RoceHost, AcknowledgementsLeaveAtOnceOrLater) {
  EXPECT_EQ(sent_for_an_answer({}), std::pair(std::uint64_t{1}, std::uint64_t{1}));
  EXPECT_EQ(sent_for_an_answer(10ms), std::pair(std::uint64_t{0}, std::uint64_t{1}));
}

// The second finds the port of its first choice taken, and takes another loopback address by itself.
TEST(RoceHost, AClientOnTheSameHostTakesAnotherLoopbackAddress) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(1)));
  Two other;
  cm::ConnectOptions options;
  options.local = own_address(1);
  options.local->port = 0;
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  ASSERT_TRUE(two.client->cm().connect(own_address(1), options));  // who names an address gets that or an error
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::ConnectFailed>() != nullptr; }));
  const cm::Failure& why = two.at_client<cm::ConnectFailed>()->why;
  EXPECT_EQ(why.code, Errc::address_in_use);
  EXPECT_NE(why.received.find("take another of 127.0.0.0/8"), std::string::npos) << why.received;
}

// What lets a client of this host stand beside a listener for all addresses; with a port of its own, since tests run beside
// each other.
TEST(RoceHost, ASocketForAllAddressesLetsOneOfTheSameUserStandBesideIt) {
  std::error_code why;
  using asio_driver::Sharing;
  const auto socket = [&why](const Address& local, std::uint16_t number, Sharing sharing) {
    return asio_driver::packet_socket(local, number, {}, why, sharing);
  };
  const int all = socket(Address::any(Address::Family::v4, 0), 0, Sharing::none);
  ASSERT_GE(all, 0) << why.message();
  sockaddr_in name{};
  socklen_t size = sizeof name;
  ASSERT_EQ(::getsockname(all, reinterpret_cast<sockaddr*>(&name), &size), 0);
  const std::uint16_t number = ntohs(name.sin_port);
  const Address any = Address::any(Address::Family::v4, 0), one = own_address(3), other = own_address(4);
  EXPECT_EQ(socket(one, number, Sharing::none), -1) << "who does not ask for it";
  EXPECT_EQ(socket(any, number, Sharing::none), -1) << "a second one for all addresses";
  const int first = socket(one, number, Sharing::beside_all), second = socket(other, number, Sharing::beside_all);
  EXPECT_GE(first, 0) << why.message();
  EXPECT_GE(second, 0) << why.message();
  EXPECT_EQ(socket(one, number, Sharing::beside_all), -1) << "a second one for its address";
  EXPECT_EQ(socket(one, number, Sharing::none), -1);
  const auto send = [](int from, const Address& to, std::uint16_t port) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(port);
    std::copy(to.octets.begin(), to.octets.begin() + 4, reinterpret_cast<std::uint8_t*>(&there.sin_addr));
    EXPECT_EQ(::sendto(from, "x", 1, 0, reinterpret_cast<const sockaddr*>(&there), sizeof there), 1);
  };
  const auto received = [](int fd) {
    char octet = 0;
    return ::recv(fd, &octet, 1, MSG_DONTWAIT) == 1;
  };
  send(first, Address::loopback(Address::Family::v4, 0), number);
  EXPECT_TRUE(received(all));
  send(all, one, number);
  EXPECT_TRUE(received(first));
  EXPECT_FALSE(received(all));
  for (const int fd : {all, first, second}) ::close(fd);
}

TEST(RoceHost, AListenerWhosePortIsTakenSaysWhatToDo) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(2)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  ASSERT_TRUE(two.client->cm().listen(own_address(2)));
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(two.at_client<cm::ConnectFailed>()->why.code, Errc::address_in_use);
}

// ICMP tells at once; nobody waits for a time-out.
TEST(RoceHost, AHostWithoutRoceIsToldAtOnce) {
  Two two;
  ASSERT_TRUE(two.client->cm().connect(own_address(3)));
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(two.at_client<cm::ConnectFailed>()->why.code, Errc::refused);
}

/// A plain UDP socket beside the host's.
struct Plain {
  explicit Plain(Address at) : fd(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in in = address(at);
    EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&in), sizeof in), 0);
  }
  ~Plain() { ::close(fd); }
  static sockaddr_in address(const Address& at) {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(at.port);
    std::copy_n(at.octets.begin(), 4, reinterpret_cast<std::uint8_t*>(&in.sin_addr));
    return in;
  }
  void send(Address to, const Bytes& octets) {
    sockaddr_in in = address(to);
    EXPECT_EQ(::sendto(fd, octets.data(), octets.size(), 0, reinterpret_cast<sockaddr*>(&in), sizeof in),
              std::ssize(octets));
  }
  int fd;
};

TEST(RoceHost, DropsAndCountsWhatIsDamagedOrTooShort) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(4)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  Address from = own_address(5), to = own_address(4);
  from.port = 50000;
  to.port = PARLEY_ROCE_UDP_PORT;
  Plain plain(from);
  Bytes packet(40, 0x64);
  wire::ib::RoceHeader header;
  header.source = gid_of(from);
  header.destination = gid_of(to);
  header.source_port = from.port;
  wire::ib::seal(header, packet);
  packet[20] ^= 1;
  plain.send(to, packet);
  plain.send(to, Bytes(15));
  plain.send(to, {});
  ASSERT_TRUE(two.run_until([&] { return two.server->counters().bad_icrc + two.server->counters().too_short == 3; }));
  EXPECT_EQ(two.server->counters().bad_icrc, 1u);
}

TEST(RoceHost, TheTapSeesPacketsWithTheIcrcOfTheWire) {
  Two two;
  std::size_t sent = 0, received = 0, right = 0;
  two.client->set_tap([&](const PacketTapRecord& record) {
    ++(record.sent ? sent : received);
    wire::ib::RoceHeader header;
    header.source = gid_of(record.sent ? record.local : record.peer);
    header.destination = gid_of(record.sent ? record.peer : record.local);
    header.source_port = record.source_port;
    header.identification = record.identification;
    if (record.sent ? wire::ib::is_sealed(header, record.octets)
                    : wire::ib::IcrcSealer(header).identification_of(0, record.octets))
      ++right;
  });
  carries_data(two, own_address(6));
  EXPECT_GT(sent, 700u);
  EXPECT_GT(received, 5u);
  EXPECT_EQ(right, sent + received);
}

// A listener for all addresses, which another process's address stands in the way of, takes nothing from what is there.
TEST(RoceHost, AListenerThatCannotBeLeavesConnectionsAlone) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(1)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  const auto id = two.client->cm().connect(own_address(1));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::ConnectRequest>() != nullptr; }));
  ASSERT_TRUE(two.at_server<cm::ConnectRequest>()->id.accept());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Established>() && two.at_server<cm::Established>(); }));
  ASSERT_TRUE(two.server->cm().listen(Address::any(Address::Family::v4, port)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::ConnectFailed>() != nullptr; }));
  EXPECT_EQ(two.at_server<cm::ConnectFailed>()->why.code, Errc::address_in_use);
  ASSERT_TRUE(cm::Id(*id).disconnect());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Disconnected>() && two.at_server<cm::Disconnected>(); }));
  EXPECT_TRUE(two.at_client<cm::Disconnected>()->graceful);
}

// destroy() of the only connection of an address: its peer hears of it.
TEST(RoceHost, DestroyTellsThePeer) {
  Two two;
  ASSERT_TRUE(two.server->cm().listen(own_address(1)));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::Listening>() != nullptr; }));
  auto id = two.client->cm().connect(own_address(1));
  ASSERT_TRUE(two.run_until([&] { return two.at_server<cm::ConnectRequest>() != nullptr; }));
  ASSERT_TRUE(two.at_server<cm::ConnectRequest>()->id.accept());
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Established>() && two.at_server<cm::Established>(); }));
  id->destroy();
  EXPECT_TRUE(two.run_until([&] { return two.at_server<cm::Disconnected>() != nullptr; }));
}

/// A group of this process alone.
Gid own_group() {
  Address out = own_address(1);
  out.octets[0] = 239;
  return gid_of(out);
}

/// A UD queue pair of a host, ready to send and to receive 64 octets behind 40 of network header.
struct Member {
  explicit Member(Device& device) : verbs(device) {
    QpInit init = verbs.qp();
    init.type = QpType::ud;
    qp = std::move(*device.create_qp(init));
    EXPECT_TRUE(qp->modify({.state = QpState::init, .pkey_index = 0, .port_num = 1, .qkey = 0x11111111}));
    EXPECT_TRUE(qp->modify({.state = QpState::rtr}));
    EXPECT_TRUE(qp->modify({.state = QpState::rts, .sq_psn = 0}));
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(verbs.recv(*qp, i * 128, 104, i));
  }
  Result<void> attach() { return roce::queue_pair(qp.get())->attach_multicast(own_group()); }
  Result<void> detach() { return roce::queue_pair(qp.get())->detach_multicast(own_group()); }
  void send() {
    if (!ah) ah = std::move(*verbs.device.create_ah(verbs.pd, {.grh = GlobalRoute{.dgid = own_group()}}));
    const Sge sge = verbs.at(4096, 64);
    EXPECT_TRUE(qp->post_send({.opcode = SendWr::Opcode::send,
                               .sges = {&sge, 1},
                               .ah = ah.get(),
                               .remote_qp_num = PARLEY_IB_QPN_MULTICAST,
                               .remote_qkey = 0x11111111}));
  }
  std::size_t received() { return verbs.count(WcOpcode::recv); }
  Verbs verbs;
  std::unique_ptr<AddressHandle> ah;
  std::unique_ptr<QueuePair> qp;
};

/// Two hosts, connected so that the client has an address to send from, and a third one that listens.
struct Three : Two {
  Three() {
    third = std::move(*RoceHost::open());
    EXPECT_TRUE(server->cm().listen(own_address(1)));
    EXPECT_TRUE(third->cm().listen(own_address(2)));
    EXPECT_TRUE(run_until([&] { return at_server<cm::Listening>() != nullptr && third->cm().poll_event(); }));
    a = std::make_unique<Verbs>(server->device());
    b = std::make_unique<Verbs>(client->device());
    link = std::make_unique<Link>(*this, own_address(1), *a, *b);
  }
  bool run_until(const std::function<bool()>& done) {
    return Two::run_until([&] {
      third->run_once({});
      return done();
    });
  }
  /// Long enough for what would come to have come.
  void run_on() {
    for (int turn = 0; turn < 20; ++turn) {
      server->run_once({});
      third->run_once({});
      client->run_once(1ms);
    }
  }
  std::unique_ptr<RoceHost> third;
  std::unique_ptr<Verbs> a, b;
  std::unique_ptr<Link> link;
};

// The hosts are on one machine: each member gets one copy, the sender's own host too, and who left or never came none.
TEST(RoceHost, ADatagramToAGroupReachesEachMemberOnce) {
  Three hosts;
  Member first(hosts.server->device()), beside(hosts.server->device()), other(hosts.third->device());
  Member sender(hosts.client->device());
  for (Member* member : {&first, &beside, &other}) {
    const auto attached = member->attach();
    ASSERT_TRUE(attached) << attached.error().sentence() << attached.error().message();
  }
  for (std::size_t i = 0; i < 64; ++i) sender.verbs.memory[4096 + i] = static_cast<std::uint8_t>(i + 1);
  sender.send();
  ASSERT_TRUE(hosts.run_until([&] {
    return first.received() + beside.received() + other.received() >= 3 && sender.verbs.saw(WcOpcode::send);
  }));
  hosts.run_on();
  for (Member* member : {&first, &beside, &other}) {
    EXPECT_EQ(member->received(), 1U);
    EXPECT_TRUE(std::equal(member->verbs.memory.begin() + 40, member->verbs.memory.begin() + 104,
                           sender.verbs.memory.begin() + 4096));
  }
  EXPECT_EQ(sender.received(), 0U);
  EXPECT_EQ(hosts.server->counters().bad_icrc + hosts.third->counters().bad_icrc, 0U);

  ASSERT_TRUE(first.detach());  // its host stays in the group for the other
  ASSERT_TRUE(sender.attach());
  sender.send();
  ASSERT_TRUE(hosts.run_until([&] { return beside.received() + other.received() + sender.received() >= 5; }));
  hosts.run_on();
  EXPECT_EQ(first.received(), 1U);
  EXPECT_EQ(beside.received(), 2U);
  EXPECT_EQ(other.received(), 2U);
  EXPECT_EQ(sender.received(), 1U);

  beside.qp.reset();  // the last of its host
  const std::uint64_t before = hosts.server->counters().received;
  sender.send();
  ASSERT_TRUE(hosts.run_until([&] { return other.received() == 3 && sender.received() == 2; }));
  hosts.run_on();
  EXPECT_EQ(hosts.server->counters().received, before) << "its host is still in the group";
}

// The group's socket gives way to a listener for all addresses, which cannot be, and is there again.
TEST(RoceHost, AGroupStaysJoinedWhereAListenerForAllAddressesCannotBe) {
  Three hosts;
  Member member(hosts.server->device()), sender(hosts.client->device());
  ASSERT_TRUE(member.attach());
  const std::size_t before = hosts.server_events.size();
  ASSERT_TRUE(hosts.server->cm().listen(Address::any(Address::Family::v4, port)));
  ASSERT_TRUE(hosts.run_until([&] { return hosts.server_events.size() > before; }));
  ASSERT_NE(hosts.at_server<cm::ConnectFailed>(), nullptr);
  sender.send();
  ASSERT_TRUE(hosts.run_until([&] { return member.received() > 0; }));
  hosts.run_on();
  EXPECT_EQ(member.received(), 1U);
  EXPECT_EQ(hosts.server->counters().groups_not_joined, 0U);
}

TEST(RoceHost, AGroupThatCannotBeJoinedIsRefused) {
  Two two;
  Member member(two.client->device());
  EXPECT_EQ(member.attach().error(), Errc::wrong_state) << "no address in use";
  ASSERT_TRUE(two.client->cm().listen(own_address(3)));
  ASSERT_TRUE(two.run_until([&] { return two.at_client<cm::Listening>() != nullptr; }));
  EXPECT_TRUE(member.attach());
  EXPECT_EQ(roce::queue_pair(member.qp.get())->attach_multicast({0xFF, 0x0E}).error().sentence(),
            "this host has no IPv6 address in use, on whose interface to join the group: listen or connect first");
}

// A queue pair may stay longer than its host.
TEST(RoceHost, AMemberMayOutliveItsHost) {
  auto host = std::move(*RoceHost::open());
  ASSERT_TRUE(host->cm().listen(own_address(3)));
  const Instant end = clock_now() + hang_limit;
  while (!host->cm().poll_event() && clock_now() < end) host->run_once(1ms);
  Member member(host->device());
  ASSERT_TRUE(member.attach());
  host.reset();
  EXPECT_TRUE(member.detach());
}

// Two processes that read the same sockets would take each other's packets.
TEST(RoceHost, AForkedChildMayNotDriveItsParentsHost) {
  for (const char* provider : {"iwarp", "roce"}) {
    SCOPED_TRACE(provider);
    auto server = std::move(*open_host(provider)), client = std::move(*open_host(provider));
    const auto both_until = [&](auto&& done) {
      const Instant end = clock_now() + 10s;
      for (bool over = false; !over && clock_now() < end;) {
        for (auto* host : {server.get(), client.get()}) {
          host->run_once(1ms);
          while (auto event = host->cm().poll_event()) over = done(*event) || over;
        }
      }
    };
    ASSERT_TRUE(server->cm().listen(own_address(3)));
    both_until([](cm::Event& event) { return std::holds_alternative<cm::Listening>(event); });
    ASSERT_TRUE(client->cm().connect(own_address(3)));
    int up = 0, down = 0;
    const auto count = [&](cm::Event& event) {
      if (auto* asked = std::get_if<cm::ConnectRequest>(&event)) {
        EXPECT_TRUE(asked->id.accept());
      }
      up += std::holds_alternative<cm::Established>(event);
      down += std::holds_alternative<cm::Disconnected>(event);
      return up > 0 || down > 0;
    };
    both_until(count);
    ASSERT_GT(up, 0) << "an iWARP server has yet to hear of its client";
    const pid_t child = ::fork();
    if (child == 0) {
      int code = 1;
      try {
        (void)server->run_once({});
      } catch (const std::system_error& why) {
        code = why.code() == make_error_code(Errc::wrong_state) ? 0 : 2;
      }
      server.reset();
      client.reset();
      ::_exit(code);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    for (int turns = 0; turns < 50; ++turns)
      for (auto* host : {server.get(), client.get()}) {
        host->run_once(1ms);
        while (auto event = host->cm().poll_event()) (void)count(*event);
      }
    EXPECT_EQ(down, 0) << "what the child destroyed stands in the parent";
  }
}

TEST(RoceHost, OptionsThatCannotBeAreRefused) {
  EXPECT_EQ(RoceHost::open({.roce = {.ack_timeout = 32}}).error().sentence(),
            "RoceProviderOptions::ack_timeout is 32; must be 1 to 31");
  EXPECT_EQ(RoceHost::open({.roce = {.linger = {}}}).error().sentence(),
            "RoceProviderOptions::linger is 0 ns; it is more than 0");
  EXPECT_EQ(RoceHost::open({.socket_buffer = std::size_t{2} << 30}).error(), Errc::invalid_argument);
}

}  // namespace
}  // namespace parley::roce_host_test
