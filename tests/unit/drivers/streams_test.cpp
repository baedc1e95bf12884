// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a StreamMachine asks of its sockets, seen by a plain socket at the other end. Every wait is run_once under a
// deadline.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>

#include "drivers/asio/machine_loop.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "tests/unit/hang_limit.hpp"

namespace parley::asio_driver {
namespace {

using namespace std::chrono_literals;
using Command = StreamCommand::Kind;

const Address anywhere = Address::loopback(Address::Family::v4, 0);

/// Keeps what it is told, and asks for what the test says.
struct Machine final : StreamMachine {
  void handle_listening(Instant, StreamId, const Address& local) override { listening = local; }
  void handle_listen_failed(Instant, StreamId, std::error_code why) override { failed = why; }
  void handle_connected(Instant, StreamId id, const StreamInfo& i) override {
    stream = id;
    info = i;
  }
  void handle_connect_failed(Instant, StreamId, std::error_code why) override { failed = why; }
  bool handle_accepted(Instant, StreamId, StreamId id, const StreamInfo& i) override {
    ++accepted;
    if (!takes) return false;
    stream = id;
    info = i;
    return true;
  }
  void handle_bytes(Instant, StreamId, ConstBytes in) override {
    received.insert(received.end(), in.begin(), in.end());
    if (on_bytes) on_bytes();
  }
  void handle_end(Instant, StreamId, StreamEnd how) override {
    end = how;
    if (on_end) on_end();
  }
  void handle_deadline(Instant) override {}
  bool poll_command(StreamCommand& out) override {
    if (commands.empty()) return false;
    out = commands.front();
    commands.pop_front();
    return true;
  }
  StreamId poll_ready() override { return std::exchange(ready, false) ? stream : 0; }
  std::size_t gather(StreamId, std::span<ConstBytes> out) override {
    ++gathers;
    std::size_t pieces = 0;
    for (std::size_t at = sent_octets; at < to_send.size() && pieces < out.size(); at += out[pieces++].size())
      out[pieces] = ConstBytes(to_send).subspan(at, std::min(piece_max, to_send.size() - at));
    return pieces;
  }
  void sent(Instant, StreamId, std::size_t n) override { sent_octets += n; }
  Instant next_deadline() const override { return never; }

  void ask(Command kind, StreamId id, const Address& address = {}, const Address& local = {}) {
    commands.push_back({.kind = kind, .id = id, .address = address, .local = local});
  }
  void send(Bytes octets) {
    to_send = std::move(octets);
    sent_octets = 0;
    ready = true;
  }

  std::deque<StreamCommand> commands;
  std::optional<Address> listening;
  std::optional<StreamEnd> end;
  std::error_code failed;
  StreamId stream = 0;
  StreamInfo info;
  int accepted = 0;
  bool takes = true, ready = false;
  Bytes received, to_send;
  std::size_t sent_octets = 0, gathers = 0, piece_max = SIZE_MAX;
  std::function<void()> on_bytes, on_end;
};

struct Driven {
  explicit Driven(const TcpHostOptions& options = {}) : loop(std::move(*MachineLoop::open(machine, options))) {}
  bool until(const std::function<bool()>& condition, Duration limit = hang_limit) {
    for (const Instant end = loop->now() + limit; !condition();) {
      if (loop->now() > end) return false;
      loop->run_once(1ms);
    }
    return true;
  }
  void settle() {
    for (int i = 0; i < 50 || loop->turn(); ++i) loop->turn();
  }
  Address listen(const Address& at = anywhere) {
    machine.listening.reset();
    machine.failed.clear();
    machine.ask(Command::listen, listener += 2, at);
    EXPECT_TRUE(until([&] { return machine.listening || machine.failed; }));
    return machine.listening.value_or(Address{});
  }
  Machine machine;
  StreamId listener = 101;
  std::unique_ptr<MachineLoop> loop;
};

/// A blocking socket, or one that listens.
struct Plain {
  explicit Plain(int descriptor) : fd(descriptor) {}
  Plain(Plain&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Plain() {
    if (fd >= 0) ::close(fd);
  }
  static Plain to(const Address& peer) {
    const SockAddr at = to_sockaddr(peer);
    Plain out(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(out.fd, at.get(), at.size), 0);
    return out;
  }
  static Plain listening(const Address& here = anywhere) {
    const SockAddr at = to_sockaddr(here);
    Plain out(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(out.fd, at.get(), at.size), 0);
    EXPECT_EQ(::listen(out.fd, 8), 0);
    return out;
  }
  Plain accept() const { return Plain(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC)); }
  void say(std::size_t octets, std::uint8_t value = 7) const {
    const Bytes all(octets, value);
    EXPECT_EQ(::send(fd, all.data(), all.size(), 0), static_cast<ssize_t>(all.size()));
  }
  /// What comes next, within hang_limit: octets, 0 for FIN, -1 for RST.
  ssize_t next(Bytes* into = nullptr) const {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&wait, 1, hang_milliseconds), 1);
    std::array<std::uint8_t, 65536> octets;
    const ssize_t n = ::recv(fd, octets.data(), octets.size(), 0);
    if (n > 0 && into != nullptr) into->insert(into->end(), octets.begin(), octets.begin() + n);
    return n;
  }
  bool silent() const {
    pollfd wait{.fd = fd, .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, 0) == 0;
  }
  void reset() {
    const linger now{1, 0};
    EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    ::close(std::exchange(fd, -1));
  }
  Address name(bool peer) const {
    SockAddr out;
    out.size = sizeof out.storage;
    EXPECT_EQ(peer ? ::getpeername(fd, out.get(), &out.size) : ::getsockname(fd, out.get(), &out.size), 0);
    return from_sockaddr(out);
  }
  int fd;
};

std::set<int> descriptors() {
  std::set<int> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    out.insert(std::stoi(entry.path().filename()));
  std::erase_if(out, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });  // that of the iterator itself
  return out;
}

/// Of the TCP sockets opened since `before`.
std::vector<std::string> congestion_since(const std::set<int>& before) {
  std::vector<std::string> out;
  for (const int fd : descriptors()) {
    std::array<char, 64> name{};
    socklen_t size = name.size();
    if (!before.contains(fd) && ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0)
      out.emplace_back(name.data());
  }
  return out;
}

std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istream_iterator<std::string>(file), {}};
}

TEST(DriverStreams, EverySocketHasTheCongestionControlThatIsAskedFor) {
  const auto usual = words_of("/proc/sys/net/ipv4/tcp_congestion_control").at(0);
  for (const std::string& name : words_of("/proc/sys/net/ipv4/tcp_allowed_congestion_control")) {
    for (const bool asked : {false, true}) {
      const Plain there = Plain::listening();
      Driven d({.congestion = asked ? name : std::string()});
      const std::set<int> before = descriptors();
      d.machine.ask(Command::open, 1, there.name(false));
      ASSERT_TRUE(d.until([&] { return d.machine.stream == 1; }));
      EXPECT_EQ(congestion_since(before), std::vector<std::string>{asked ? name : usual}) << "one that connects";
      EXPECT_NE(d.listen().port, 0);
      EXPECT_EQ(congestion_since(before), (std::vector<std::string>(2, asked ? name : usual))) << "a listener";
    }
  }
}

/// TCP_NODELAY of the TCP sockets opened since `before`.
std::vector<int> nodelay_since(const std::set<int>& before) {
  std::vector<int> out;
  for (const int fd : descriptors()) {
    int value = 0;
    socklen_t size = sizeof value;
    if (!before.contains(fd) && ::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &size) == 0)
      out.push_back(value != 0 ? 1 : 0);
  }
  return out;
}

// RFC 5044 §5: an FPDU must not wait for the acknowledgement of the one before it. A question that is answered each time
// needs no option for that.
TEST(DriverStreams, ASecondWriteWithoutAnAnswerTurnsNagleOff) {
  for (const bool answered : {false, true}) {
    const Plain there = Plain::listening();
    Driven d;
    const std::set<int> before = descriptors();
    d.machine.ask(Command::open, 1, there.name(false));
    ASSERT_TRUE(d.until([&] { return d.machine.stream == 1; }));
    EXPECT_EQ(nodelay_since(before), std::vector<int>{0});
    const Plain peer = there.accept();
    const auto write = [&] {
      d.machine.send(Bytes(10, 1));
      d.settle();
      EXPECT_EQ(peer.next(), 10);
      if (answered) peer.say(1);
      d.settle();
    };
    write();
    const std::set<int> and_peer = [&] {
      std::set<int> out = before;
      out.insert(peer.fd);
      return out;
    }();
    EXPECT_EQ(nodelay_since(and_peer), std::vector<int>{0});
    write();
    EXPECT_EQ(nodelay_since(and_peer), std::vector<int>{answered ? 0 : 1});
    write();
    EXPECT_EQ(nodelay_since(and_peer), std::vector<int>{1}) << "from the third on in any case";
  }
  Driven d;
  const std::set<int> before = descriptors();
  const Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.accepted == 1; }));
  std::set<int> others = before;
  others.insert(peer.fd);
  EXPECT_EQ(nodelay_since(others), (std::vector<int>{1, 1})) << "a listener, and what it accepted";
}

TEST(DriverStreams, AListenerAtEveryAddressTellsWhichOneThePeerChose) {
  for (const Address& at : {Address::any(Address::Family::v4, 0), anywhere}) {
    Driven d;
    Address to = Address::loopback(Address::Family::v4, d.listen(at).port);
    const Plain peer = Plain::to(to);
    ASSERT_TRUE(d.until([&] { return d.machine.accepted == 1; }));
    EXPECT_EQ(d.machine.info.local, to);
    EXPECT_EQ(d.machine.info.local, peer.name(true));
    EXPECT_EQ(d.machine.info.peer, peer.name(false));
    EXPECT_GT(d.machine.info.emss, 536) << "that of the loopback interface";
  }
}

TEST(DriverStreams, AStreamLeavesFromTheAddressThatIsAskedFor) {
  const Plain there = Plain::listening();
  Driven d;
  const Address from = Address::v4(127, 0, 0, 9, 0);
  d.machine.ask(Command::open, 1, there.name(false), from);
  ASSERT_TRUE(d.until([&] { return d.machine.stream == 1; }));
  const Plain peer = there.accept();
  EXPECT_EQ(d.machine.info.local, peer.name(true));
  EXPECT_EQ(d.machine.info.local.octets, from.octets);
  EXPECT_EQ(d.machine.info.peer, there.name(false));
  EXPECT_GT(d.machine.info.emss, 536);
  // Without one, the system chooses the address; a port alone is kept as well.
  Address port = Address::any(Address::Family::v4, d.machine.info.local.port);
  d.machine.ask(Command::close, 1);
  d.machine.ask(Command::open, 3, there.name(false), port);
  ASSERT_TRUE(d.until([&] { return d.machine.stream == 3; }));
  EXPECT_EQ(d.machine.info.local, Address::loopback(Address::Family::v4, port.port));
}

TEST(DriverStreams, APausedStreamIsNotReadUntilItIsResumed) {
  Driven d({.receive_buffer = 1});
  const Plain peer = Plain::to(d.listen());
  peer.say(1);
  ASSERT_TRUE(d.until([&] { return d.machine.received.size() == 1; }));
  d.machine.on_bytes = [&] { d.machine.ask(Command::pause, d.machine.stream); };
  peer.say(20'000);
  d.settle();
  EXPECT_EQ(d.machine.received.size(), 1U + 2048) << "what was read when it asked for the pause";
  ASSERT_EQ(::shutdown(peer.fd, SHUT_WR), 0);
  d.settle();
  EXPECT_FALSE(d.machine.end);
  d.machine.on_bytes = {};
  d.machine.ask(Command::resume, d.machine.stream);
  ASSERT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(d.machine.received.size(), 20'001U);
  EXPECT_EQ(*d.machine.end, StreamEnd::fin);
}

TEST(DriverStreams, APausedStreamIsNotReadThoughBothHalvesAreClosed) {
  Driven d;
  const Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
  d.machine.ask(Command::pause, d.machine.stream);
  d.machine.ask(Command::shutdown, d.machine.stream);
  d.settle();
  EXPECT_EQ(peer.next(), 0);
  peer.say(100);
  ASSERT_EQ(::shutdown(peer.fd, SHUT_WR), 0);  // the system tells that the socket has hung up
  d.settle();
  EXPECT_TRUE(d.machine.received.empty());
  EXPECT_FALSE(d.machine.end);
  d.machine.ask(Command::resume, d.machine.stream);
  ASSERT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(d.machine.received.size(), 100U);
}

TEST(DriverStreams, AResetIsToldOfAPausedStream) {
  Driven d;
  Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
  d.machine.ask(Command::pause, d.machine.stream);
  d.settle();
  peer.say(10);
  peer.reset();
  ASSERT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(*d.machine.end, StreamEnd::rst);
  EXPECT_TRUE(d.machine.received.empty());
}

TEST(DriverStreams, OfAStreamThatWasClosedNothingMoreIsTold) {
  for (const Command how : {Command::close, Command::reset})
    for (const bool at_end : {false, true}) {
      Driven d({.receive_buffer = 1});
      const Address here = d.listen();
      const Plain peer = Plain::to(here);
      ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
      int told = 0;
      const StreamId closed = d.machine.stream;
      (at_end ? d.machine.on_end : d.machine.on_bytes) = [&] {
        if (++told == 1) d.machine.ask(how, closed);
      };
      peer.say(at_end ? 100 : 20'000);  // there is more to be read
      ASSERT_EQ(::shutdown(peer.fd, SHUT_WR), 0);
      ASSERT_TRUE(d.until([&] { return told > 0; }));
      d.settle();
      EXPECT_EQ(told, 1);
      EXPECT_EQ(d.machine.received.size(), at_end ? 100U : 2048U);
      EXPECT_EQ(d.machine.end.has_value(), at_end);
      EXPECT_LE(peer.next(), 0) << "it is closed";
      // Two others are each a stream of their own.
      d.machine.on_bytes = d.machine.on_end = {};
      d.machine.end.reset();
      d.machine.received.clear();
      std::vector<Plain> others;
      for (std::uint8_t i = 1; i <= 2; ++i) {
        others.push_back(Plain::to(here));
        others.back().say(3, i);
        ASSERT_TRUE(d.until([&] { return d.machine.received.size() == 3U * i; }));
      }
      EXPECT_EQ(d.machine.received, (Bytes{1, 1, 1, 2, 2, 2}));
      EXPECT_EQ(d.machine.accepted, 3);
      EXPECT_FALSE(d.machine.end);
      others.pop_back();
      EXPECT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
    }
}

TEST(DriverStreams, EachWayToEndAStreamIsWhatThePeerSees) {
  struct Case {
    Command command;
    ssize_t seen;
    bool reads_on;
  };
  for (const Case& c :
       {Case{Command::shutdown, 0, true}, Case{Command::close, 0, false}, Case{Command::reset, -1, false}}) {
    Driven d;
    const Plain peer = Plain::to(d.listen());
    ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
    d.machine.send(Bytes(100, 3));
    d.settle();
    Bytes before;
    EXPECT_EQ(peer.next(&before), 100);
    EXPECT_TRUE(peer.silent());
    d.machine.ask(c.command, d.machine.stream);
    d.settle();
    EXPECT_EQ(peer.next(), c.seen);
    if (c.seen < 0) continue;
    peer.say(5);
    d.settle();
    EXPECT_EQ(d.machine.received.size(), c.reads_on ? 5U : 0U);
  }
}

/// The peer has closed its half, and the system holds all that it takes of this side's octets.
struct HalfClosed : Driven {
  HalfClosed() {
    EXPECT_TRUE(until([&] { return machine.stream != 0; }));
    EXPECT_EQ(::shutdown(peer.fd, SHUT_WR), 0);
    EXPECT_TRUE(until([&] { return machine.end == StreamEnd::fin; }));
    machine.end.reset();
  }
  void fill_and_finish() {
    machine.send(Bytes(64 << 20));
    for (std::size_t before = 1; before != machine.gathers; settle()) before = machine.gathers;
    ASSERT_LT(machine.sent_octets, machine.to_send.size());
    machine.to_send.resize(machine.sent_octets);
    machine.ask(Command::finish, machine.stream);
    settle();
    EXPECT_FALSE(machine.end) << "the peer has not acknowledged all";
  }
  Plain peer = Plain::to(listen());
};

TEST(DriverStreams, AFinishedStreamWithNothingUnderWayIsDeliveredAtOnce) {
  HalfClosed d;
  d.machine.ask(Command::finish, d.machine.stream);
  EXPECT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(*d.machine.end, StreamEnd::delivered);
  EXPECT_EQ(d.peer.next(), 0);
}

TEST(DriverStreams, AFinishedStreamIsDeliveredWhenThePeerHasAcknowledgedAll) {
  HalfClosed d;
  d.fill_and_finish();
  Bytes received;
  while (received.size() < d.machine.sent_octets)
    if (!d.peer.silent())
      (void)d.peer.next(&received);
    else
      d.loop->run_once(1ms);
  EXPECT_EQ(d.peer.next(), 0);
  EXPECT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(*d.machine.end, StreamEnd::delivered);
}

TEST(DriverStreams, AFinishedStreamWhoseOctetsThePeerDoesNotTakeIsReset) {
  HalfClosed d;
  d.fill_and_finish();
  d.peer.reset();
  EXPECT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
  EXPECT_EQ(*d.machine.end, StreamEnd::rst);
}

TEST(DriverStreams, WhatAPeerTakesSlowlyArrivesWholeAndInOrder) {
  Driven d;
  const Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
  Bytes all(24 << 20);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i * 7 + (i >> 13));
  d.machine.send(all);
  d.settle();
  EXPECT_LT(d.machine.sent_octets, all.size()) << "more than the system takes";
  Bytes received;
  while (received.size() < all.size()) {
    if (!peer.silent())
      (void)peer.next(&received);
    else
      d.loop->run_once(1ms);
  }
  EXPECT_EQ(received, all);
}

TEST(DriverStreams, WhatAPeerSaysIsNoReasonToWriteToAFullSocket) {
  Driven d;
  const Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
  d.machine.send(Bytes(64 << 20));
  std::size_t asked = 0;
  do {
    asked = d.machine.gathers;
    d.settle();
  } while (d.machine.gathers != asked);
  ASSERT_LT(d.machine.sent_octets, d.machine.to_send.size());
  for (std::size_t n = 1; n <= 10; ++n) {
    peer.say(1);
    ASSERT_TRUE(d.until([&] { return d.machine.received.size() == n; }));
    d.settle();
  }
  EXPECT_EQ(d.machine.gathers, asked) << "the system tells when there is room again";
}

TEST(DriverStreams, ARefusedPeerIsReset) {
  Driven d;
  d.machine.takes = false;
  const Plain peer = Plain::to(d.listen());
  ASSERT_TRUE(d.until([&] { return d.machine.accepted == 1; }));
  EXPECT_EQ(peer.next(), -1);
}

TEST(DriverStreams, MoreStreamsThanMayBeAreRefusedWithTheReason) {
  const Plain there = Plain::listening();
  Driven d({.streams_max = 1});
  d.machine.ask(Command::open, 1, there.name(false));
  ASSERT_TRUE(d.until([&] { return d.machine.stream == 1; }));
  d.machine.ask(Command::open, 3, there.name(false));
  ASSERT_TRUE(d.until([&] { return d.machine.failed.value() != 0; }));
  EXPECT_EQ(d.machine.failed, std::make_error_code(std::errc::too_many_files_open));
  d.machine.ask(Command::close, 1);
  d.machine.ask(Command::open, 5, there.name(false));
  EXPECT_TRUE(d.until([&] { return d.machine.stream == 5; })) << "there is room again";
}

TEST(DriverStreams, APortIsFreeAgainAsSoonAsItsListenerIsClosed) {
  Driven d;
  const Address at = d.listen();
  {
    const Plain peer = Plain::to(at);
    ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
    d.machine.ask(Command::close, d.machine.stream);  // the first to close stays in TIME-WAIT
    d.settle();
    EXPECT_EQ(peer.next(), 0);
  }
  d.machine.ask(Command::close, d.listener);
  EXPECT_EQ(d.listen(at), at);
  EXPECT_FALSE(d.machine.failed);
  const Plain again = Plain::to(at);
  EXPECT_TRUE(d.until([&] { return d.machine.accepted == 2; }));
}

/// What a tap is told, a line for each record, and the octets that were sent.
struct Taps {
  explicit Taps(Driven& driven) : d(driven) {
    d.loop->set_tap([this](const TapRecord& r) {
      static constexpr std::string_view kinds[] = {"connected", "accepted",     "sent",     "received",
                                                   "fin_sent",  "fin_received", "rst_sent", "rst_received"};
      said += kinds[static_cast<std::size_t>(r.kind)];
      if (!r.octets.empty()) said += " " + std::to_string(r.octets.size());
      said += r.at <= d.loop->now() && r.local == d.machine.info.local && r.peer == d.machine.info.peer ? "\n" : "?\n";
      if (r.kind == TapRecord::Kind::sent) sent.insert(sent.end(), r.octets.begin(), r.octets.end());
    });
  }
  /// What was said since the last time.
  std::string next() { return std::exchange(said, {}); }
  Driven& d;
  std::string said;
  Bytes sent;
};

TEST(DriverStreams, ATapIsToldOfEachEndOfAStreamOnce) {
  struct Case {
    std::vector<Command> commands;
    bool peer_resets;
    std::string_view told;
  };
  for (const Case& c :
       {Case{{Command::shutdown}, false, "fin_sent\n"}, Case{{Command::close}, false, "fin_sent\n"},
        Case{{Command::reset}, false, "rst_sent\n"}, Case{{Command::shutdown, Command::close}, false, "fin_sent\n"},
        Case{{Command::shutdown, Command::reset}, false, "fin_sent\nrst_sent\n"}, Case{{}, false, "fin_received\n"},
        Case{{}, true, "rst_received\n"}}) {
    Driven d;
    const Address here = d.listen();
    Plain peer = Plain::to(here);
    ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
    Taps taps(d);
    peer.say(3);
    ASSERT_TRUE(d.until([&] { return d.machine.received.size() == 3; }));
    d.machine.send(Bytes(5, 9));
    d.settle();
    EXPECT_EQ(peer.next(), 5);
    EXPECT_EQ(taps.next(), "received 3\nsent 5\n");
    for (const Command command : c.commands) d.machine.ask(command, d.machine.stream);
    if (c.peer_resets)
      peer.reset();
    else if (c.commands.empty())
      ::shutdown(peer.fd, SHUT_WR);
    if (c.commands.empty()) {
      EXPECT_TRUE(d.until([&] { return d.machine.end.has_value(); }));
    }
    d.settle();
    EXPECT_EQ(taps.next(), c.told);
    d.machine.ask(Command::close, d.listener);
    d.settle();
    EXPECT_EQ(taps.next(), "") << "a listener is not a stream";
  }
}

TEST(DriverStreams, ATapIsToldHowAStreamBegan) {
  {
    Driven d;
    const Address here = d.listen();
    Taps taps(d);
    const Plain peer = Plain::to(here);
    ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
    EXPECT_EQ(taps.next(), "accepted?\n") << "before the machine is told of its addresses";
  }
  const Plain there = Plain::listening();
  Driven d;
  Taps taps(d);
  d.machine.ask(Command::open, 1, there.name(false));
  ASSERT_TRUE(d.until([&] { return d.machine.stream == 1; }));
  EXPECT_EQ(taps.next(), "connected?\n");
  const Address nobody = Plain::listening().name(false);
  d.machine.ask(Command::open, 3, nobody);
  ASSERT_TRUE(d.until([&] { return d.machine.failed.value() != 0; }));
  EXPECT_EQ(taps.next(), "") << "what was refused did not begin";
}

TEST(DriverStreams, ATapSeesOfManyPiecesWhatTheSystemTook) {
  Driven d;
  d.machine.piece_max = 1000;
  const Address here = d.listen();
  const Plain peer = Plain::to(here);
  ASSERT_TRUE(d.until([&] { return d.machine.stream != 0; }));
  Taps taps(d);
  Bytes all(8 << 20);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint8_t>(i * 7 + (i >> 13));
  d.machine.send(all);
  d.settle();
  ASSERT_LT(d.machine.sent_octets, all.size()) << "more than the system takes";
  EXPECT_EQ(taps.sent.size(), d.machine.sent_octets);
  Bytes received;
  while (received.size() < all.size()) {
    if (!peer.silent())
      (void)peer.next(&received);
    else
      d.loop->run_once(1ms);
  }
  EXPECT_TRUE(received == all);
  EXPECT_TRUE(taps.sent == all);
}

}  // namespace
}  // namespace parley::asio_driver
