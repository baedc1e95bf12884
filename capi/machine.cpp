// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "capi/backend.hpp"
#include "parley/host.hpp"

namespace parley::capi {
namespace {

/// Owns a descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

/// Parley on sockets or NICs. The descriptor for C is the host's together with a timer, so that a program need not know of
/// deadlines; programs that never ask for it pay nothing for it.
class MachineBackend final : public Backend {
 public:
  MachineBackend(std::string_view provider, std::unique_ptr<Host> host) : provider_(provider), host_(std::move(host)) {}
  std::string_view provider() const override { return provider_; }
  cm::Manager& manager() override { return host_->cm(); }
  Device& device() override { return host_->device(); }
  void called() override {
    if (set_.get() >= 0) arm(host_->now());
  }
  void drained() override {
    if (set_.get() >= 0) arm(host_->next_turn());
  }
  int fd() override {
    if (set_.get() >= 0) return set_.get();
    Descriptor set(::epoll_create1(EPOLL_CLOEXEC));
    Descriptor timer(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
    if (set.get() < 0 || timer.get() < 0 || !add(set, timer.get()) || !add(set, host_->fd()))
      return fail(PARLEY_E_NO_SPACE, "epoll and timerfd: no descriptor is left");
    set_ = std::move(set);
    timer_ = std::move(timer);
    arm(host_->next_deadline());
    return set_.get();
  }
  int progress() override { return turn(Duration{}); }
  int wait(int timeout_ms) override {
    if (timeout_ms >= 0) return turn(std::chrono::milliseconds(timeout_ms));
    while (turn(longest_wait) == 0) {
    }
    return 1;
  }
  int wake() override {
    host_->wake();
    return 0;
  }
  Instant now() const override { return host_->now(); }
  Result<Address> address(Address::Family) const override {
    return parley::fail(Errc::unsupported, "a machine has several addresses: name the one that is meant");
  }

 private:
  static constexpr Duration longest_wait = std::chrono::hours(1);

  static bool add(const Descriptor& set, int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    return ::epoll_ctl(set.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }
  int turn(Duration wait) {
    const bool any = host_->run_once(wait);
    // What is left unpolled is told again, as everything that a descriptor stands for is.
    if (set_.get() >= 0) arm(host_->next_deadline());
    return any ? 1 : 0;
  }
  void arm(Instant at) {
    const Instant now = host_->now();
    if (at == armed_ || (at <= now && armed_ <= now)) return;  // it stays readable until it is set anew
    armed_ = at;
    itimerspec spec{};  // all zero: off
    if (at != never) {
      const auto left = std::max(at - now, Duration(1)).count();
      spec.it_value.tv_sec = left / 1'000'000'000;
      spec.it_value.tv_nsec = left % 1'000'000'000;
    }
    ::timerfd_settime(timer_.get(), 0, &spec, nullptr);
  }

  std::string provider_;
  std::unique_ptr<Host> host_;
  Descriptor set_, timer_;
  Instant armed_ = never;
};

}  // namespace

std::unique_ptr<Backend> open_machine(std::string_view provider, const cm::ManagerOptions& options) {
  auto host = open_host(provider, options);
  if (!host) {
    fail(host.error());
    return nullptr;
  }
  return std::make_unique<MachineBackend>(provider, std::move(*host));
}

}  // namespace parley::capi
