// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a TcpHost in the program's io_context. Optional: only a program that includes this header needs Boost.Asio (1.74 or
// later).
#pragma once
#include <utility>  // before Asio: Boost 1.74 uses std::exchange without including it, which g++ 12 notices

#include <boost/asio/compose.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <system_error>

#include "parley/tcp_host.hpp"

namespace parley {

/// Waits for a host and drives it. One thread, or one strand, runs it and makes all calls to the host except wake(). The
/// host must outlive this object and every wait. A wait in progress does not notice commands and posted work from other
/// parts of the program: call host.wake() after them.
class AsioHost {
 public:
  /// Throws std::system_error if the system has no descriptor left.
  template <class Executor>
  AsioHost(const Executor& executor, TcpHost& host) : state_(std::make_shared<State>(executor, host)) {}
  AsioHost(boost::asio::io_context& context, TcpHost& host) : AsioHost(context.get_executor(), host) {}
  ~AsioHost() { cancel(); }
  AsioHost(const AsioHost&) = delete;
  AsioHost& operator=(const AsioHost&) = delete;

  TcpHost& host() const { return state_->host; }

  /// void(boost::system::error_code): a turn in which something happened (Host::run_once); events and completions may be
  /// pending now. Errors: operation_aborted, and already_started if another wait of this object is in progress.
  template <class Token>
  auto async_turn(Token&& token) {
    return boost::asio::async_compose<Token, void(boost::system::error_code)>(Wait<false>{state_}, token,
                                                                              state_->ready);
  }
  /// void(boost::system::error_code, cm::Event): the next event of cm(). Errors: as async_turn.
  template <class Token>
  auto async_wait_event(Token&& token) {
    return boost::asio::async_compose<Token, void(boost::system::error_code, cm::Event)>(Wait<true>{state_}, token,
                                                                                         state_->ready);
  }
  /// Ends the wait in progress with operation_aborted.
  void cancel() {
    if (!state_->waiting) return;
    state_->cancelled = true;
    state_->ready.cancel();
  }

 private:
  struct State {
    template <class Executor>
    State(const Executor& executor, TcpHost& with) : host(with), ready(executor), timer(executor) {
      // Asio closes the descriptors that it is given, so it gets a duplicate of the host's descriptor.
      const int fd = ::fcntl(with.fd(), F_DUPFD_CLOEXEC, 0);
      if (fd < 0) throw std::system_error(errno, std::generic_category(), "AsioHost");
      ready.assign(fd);
    }
    TcpHost& host;
    boost::asio::posix::stream_descriptor ready;
    boost::asio::steady_timer timer;
    bool waiting = false, cancelled = false, expired = false;
  };

  /// The timer can end a wait for the descriptor only by cancelling it, hence `expired`.
  template <bool for_event>
  struct Wait {
    enum class At { start, refused, waiting, done };

    std::shared_ptr<State> state;
    At at = At::start;
    boost::system::error_code result{};
    std::optional<cm::Event> event{};

    template <class Self>
    void operator()(Self& self, boost::system::error_code error = {}) {
      switch (at) {
        case At::start:
          if (state->waiting) {
            result = boost::asio::error::already_started;
            at = At::refused;
            post(self);
            return;
          }
          state->waiting = true;
          state->cancelled = false;
          at = At::waiting;
          break;
        case At::waiting:
          state->timer.cancel();
          if (state->cancelled) error = boost::asio::error::operation_aborted;
          if (error && (state->cancelled || !state->expired)) {
            state->waiting = false;
            return complete(self, error);
          }
          break;
        case At::done: state->waiting = false; [[fallthrough]];
        case At::refused: return complete(self, result);
      }
      // Posted, so that it never runs within the call that started the wait, and the program's other handlers run between
      // turns even if octets never stop arriving.
      if (turn()) return post(self);
      wait(self);
    }

    /// True if no wait is needed.
    bool turn() {
      TcpHost& host = state->host;
      if constexpr (for_event) {
        event = host.cm().poll_event();
        if (event) at = At::done;
        if (event) return true;
        // Completions that other code polls do not cause another turn.
        host.run_once(Duration{});
        return host.cm().has_events() || host.next_turn() <= host.now();
      } else {
        if (!host.run_once(Duration{})) return false;
        at = At::done;
        return true;
      }
    }

    template <class Self>
    void wait(Self& self) {
      state->expired = false;
      TcpHost& host = state->host;
      if (const Instant at_time = for_event ? host.next_turn() : host.next_deadline(); at_time != never) {
        const Duration left = at_time - host.now();
        state->timer.expires_after(std::clamp<Duration>(left, Duration{}, std::chrono::hours(24)));
        state->timer.async_wait([state = state](const boost::system::error_code& why) {
          if (why) return;
          state->expired = true;
          state->ready.cancel();
        });
      }
      boost::asio::posix::stream_descriptor& ready = state->ready;
      ready.async_wait(boost::asio::posix::stream_descriptor::wait_read, std::move(self));
    }

    template <class Self>
    void post(Self& self) {
      const auto executor = state->ready.get_executor();
      boost::asio::post(executor, std::move(self));
    }

    template <class Self>
    void complete(Self& self, boost::system::error_code error) {
      if constexpr (for_event) {
        self.complete(error, event ? std::move(*event) : cm::Event{});
      } else {
        self.complete(error);
      }
    }
  };

  std::shared_ptr<State> state_;
};

}  // namespace parley
