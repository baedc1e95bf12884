// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/plugin/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "cm/neg/guarded.hpp"

namespace parley::neg {
namespace {

using Steady = std::chrono::steady_clock;

/// Before each message: its length, and for a request the seconds after which the process aborts it by itself.
constexpr std::size_t header_size = 8;

enum class TransferResult : std::uint8_t { all, ended, late };

/// One end of the channel between two processes.
struct Channel {
  int fd = -1;
  /// A pidfd of the process at the other end: its forked children may hold its end of the channel open. -1: not
  /// watched.
  int process = -1;
};

/// Waits until the channel is readable or writable, the other process has ended, or the time is over.
TransferResult wait_for(Channel channel, short what, Steady::time_point end) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Steady::now());
    if (left.count() <= 0) return TransferResult::late;
    std::array<pollfd, 2> waits{{{channel.fd, what, 0}, {channel.process, POLLIN, 0}}};
    const int ready =
        ::poll(waits.data(), waits.size(), static_cast<int>(std::min<std::int64_t>(left.count(), 1'000'000)));
    if (ready > 0) return waits[0].revents != 0 ? TransferResult::all : TransferResult::ended;
    if (ready < 0 && errno != EINTR) return TransferResult::late;
  }
}

/// Used by this process (with a time limit) and the other one (without).
template <class Call>
TransferResult transfer(Channel channel, short what, std::size_t size, Steady::time_point end, Call call) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t n = call(done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (const TransferResult waited = wait_for(channel, what, end); waited != TransferResult::all) return waited;
    } else {
      return TransferResult::ended;
    }
  }
  return TransferResult::all;
}
TransferResult send_all(Channel channel, ConstBytes octets, Steady::time_point end) {
  return transfer(channel, POLLOUT, octets.size(), end, [&](std::size_t done) {
    const ConstBytes rest = octets.subspan(done);
    return ::send(channel.fd, rest.data(), rest.size(), MSG_NOSIGNAL);
  });
}
TransferResult read_all(Channel channel, MutBytes octets, Steady::time_point end) {
  return transfer(channel, POLLIN, octets.size(), end, [&](std::size_t done) {
    const MutBytes rest = octets.subspan(done);
    return ::recv(channel.fd, rest.data(), rest.size(), 0);
  });
}

TransferResult send_message(Channel channel, ConstBytes message, Steady::time_point end, std::uint32_t seconds) {
  std::array<std::uint8_t, header_size> header{};
  Writer w(header);
  w.be32(static_cast<std::uint32_t>(message.size()));
  w.be32(seconds);
  const TransferResult first = send_all(channel, header, end);
  return first == TransferResult::all ? send_all(channel, message, end) : first;
}
TransferResult read_message(Channel channel, Bytes& message, Steady::time_point end, std::uint32_t& seconds) {
  std::array<std::uint8_t, header_size> header{};
  if (const TransferResult first = read_all(channel, header, end); first != TransferResult::all) return first;
  Reader r(header);
  const std::uint32_t size = r.be32();
  seconds = r.be32();
  if (size > Process::message_max) return TransferResult::ended;
  message.resize(size);
  return read_all(channel, message, end);
}

/// For the process itself, if no parent is left to end it.
std::uint32_t alarm_after(Duration limit) {
  return static_cast<std::uint32_t>(
      std::min<std::int64_t>(std::chrono::ceil<std::chrono::seconds>(limit).count() + 1, 1U << 30));
}

constexpr int own_channel = STDERR_FILENO + 1;
constexpr int own_life = own_channel + 1;

/// The kernel kills this process and its forked children, i.e. its process group, when the other end of `life`, a pipe
/// into which nothing is written, is closed. That also works for processes that hang or are stopped. PR_SET_PDEATHSIG
/// would follow the thread that forked, not the parent, and applies to one process.
void end_with_parent(int life) {
  (void)::setpgid(0, 0);
  std::signal(SIGTTOU, SIG_IGN);  // it prints from the background of its terminal
  (void)::fcntl(life, F_SETSIG, SIGKILL);
  (void)::fcntl(life, F_SETOWN, -::getpid());
  (void)::fcntl(life, F_SETFL, O_ASYNC);
  pollfd gone{life, 0, 0};  // the parent may have died already
  if (::poll(&gone, 1, 0) > 0) ::_exit(EXIT_FAILURE);
}

/// The process keeps nothing of its parent except standard error.
void leave_the_parent(int channel, int life) {
  std::signal(SIGINT, SIG_IGN);  // meant for the parent, which ends this process
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGCHLD, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const int kept = ::fcntl(life, F_DUPFD, own_life + 1);  // own_channel may have its number
  ::dup2(channel, own_channel);
  ::dup2(kept, own_life);
  if (::close_range(own_life + 1, ~0U, 0) != 0)
    for (int fd = own_life + 1; fd < 65536; ++fd) ::close(fd);
}

[[noreturn]] void serve(Channel channel, Process::Answer answer, Duration end_limit) {
  Bytes request;
  std::uint32_t seconds = 0;
  constexpr Steady::time_point whenever = Steady::time_point::max();
  while (read_message(channel, request, whenever, seconds) == TransferResult::all) {
    ::alarm(seconds);
    const Bytes said = answer(request);
    ::alarm(0);
    if (send_message(channel, said, whenever, 0) != TransferResult::all) break;
  }
  ::alarm(alarm_after(end_limit));
  answer = {};
  ::_exit(EXIT_SUCCESS);
}

std::string words_of(int status) {
  if (WIFSIGNALED(status)) {
    const char* const name = ::strsignal(WTERMSIG(status));
    return name == nullptr ? fmt::format("signal {}", WTERMSIG(status)) : name;
  }
  return fmt::format("exit status {}", WEXITSTATUS(status));
}

/// Returns how it ended; killing a process that has already ended does not change that. Its forked children are killed
/// too: until it is waited for, its number cannot belong to another group.
int kill_and_wait(pid_t pid) {
  int status = 0;
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// It has closed its end, which an exit does before it is complete: wait a moment for it to end by itself, to get its
/// status.
int wait_for_end(pid_t pid) {
  constexpr int looks = 200, pause_ms = 5;
  for (int i = 0; i < looks; ++i) {
    siginfo_t ended{};
    if (::waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == pid) break;
    (void)::poll(nullptr, 0, pause_ms);
  }
  return kill_and_wait(pid);
}

/// A process that ends with this one, in a separate process group. `pid` is 0 in that process, and -1, with errno, if
/// it could not be created.
struct ChildProcess {
  pid_t pid = -1;
  int end = -1;    // this process's end of the result of make_ends
  int life = -1;   // the pipe for end_with_parent(): as long as the parent keeps its end open, the process lives
  int watch = -1;  // the parent's pidfd of it; -1 if the system does not support it
};
template <class MakeEnds>
ChildProcess fork_with(MakeEnds make_ends) {
  int ends[2], life[2];
  if (make_ends(ends) != 0) return {};
  const bool piped = ::pipe2(life, O_CLOEXEC) == 0;
  (void)std::fflush(nullptr);  // otherwise the process might print it again
  const pid_t pid = piped ? ::fork() : -1;
  const int why = errno;
  const int own = pid == 0 ? 1 : 0;
  ::close(ends[1 - own]);
  if (pid < 0) ::close(ends[0]);
  if (piped) ::close(life[own]);
  if (piped && pid < 0) ::close(life[1]);
  errno = why;
  if (pid < 0) return {};
  if (pid == 0) {
    end_with_parent(life[0]);
    return {pid, ends[own], life[0], -1};
  }
  (void)::setpgid(pid, pid);  // so that it is in its group before it can be killed, whichever process runs first
  return {pid, ends[own], life[1], static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
}

}  // namespace

Outcome<std::unique_ptr<Process>> Process::start(Answer answer, Duration end_limit) {
  const ChildProcess process =
      fork_with([](int* ends) { return ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends); });
  if (process.pid < 0)
    return failed(Problem::resource_exhaustion, fmt::format("no process for the plug-in: {}", std::strerror(errno)));
  if (process.pid == 0) {
    leave_the_parent(process.end, process.life);
    serve({own_channel}, std::move(answer), end_limit);
  }
  (void)::fcntl(process.end, F_SETFL, O_NONBLOCK);
  return std::unique_ptr<Process>(new Process(process.pid, process.end, process.life, process.watch, end_limit));
}

Process::~Process() {
  if (pid_ != 0) {
    ::shutdown(channel_, SHUT_WR);  // it reads end of file, and exits
    std::array<std::uint8_t, 1> nothing{};
    (void)read_all({channel_, watch_}, nothing, Steady::now() + end_limit_);
    kill_and_wait(pid_);
  }
  ::close(channel_);
  ::close(life_);
  if (watch_ >= 0) ::close(watch_);
}

tl::unexpected<Failure> Process::over(std::string_view what, Duration limit, bool in_time) {
  const pid_t pid = std::exchange(pid_, 0);
  const int status = in_time ? wait_for_end(pid) : kill_and_wait(pid);
  if (!in_time)
    return failed(Problem::vendor_library_error, fmt::format("{} is not over after {}", what, limit_text(limit)),
                  "its process was ended");
  return failed(Problem::vendor_library_error, fmt::format("{} has ended its process: {}", what, words_of(status)));
}

Outcome<Bytes> Process::ask(std::string_view what, ConstBytes request, Duration limit) {
  if (pid_ == 0) return failed(Problem::vendor_library_error, fmt::format("{} has no process any more", what));
  const Steady::time_point end = Steady::now() + limit;
  Bytes answer;
  std::uint32_t none = 0;
  const Channel channel{channel_, watch_};
  TransferResult moved = send_message(channel, request, end, alarm_after(limit));
  if (moved == TransferResult::all) moved = read_message(channel, answer, end, none);
  if (moved != TransferResult::all) return over(what, limit, moved == TransferResult::ended);
  return answer;
}

tl::expected<int, std::string> run_apart(Duration limit, const std::function<int()>& run) {
  const ChildProcess process = fork_with([](int* ends) { return ::pipe2(ends, O_CLOEXEC); });
  if (process.pid < 0) return tl::unexpected(fmt::format("no process for it: {}", std::strerror(errno)));
  if (process.pid == 0) {
    const auto code = static_cast<std::uint8_t>(run());
    (void)std::fflush(nullptr);
    (void)!::write(process.end, &code, sizeof code);
    ::_exit(code);
  }
  // The code in `run` may have ended the process with any status: only the octet is an answer.
  std::uint8_t code = 0;
  const TransferResult waited = wait_for({process.end, process.watch}, POLLIN, Steady::now() + limit);
  const bool in_time = waited != TransferResult::late;
  const bool answered = waited == TransferResult::all && ::read(process.end, &code, sizeof code) == sizeof code;
  const int status = in_time && !answered ? wait_for_end(process.pid) : kill_and_wait(process.pid);
  ::close(process.end);
  ::close(process.life);
  if (process.watch >= 0) ::close(process.watch);
  if (answered) return code;
  if (!in_time) return tl::unexpected(fmt::format("it is not over after {}; its process was ended", limit_text(limit)));
  return tl::unexpected("it has ended its process: " + words_of(status));
}

}  // namespace parley::neg
