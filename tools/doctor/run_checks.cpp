// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/doctor/run_checks.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/escape.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/gid_addresses.hpp"
#include "drivers/asio/packet_pace.hpp"
#include "drivers/asio/port_sockets.hpp"
#include "parley/wire/ib.h"
#include "tools/own_program.hpp"
#include "tools/run/program.hpp"

extern char** environ;

namespace parley::tools {

namespace {

constexpr char library_name[] = "libparley_verbs.so";

Check check_library() {
  Check check{
      .name = "verbs-programs", .verdict = Verdict::works, .found = {}, .advice = {}, .details = Json::object()};
  const std::string library = own_library(library_name);
  void* const loaded = library.empty() ? nullptr : ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (loaded != nullptr) {
    ::dlclose(loaded);
    check.found = "'parley run' runs RDMA programs without an RDMA device";
    return check;
  }
  check.verdict = Verdict::fails;
  check.found = library.empty() ? fmt::format("{} was not found", library_name) : printable(::dlerror(), false);
  check.advice = "build or install Parley where libibverbs is (Debian: libibverbs-dev)";
  return check;
}

/// "ib_send_bw (4711)": the process that has the socket, if this user may see its descriptors; `only`: with that name.
std::optional<std::string> owner_of(std::uint64_t inode, std::string_view only = {}) {
  const std::string wanted = fmt::format("socket:[{}]", inode);
  std::error_code none;
  for (std::filesystem::directory_iterator process("/proc", none), end; !none && process != end;
       process.increment(none)) {
    const std::string pid = process->path().filename().string();
    if (std::isdigit(static_cast<unsigned char>(pid.front())) == 0) continue;
    std::error_code hidden;
    for (std::filesystem::directory_iterator fd(process->path() / "fd", hidden), last; !hidden && fd != last;
         fd.increment(hidden)) {
      std::error_code gone;
      if (std::filesystem::read_symlink(fd->path(), gone).string() != wanted) continue;
      std::ifstream comm(process->path() / "comm");
      std::string name;
      std::getline(comm, name);
      if (!only.empty() && name != only) continue;
      return fmt::format("{} ({})", printable(name, false), pid);  // the process chose its name
    }
  }
  return std::nullopt;
}

/// Whether the socket is one that programs under `parley run` share.
bool is_shared(const asio_driver::PortSocket& socket) {
  return socket.user == ::geteuid() && owner_of(socket.inode, "parley-port").has_value();
}

Check check_addresses() {
  Check check{.name = "run-addresses", .verdict = Verdict::works, .found = {}, .advice = {}, .details = Json::object()};
  const auto addresses = asio_driver::gid_addresses("");
  if (!addresses) {
    check.verdict = Verdict::fails;
    check.found = addresses.error().sentence();
    check.advice = "bring the loopback interface up: ip link set lo up";
    return check;
  }
  std::vector<std::string> all, taken;
  for (Address address : *addresses) {
    all.push_back(asio_driver::text_without_port(address));
    address.port = PARLEY_ROCE_UDP_PORT;
    if (!asio_driver::can_be_bound(address)) taken.push_back(all.back());
  }
  check.details = {{"addresses", all}, {"in_use", taken}};
  check.found = fmt::format("GIDs without -a: {}", fmt::join(all, ", "));
  if (taken.empty()) return check;
  std::vector<std::string> owners;
  const auto sockets = asio_driver::roce_port_sockets();
  if (std::all_of(sockets.begin(), sockets.end(), is_shared)) {
    check.found += fmt::format("; programs under parley run share UDP port {} at {}", PARLEY_ROCE_UDP_PORT,
                               fmt::join(taken, ", "));
    return check;
  }
  for (const auto& socket : sockets)
    owners.push_back(
        owner_of(socket.inode).value_or(fmt::format("the kernel (rxe), or a process of user {}", socket.user)));
  check.verdict = Verdict::limited;
  check.found += fmt::format("; UDP port {} is in use at {}, by {}", PARLEY_ROCE_UDP_PORT, fmt::join(taken, ", "),
                             fmt::join(owners, ", "));
  check.advice = "give the program an address that is free: parley run -a 127.0.0.3 PROGRAM";
  return check;
}

/// Without these, programs run with limits.
Check check_services() {
  Check check{.name = "run-services", .verdict = Verdict::works, .found = {}, .advice = {}, .details = Json::object()};
  const bool diagnosis = asio_driver::SocketPace::open() != nullptr;  // as programs ask
  std::error_code none;
  const std::string folder = std::filesystem::temp_directory_path(none).string();
  const bool writable = !none && ::access(folder.c_str(), W_OK | X_OK) == 0;
  check.details = {{"sock_diag", diagnosis}, {"temporary_folder", folder}};
  check.found = "sock_diag(7) reports the buffers of UDP sockets, and the temporary folder can be written";
  if (writable && diagnosis) return check;
  check.verdict = Verdict::limited;
  check.found = writable
                    ? "sock_diag(7) does not report the buffers of UDP sockets: UC and UD may lose packets on one host"
                    : "the temporary folder cannot be written: programs do not find the device's files in /sys";
  check.advice = writable ? "load the module udp_diag, and allow netlink sockets (NETLINK_SOCK_DIAG)"
                          : "set TMPDIR to a folder that can be written";
  return check;
}

/// The environment of the child: that of this process, without what an outer `parley run` has set.
std::vector<std::string> child_environment(const std::string& library, const std::string& address) {
  std::vector<std::string> out{"LD_PRELOAD=" + library, "PARLEY_VERBS_ADDRESS=" + address};
  for (char** at = environ; *at != nullptr; ++at)
    if (std::strncmp(*at, "LD_PRELOAD=", 11) != 0 && std::strncmp(*at, "PARLEY_VERBS_", 13) != 0) out.emplace_back(*at);
  return out;
}

/// Standard output and error of the program, until it ends or the time is over. Empty: it could not be started.
std::string output_of(const std::vector<std::string>& words, const std::vector<std::string>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const asio_driver::Descriptor from(ends[0]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) ::posix_spawn_file_actions_adddup2(&actions, ends[1], fd);
  std::vector<char*> argv, envp;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& entry : environment) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) return {};
  std::string out;
  constexpr std::size_t most = 1 << 16;
  constexpr int patience_ms = 5000;
  std::array<char, 4096> room{};
  for (pollfd ready{from.fd, POLLIN, 0}; out.size() < most && ::poll(&ready, 1, patience_ms) > 0;) {
    const ssize_t got = ::read(from.fd, room.data(), room.size());
    if (got <= 0) break;
    out.append(room.data(), static_cast<std::size_t>(got));
  }
  ::kill(child, SIGKILL);  // it has closed its output, or hangs
  ::waitpid(child, nullptr, 0);
  return out;
}

/// This command, preloaded, asks libibverbs for its devices.
Check check_live() {
  Check check{.name = "run-live", .verdict = Verdict::fails, .found = {}, .advice = {}, .details = Json::object()};
  const auto pid = static_cast<unsigned>(::getpid());
  const std::string address = fmt::format("127.253.{}.{}", pid >> 8 & 255, pid & 255);
  const std::string said =
      output_of({own_program().string(), "doctor", "rdmacm"}, child_environment(own_library(library_name), address));
  check.details = {{"address", address}};
  if (said.find("parley0 (") != std::string::npos && said.find("::ffff:" + address) != std::string::npos) {
    check.verdict = Verdict::works;
    check.found = fmt::format("a program opened the device parley0 at {}", address);
    return check;
  }
  check.found = "a program started with the preload library found no device: " +
                printable(said.substr(0, said.find('\n')), false);
  check.advice = "parley run -v -a 127.0.0.1 ibv_devinfo";
  return check;
}

}  // namespace

std::vector<Check> check_run() {
  std::vector<Check> out{check_library(), check_addresses(), check_services()};
  if (out.front().verdict == Verdict::works) out.push_back(check_live());
  return out;
}

}  // namespace parley::tools
