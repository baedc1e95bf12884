// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software HCA of a verbs program, with what drives it: the sockets, one lock for all calls, and a thread for what happens while
// the program does not call. One for each process; each opened device is a context on it.
#pragma once
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
#include "preload/recorder.hpp"

namespace parley::preload {

/// Who is to be told that something waits for the program: after each turn, under the lock.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void look() = 0;
  virtual bool take(const AsyncEvent& event) = 0;  ///< false: it is not of this one's objects
};

/// The connection manager on QP1. All calls are under the engine's lock.
class Manager {
 public:
  virtual ~Manager() = default;
  /// Takes the MADs that came and gives those that are to go. True: the device has something to send.
  virtual bool turn(Instant now, nic::roce::RoceDevice& device) = 0;
  virtual Instant next_deadline() const = 0;
  /// The process ends: its connections do, too.
  virtual void end(Instant now) = 0;
};

class Engine {
 public:
  /// Binds `addresses`, which become the table of GIDs; `recorder` may be null. Errors: those of the bind, with a sentence.
  static Result<std::unique_ptr<Engine>> open(const std::vector<Address>& addresses,
                                              std::unique_ptr<Recorder> recorder);
  ~Engine();
  /// The manager of this engine, made by the first call. Without one, MADs are dropped.
  template <class Make>
  Manager& manager(Make&& make) {
    const std::scoped_lock hold(lock_);
    if (!manager_) manager_ = make();
    return *manager_;
  }
  /// Ends the connections and the thread, for a process that is about to end: it must not outlive what the library has of static objects.
  void stop() noexcept;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Whatever touches the device, from any thread: `call(device)`, and then what it made due.
  template <class Call>
  auto with(Call&& call) {
    if (!is_own()) return in_child<decltype(call(nic_.device()))>();
    const std::scoped_lock hold(lock_);
    const Afterwards then{*this, &Engine::settle};
    return call(nic_.device());
  }
  /// As with(), for a program that asks again and again: a turn of the sockets is taken only if `call` gave 0. Who got nothing many
  /// times leaves the processor to others: the peer may need it.
  template <class Call>
  int polling(Call&& call) {
    if (!is_own()) return errno = EPERM, -1;
    const std::uint64_t polls = polls_.fetch_add(1, std::memory_order_relaxed);
    const auto [got, idle] = [&] {
      const std::scoped_lock hold(lock_);
      int found = call();
      if (found == 0) {
        settle();
        found = call();
      }
      if (found != 0) last_got_ = polls;
      return std::pair(found, polls - last_got_ > polls_before_yield);
    }();
    if (idle) std::this_thread::yield();
    return got;
  }

  /// As with(), for what sends nothing.
  template <class Call>
  auto with_nic(Call&& call) {
    if (!is_own()) return in_child<decltype(call(nic_.device()))>();
    const std::scoped_lock hold(lock_);
    const Afterwards then{*this, &Engine::tell};  // a receive that was posted in ERR is complete
    return call(nic_.device());
  }

  /// False in a forked child: the sockets are the parent's, and to read from them would take its packets. Calls are refused there,
  /// and destroy nothing.
  bool is_own() const { return own_.is_own(); }
  static constexpr const char* not_own =
      "the device was opened by the process of which this one is a fork; open it again here";
  /// Between these nothing is half done. In the child the sockets are closed, so that they do not keep the addresses busy when the
  /// parent closes its own.
  void before_fork() { lock_.lock(); }
  void after_fork(bool in_child) noexcept;

  /// The table of GIDs does not change after open().
  std::size_t gids() const { return addresses_.size(); }
  const Address& address(std::size_t gid_index) const { return addresses_[gid_index]; }
  void add(Listener* listener);
  void remove(Listener* listener);

 private:
  static constexpr std::uint64_t polls_before_yield = 8;
  struct Afterwards {
    Engine& engine;
    void (Engine::*what)();
    ~Afterwards() { (engine.*what)(); }
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
  Engine(std::unique_ptr<nic::roce::RoceDevice> device, std::unique_ptr<Recorder> recorder);
  Result<void> start(const std::vector<Address>& addresses);
  Result<void> bind(const Address& address);
  void ask_to_stop() noexcept;
  bool turn();
  void settle();
  void tell();
  void end_connections() noexcept;
  Instant next_deadline() const;
  void drive();
  Duration next_wait();
  bool program_polls() const;

  xrc::OwnProcess own_;
  std::unique_ptr<Recorder> recorder_;  // null: nobody asked for one
  neg::RoceNic nic_;
  std::unique_ptr<asio_driver::PacketLoop> loop_;
  std::unique_ptr<asio_driver::SocketPace> pace_;  // null: the system tells nothing
  asio_driver::Descriptor wake_;
  std::mutex lock_;
  std::vector<Listener*> listeners_;
  std::unique_ptr<Manager> manager_;
  std::vector<Address> addresses_;  // at their GIDs' places
  Instant sleeps_until_{};          // the thread
  std::atomic<std::uint64_t> polls_{0};
  std::uint64_t last_got_ = 0;  // of polls_
  std::atomic<bool> stop_{false}, stopped_{false};
  std::thread thread_;
};

}  // namespace parley::preload
