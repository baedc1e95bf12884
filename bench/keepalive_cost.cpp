// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "bench/keepalive_cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>
#include <variant>

#include "bench/parley_peer.hpp"
#include "parley/roce_host.hpp"

namespace parley::bench {
namespace {

using namespace std::chrono_literals;

constexpr double cpu_percent_max = 1;
constexpr int idle_keepalives = 12;  // intervals to measure: five times the time to detect a dead peer

/// Established idle connections between two hosts on this thread.
template <class AnyHost>
class IdleHosts {
 public:
  IdleHosts(const Address& server, const Address& client)
      : client_address_(client), server_(must(AnyHost::open({}), "open")), client_(must(AnyHost::open({}), "open")) {
    listener_ = must(server_->cm().listen(server, {.backlog = 4096}), "listen");
    while (server_address_.port == 0) turn();
  }
  void reach(long n) {
    for (; begun_ < n || up_ < 2 * n; turn())
      for (; begun_ < n && 2 * begun_ - up_ < 2 * in_flight; ++begun_)
        must(client_->cm().connect(server_address_, options()), "connect");
  }
  /// CPU time per second of this thread, which has one end; the other end is on another thread.
  double rest(double seconds) {
    std::atomic<bool> stop = false;
    std::thread other([&] {
      while (!stop) server_->run_once(100ms);
    });
    const double begun = wall_now(), cpu = seconds_of(CLOCK_THREAD_CPUTIME_ID);
    while (wall_now() - begun < seconds) client_->run_once(100ms);
    const double share = (seconds_of(CLOCK_THREAD_CPUTIME_ID) - cpu) / (wall_now() - begun);
    stop = true;
    other.join();
    turn();  // throws if a connection ended
    return share;
  }

 private:
  cm::ConnectOptions options() const {
    cm::ConnectOptions out;
    out.local = client_address_;
    if constexpr (std::is_same_v<AnyHost, TcpHost>) out.transport = mpa::Options{.rtr = mpa::Rtr::read};
    return out;
  }
  void turn() {
    for (AnyHost* host : {server_.get(), client_.get()}) {
      host->run_once({});
      while (auto event = host->cm().poll_event()) on(*event);
    }
  }
  void on(cm::Event& event) {
    if (auto* listening = std::get_if<cm::Listening>(&event)) server_address_ = listening->local;
    if (auto* request = std::get_if<cm::ConnectRequest>(&event)) must(request->id.accept(), "accept");
    if (std::holds_alternative<cm::Established>(event)) ++up_;
    if (auto* failed = std::get_if<cm::ConnectFailed>(&event)) throw std::runtime_error(failed->why.to_string());
    if (auto* down = std::get_if<cm::Disconnected>(&event)) throw std::runtime_error(down->why.to_string());
  }
  Address client_address_, server_address_;
  std::unique_ptr<AnyHost> server_, client_;
  cm::Id listener_;
  long begun_ = 0, up_ = 0;
};

template <class AnyHost>
void measure(const Settings& settings, Report& report, const char* name, long n, const Address& server,
             const Address& client) {
  IdleHosts<AnyHost> hosts(server, client);
  hosts.reach(n);
  const double seconds =
      settings.quick ? 1 : std::chrono::duration<double>(idle_keepalives * cm::Liveness{}.keepalive).count();
  const double percent = 100 * hosts.rest(seconds);
  report.add({.what = fmt::format("{}, {} connections", name, n),
              .unit = "%",
              .figure = percent,
              .limit_name = "goal",
              .limit = cpu_percent_max,
              .ratio = percent / cpu_percent_max,
              .goal_kind = Row::Goal::ratio_at_most,
              .goal = 1,
              .note = "of one CPU, one end; without what Linux does for TCP in interrupts"});
}

}  // namespace

void keepalive_cost(const Settings& settings, Report& report, long most) {
  const bool iwarp = settings.wants("keepalive iWARP"), roce = settings.wants("keepalive RoCE");
  if (!iwarp && !roce) return;
  const long n = std::min<long>(settings.quick ? 200 : 10000, most);
  report.section("Keepalives of idle connections at the default interval, one thread");
  if (iwarp) measure<TcpHost>(settings, report, "iWARP", n, Address::v4(127, 8, 8, 1, 0), Address::v4(127, 8, 8, 2, 0));
  if (roce)
    measure<RoceHost>(settings, report, "RoCE", n, Address::v4(127, 8, 8, 1, 7174), Address::v4(127, 8, 8, 2, 0));
}

}  // namespace parley::bench
