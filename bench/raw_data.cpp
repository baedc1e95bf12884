// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "bench/raw_epoll.hpp"
#include "bench/raw_socket.hpp"
#include "mpa/crc32c.hpp"

namespace parley::bench {
namespace {

constexpr std::size_t receive_at_once = 256 << 10;
constexpr std::size_t send_at_once =
    256 << 10;  // octets that stay in the second-level cache until the same thread reads them

struct Pair {
  Fd initiator, responder;
};

Pair connected_pair(const std::string& congestion) {
  std::uint16_t port = 0;
  const Fd listener = listen_anywhere(port, congestion);
  Pair pair;
  pair.initiator = Fd(checked(::socket(AF_INET, SOCK_STREAM, 0), "socket"));
  if (!congestion.empty()) {
    checked(::setsockopt(pair.initiator.get(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                         static_cast<socklen_t>(congestion.size())),
            "TCP_CONGESTION");
  }
  const sockaddr_in address = loopback_address(port, 0);
  checked(::connect(pair.initiator.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), "connect");
  pair.responder = Fd(checked(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK), "accept4"));
  const int on = 1;
  for (const int fd : {pair.initiator.get(), pair.responder.get()}) {
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    const int flags = ::fcntl(fd, F_GETFL);
    checked(::fcntl(fd, F_SETFL, flags | O_NONBLOCK), "fcntl");
  }
  return pair;
}

/// An epoll instance with some sockets; each end of a two-thread run has its own.
class Poller {
 public:
  Poller() : epoll_(checked(::epoll_create1(0), "epoll_create1")) {}
  void add(int fd, std::uint32_t events) { watch(epoll_.get(), fd, events, static_cast<std::uint64_t>(fd)); }
  template <class F>
  void turn(int wait_ms, F&& ready) {
    std::array<epoll_event, 8> events;
    const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), wait_ms);
    for (int i = 0; i < n; ++i) ready(static_cast<int>(events[static_cast<std::size_t>(i)].data.u64));
  }

 private:
  Fd epoll_;
};

class BulkSender {
 public:
  BulkSender(int fd, const BulkOptions& options)
      : fd_(fd), crc_(options.crc), left_(options.total), chunk_(options.chunk, 0x5A) {}
  bool done() const { return left_ == 0; }
  /// Sends until the socket accepts no more; first continues a partly sent chunk.
  void ready() {
    while (left_ > 0 && ready_once()) {
    }
  }
  /// One send(), so that the octets are still in the cache when the receiver on the same thread reads them. False:
  /// nothing was sent.
  bool ready_once() {
    const std::size_t want = std::min<std::uint64_t>({left_, chunk_.size() - offset_, send_at_once});
    if (want == 0) return false;
    if (crc_ && !summed_) sum_ = mpa::crc32c_extend(sum_, ConstBytes(chunk_).subspan(offset_, want));
    summed_ = true;
    const ssize_t n = ::send(fd_, chunk_.data() + offset_, want, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) return false;
    checked(n, "send");
    left_ -= static_cast<std::uint64_t>(n);
    offset_ = (offset_ + static_cast<std::size_t>(n)) % chunk_.size();
    summed_ = false;
    return true;
  }

 private:
  int fd_;
  bool crc_;
  bool summed_ = false;  ///< the CRC of the piece at offset_ is computed; a refused send() does not repeat it
  std::uint32_t sum_ = mpa::crc32c_init;
  std::uint64_t left_;
  std::size_t offset_ = 0;
  Bytes chunk_;
};

class BulkReceiver {
 public:
  BulkReceiver(int fd, const BulkOptions& options)
      : fd_(fd),
        left_(options.total),
        buffer_(options.crc ? receive_at_once : std::max(receive_at_once, options.chunk)),
        region_(options.crc ? options.chunk : 0) {}
  bool done() const { return left_ == 0; }
  void ready() {
    // A message that is longer than one read is assembled in a buffer of its length.
    const std::size_t at = region_.empty() ? offset_ : 0;
    const ssize_t n = ::recv(fd_, buffer_.data() + at, std::min(receive_at_once, buffer_.size() - at), 0);
    if (n < 0 && errno == EAGAIN) return;
    checked(n, "recv");
    left_ -= std::min<std::uint64_t>(left_, static_cast<std::uint64_t>(n));
    if (!region_.empty())
      place(ConstBytes(buffer_).first(static_cast<std::size_t>(n)));
    else if (buffer_.size() > receive_at_once)
      offset_ = (offset_ + static_cast<std::size_t>(n)) % buffer_.size();
  }

 private:
  void place(ConstBytes in) {
    while (!in.empty()) {
      const ConstBytes piece = in.first(std::min(in.size(), region_.size() - offset_));
      sum_ = mpa::crc32c_copy(sum_, region_.data() + offset_, piece);
      offset_ = (offset_ + piece.size()) % region_.size();
      in = in.subspan(piece.size());
    }
  }

  int fd_;
  std::uint64_t left_;
  std::size_t offset_ = 0;
  std::uint32_t sum_ = mpa::crc32c_init;
  Bytes buffer_;
  Bytes region_;  ///< the destination of messages; empty if the buffer is the destination
};

Sample bulk_on_one_thread(const Pair& pair, const BulkOptions& options) {
  BulkSender sender(pair.initiator.get(), options);
  BulkReceiver receiver(pair.responder.get(), options);
  Poller poller;
  poller.add(pair.initiator.get(), EPOLLOUT);
  poller.add(pair.responder.get(), EPOLLIN);
  const Stopwatch watch_;
  while (!receiver.done()) {
    poller.turn(-1, [&](int fd) {
      if (fd == pair.initiator.get())
        sender.ready_once();
      else
        receiver.ready();
    });
  }
  return watch_.stop(static_cast<double>(options.total));
}

Sample bulk_on_two_threads(const Pair& pair, const BulkOptions& options) {
  std::exception_ptr failure;
  const Stopwatch watch_;
  std::thread remote([&] {
    try {
      pin_to_cpu(1);
      BulkReceiver receiver(pair.responder.get(), options);
      Poller poller;
      poller.add(pair.responder.get(), EPOLLIN);
      while (!receiver.done()) poller.turn(-1, [&](int) { receiver.ready(); });
    } catch (...) {
      failure = std::current_exception();
    }
  });
  BulkSender sender(pair.initiator.get(), options);
  Poller poller;
  poller.add(pair.initiator.get(), EPOLLOUT);
  while (!sender.done()) poller.turn(-1, [&](int) { sender.ready(); });
  remote.join();
  if (failure) std::rethrow_exception(failure);
  return watch_.stop(static_cast<double>(options.total));
}

/// Reads messages of `size` octets; ready() is true when one is complete.
class MessageReader {
 public:
  MessageReader(int fd, std::size_t size) : fd_(fd), buffer_(size) {}
  bool ready() {
    const ssize_t n = ::recv(fd_, buffer_.data() + have_, buffer_.size() - have_, 0);
    if (n < 0 && errno == EAGAIN) return false;
    if (n == 0) throw std::system_error(ECONNRESET, std::generic_category(), "recv");
    checked(n, "recv");
    have_ += static_cast<std::size_t>(n);
    if (have_ < buffer_.size()) return false;
    have_ = 0;
    return true;
  }
  void answer() { checked(::send(fd_, buffer_.data(), buffer_.size(), MSG_NOSIGNAL), "send"); }

 private:
  int fd_;
  std::size_t have_ = 0;
  std::vector<char> buffer_;
};

Sample ping_pong(const Pair& pair, const PingPongOptions& options, Poller& poller, MessageReader* echo) {
  MessageReader reader(pair.initiator.get(), options.size);
  std::vector<double> times;
  times.reserve(static_cast<std::size_t>(options.round_trips));
  const Stopwatch watch_;
  for (long i = 0; i < options.round_trips; ++i) {
    const double begin = wall_now();
    reader.answer();
    for (bool back = false; !back;) {
      poller.turn(0, [&](int fd) {
        if (fd == pair.initiator.get()) {
          back = reader.ready();
        } else if (echo->ready()) {
          echo->answer();
        }
      });
    }
    times.push_back((wall_now() - begin) * 1e6);
  }
  Sample sample = watch_.stop(static_cast<double>(options.round_trips));
  sample.median_us = median(std::move(times));
  return sample;
}

}  // namespace

Sample raw_bulk(const BulkOptions& options) {
  const Pair pair = connected_pair(options.congestion);
  return options.threads == Threads::one ? bulk_on_one_thread(pair, options) : bulk_on_two_threads(pair, options);
}

Sample raw_ping_pong(const PingPongOptions& options) {
  const Pair pair = connected_pair(options.congestion);
  Poller poller;
  poller.add(pair.initiator.get(), EPOLLIN);
  MessageReader echo(pair.responder.get(), options.size);
  if (options.threads == Threads::one) {
    poller.add(pair.responder.get(), EPOLLIN);
    return ping_pong(pair, options, poller, &echo);
  }
  std::atomic<bool> stop{false};
  std::exception_ptr failure;
  std::thread remote([&] {
    try {
      pin_to_cpu(1);
      Poller mine;
      mine.add(pair.responder.get(), EPOLLIN);
      while (!stop.load(std::memory_order_relaxed)) {
        mine.turn(0, [&](int) {
          if (echo.ready()) echo.answer();
        });
      }
    } catch (...) {
      failure = std::current_exception();
    }
  });
  const Sample sample = ping_pong(pair, options, poller, nullptr);
  stop = true;
  remote.join();
  if (failure) std::rethrow_exception(failure);
  return sample;
}

}  // namespace parley::bench
