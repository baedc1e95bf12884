// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "preload/engine.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <random>

#include "drivers/clock.hpp"

namespace parley::preload {

namespace {

constexpr int turns_at_once = 64;  // then the thread releases the lock to the program
constexpr Duration longest_sleep = std::chrono::hours(1);
constexpr Duration patience_at_exit = std::chrono::milliseconds(200);
constexpr Duration between_polls = std::chrono::microseconds(5);
constexpr Duration while_it_polls = std::chrono::microseconds(50);

}  // namespace

Engine::Engine(std::unique_ptr<nic::roce::RoceDevice> device, std::unique_ptr<Recorder> recorder,
               std::unique_ptr<PortMember> port)
    : recorder_(std::move(recorder)),
      port_(std::move(port)),
      nic_(std::move(device), neg::RoceNic::PolledOutput::mads_and_events),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Result<std::unique_ptr<Engine>> Engine::open(const std::vector<Address>& addresses, std::unique_ptr<Recorder> recorder,
                                             std::unique_ptr<PortMember> port) {
  const std::uint64_t seed = std::random_device{}() | std::uint64_t{1};
  nic::roce::DeviceOptions options = neg::negotiated_device(seed, 0);
  if (port) {
    options.qpn_prefix = port->prefix();
    options.first_qpn = port->first_qpn();
  }
  auto device = nic::roce::make_device(options);
  if (!device) return tl::unexpected(device.error());
  std::unique_ptr<Engine> engine(new Engine(std::move(*device), std::move(recorder), std::move(port)));
  if (const auto started = engine->start(addresses); !started) return tl::unexpected(started.error());
  return engine;
}

Result<void> Engine::start(const std::vector<Address>& addresses) {
  auto loop = asio_driver::PacketLoop::open(nic_, {}, port_.get());
  if (!loop) return tl::unexpected(loop.error());
  loop_ = std::move(*loop);
  if (wake_.fd < 0)
    return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
  if (recorder_) loop_->set_tap([this](const PacketTapRecord& record) { recorder_->add(record); });
  nic_.device().set_groups(&loop_->groups());
  pace_ = asio_driver::SocketPace::open();
  nic_.device().set_pace(pace_.get());
  for (const Address& address : addresses)
    if (const auto bound = bind(address); !bound) return bound;
  // The engine's thread blocks all signals, so that the program's own threads handle them.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { drive(); });
  (void)::pthread_setname_np(thread_.native_handle(), "parley-verbs");
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

Result<void> Engine::bind(const Address& address) {
  const BindId id = nic_.bind(address, Address::any(address.family, 0));
  loop_->run_once({});
  const auto answer = nic_.answer(id);
  if (!answer) return fail(Errc::io, "the engine's sockets do not answer");
  if (!*answer) return tl::unexpected(answer->error());
  const auto index = nic_.addresses().add(**answer);
  if (!index) return fail(Errc::no_space, "the table of GIDs is full");
  if (*index == addresses_.size()) addresses_.push_back(**answer);  // a repeated address already has its index
  return {};
}

Engine::~Engine() {
  ask_to_stop();
  if (thread_.joinable()) thread_.join();
  nic_.device().set_groups(nullptr);
  nic_.device().set_pace(nullptr);
}

void Engine::ask_to_stop() noexcept {
  stop_ = true;
  if (wake_.fd >= 0) (void)::eventfd_write(wake_.fd, 1);
}

bool Engine::lock_at_exit(std::unique_lock<std::mutex>& hold) noexcept {
  hold = std::unique_lock(lock_, std::try_to_lock);
  for (const Instant end = clock_now() + patience_at_exit; !hold && clock_now() < end; (void)hold.try_lock())
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  return hold.owns_lock();
}

void Engine::end_connections() noexcept {
  std::unique_lock<std::mutex> hold;
  if (!lock_at_exit(hold) || !manager_) return;
  try {
    manager_->end(loop_->now());
    (void)turn();
  } catch (...) {  // out of memory: the peers time out instead
  }
}

/// Other processes then have the addresses: the copies of the sockets in this one are closed first.
void Engine::leave_port() noexcept {
  std::unique_lock<std::mutex> hold;
  if (!port_ || !lock_at_exit(hold)) return;
  loop_->close_sockets();
  port_->leave();
}

// A signal handler may call exit() in a thread that holds the lock. The engine's thread then cannot end, so the wait is
// bounded.
void Engine::stop() noexcept {
  if (is_own()) end_connections();
  ask_to_stop();
  const Instant end = clock_now() + patience_at_exit;
  while (thread_.joinable() && !stopped_ && clock_now() < end)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (is_own()) leave_port();
}

void Engine::after_fork(bool in_child) noexcept {
  if (port_) port_->after_fork(in_child);
  lock_.unlock();
  if (!in_child) return;
  loop_->close_sockets();
  if (recorder_) recorder_->close();
}

void Engine::add(Listener* listener) {
  const std::scoped_lock hold(lock_);
  listeners_.push_back(listener);
}

void Engine::remove(Listener* listener) {
  const std::scoped_lock hold(lock_);
  std::erase(listeners_, listener);
}

void Engine::deliver_events() {
  while (const auto event = nic_.device().poll_async_event())
    (void)std::any_of(listeners_.begin(), listeners_.end(), [&](Listener* l) { return l->handle(*event); });
  for (Listener* listener : listeners_) listener->update_descriptors();
}

Instant Engine::next_deadline() const {
  const Instant own = nic_.next_deadline();
  return manager_ ? std::min(own, manager_->next_deadline()) : own;
}

bool Engine::turn() {
  if (port_ && port_->is_lost()) return turn_without_sockets();
  bool any = loop_->run_once({});
  nic::roce::RoceDevice& device = nic_.device();
  if (manager_) {
    if (!manager_->turn(loop_->now(), device)) return any;
    (void)loop_->run_once({});
    return true;
  }
  for (nic::roce::MadIn in; device.poll_mad(in);) any = true;
  return any;
}

/// Each packet is lost, so that connections end by their retries.
bool Engine::turn_without_sockets() {
  const Instant now = loop_->now();
  nic_.handle_deadline(now);
  if (manager_) (void)manager_->turn(now, nic_.device());
  std::array<std::uint8_t, PacketMachine::packet_max + 4> packet;
  PacketPath to;
  for (PacketCommand command; nic_.poll_command(command);) {
  }
  while (nic_.poll_packet(now, to, packet) != 0) {
  }
  return false;
}

// Runs a turn. Then wakes the thread if work is left, or if a deadline is earlier than the thread's next wake-up.
void Engine::settle() {
  (void)turn();
  deliver_events();
  const bool left = nic_.has_work() && !loop_->blocked();
  if (!left && next_deadline() >= sleeps_until_) return;
  sleeps_until_ = Instant{};
  (void)::eventfd_write(wake_.fd, 1);
}

Duration Engine::next_wait() {
  const std::scoped_lock hold(lock_);
  int turns = 0;
  while (turns < turns_at_once && turn()) ++turns;
  deliver_events();
  const Instant now = loop_->now();
  const bool left = turns == turns_at_once || (nic_.has_work() && !loop_->blocked());
  sleeps_until_ = left ? now : std::min(next_deadline(), now + longest_sleep);
  return std::max(sleeps_until_ - now, Duration{});
}

// True while the program polls its completion queues. It then drives the engine itself, and the thread stays away from
// the sockets, because two threads on the same sockets slow each other down. A program that only polls its memory for
// changes does not drive the engine.
bool Engine::program_polls() const {
  const std::uint64_t before = polls_.load(std::memory_order_relaxed);
  for (const Instant end = clock_now() + between_polls; clock_now() < end;)
    if (polls_.load(std::memory_order_relaxed) != before) return true;
  return false;
}

void Engine::drive() {
  while (!stop_) {
    if (program_polls()) {
      std::this_thread::sleep_for(while_it_polls);
      continue;
    }
    const timespec limit = timespec_of(next_wait());
    const bool lost = port_ && port_->is_lost();
    pollfd fds[2] = {{.fd = lost ? -1 : loop_->fd(), .events = POLLIN, .revents = 0},
                     {.fd = wake_.fd, .events = POLLIN, .revents = 0}};
    (void)::ppoll(fds, 2, &limit, nullptr);
    eventfd_t many = 0;
    if (fds[1].revents != 0) (void)::eventfd_read(wake_.fd, &many);
  }
  stopped_ = true;
}

}  // namespace parley::preload
