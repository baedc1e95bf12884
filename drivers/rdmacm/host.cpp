// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The host: provider, manager, and the loop that waits for the system's descriptors.
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "drivers/clock.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"
#include "drivers/xrcd/own_process.hpp"

namespace parley {
namespace {

using rdmacm::Rdmacm;

class NicHost final : public RdmaHost {
 public:
  explicit NicHost(std::unique_ptr<Rdmacm> provider, const cm::ManagerOptions& options)
      : provider_(std::move(provider)), manager_(*provider_, options) {}
  ~NicHost() override {
    // The descriptors of rdma_cm and the devices are shared with the parent: destroying them here would affect it.
    if (!own_.is_own()) (void)provider_.release();
    for (const int fd : {epoll_, wake_, nodes_})
      if (fd >= 0) ::close(fd);
  }

  Result<void> start() {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (epoll_ < 0 || wake_ < 0 || !watch(wake_) || !watch(provider_->channel_fd()) || !watch_devices())
      return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
    // Detects the removal of a device without connections: drivers that cannot take a device from a process (rxe, siw)
    // wait until the process releases it, without an event. Its device file is already deleted, which is visible here.
    nodes_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (nodes_ >= 0 && ::inotify_add_watch(nodes_, "/dev/infiniband", IN_DELETE) >= 0) watch(nodes_);
    return {};
  }

  cm::Manager& cm() override { return manager_; }
  Device& device() override { return manager_.device(); }
  int fd() const override { return epoll_; }
  Instant next_deadline() const override { return has_events() ? Instant{} : next_turn(); }
  Instant next_turn() const override { return provider_->has_work() ? Instant{} : provider_->next_deadline(); }
  void wake() noexcept override { (void)::eventfd_write(wake_, 1); }
  Instant now() const override { return clock_now(); }

  bool run_once(Duration wait) override {
    own_.require("RdmaHost::run_once");
    if (turn() || has_events()) return true;
    if (wait <= Duration{}) return false;
    sleep(wait);
    return turn() || has_events();
  }

 private:
  bool has_events() const { return manager_.any_events() || provider_->has_events(); }

  bool watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
  }
  bool watch_devices() {
    bool good = true;
    for (const verbs::NicDevice* device : provider_->take_new_devices())
      good = watch(device->completion_fd()) && watch(device->async_fd()) && good;
    return good;
  }

  bool read_nodes() {
    alignas(inotify_event) std::array<char, 4096> buffer;
    const ssize_t size = nodes_ < 0 ? -1 : ::read(nodes_, buffer.data(), buffer.size());
    for (std::size_t at = 0; size > 0 && at + sizeof(inotify_event) <= static_cast<std::size_t>(size);) {
      inotify_event event{};
      std::memcpy(&event, &buffer[at], sizeof event);
      if (event.len != 0) provider_->handle_node_removed(&buffer[at + sizeof event]);
      at += sizeof event + event.len;
    }
    return size > 0;
  }

  // The descriptors of a removed device are readable for ever.
  void unwatch_gone() {
    for (const verbs::NicDevice* device : provider_->gone_devices())
      for (const int fd : {device->completion_fd(), device->async_fd()})
        (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  }

  bool turn() {
    const bool deleted = read_nodes();
    eventfd_t woken = 0;
    const bool called = ::eventfd_read(wake_, &woken) == 0;
    const bool any = provider_->turn(now());
    watch_devices();
    unwatch_gone();
    return deleted || any || called || provider_->arm();
  }

  void sleep(Duration longest) {
    constexpr Duration day = std::chrono::hours(24);
    const Instant deadline = next_turn();
    if (deadline != never) longest = std::min(longest, std::max(deadline - now(), Duration{}));
    // Whole milliseconds, rounded up: late enough for every deadline.
    const auto ms = (std::min(longest, day).count() + 999'999) / 1'000'000;
    std::array<epoll_event, 4> events;
    (void)::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), static_cast<int>(ms));
  }

  xrc::OwnProcess own_;
  std::unique_ptr<Rdmacm> provider_;
  cm::Manager manager_;
  int epoll_ = -1, wake_ = -1, nodes_ = -1;
};

Result<void> check(const RdmaHostOptions& options) {
  const auto positive = [](Duration time, std::string_view sentence) -> Result<void> {
    if (time > Duration{}) return {};
    return fail(Errc::invalid_argument, sentence, time.count());
  };
  if (auto r = positive(options.reply_timeout, "RdmaHostOptions::reply_timeout is {a} ns; it is more than 0"); !r)
    return r;
  if (auto r = positive(options.linger, "RdmaHostOptions::linger is {a} ns; it is more than 0"); !r) return r;
  return cm::check_options(options.manager);
}

}  // namespace

Result<std::unique_ptr<RdmaHost>> RdmaHost::open(const RdmaHostOptions& options) {
  if (auto checked = check(options); !checked) return tl::unexpected(checked.error());
  auto provider = Rdmacm::open(options);
  if (!provider) return tl::unexpected(provider.error());
  cm::ManagerOptions manager = options.manager;
  if (manager.seed == 0) manager.seed = std::random_device{}();
  auto host = std::make_unique<NicHost>(std::move(*provider), manager);
  if (auto started = host->start(); !started) return tl::unexpected(started.error());
  return std::unique_ptr<RdmaHost>(std::move(host));
}

}  // namespace parley
