// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/port_start.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "drivers/clock.hpp"
#include "drivers/secure_env.hpp"
#include "preload/port/place.hpp"

namespace parley::preload {

namespace {

constexpr Duration start_within = std::chrono::seconds(10);  // on a busy machine; usually some ms
constexpr int starts_max = 3;
constexpr std::size_t stack_size = 64 << 10;

struct Start {
  const char* program;
  std::max_align_t* stack_end;  // of run_keeper()
  int error;
};

/// In the memory of the parent, which waits until this has called execve(2) or _exit(2).
int run_keeper(void* argument) {
  auto* const start = static_cast<Start*>(argument);
  char* const arguments[] = {const_cast<char*>(start->program), nullptr};
  char* const environment[] = {nullptr};  // LD_PRELOAD is not for the keeper
  ::execve(start->program, arguments, environment);
  start->error = errno;
  ::_exit(127);
}

/// Waits for the keeper's first process in the program's place: execve(2) gives a process back the signal SIGCHLD for its
/// parent, and this one calls none. Shares the memory of the program, too, whose thread waits.
int start_child(void* argument) {
  auto* const start = static_cast<Start*>(argument);
  (void)::signal(SIGCHLD, SIG_DFL);  // of this process only; ignored, there would be no status
  const pid_t child = ::clone(run_keeper, start->stack_end, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
  if (child < 0) start->error = errno;
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

/// Starts the keeper, and returns when it listens: 0 or an errno. The program notices nothing: no handler of fork(2) runs,
/// and the child's end sends no SIGCHLD, and its wait(2) does not report it.
int start_keeper(const std::string& program) {
  constexpr std::size_t each = stack_size / sizeof(std::max_align_t);
  std::vector<std::max_align_t> stacks(2 * each);
  Start start{.program = program.c_str(), .stack_end = stacks.data() + each, .error = 0};
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::clone(start_child, stacks.data() + stacks.size(), CLONE_VM | CLONE_VFORK, &start);
  int error = child < 0 ? errno : start.error, status = 0;
  while (child > 0 && ::waitpid(child, &status, __WALL) < 0 && errno == EINTR) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) error = EPERM;
  return error;
}

}  // namespace

std::string keeper_program() {
  Dl_info info{};
  static const char here = 0;
  if (has_more_rights() || ::dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return {};
  char* const real = ::realpath(info.dli_fname, nullptr);
  if (real == nullptr) return {};
  const std::string library = real;
  std::free(real);
  const std::string program = library.substr(0, library.rfind('/') + 1) + "parley-port";
  return ::access(program.c_str(), X_OK) == 0 ? program : std::string();
}

int connect_keeper(std::string& why) {
  const std::string program = keeper_program();
  if (program.empty()) return why = "parley-port is not next to libparley_verbs.so", -1;
  const port::KeeperAddress at(port::keeper_name());
  int starts = 0;
  for (const Instant end = clock_now() + start_within; clock_now() < end;) {
    const int fd = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return why = std::string("a Unix socket: ") + std::strerror(errno), -1;
    if (::connect(fd, at.get(), at.size) == 0) {
      if (port::same_user(fd)) return fd;
      ::close(fd);
      return why = "another user has the name of this user's parley-port", -1;
    }
    const int error = errno;
    ::close(fd);
    if (error == ECONNREFUSED && starts < starts_max) {
      ++starts;
      if (const int failed = start_keeper(program)) return why = program + ": " + std::strerror(failed), -1;
      continue;
    }
    if (error != ECONNREFUSED && error != EAGAIN && error != EINTR)
      return why = std::string("parley-port's socket: ") + std::strerror(error), -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return why = "parley-port does not answer", -1;
}

}  // namespace parley::preload
