// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How long an honest peer's set-up takes at a listener under a flood of half-open connections: 2,000 exist, and 500
// more arrive each second. For comparison, the same octets over TCP to a program that accepts all connections without a
// bound.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <thread>
#include <unordered_map>

#include "bench/parley_peer.hpp"
#include "bench/raw_socket.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;

constexpr double longest_us = 100'000;  // maximum wait of an honest peer
constexpr long standing = 2000, per_second = 500;
constexpr HandshakeOctets octets{.request = 40, .reply = 40, .rtr = 24};

sockaddr_in loopback(std::uint8_t last, std::uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7F000000U | last);
  return address;
}

Fd connect_from(std::uint8_t last, std::uint16_t port) {
  Fd fd(checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  const sockaddr_in from = loopback(last), to = loopback(1, port);
  checked(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from), "bind");
  checked(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), "connect");
  return fd;
}

/// Half-open connections from one address, kept until this object is destroyed.
class Flood {
 public:
  Flood(std::uint16_t port, bool any, bool more) : port_(port) {
    if (!any) return;
    for (long i = 0; i < standing; ++i) open();
    if (more) thread_ = std::thread([this] { keep_coming(); });
  }
  ~Flood() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  Flood(const Flood&) = delete;

  static constexpr std::uint8_t address = 9;

 private:
  void open() {
    open_.push_back(connect_from(address, port_));
    reset_on_close(open_.back().get());
    if (open_.size() > standing + per_second) open_.pop_front();
  }
  void keep_coming() {
    const double start = wall_now();
    for (long opened = 0; !stop_;) {
      for (; opened < static_cast<long>((wall_now() - start) * per_second); ++opened) open();
      std::this_thread::sleep_for(1ms);
    }
  }
  std::uint16_t port_;
  std::deque<Fd> open_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct Times {
  std::vector<double> us;
  long failed = 0;
  double at(double share) {
    if (us.empty()) return 0;
    std::sort(us.begin(), us.end());
    return us[std::min(us.size() - 1, static_cast<std::size_t>(share * static_cast<double>(us.size())))];
  }
};

/// Answers every Request with a Reply, and reads the RTR.
class RawServer {
 public:
  RawServer() : listener_(listen_anywhere(port_)), epoll_(checked(::epoll_create1(0), "epoll_create1")) {
    watch(epoll_.get(), listener_.get(), EPOLLIN, 0);
    thread_ = std::thread([this] { serve(); });
  }
  ~RawServer() {
    stop_ = true;
    thread_.join();
  }
  RawServer(const RawServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void serve() {
    std::array<epoll_event, 256> events;
    std::array<std::uint8_t, 4096> buffer{};
    while (!stop_) {
      const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 10);
      for (int i = 0; i < n; ++i) {
        const auto fd = static_cast<int>(events[i].data.u64);
        if (fd == 0) {
          for (int in = accept(); in >= 0; in = accept()) watch(epoll_.get(), in, EPOLLIN, static_cast<unsigned>(in));
          continue;
        }
        const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (got <= 0)
          held_.erase(fd);
        else if (static_cast<std::size_t>(got) == octets.request)
          (void)::send(fd, buffer.data(), octets.reply, MSG_NOSIGNAL);
      }
    }
  }
  int accept() {
    const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) held_[fd] = Fd(fd);
    return fd;
  }
  std::uint16_t port_ = 0;
  Fd listener_, epoll_;
  std::unordered_map<int, Fd> held_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// A listener that accepts every request, as a program on TcpHost.
class ParleyServer {
 public:
  ParleyServer() : host_(must(TcpHost::open({}), "TcpHost::open")) {
    must(host_->cm().listen(Address::loopback(Address::Family::v4, 0)), "listen");
    while (port_ == 0) turn();
    thread_ = std::thread([this] {
      while (!stop_) turn();
    });
  }
  ~ParleyServer() {
    stop_ = true;
    thread_.join();
  }
  ParleyServer(const ParleyServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void turn() {
    host_->run_once(10ms);
    while (auto event = host_->cm().poll_event()) {
      if (const auto* listening = std::get_if<cm::Listening>(&*event)) port_ = listening->local.port;
      if (auto* request = std::get_if<cm::ConnectRequest>(&*event)) (void)request->id.accept();
      if (auto* down = std::get_if<cm::Disconnected>(&*event)) down->id.destroy();
      if (auto* failed = std::get_if<cm::ConnectFailed>(&*event)) failed->id.destroy();
    }
  }
  std::unique_ptr<TcpHost> host_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

/// Repeatedly measures the time from connect() to the Reply. There are 5 ms in between, so that the attempts meet the
/// flood at different moments.
Times raw_honest(std::uint16_t port, std::uint8_t from, double seconds) {
  Times times;
  std::array<std::uint8_t, 64> buffer{};
  for (const double end = wall_now() + seconds; wall_now() < end; std::this_thread::sleep_for(5ms)) {
    const double start = wall_now();
    const Fd fd = connect_from(from, port);
    checked(::send(fd.get(), buffer.data(), octets.request, MSG_NOSIGNAL), "send");
    checked(::recv(fd.get(), buffer.data(), buffer.size(), 0), "recv");
    checked(::send(fd.get(), buffer.data(), octets.rtr, MSG_NOSIGNAL), "send");
    times.us.push_back((wall_now() - start) * 1e6);
  }
  return times;
}

Times parley_honest(std::uint16_t port, std::uint8_t from, double seconds) {
  Times times;
  const auto host = must(TcpHost::open({}), "TcpHost::open");
  for (const double end = wall_now() + seconds; wall_now() < end; std::this_thread::sleep_for(5ms)) {
    cm::ConnectOptions options{.transport = mpa::Options{.rtr = mpa::Rtr::send}};
    options.local = Address::v4(127, 0, 0, from, 0);
    const double start = wall_now();
    cm::Id id = must(host->cm().connect(Address::loopback(Address::Family::v4, port), options), "connect");
    for (bool over = false; !over;) {
      host->run_once(100ms);
      while (auto event = host->cm().poll_event()) {
        const bool up = std::holds_alternative<cm::Established>(*event);
        over = up || std::holds_alternative<cm::ConnectFailed>(*event);
        if (up) times.us.push_back((wall_now() - start) * 1e6);
        if (over && !up) ++times.failed;
        if (over) break;
      }
    }
    if (id.disconnect())
      for (bool gone = false; !gone;) {
        host->run_once(100ms);
        while (auto event = host->cm().poll_event()) gone = gone || std::holds_alternative<cm::Disconnected>(*event);
      }
    id.destroy();
  }
  return times;
}

struct Weather {
  const char* name;
  bool any, more;
  std::uint8_t from;
};

void measure(const Weather& weather, double seconds, Report& report) {
  Times raw, parley;
  {
    const RawServer server;
    const Flood flood(server.port(), weather.any, weather.more);
    raw = raw_honest(server.port(), weather.from, seconds);
  }
  {
    const ParleyServer server;
    const Flood flood(server.port(), weather.any, weather.more);
    parley = parley_honest(server.port(), weather.from, seconds);
  }
  report.section(fmt::format("Set-up of an honest peer, {}", weather.name));
  const std::pair<const char*, double> readings[] = {{"median", 0.5}, {"99 of 100", 0.99}, {"longest", 1.0}};
  for (const auto& [what, share] : readings) {
    const double figure = parley.at(share), limit = raw.at(share);
    report.add({.what = what,
                .unit = "us",
                .figure = figure,
                .limit_name = "raw TCP accept",
                .limit = limit,
                .ratio = limit > 0 ? figure / limit : 0,
                .goal_kind = Row::Goal::difference_at_most,
                .goal = longest_us,
                .difference = figure - limit});
  }
  report.note(fmt::format("{} set-ups, {} failed; raw: {}", parley.us.size(), parley.failed, raw.us.size()));
}

int run(int argc, char** argv) {
  const auto settings = parse_settings(
      argc, argv, "flood_bench: set-up of honest peers beside 2,000 half-open connections and 500 more a second");
  if (!settings) return 2;
  if (raise_open_files() < 3 * (standing + per_second)) throw std::runtime_error("too few files may be open");
  Report report("flood_bench", *settings);
  const double seconds = settings->quick ? 0.3 : std::max(5.0, settings->seconds * settings->rounds);
  constexpr std::uint8_t other = 2;
  for (const Weather& weather :
       {Weather{"no flood", false, false, other}, Weather{"2,000 half-open from another address", true, false, other},
        Weather{"2,000 half-open, 500 more a second", true, true, other},
        Weather{"the same, from the flood's own address", true, true, Flood::address}})
    if (settings->wants(weather.name)) measure(weather, seconds, report);
  return report.finish();
}

}  // namespace
}  // namespace parley::bench

int main(int argc, char** argv) { return parley::bench::guarded("flood_bench", parley::bench::run, argc, argv); }
