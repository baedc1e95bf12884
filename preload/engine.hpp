// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The software HCA of a verbs program, with what drives it: the sockets, one lock for all calls, and a thread for what happens while
// the program does not call. One for each process; each opened device is a context on it.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cm/neg/roce_nic.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "parley/verbs.hpp"

namespace parley::preload {

/// Who is to be told that something waits for the program: after each turn, under the lock.
class Listener {
 public:
  virtual ~Listener() = default;
  virtual void look() = 0;
  virtual bool take(const AsyncEvent& event) = 0;  ///< false: it is not of this one's objects
};

class Engine {
 public:
  /// Binds `addresses`, which become the table of GIDs. Errors: those of the bind, with a sentence.
  static Result<std::unique_ptr<Engine>> open(const std::vector<Address>& addresses);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  /// Whatever touches the device, from any thread: `call(device)`, and then what it made due.
  template <class Call>
  auto with(Call&& call) {
    const std::scoped_lock hold(lock_);
    auto result = call(nic_.device());
    settle();
    return result;
  }
  /// As with(), for a program that asks again and again: a turn of the sockets is taken only if `call` gave 0.
  template <class Call>
  int polling(Call&& call) {
    polls_.fetch_add(1, std::memory_order_relaxed);
    const std::scoped_lock hold(lock_);
    if (const int got = call(); got != 0) return got;
    settle();
    return call();
  }

  /// As with(), for what only the HCA knows.
  template <class Call>
  auto with_nic(Call&& call) {
    const std::scoped_lock hold(lock_);
    return call(nic_.device());
  }

  /// The table of GIDs does not change after open().
  std::size_t gids() const { return addresses_.size(); }
  const Address& address(std::size_t gid_index) const { return addresses_[gid_index]; }
  void add(Listener* listener);
  void remove(Listener* listener);

 private:
  explicit Engine(std::unique_ptr<nic::roce::RoceDevice> device);
  Result<void> start(const std::vector<Address>& addresses);
  Result<void> bind(const Address& address);
  void settle();
  void tell();
  void drive();
  Duration next_wait();
  bool program_polls() const;

  neg::RoceNic nic_;
  std::unique_ptr<asio_driver::PacketLoop> loop_;
  asio_driver::Descriptor wake_;
  std::mutex lock_;
  std::vector<Listener*> listeners_;
  std::vector<Address> addresses_;  // at their GIDs' places
  Instant sleeps_until_{};          // the thread
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace parley::preload
