// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The host: provider, manager and socket set, and the one place where the thread sleeps, which is Asio's.
#include <utility>  // before Asio: Boost 1.74 uses std::exchange without including it, which g++ 12 notices

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "cm/providers/iwarp.hpp"
#include "drivers/asio/stream_set.hpp"
#include "parley/tcp_host.hpp"

namespace parley {
namespace {

using asio_driver::StreamSet;
namespace asio = boost::asio;

// Asio adds the wait to its clock, which Duration::max() would carry past its end: such a wait would not wait at all.
constexpr Duration longest_sleep = std::chrono::hours(24);

class Host final : public TcpHost {
 public:
  Host(const TcpHostOptions& options, int epoll)
      : ready_(io_, epoll),
        provider_(cm::make_iwarp_provider(provider_options(options))),
        manager_(*provider_),
        streams_(*provider_, options, epoll) {}

  cm::Manager& cm() override { return manager_; }
  Device& device() override { return provider_->device(); }
  Instant now() const override { return StreamSet::clock(); }
  void set_tap(Tap tap) override { streams_.set_tap(std::move(tap)); }

  bool run_once(Duration wait) override {
    if (turn(wait <= Duration{}) || provider_->has_events()) return true;
    if (wait <= Duration{}) return false;
    const Instant now = StreamSet::clock();
    const Instant deadline = std::min(provider_->next_deadline(), streams_.next_deadline());
    if (deadline != never) wait = std::min(wait, std::max(deadline - now, Duration{}));
    sleep(std::min(wait, longest_sleep));
    return turn(false) || provider_->has_events();
  }

 private:
  static cm::IwarpProviderOptions provider_options(const TcpHostOptions& options) {
    cm::IwarpProviderOptions out;
    // A stream that ended may live on as an id until the user destroys it, and listeners are endpoints too.
    out.endpoints_max = static_cast<std::uint32_t>(std::min<std::size_t>(2 * options.streams_max + 1024, 1U << 24));
    return out;
  }

  // Commands and deadlines, then what they made, then what the sockets have. A turn that had something to write leaves
  // the sockets to the next: an answer cannot be there yet, save from another socket of this host that keeps answering.
  // Never twice in a row, or a busy writer would not read.
  bool turn(bool polling) {
    const Instant now = StreamSet::clock();
    provider_->handle_deadline(now);
    const bool drained = streams_.drain(now);
    skipped_ = drained && !skipped_;
    if (skipped_) {
      skipped_ = !streams_.serve_partner();
      return true;
    }
    return streams_.serve(polling) || drained;
  }

  void sleep(Duration wait) {
    if (!armed_) {
      armed_ = true;
      ready_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const auto&) { armed_ = false; });
    }
    io_.restart();
    // Asio waits in whole milliseconds, rounded up, which is late enough for every deadline and never early.
    io_.run_one_for(wait);
  }

  asio::io_context io_{1};
  asio::posix::stream_descriptor ready_;  // the socket set as one descriptor; owns it
  bool armed_ = false;
  bool skipped_ = false;
  std::unique_ptr<cm::IwarpProvider> provider_;
  cm::Manager manager_;
  StreamSet streams_;
};

// An unknown congestion control is refused here, once, and not silently ignored for each socket.
bool congestion_known(const std::string& name) {
  if (name.empty()) return true;
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const int result = ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size()));
  ::close(fd);
  return result == 0;
}

}  // namespace

Result<std::unique_ptr<TcpHost>> TcpHost::open(const TcpHostOptions& options) {
  if (options.streams_max == 0 || options.receive_buffer == 0) return fail(Errc::invalid_argument);
  if (!congestion_known(options.congestion)) return fail(Errc::unsupported);
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return fail(Errc::no_space);
  try {
    return std::make_unique<Host>(options, epoll);
  } catch (const std::exception&) {
    // Asio throws when the system refuses it a descriptor of its own.
    ::close(epoll);
    return fail(Errc::no_space);
  }
}

}  // namespace parley
