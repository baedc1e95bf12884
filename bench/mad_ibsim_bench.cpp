// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a request over ibsim costs this process: mad::Port's coroutines over the socket transport, beside a loop of send, recv and poll on
// the same socket with the same packet. ibsim, which answers, is started here; the figure is our own CPU time, since ibsim is the limit.
// --short: some requests, which show that it runs.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include "drivers/mad/ibsim.hpp"
#include "drivers/mad/run.hpp"

extern char** environ;

namespace {

using namespace parley;
using wire::mad::NodeInfo;

unsigned requests = 200'000;
const std::array<std::uint8_t, 1> one_hop{1};

double seconds(clockid_t clock) {
  timespec t{};
  ::clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

struct Figures {
  double cpu_us, per_second;
};
template <class Work>
Figures measured(const Work& work) {
  const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
  work();
  return {(seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / requests, requests / (seconds(CLOCK_MONOTONIC) - wall)};
}

/// ibsim with a switch and two hosts, for the length of a run.
class Simulator {
 public:
  Simulator() {
    name = fmt::format("parleybench{}", ::getpid());
    net_ = fmt::format("/tmp/{}.net", name);
    std::ofstream(net_)
        << "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n\nHca 1 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"S\"[2]\n";
    ::setenv("IBSIM_SOCKNAME", name.c_str(), 1);
    posix_spawn_file_actions_t quiet;
    ::posix_spawn_file_actions_init(&quiet);
    ::posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
    ::posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
    std::array<std::string, 4> words{"ibsim", "-s", "-n", net_};
    std::array<char*, 5> argv{words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    if (::posix_spawnp(&pid_, "ibsim", &quiet, nullptr, argv.data(), environ) != 0) pid_ = -1;
    ::posix_spawn_file_actions_destroy(&quiet);
  }
  ~Simulator() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::unlink(net_.c_str());
  }
  Simulator(const Simulator&) = delete;
  Simulator& operator=(const Simulator&) = delete;

  std::unique_ptr<mad_driver::Ibsim> attach() const {
    for (int i = 0; pid_ > 0 && i < 100; ++i) {
      if (auto opened = mad_driver::Ibsim::open({.name = name, .node = "A"})) return std::move(*opened);
      ::usleep(20'000);
    }
    return nullptr;
  }

  std::string name;

 private:
  std::string net_;
  pid_t pid_ = -1;
};

/// The packet that ibsim takes for a NodeInfo by one hop; the transaction ID plays no part.
ibsim::Data raw_packet() {
  auto smp = wire::mad::request<mad::MgmtClass::subn_directed, mad::Method::get>(NodeInfo{}, {.transaction_id = 7});
  const std::array<std::uint8_t, 2> path{0, 1};
  static_cast<void>(wire::mad::set_route(smp, {.path = path}));
  ibsim::Data out{};
  out.dlid = out.slid = {0xFF, 0xFF};
  out.mad = smp;
  return out;
}

void raw_loop(int fd, unsigned window) {
  const auto packet = raw_packet();
  ibsim::Data in;
  unsigned sent = 0, came = 0;
  while (came < requests) {
    bool full = false;
    while (sent - came < window && sent < requests && !full) {
      full = ::send(fd, &packet, sizeof(packet), MSG_DONTWAIT) < 0;
      if (!full) ++sent;
    }
    pollfd wait{fd, static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&wait, 1, 1000) <= 0) std::abort();
    while (::recv(fd, &in, sizeof(in), MSG_DONTWAIT) > 0) ++came;
  }
}

mad::Task<void> ask(mad::Port& port, mad::Path path) {
  const auto info = co_await port.subn_get<NodeInfo>(path);
  if (!info) std::abort();
}

mad::Task<void> ask_all(mad::Port& port, std::size_t window) {
  const mad::Path path = *mad::Path::by_route(one_hop);
  unsigned left = requests;
  const auto next = [&]() -> std::optional<mad::Task<void>> {
    if (left-- == 0) return std::nullopt;
    return ask(port, path);
  };
  static_cast<void>(co_await mad::run_each(port, {.limit = window}, next));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "--short") requests = 2000;
  const Simulator simulator;
  const auto transport = simulator.attach();
  if (!transport) {
    std::puts("left out: ibsim is not installed (Debian: ibsim-utils)");
    return 0;
  }
  fmt::print("NodeInfo by one hop, {} requests: CPU of this process per request, and requests a second\n", requests);
  fmt::print("{:>7} {:>22} {:>22} {:>6}\n", "window", "send, recv, poll", "mad::Port", "ratio");
  for (const unsigned window : {1U, 4U, 16U, 64U}) {
    const Figures raw = measured([&] { raw_loop(transport->fd(), window); });
    const mad::WindowOptions windows{.start = window, .least = 1, .most = window};
    mad::Port port(transport->facts(), transport->local(), {.window = windows, .destination_window = windows});
    const Figures own = measured([&] {
      if (!mad_driver::run_blocking(port, *transport, ask_all(port, window))) std::abort();
    });
    fmt::print("{:>7} {:>11.2f} us {:>6.0f}/s {:>11.2f} us {:>6.0f}/s {:>6.2f}\n", window, raw.cpu_us, raw.per_second,
               own.cpu_us, own.per_second, own.cpu_us / raw.cpu_us);
  }
  return 0;
}
