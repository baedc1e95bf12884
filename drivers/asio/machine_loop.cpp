// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/machine_loop.hpp"

#include <utility>  // before Asio: Boost 1.74 uses std::exchange without including it, which g++ 12 notices

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace parley::asio_driver {
namespace {

namespace asio = boost::asio;

// Asio adds the wait to its clock. Duration::max() would overflow, and the wait would return at once.
constexpr Duration longest_sleep = std::chrono::hours(24);

constexpr std::size_t receive_buffer_limit = 1 << 30;

// An unknown congestion control is refused here, once, instead of being ignored for each socket.
bool congestion_known(const std::string& name) {
  if (name.empty()) return true;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int result = ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
  ::close(fd);
  return result == 0;
}

[[noreturn]] void throw_errno() { throw std::system_error(errno, std::generic_category()); }

struct EventFd {
  EventFd() : fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd < 0) throw_errno();
  }
  ~EventFd() { ::close(fd); }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  const int fd;
};

}  // namespace

struct MachineLoop::Waiter {
  Waiter() {
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    try {
      ready.assign(epoll);  // throws for -1 as well
    } catch (...) {
      if (epoll >= 0) ::close(epoll);
      throw;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = StreamSet::wake_data;
    if (::epoll_ctl(epoll, EPOLL_CTL_ADD, wake.fd, &event) != 0) throw_errno();
  }
  EventFd wake;
  asio::io_context io{1};
  asio::posix::stream_descriptor ready{io};  // the socket set as one descriptor, which it owns
  bool armed = false;
};

Result<std::unique_ptr<MachineLoop>> MachineLoop::open(StreamMachine& machine, const TcpHostOptions& options) {
  if (options.streams_max == 0)
    return fail(Errc::invalid_argument, "TcpHostOptions::streams_max is 0; must be at least 1");
  if (options.receive_buffer == 0)
    return fail(Errc::invalid_argument, "TcpHostOptions::receive_buffer is 0; must be at least 1");
  if (options.receive_buffer > receive_buffer_limit)
    return fail(Errc::invalid_argument, "TcpHostOptions::receive_buffer is {a}; at most {b}",
                static_cast<std::int64_t>(std::min(options.receive_buffer, SIZE_MAX / 2)), receive_buffer_limit);
  if (!congestion_known(options.congestion))
    return fail(Errc::unsupported,
                "TcpHostOptions::congestion is not known to this system (sysctl "
                "net.ipv4.tcp_available_congestion_control)");
  try {
    return std::unique_ptr<MachineLoop>(new MachineLoop(machine, options));
  } catch (const std::exception&) {
    // Asio throws if it gets no descriptor, its own or the one that it duplicates; so does Waiter.
    return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
  }
}

MachineLoop::MachineLoop(StreamMachine& machine, const TcpHostOptions& options)
    : machine_(machine),
      waiter_(std::make_unique<Waiter>()),
      streams_(machine, options, waiter_->ready.native_handle(), waiter_->wake.fd) {}

MachineLoop::~MachineLoop() = default;

int MachineLoop::fd() const { return waiter_->ready.native_handle(); }

// Fails only if the counter is at its maximum: then the descriptor is already readable.
void MachineLoop::wake() noexcept { (void)::eventfd_write(waiter_->wake.fd, 1); }

// Commands and deadlines, then their output, then the sockets' input. A turn that wrote something leaves the sockets to
// the next turn: an answer cannot have arrived yet, except from another socket of this host that answers at once. Never
// twice in a row, or a busy writer would not read.
bool MachineLoop::turn(bool polling) {
  const Instant now = clock_now();
  machine_.handle_deadline(now);
  const bool drained = streams_.drain(now);
  skipped_ = drained && !skipped_;
  if (skipped_) {
    skipped_ = !streams_.serve_partner();
    return true;
  }
  return streams_.serve(polling) || drained;
}

void MachineLoop::sleep(Duration longest) {
  const Instant now = clock_now();
  const Instant deadline = next_deadline();
  if (deadline != never) longest = std::min(longest, std::max(deadline - now, Duration{}));
  if (!waiter_->armed) {
    waiter_->armed = true;
    waiter_->ready.async_wait(asio::posix::stream_descriptor::wait_read,
                              [waiter = waiter_.get()](const auto&) { waiter->armed = false; });
  }
  waiter_->io.restart();
  // Asio waits in whole milliseconds, rounded up: late enough for every deadline.
  waiter_->io.run_one_for(std::min(longest, longest_sleep));
}

}  // namespace parley::asio_driver
