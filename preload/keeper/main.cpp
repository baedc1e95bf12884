// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// parley-port: the process that opens UDP port 4791 for all processes of a user that share an address. libparley_verbs.so
// starts it on demand, and it ends when no process needs it. It returns as soon as it listens, or if another one does.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "drivers/secure_env.hpp"
#include "preload/keeper/server.hpp"
#include "preload/port/place.hpp"

namespace {

constexpr rlim_t descriptors_wanted = 65536;

/// Descriptors of the program that started this one, its terminal among them.
void close_inherited() {
  if (::close_range(3, ~0U, 0) != 0) {
    rlimit limit{};
    (void)::getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 3; fd < static_cast<int>(std::min(limit.rlim_max, descriptors_wanted)); ++fd) ::close(fd);
  }
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  int null = ::open("/dev/null", O_RDWR);
  if (null < 0) null = ::eventfd(0, 0);  // the numbers must be taken, so that nothing is written to a socket
  for (int fd = 0; fd < 3; ++fd)
    if (fd != null) (void)::dup2(null, fd);
}

void reset_signals() {
  for (int number = 1; number < NSIG; ++number) (void)::signal(number, SIG_DFL);
  (void)::signal(SIGPIPE, SIG_IGN);
  (void)::signal(SIGHUP, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  (void)::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void raise_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, descriptors_wanted));
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int main(int argc, char**) {
  using namespace parley::preload::port;  // NOLINT: the program is nothing else
  if (argc > 1 || parley::has_more_rights()) {
    std::fputs("parley-port is started by programs under `parley run`, without arguments\n", stderr);
    return 2;
  }
  close_inherited();
  reset_signals();
  raise_limit();
  (void)::umask(077);
  const KeeperAddress at(keeper_name());
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return 1;
  if (::bind(listener, at.get(), at.size) != 0) return errno == EADDRINUSE ? 0 : 1;
  if (::listen(listener, 128) != 0) return 1;
  const pid_t child = ::fork();
  if (child != 0) return child < 0 ? 1 : 0;
  (void)::setsid();
  (void)!::chdir("/");
  try {
    Server(listener).run();
  } catch (...) {  // out of memory: the members start another one
    return 1;
  }
  return 0;
}
