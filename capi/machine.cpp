// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capi/backend.hpp"
#include "drivers/ready_set.hpp"
#include "parley/host.hpp"

namespace parley::capi {
namespace {

/// Parley on sockets or NICs. The descriptor for C combines the host's descriptor with a timer, so that a program need
/// not know deadlines. It is made only if a program calls parley_fd().
class MachineBackend final : public Backend {
 public:
  MachineBackend(std::string_view provider, std::unique_ptr<Host> host) : provider_(provider), host_(std::move(host)) {}
  std::string_view provider() const override { return provider_; }
  cm::Manager& manager() override { return host_->cm(); }
  Device& device() override { return host_->device(); }
  void called() override {
    if (set_ != nullptr) arm(host_->now());
  }
  void drained() override {
    if (set_ != nullptr) arm(host_->next_turn());
  }
  int fd() override {
    if (set_ != nullptr) return set_->fd();
    auto set = ReadySet::make();
    if (set == nullptr || !set->add(host_->fd()))
      return fail(PARLEY_E_NO_SPACE, "epoll and timerfd: no descriptor is left");
    set_ = std::move(set);
    arm(host_->next_deadline());
    return set_->fd();
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

  int turn(Duration wait) {
    const bool any = host_->run_once(wait);
    // The descriptor becomes readable again for events that are still unpolled.
    if (set_ != nullptr) arm(host_->next_deadline());
    return any ? 1 : 0;
  }
  void arm(Instant at) { set_->arm(host_->now(), at); }

  std::string provider_;
  std::unique_ptr<Host> host_;
  std::unique_ptr<ReadySet> set_;
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
