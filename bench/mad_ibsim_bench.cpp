// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The cost of a request over ibsim in this process: mad::Port's coroutines over the socket transport, compared with a
// loop of send, recv and poll on the same socket with the same packet. The bench starts ibsim, which answers. The
// figure is this process's CPU time, because ibsim limits the rate. Then the same loop sends requests to ibsim and
// `parley fabric` in turn: how many requests each answers, and with how much CPU time. Last, the loop and mad::Port in
// turn request PathRecords from opensm. --short: a few requests, which show that it runs. --requests N: that many each
// time. --parley FILE: the command, if it is not in ../bin.
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "bench/harness.hpp"
#include "drivers/mad/ibsim.hpp"
#include "drivers/mad/run.hpp"

extern char** environ;

namespace {

using namespace parley;
using bench::median;
using wire::mad::NodeInfo;
using wire::mad::PathRecord;

unsigned requests = 100'000;
const std::array<std::uint8_t, 1> one_hop{1};

struct Figures {
  double cpu_us, per_second;
};
template <class Work>
Figures measured(const Work& work) {
  const double cpu = bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID), wall = bench::seconds_of(CLOCK_MONOTONIC);
  work();
  return {(bench::seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / requests,
          requests / (bench::seconds_of(CLOCK_MONOTONIC) - wall)};
}

/// Starts a program without output, in `folder`; -1: it did not start.
pid_t spawn(std::vector<std::string> command, char** environment, const std::string& folder = "/tmp") {
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addchdir_np(&quiet, folder.c_str());
  pid_t pid = -1;
  if (::posix_spawnp(&pid, argv[0], &quiet, nullptr, argv.data(), environment) != 0) pid = -1;
  ::posix_spawn_file_actions_destroy(&quiet);
  return pid;
}
void end(pid_t pid) {
  if (pid <= 0) return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

/// A server of ibsim's protocol with a switch and two hosts, which runs as long as this object exists.
class Server {
 public:
  /// `command`: its words; the name of the subnet file is appended.
  explicit Server(std::vector<std::string> command) {
    static int servers = 0;
    name = fmt::format("parleybench{}.{}", ::getpid(), ++servers);
    net_ = fmt::format("/tmp/{}.net", name);
    std::ofstream(net_)
        << "Switch 4 \"S\"\n[1] \"A\"[1]\n[2] \"B\"[1]\n\nHca 1 \"A\"\n[1] \"S\"[1]\n\nHca 1 \"B\"\n[1] \"S\"[2]\n";
    ::setenv("IBSIM_SOCKNAME", name.c_str(), 1);  // both servers use it
    command.push_back(net_);
    pid_ = spawn(command, environ);
  }
  ~Server() {
    end(pid_);
    ::unlink(net_.c_str());
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::unique_ptr<mad_driver::Ibsim> attach() const {
    for (int i = 0; pid_ > 0 && i < 100; ++i) {
      if (auto opened = mad_driver::Ibsim::open({.name = name, .node = "A"})) return std::move(*opened);
      ::usleep(20'000);
    }
    return nullptr;
  }
  /// CPU seconds that it has used.
  double used() const {
    clockid_t clock = 0;
    return ::clock_getcpuclockid(pid_, &clock) == 0 ? bench::seconds_of(clock) : 0;
  }

  std::string name;

 private:
  std::string net_;
  pid_t pid_ = -1;
};

/// ibsim's packet for a NodeInfo request over one hop; the transaction ID does not matter.
ibsim::Data node_info_packet() {
  auto smp = wire::mad::request<mad::MgmtClass::subn_directed, mad::Method::get>(NodeInfo{}, {.transaction_id = 7});
  const std::array<std::uint8_t, 2> path{0, 1};
  static_cast<void>(wire::mad::set_route(smp, {.path = path}));
  ibsim::Data out{};
  out.dlid = out.slid = {0xFF, 0xFF};
  out.mad = smp;
  return out;
}

wire::mad::Query<PathRecord> path_query() {
  return wire::mad::Query<PathRecord>().set(PathRecord::slid, 1).set(PathRecord::dlid, 2);
}
/// A request for the PathRecord from LID 1 to LID 2, to the subnet manager at `sm_lid`.
ibsim::Data path_packet(std::uint16_t sm_lid) {
  const auto query = path_query();
  ibsim::Data out{};
  write_bits(out.dlid, 0, 16, sm_lid);
  write_bits(out.dqp, 0, 32, 1);
  write_bits(out.sqp, 0, 32, 1);
  out.mad = wire::mad::request<mad::MgmtClass::subn_adm, mad::Method::get>(
      query.record(), {.transaction_id = 7, .component_mask = query.component_mask()});
  return out;
}

void raw_loop(int fd, const ibsim::Data& packet, unsigned window) {
  ibsim::Data in;
  unsigned sent = 0, came = 0;
  while (came < requests) {
    bool full = false;
    while (sent - came < window && sent < requests && !full) {
      full = ::send(fd, &packet, sizeof(packet), MSG_DONTWAIT) < 0;
      if (!full) ++sent;
    }
    pollfd wait{fd, static_cast<short>(full ? POLLIN | POLLOUT : POLLIN), 0};
    if (::poll(&wait, 1, 10'000) <= 0) std::abort();
    while (::recv(fd, &in, sizeof(in), MSG_DONTWAIT) > 0) ++came;
  }
}

mad::Task<void> ask_path(mad::Port& port) {
  const auto record = co_await port.sa_get(path_query());
  if (!record) std::abort();
}
mad::Task<void> ask_node(mad::Port& port) {
  static const mad::Path path = *mad::Path::by_route(one_hop);
  const auto info = co_await port.subn_get<NodeInfo>(path);
  if (!info) std::abort();
}

/// `one` makes the task for a request.
template <class One>
mad::Task<void> ask_all(mad::Port& port, std::size_t window, One one) {
  unsigned left = requests;
  const auto next = [&]() -> std::optional<mad::Task<void>> {
    if (left-- == 0) return std::nullopt;
    return one(port);
  };
  static_cast<void>(co_await mad::run_each(port, {.limit = window}, next));
}

/// Unmodified opensm at node B of ibsim's subnet, with ibsim's preload library.
class SubnetManager {
 public:
  explicit SubnetManager(const Server& of) : folder_(fmt::format("/tmp/{}", of.name)) {
    glob_t found{};
    if (::glob("/usr/lib/*/umad2sim/libumad2sim.so", 0, nullptr, &found) != 0) return;
    std::filesystem::create_directory(folder_);
    std::vector<std::string> settings{fmt::format("LD_PRELOAD={}", found.gl_pathv[0]), "SIM_HOST=B"};
    for (const char* name : {"OSM_TMP_DIR", "OSM_CACHE_DIR"}) settings.push_back(fmt::format("{}={}", name, folder_));
    std::vector<char*> environment;
    for (std::string& setting : settings) environment.push_back(setting.data());
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    environment.push_back(nullptr);
    ::globfree(&found);
    pid_ = spawn({"/usr/sbin/opensm", "-f", folder_ + "/log", "-maxsmps", "32"}, environment.data(), folder_);
  }
  ~SubnetManager() {
    end(pid_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  SubnetManager(const SubnetManager&) = delete;
  SubnetManager& operator=(const SubnetManager&) = delete;
  bool runs() const { return pid_ > 0; }

 private:
  std::string folder_;
  pid_t pid_ = -1;
};

/// The subnet manager's LID, when it answers. None: it did not answer in time.
std::optional<std::uint16_t> manager_of(const Server& server) {
  for (int i = 0; i < 200; ++i) {
    ::usleep(100'000);
    const auto transport = server.attach();
    if (!transport || transport->local().sm_lid == 0) continue;
    mad::Port port(transport->facts(), transport->local());
    const auto reply = mad_driver::run_blocking(port, *transport, port.sa_get(path_query()));
    if (reply && *reply) return transport->local().sm_lid;
  }
  return std::nullopt;
}

const std::vector<std::string> ibsim_words{"ibsim", "-s", "-n"};
constexpr unsigned rounds = 5;
constexpr std::array<unsigned, 4> measured_windows{1, 4, 16, 64};

bool compare_clients() {
  const Server simulator(ibsim_words);
  const auto transport = simulator.attach();
  if (!transport) return false;
  fmt::print("NodeInfo by one hop, {} requests: CPU of this process per request, and requests a second\n", requests);
  fmt::print("{:>7} {:>22} {:>22} {:>6}\n", "window", "send, recv, poll", "mad::Port", "ratio");
  for (const unsigned window : measured_windows) {
    const Figures raw = measured([&] { raw_loop(transport->fd(), node_info_packet(), window); });
    const mad::WindowOptions windows{.start = window, .least = 1, .most = window};
    mad::Port port(transport->facts(), transport->local(), {.window = windows, .destination_window = windows});
    const Figures own = measured([&] {
      if (!mad_driver::run_blocking(port, *transport, ask_all(port, window, ask_node))) std::abort();
    });
    fmt::print("{:>7} {:>11.2f} us {:>6.0f}/s {:>11.2f} us {:>6.0f}/s {:>6.2f}\n", window, raw.cpu_us, raw.per_second,
               own.cpu_us, own.per_second, own.cpu_us / raw.cpu_us);
  }
  return true;
}

/// Runs two ways in turn, round by round. Prints a row with the medians of both, and of the ratios of their rates.
void print_alternating(unsigned window, const std::array<std::function<Figures()>, 2>& ways) {
  std::array<std::vector<double>, 2> rates, costs;
  std::vector<double> ratios;
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned which = (round + i) % 2;
      const Figures figures = ways[which]();
      rates[which].push_back(figures.per_second);
      costs[which].push_back(figures.cpu_us);
    }
    ratios.push_back(rates[1].back() / rates[0].back());
  }
  fmt::print("{:>7} {:>8.0f}/s {:>8.2f} us {:>8.0f}/s {:>8.2f} us {:>6.2f}\n", window, median(rates[0]),
             median(costs[0]), median(rates[1]), median(costs[1]), median(ratios));
}

bool compare_servers(const std::string& parley) {
  const Server ibsim(ibsim_words), own({parley, "fabric"});
  const auto to_ibsim = ibsim.attach(), to_own = own.attach();
  if (!to_ibsim || !to_own) return false;
  fmt::print("\nthe same requests by send, recv and poll: requests a second, and the server's CPU per request\n");
  fmt::print("{:>7} {:>22} {:>22} {:>6}\n", "window", "ibsim", "parley fabric", "ratio");
  const auto asks = [](const Server& server, const mad_driver::Ibsim& transport, unsigned window) {
    const double before = server.used();
    const double rate = measured([&] { raw_loop(transport.fd(), node_info_packet(), window); }).per_second;
    return Figures{(server.used() - before) * 1e6 / requests, rate};
  };
  for (const unsigned window : measured_windows)
    print_alternating(window,
                      {[&] { return asks(ibsim, *to_ibsim, window); }, [&] { return asks(own, *to_own, window); }});
  return true;
}

/// opensm is the limit: compares the coroutines' rate with the rate that the loop gets from it.
bool compare_paths() {
  const Server simulator(ibsim_words);
  if (!simulator.attach()) return false;
  const SubnetManager manager(simulator);
  const auto lid = manager.runs() ? manager_of(simulator) : std::nullopt;
  const auto transport = simulator.attach();
  if (!lid || !transport) return false;
  fmt::print("\nPathRecords of opensm, {} requests: requests a second, and CPU of this process per request\n",
             requests);
  fmt::print("{:>7} {:>22} {:>22} {:>6}\n", "window", "send, recv, poll", "mad::Port", "ratio");
  for (const unsigned window : {16U, 64U}) {
    const mad::WindowOptions windows{.start = window, .least = 1, .most = window};
    mad::Port port(transport->facts(), transport->local(), {.window = windows, .destination_window = windows});
    const auto by_port = [&] {
      if (!mad_driver::run_blocking(port, *transport, ask_all(port, window, ask_path))) std::abort();
    };
    print_alternating(window, {[&] { return measured([&] { raw_loop(transport->fd(), path_packet(*lid), window); }); },
                               [&] { return measured(by_port); }});
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::string parley = std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / "parley";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--short") {
      requests = 2000;
    } else if (word == "--requests" && i + 1 < argc) {
      requests = static_cast<unsigned>(std::max(1, std::atoi(argv[++i])));
    } else if (word == "--parley" && i + 1 < argc) {
      parley = std::filesystem::absolute(argv[++i]);
    } else if (!word.starts_with("--benchmark_")) {  // ignored: options of Google Benchmark programs
      fmt::print(stderr, "usage: mad_ibsim_bench [--short] [--requests N] [--parley FILE]\n");
      return 2;
    }
  }
  if (!compare_clients()) {
    std::puts("left out: ibsim is not installed (Debian: ibsim-utils)");
    return 0;
  }
  if (!compare_servers(parley)) {
    fmt::print(stderr, "mad_ibsim_bench: '{}' does not serve\n", parley);
    return 3;
  }
  if (!compare_paths()) std::puts("left out: opensm does not run on ibsim here (Debian: opensm, ibsim-utils)");
  return 0;
}
