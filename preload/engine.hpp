// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software HCA of a verbs program and its driver: the sockets, one lock for all calls, and a thread that works
// while the program makes no call. One per process; each opened device is a context on it.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cm/neg/roce_nic.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "drivers/asio/packet_pace.hpp"
#include "drivers/xrcd/own_process.hpp"
#include "parley/verbs.hpp"
#include "preload/port_member.hpp"
#include "preload/recorder.hpp"

namespace parley::preload {

/// Receives asynchronous events and signals pending ones to the program. Called under the engine's lock, after each
/// turn.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void update_descriptors() = 0;             ///< makes descriptors readable, or not, as events are pending
  virtual bool handle(const AsyncEvent& event) = 0;  ///< false: the event's object does not belong to this listener
};

/// The connection manager on QP1. All calls are under the engine's lock.
class Manager {
 public:
  virtual ~Manager() = default;
  /// Handles received MADs and passes MADs for transmission to the device. True: there were any.
  virtual bool turn(Instant now, nic::roce::RoceDevice& device) = 0;
  virtual Instant next_deadline() const = 0;
  /// The process ends: disconnects its connections.
  virtual void end(Instant now) = 0;
};

class Engine {
 public:
  /// Binds `addresses`, which become the GID table; `recorder` may be null. `port` has the sockets; null: this process has
  /// the port alone. Errors: those of the bind, with a sentence.
  static Result<std::unique_ptr<Engine>> open(const std::vector<Address>& addresses, std::unique_ptr<Recorder> recorder,
                                              std::unique_ptr<PortMember> port);
  ~Engine();
  /// The manager of this engine; the first call makes it. Before that, received MADs are dropped.
  template <class Make>
  Manager& manager(Make&& make) {
    const std::scoped_lock hold(lock_);
    if (!manager_) manager_ = make();
    return *manager_;
  }
  /// Ends the connections and the thread when the process exits: the thread must not outlive the library's static
  /// objects. Waits at most 200 ms for each.
  void stop() noexcept;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// For every use of the device, from any thread: runs `call(device)` under the lock, then the work that it caused. In
  /// a forked child `call` does not run; the result is not_permitted, or a default value if the type has no error.
  template <class Call>
  auto with(Call&& call) {
    if (!is_own()) return in_child<decltype(call(nic_.device()))>();
    const NotCancelled whole;
    const std::scoped_lock hold(lock_);
    const AfterCall then{*this, &Engine::settle};
    return call(nic_.device());
  }
  /// As with(), for a program that polls in a loop: handles the sockets only if `call` returned 0, and then repeats
  /// `call`. After many polls without a result it yields the processor, which the peer may need. -1 with EPERM: a
  /// forked child.
  template <class Call>
  int polling(Call&& call) {
    if (!is_own()) return errno = EPERM, -1;
    const std::uint64_t polls = polls_.fetch_add(1, std::memory_order_relaxed);
    const auto [got, idle] = [&] {
      const NotCancelled whole;
      const std::scoped_lock hold(lock_);
      int found = call();
      if (found == 0) {
        { const AfterCall now{*this, &Engine::settle}; }
        found = call();
      }
      if (found != 0) last_got_ = polls;
      return std::pair(found, polls - last_got_ > polls_before_yield);
    }();
    if (idle) std::this_thread::yield();
    return got;
  }

  /// As with(), for a `call` that sends nothing.
  template <class Call>
  auto with_nic(Call&& call) {
    if (!is_own()) return in_child<decltype(call(nic_.device()))>();
    const NotCancelled whole;
    const std::scoped_lock hold(lock_);
    const AfterCall then{*this, &Engine::deliver_events};  // a receive that is posted in ERR completes at once
    return call(nic_.device());
  }

  /// False in a forked child. The sockets are the parent's, and reading from them would take the parent's packets. In
  /// the child, calls are refused and destroy nothing.
  bool is_own() const { return own_.is_own(); }
  static constexpr const char* not_own =
      "the device was opened by the process of which this one is a fork; open it again here";
  /// before_fork() takes the lock, so that no call is half done during the fork; after_fork() releases it. The child
  /// closes its copies of the sockets. Otherwise they would keep the addresses in use after the parent has closed its
  /// own.
  void before_fork() {
    lock_.lock();
    if (port_) port_->before_fork();
  }
  void after_fork(bool in_child) noexcept;

  /// The GID table does not change after open().
  std::size_t gids() const { return addresses_.size(); }
  const Address& address(std::size_t gid_index) const { return addresses_[gid_index]; }
  /// Null: this process has the port alone.
  PortMember* port() const { return port_.get(); }
  void add(Listener* listener);
  void remove(Listener* listener);

 private:
  static constexpr std::uint64_t polls_before_yield = 8;
  /// Work of the engine that the program must not notice: errno is what `call` has left.
  struct AfterCall {
    Engine& engine;
    void (Engine::*what)();
    ~AfterCall() {
      const int kept = errno;
      (engine.*what)();
      errno = kept;
    }
  };
  /// pthread_cancel() takes effect after the call: the engine's system calls are cancellation points, and a thread that
  /// is cancelled in one of them would end the process.
  struct NotCancelled {
    NotCancelled() { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); }
    ~NotCancelled() { (void)::pthread_setcancelstate(before, nullptr); }
    NotCancelled(const NotCancelled&) = delete;
    NotCancelled& operator=(const NotCancelled&) = delete;
    int before = PTHREAD_CANCEL_ENABLE;
  };
  template <class Said>
  static Said in_child() {
    if constexpr (std::is_void_v<Said>)
      return;
    else if constexpr (requires(Said said) { said.error(); })
      return fail(Errc::not_permitted, not_own);
    else
      return {};
  }
  Engine(std::unique_ptr<nic::roce::RoceDevice> device, std::unique_ptr<Recorder> recorder,
         std::unique_ptr<PortMember> port);
  Result<void> start(const std::vector<Address>& addresses);
  Result<void> bind(const Address& address);
  void ask_to_stop() noexcept;
  bool turn();
  bool turn_without_sockets();
  void settle();
  void deliver_events();
  bool lock_at_exit(std::unique_lock<std::mutex>& hold) noexcept;
  void end_connections() noexcept;
  void leave_port() noexcept;
  Instant next_deadline() const;
  void drive();
  Duration next_wait();
  bool program_polls() const;

  xrc::OwnProcess own_;
  std::unique_ptr<Recorder> recorder_;  // null: no recording
  std::unique_ptr<PortMember> port_;    // null: the port is not shared
  neg::RoceNic nic_;
  std::unique_ptr<asio_driver::PacketLoop> loop_;
  std::unique_ptr<asio_driver::SocketPace> pace_;  // null: the system does not report receive buffers (sock_diag(7))
  asio_driver::Descriptor wake_;
  std::mutex lock_;
  std::vector<Listener*> listeners_;
  std::unique_ptr<Manager> manager_;
  std::vector<Address> addresses_;  // by GID index
  Instant sleeps_until_{};          // when the thread wakes up
  std::atomic<std::uint64_t> polls_{0};
  std::uint64_t last_got_ = 0;  // polls_ at the last poll that returned something
  std::atomic<bool> stop_{false}, stopped_{false};
  std::thread thread_;
};

}  // namespace parley::preload
