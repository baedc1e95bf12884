// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCEv2 over loopback UDP, one thread, both ends. Set-ups per second, compared with a raw program that exchanges as
// many packets of the same size. A stream of RDMA Writes, compared with raw datagrams of the same size in the same
// system calls with the same CRC. The round trip of 64 octets, compared with that of raw UDP.
#include <netinet/udp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "bench/harness.hpp"
#include "bench/parley_peer.hpp"
#include "bench/raw_socket.hpp"
#include "parley/roce_host.hpp"
#include "wire/ib/crc32.hpp"

namespace parley::bench {
namespace {

constexpr std::size_t mad_packet = 280;  // BTH, DETH, MAD, ICRC
constexpr std::size_t write_total = 64 << 10;
constexpr std::size_t batch = 64;  // packets of one system call
const Address server_address = Address::v4(127, 9, 9, 1, 7174), client_address = Address::v4(127, 9, 9, 2, 0);

struct Ends {
  explicit Ends(const RoceHostOptions& with = {})
      : server(must(RoceHost::open(with), "open")), client(must(RoceHost::open(with), "open")) {
    listener = must(server->cm().listen(server_address), "listen");
    while (!server->cm().poll_event()) server->run_once({});
  }
  cm::ConnectOptions options() const {
    cm::ConnectOptions out;
    out.local = client_address;
    return out;
  }
  template <class F>
  void turn(F&& on_event) {
    for (RoceHost* host : {server.get(), client.get()}) {
      host->run_once({});
      while (auto event = host->cm().poll_event()) on_event(*host, *event);
    }
  }
  std::unique_ptr<RoceHost> server, client;
  cm::Id listener;
};

/// Sets up connections, 64 at once; both ends are established, then the initiator disconnects.
Sample parley_set_ups(double seconds) {
  Ends ends;
  long begun = 0, done = 0;
  const auto begin = [&] {
    must(ends.client->cm().connect(server_address, ends.options()), "connect");
    ++begun;
  };
  const auto on = [&](RoceHost& host, cm::Event& event) {
    const bool client = &host == ends.client.get();
    if (auto* request = std::get_if<cm::ConnectRequest>(&event)) must(request->id.accept(), "accept");
    if (auto* up = std::get_if<cm::Established>(&event); up != nullptr && client)
      must(up->id.disconnect(), "disconnect");
    if (auto* failed = std::get_if<cm::ConnectFailed>(&event)) throw std::runtime_error(failed->why.to_string());
    if (auto* down = std::get_if<cm::Disconnected>(&event)) {
      down->id.destroy();
      if (client) ++done;
    }
  };
  Stopwatch watch;
  while (watch.wall_s() < seconds) {
    while (begun - done < in_flight) begin();
    ends.turn(on);
  }
  return watch.stop(static_cast<double>(done));
}

/// Two unconnected sockets that never fragment, as RoCE's are.
struct RawPair {
  RawPair() {
    for (int i = 0; i < 2; ++i) {
      fds[i] = Fd(checked(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket"));
      const int probe = IP_PMTUDISC_DO, size = 4 << 20, on = 1;
      checked(::setsockopt(fds[i].get(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe), "IP_MTU_DISCOVER");
      (void)::setsockopt(fds[i].get(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
      (void)::setsockopt(fds[i].get(), IPPROTO_UDP, UDP_GRO, &on, sizeof on);
      (void)::setsockopt(fds[i].get(), IPPROTO_IP, IP_RECVTOS, &on, sizeof on);
      at[i] = loopback_address(0, static_cast<std::uint32_t>(i));
      socklen_t length = sizeof at[i];
      checked(::bind(fds[i].get(), reinterpret_cast<sockaddr*>(&at[i]), length), "bind");
      checked(::getsockname(fds[i].get(), reinterpret_cast<sockaddr*>(&at[i]), &length), "getsockname");
    }
  }
  /// Sends `n` datagrams of `size` from socket `from` to the other; the system segments them.
  void send(int from, std::size_t n, std::size_t size) {
    while (n > 0) {
      const std::size_t now = std::min<std::size_t>({n, 60000 / size, batch});
      iovec piece{out.data(), now * size};
      msghdr header{};
      header.msg_name = &at[1 - from];
      header.msg_namelen = sizeof at[0];
      header.msg_iov = &piece;
      header.msg_iovlen = 1;
      alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> control{};
      header.msg_control = control.data();
      header.msg_controllen = control.size();
      cut(header, size);
      checked(::sendmsg(fds[from].get(), &header, 0), "sendmsg");
      n -= now;
    }
  }
  static void cut(msghdr& header, std::size_t size) {
    cmsghdr* entry = CMSG_FIRSTHDR(&header);
    entry->cmsg_level = IPPROTO_UDP;
    entry->cmsg_type = UDP_SEGMENT;
    entry->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto segment = static_cast<std::uint16_t>(size);
    std::memcpy(CMSG_DATA(entry), &segment, sizeof segment);
  }
  /// Receives the datagrams of `size` that have arrived at a socket. With `crc` it computes their CRC, as a receiver
  /// must.
  std::size_t receive(int to, std::size_t size, bool crc) {
    std::size_t n = 0;
    for (;;) {
      const ssize_t got = ::recv(fds[to].get(), in.data(), in.size(), 0);
      if (got <= 0) return n;
      for (std::size_t i = 0; i + size <= static_cast<std::size_t>(got); i += size, ++n)
        if (crc) sum ^= wire::ib::crc32(0, ConstBytes(in).subspan(i, size));
    }
  }
  std::array<Fd, 2> fds;
  std::array<sockaddr_in, 2> at{};
  Bytes out = Bytes(128 << 10, 1), in = Bytes(64 << 10);
  std::uint32_t sum = 0;
};

/// Prepares `header` for the next datagram.
void make_ready(msghdr& header, sockaddr_in& from, iovec& place, std::span<char> control) {
  header = {.msg_name = &from,
            .msg_namelen = sizeof from,
            .msg_iov = &place,
            .msg_iovlen = 1,
            .msg_control = control.data(),
            .msg_controllen = control.size(),
            .msg_flags = 0};
}

/// REQ, REP, RTU, DREQ, DREP of 64 connections at once: as many datagrams of the same size, in alternating directions.
Sample raw_set_ups(double seconds) {
  RawPair pair;
  long done = 0;
  Stopwatch watch;
  while (watch.wall_s() < seconds) {
    for (const int from : {0, 1, 0, 0, 1}) {
      for (int i = 0; i < in_flight; ++i) pair.send(from, 1, mad_packet);
      std::size_t got = 0;
      while (got < in_flight) got += pair.receive(1 - from, mad_packet, true);
    }
    done += in_flight;
  }
  return watch.stop(static_cast<double>(done));
}

struct Connected : Ends {
  explicit Connected(const RoceHostOptions& with_options = {})
      : Ends(with_options), memory{Bytes(1 << 20), Bytes(1 << 20)} {
    for (int i = 0; i < 2; ++i) {
      Device& device = (i == 0 ? server : client)->device();
      const PdHandle pd = must(device.alloc_pd(), "alloc_pd");
      mr[i] = must(device.reg_mr(pd, memory[i], Access::local_write | Access::remote_write | Access::remote_read),
                   "reg_mr");
      cq[i] = must(device.create_cq(256), "create_cq");
      init[i] = {.pd = pd, .send_cq = cq[i].get(), .recv_cq = cq[i].get()};
    }
    cm::ConnectOptions with = options();
    with.qp = init[1];
    cm::Id id = must(client->cm().connect(server_address, with), "connect");
    int up = 0;
    while (up < 2)
      turn([&](RoceHost&, cm::Event& event) {
        if (auto* request = std::get_if<cm::ConnectRequest>(&event)) {
          qp[0] = must(request->id.create_qp(init[0]), "create_qp");
          must(request->id.accept(), "accept");
        }
        if (auto* failed = std::get_if<cm::ConnectFailed>(&event)) throw std::runtime_error(failed->why.to_string());
        up += std::holds_alternative<cm::Established>(event);
      });
    qp[1] = id.qp();
  }
  void post(int side, SendWr::Opcode opcode, std::uint32_t size) {
    const Sge sge{.addr = mr[side].addr, .length = size, .lkey = mr[side].lkey};
    must(qp[side]->post_send(
             {.opcode = opcode, .sges = {&sge, 1}, .remote_addr = mr[1 - side].addr, .rkey = mr[1 - side].rkey}),
         "post_send");
  }
  void receive(int side, std::uint32_t size = 4096) {
    const Sge sge{.addr = mr[side].addr, .length = size, .lkey = mr[side].lkey};
    must(qp[side]->post_recv({.sges = {&sge, 1}}), "post_recv");
  }
  std::size_t poll(int side) {
    std::array<WorkCompletion, 32> done;
    const std::size_t n = cq[side]->poll(done);
    for (std::size_t i = 0; i < n; ++i)
      if (done[i].status != WcStatus::success) throw std::runtime_error(std::string(to_string(done[i].status)));
    return n;
  }
  void run() {
    client->run_once({});
    server->run_once({});
  }
  std::array<Bytes, 2> memory;
  std::array<MemoryRegion, 2> mr{};
  std::array<std::unique_ptr<CompletionQueue>, 2> cq;
  std::array<QpInit, 2> init{};
  std::array<QueuePair*, 2> qp{};
};

Sample parley_stream(SendWr::Opcode opcode, double seconds) {
  Connected c;
  const bool sends = opcode == SendWr::Opcode::send;
  std::size_t posted = 0, done = 0, receives = 0;
  Stopwatch watch;
  while (watch.wall_s() < seconds) {
    for (; sends && receives < 32; ++receives) c.receive(0, write_total);
    for (; posted - done < 16; ++posted) c.post(1, opcode, write_total);
    c.run();
    done += c.poll(1);
    receives -= c.poll(0);
  }
  return watch.stop(static_cast<double>(done) * write_total / 1e6);
}

/// The messages of one window of the queue pair, 128 packets: what Parley passes to each sendmmsg call, and what comes
/// back.
struct Window {
  struct Cut {
    std::size_t size, first, segment;  // octets in total, of the first packet, of the others
  };
  std::vector<Cut> message;  // twice for a window
  std::size_t answers, answer;
};
const Window write_window{.message = {{1056 + 1040, 1056, 1056}, {62 * 1040, 1040, 1040}}, .answers = 1, .answer = 20};
const Window send_window{.message = {{62 * 1040, 1040, 1040}, {2 * 1040, 1040, 1040}}, .answers = 1, .answer = 20};
const Window read_window{
    .message = {{1044 + 1040, 1044, 1044}, {61 * 1040, 1040, 1040}, {1044, 1044, 1044}}, .answers = 2, .answer = 32};

/// Only the same datagrams in the same system calls, with their CRCs.
class RawStream {
 public:
  explicit RawStream(const Window& window) : window_(window), in_(slots * slot) {
    for (std::size_t i = 0; i < slots; ++i) places_[i] = {in_.data() + i * slot, slot};
  }
  void window() {
    for (int message = 0; message < 2; ++message) send(0, window_.message);
    receive(1, 2 * window_.message.size());
    send(1, {{window_.answers * window_.answer, window_.answer, window_.answer}});
    receive(0, 1);
  }

 private:
  static constexpr std::size_t slots = 16, slot = 64 << 10;

  void send(int from, const std::vector<Window::Cut>& cuts) {
    std::array<mmsghdr, 4> headers{};
    std::array<iovec, 4> pieces{};
    alignas(cmsghdr) std::array<std::array<char, CMSG_SPACE(sizeof(std::uint16_t))>, 4> controls{};
    std::size_t at = 0;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
      for (std::size_t done = 0; done < cuts[i].size; done += cuts[i].segment)
        crc(ConstBytes(pair_.out).subspan(at + done, std::min(cuts[i].segment, cuts[i].size - done)));
      pieces[i] = {pair_.out.data() + at, cuts[i].size};
      at += cuts[i].size;
      msghdr& header = headers[i].msg_hdr;
      header.msg_name = &pair_.at[1 - from];
      header.msg_namelen = sizeof pair_.at[0];
      header.msg_iov = &pieces[i];
      header.msg_iovlen = 1;
      if (cuts[i].size == cuts[i].segment) continue;
      header.msg_control = controls[i].data();
      header.msg_controllen = controls[i].size();
      RawPair::cut(header, cuts[i].segment);
    }
    const auto n = static_cast<unsigned>(cuts.size());
    if (::sendmmsg(pair_.fds[from].get(), headers.data(), n, 0) != static_cast<int>(n))
      throw std::runtime_error("sendmmsg took less than all");
  }
  void receive(int to, std::size_t messages) {
    while (messages > 0) {
      std::array<mmsghdr, slots> headers{};
      std::array<sockaddr_in, slots> from{};
      alignas(cmsghdr) std::array<std::array<char, 128>, slots> controls;
      for (std::size_t i = 0; i < slots; ++i) make_ready(headers[i].msg_hdr, from[i], places_[i], controls[i]);
      const int n = ::recvmmsg(pair_.fds[to].get(), headers.data(), slots, MSG_DONTWAIT, nullptr);
      for (std::size_t i = 0; i < static_cast<std::size_t>(std::max(n, 0)); ++i)
        check(headers[i].msg_hdr, ConstBytes(in_).subspan(i * slot, headers[i].msg_len));
      messages -= static_cast<std::size_t>(std::max(n, 0));
    }
  }
  void check(msghdr& header, ConstBytes octets) {
    std::size_t segment = octets.size();
    for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
      int size = 0;
      if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
      std::memcpy(&size, CMSG_DATA(c), sizeof size);
      segment = static_cast<std::size_t>(size);
    }
    for (; !octets.empty(); octets = octets.subspan(std::min(segment, octets.size())))
      crc(octets.first(std::min(segment, octets.size())));
  }
  void crc(ConstBytes packet) { pair_.sum ^= wire::ib::crc32(0, packet); }

  RawPair pair_;
  const Window& window_;
  Bytes in_;
  std::array<iovec, slots> places_{};
};

Sample raw_stream(const Window& window, double seconds) {
  RawStream stream(window);
  double octets = 0;
  Stopwatch watch;
  while (watch.wall_s() < seconds) {
    stream.window();
    octets += 2.0 * write_total;
  }
  return watch.stop(octets / 1e6);
}

double median_of_times(std::vector<double>& times) {
  if (times.empty()) return 0;
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

template <class F>
Sample timed(double seconds, F&& round_trip) {
  std::vector<double> times;
  Stopwatch watch;
  while (watch.wall_s() < seconds) {
    const double begin = wall_now();
    round_trip();
    times.push_back((wall_now() - begin) * 1e6);
  }
  Sample out = watch.stop(static_cast<double>(times.size()));
  out.median_us = median_of_times(times);
  return out;
}

Sample parley_ping_pong(Duration ack_delay, double seconds) {
  RoceHostOptions with;
  with.roce.ack_delay = ack_delay;
  Connected c(with);
  std::array<std::size_t, 2> receives{};
  const auto poll_receive = [&](int side) {
    std::array<WorkCompletion, 8> done;
    const std::size_t n = c.cq[side]->poll(done);
    for (std::size_t i = 0; i < n; ++i) receives[side] += done[i].opcode == WcOpcode::recv;
  };
  return timed(seconds, [&] {
    receives = {};
    c.receive(0);
    c.receive(1);
    c.post(1, SendWr::Opcode::send, 64);
    while (receives[0] == 0) c.run(), poll_receive(0);
    c.post(0, SendWr::Opcode::send, 64);
    while (receives[1] == 0) c.server->run_once({}), c.client->run_once({}), poll_receive(1);
    poll_receive(0);
  });
}

Sample raw_ping_pong(double seconds) {
  RawPair pair;
  constexpr std::size_t size = 64 + 16;
  return timed(seconds, [&] {
    for (const int from : {0, 1}) {
      pair.send(from, 1, size);
      while (pair.receive(1 - from, size, true) == 0) {
      }
    }
  });
}

/// The round trip with only Parley's system calls: epoll reports waiting packets, each flow sends through its own
/// socket, and received packets carry the system's control messages.
class EventDrivenPair {
 public:
  EventDrivenPair() : in_(slots * slot) {
    for (int i = 0; i < 2; ++i) {
      sockaddr_in at = loopback_address(0, static_cast<std::uint32_t>(i));
      senders_[i] = Fd(checked(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), "socket"));
      checked(::bind(senders_[i].get(), reinterpret_cast<sockaddr*>(&at), sizeof at), "bind");
      epolls_[i] = Fd(checked(::epoll_create1(0), "epoll_create1"));
      watch(i, pair_.fds[i].get(), EPOLLIN);
      watch(i, senders_[i].get(), 0);
    }
    for (std::size_t i = 0; i < slots; ++i) places_[i] = {in_.data() + i * slot, slot};
  }
  void send(int from, std::size_t size) {
    const auto* const to = reinterpret_cast<const sockaddr*>(&pair_.at[1 - from]);
    checked(::sendto(senders_[from].get(), pair_.out.data(), size, 0, to, sizeof pair_.at[0]), "sendto");
  }
  bool receive(int to) {
    for (std::size_t i = 0; i < slots; ++i) make_ready(headers_[i].msg_hdr, from_[i], places_[i], controls_[i]);
    if (::recvmmsg(pair_.fds[to].get(), headers_.data(), slots, MSG_DONTWAIT, nullptr) <= 0) return false;
    pair_.sum ^= wire::ib::crc32(0, ConstBytes(in_).first(headers_[0].msg_len));
    return true;
  }

 private:
  static constexpr std::size_t slots = 16, slot = 64 << 10;

  void watch(int side, int fd, std::uint32_t events) {
    const int on = 1;
    (void)::setsockopt(fd, IPPROTO_IP, IP_RECVERR, &on, sizeof on);
    epoll_event event{};
    event.events = events;
    checked(::epoll_ctl(epolls_[side].get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
  }

  RawPair pair_;
  std::array<Fd, 2> senders_, epolls_;
  Bytes in_;
  std::array<iovec, slots> places_{};
  std::array<mmsghdr, slots> headers_{};
  std::array<sockaddr_in, slots> from_{};
  alignas(cmsghdr) std::array<std::array<char, 256>, slots> controls_{};
};

Sample event_driven_ping_pong(double seconds) {
  EventDrivenPair pair;
  return timed(seconds, [&] {
    for (const int from : {0, 1}) {
      pair.send(from, 64 + 16);
      while (!pair.receive(1 - from)) {
      }
    }
  });
}

void set_ups(const Settings& s, Report& report) {
  if (!s.wants("set-up")) return;
  report.section("Set-ups per second: REQ, REP, RTU, DREQ, DREP (64 at once)");
  const auto samples = alternate(
      {{"Parley", [&] { return parley_set_ups(s.seconds); }}, {"raw", [&] { return raw_set_ups(s.seconds); }}},
      s.rounds);
  report.add({.what = "REQ to DREP, both ends",
              .unit = "1/s",
              .figure = median_of(samples[0], Reading::per_second),
              .limit_name = "raw UDP",
              .limit = median_of(samples[1], Reading::per_second),
              .ratio = median_ratio(samples[0], samples[1], Reading::per_second),
              .cpu_ratio = median_ratio(samples[0], samples[1], Reading::per_cpu_second),
              .goal_kind = Row::Goal::ratio_at_least,
              .goal = 0.7});
  const auto cost = [&](const std::vector<Sample>& of) { return 1e6 / median_of(of, Reading::per_cpu_second); };
  const double own = std::max(cost(samples[0]) - cost(samples[1]), 0.01);
  report.add({.what = "CPU of a set-up beyond raw UDP's, both ends",
              .unit = "us",
              .figure = own,
              .limit_name = "goal",
              .limit = 25,
              .ratio = own / 25,
              .goal_kind = Row::Goal::ratio_at_most,
              .goal = 1});
}

void streams(const Settings& s, Report& report) {
  if (!s.wants("stream")) return;
  report.section("RC, 64 KiB, path MTU 1024, one way");
  struct Kind {
    const char* name;
    SendWr::Opcode opcode;
    const Window& window;
  };
  for (const Kind& kind :
       {Kind{"Send", SendWr::Opcode::send, send_window}, Kind{"RDMA Write", SendWr::Opcode::rdma_write, write_window},
        Kind{"RDMA Read", SendWr::Opcode::rdma_read, read_window}}) {
    const auto samples = alternate({{"Parley", [&] { return parley_stream(kind.opcode, s.seconds); }},
                                    {"raw", [&] { return raw_stream(kind.window, s.seconds); }}},
                                   s.rounds);
    report.add({.what = kind.name,
                .unit = "MB/s",
                .figure = median_of(samples[0], Reading::per_second),
                .limit_name = "raw UDP with its CRCs",
                .limit = median_of(samples[1], Reading::per_second),
                .ratio = median_ratio(samples[0], samples[1], Reading::per_second),
                .cpu_ratio = median_ratio(samples[0], samples[1], Reading::per_cpu_second),
                .goal_kind = Row::Goal::ratio_at_least,
                .goal = 0.8});
  }
}

void round_trips(const Settings& s, Report& report) {
  if (!s.wants("round trip")) return;
  report.section("Round trip of 64 octets by Sends, polled");
  const auto samples =
      alternate({{"Parley", [&] { return parley_ping_pong({}, s.seconds); }},
                 {"Parley, ACKs later", [&] { return parley_ping_pong(std::chrono::microseconds(50), s.seconds); }},
                 {"raw", [&] { return raw_ping_pong(s.seconds); }},
                 {"system calls", [&] { return event_driven_ping_pong(s.seconds); }}},
                s.rounds);
  const auto add = [&](const char* what, const std::vector<Sample>& of, Row::Goal kind) {
    report.add({.what = what,
                .unit = "us",
                .figure = median_of(of, Reading::median_us),
                .limit_name = "raw UDP",
                .limit = median_of(samples[2], Reading::median_us),
                .ratio = median_ratio(of, samples[2], Reading::median_us),
                .goal_kind = kind,
                .goal = 0.7,
                .difference = median_difference(of, samples[2], Reading::median_us)});
  };
  add("64 octets there and back", samples[0], Row::Goal::none);
  add("the same, ACKs within 50 us", samples[1], Row::Goal::difference_at_most);
  add("its system calls alone", samples[3], Row::Goal::none);
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(argc, argv,
                                       "roce_bench: RoCEv2 over loopback UDP beside raw UDP\n"
                                       "groups: set-up, stream, round trip");
  if (!settings) return 2;
  pin_to_cpu(0);
  raise_open_files();
  Report report("roce_bench", *settings);
  set_ups(*settings, report);
  streams(*settings, report);
  round_trips(*settings, report);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("roce_bench", parley::bench::run, argc, argv); }
