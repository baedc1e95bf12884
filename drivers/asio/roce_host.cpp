// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The host: provider, manager, and the loop that drives the provider over UDP sockets. RoCE's timers are finer than
// milliseconds, so it sleeps itself and not in Asio.
#include "parley/roce_host.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <random>
#include <string_view>
#include <system_error>

#include "cm/ibcm/events.hpp"
#include "cm/providers/roce/roce.hpp"
#include "cm/trace_events.hpp"
#include "drivers/asio/descriptor.hpp"
#include "drivers/asio/packet_drops.hpp"
#include "drivers/asio/packet_set.hpp"
#include "drivers/clock.hpp"
#include "drivers/xrcd/own_process.hpp"
#include "nic/roce/device.hpp"

namespace parley {
namespace {

using asio_driver::Descriptor;
using asio_driver::PacketSet;

constexpr Duration longest_sleep = std::chrono::hours(24);

class PacketHost final : public RoceHost {
 public:
  explicit PacketHost(const RoceHostOptions& options)
      : provider_(cm::make_roce_provider(options.roce)),
        manager_(*provider_, options.manager),
        packets_(*provider_, options, epoll_.fd, wake_.fd) {
    provider_->set_groups(&packets_);
  }

  // Open connections are abandoned, and their peers notified once.
  ~PacketHost() override {
    if (own_.is_own()) {
      const Instant now = clock_now();
      provider_->reset_all(now);
      if (!packets_.blocked()) packets_.drain(now);
    }
    provider_->set_groups(nullptr);  // queue pairs may outlive it
  }
  PacketHost(const PacketHost&) = delete;
  PacketHost& operator=(const PacketHost&) = delete;

  bool start() {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = PacketSet::wake_data;
    return epoll_.fd >= 0 && wake_.fd >= 0 && ::epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, wake_.fd, &event) == 0;
  }

  cm::Manager& cm() override { return manager_; }
  Device& device() override { return manager_.device(); }
  int fd() const override { return epoll_.fd; }
  Instant next_deadline() const override { return has_events() ? Instant{} : next_turn(); }
  Instant next_turn() const override {
    return provider_->has_work() && !packets_.blocked() ? Instant{} : provider_->next_deadline();
  }
  void wake() noexcept override { (void)::eventfd_write(wake_.fd, 1); }
  Instant now() const override { return clock_now(); }
  void set_tap(PacketTap tap) override { packets_.set_tap(std::move(tap)); }
  RoceCounters counters() const override { return packets_.counters(); }
  std::vector<RoceDropped> dropped() const override {
    return asio_driver::dropped_packets(packets_.counters(), provider_->device_counters());
  }
  std::vector<RoceMessages> messages() const override {
    const auto& by = provider_->cm_counters().messages;
    std::vector<RoceMessages> all;
#define PARLEY_X(name, attribute, structure, fields, text) \
  all.push_back({"ib_" #name, by.name.received, by.name.sent, by.name.resent});
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
    return all;
  }
  std::vector<RoceRejects> rejects() const override {
    const cm::ibcm::Counters& by = provider_->cm_counters();
    std::vector<RoceRejects> all;
    RoceRejects other{.reason = "other"};
    for (std::size_t code = 0; code < by.rejects.size(); ++code) {
      const std::string_view word = cm::reject_word(static_cast<int>(code));
      if (word != other.reason) all.push_back({word});
      RoceRejects& to = word == other.reason ? other : all.back();
      to.received += by.rejects[code].received;
      to.sent += by.rejects[code].sent;
    }
    all.push_back({"retry_after", by.retry_after.received, by.retry_after.sent});
    all.push_back(other);
    return all;
  }

  bool run_once(Duration wait) override {
    own_.require("RoceHost::run_once");
    if (turn() || has_events()) return true;
    if (wait <= Duration{}) return false;
    sleep(wait);
    return turn() || has_events();
  }

 private:
  bool has_events() const { return manager_.any_events() || provider_->has_events(); }

  bool turn() { return packets_.turn(clock_now()); }

  void sleep(Duration longest) {
    const Instant deadline = next_turn();
    if (deadline != never) longest = std::min(longest, std::max(deadline - now(), Duration{}));
    packets_.sleep(std::min(longest, longest_sleep));
  }

  xrc::OwnProcess own_;
  Descriptor epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  Descriptor wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<cm::RoceProvider> provider_;
  cm::Manager manager_;
  PacketSet packets_;
};

std::uint64_t draw() {
  std::random_device entropy;
  return std::uint64_t{entropy()} << 32 | entropy() | 1;
}

}  // namespace

Result<std::unique_ptr<RoceHost>> RoceHost::open(const RoceHostOptions& options) {
  if (auto checked = cm::check_options(options.roce); !checked) return tl::unexpected(checked.error());
  if (auto checked = cm::check_options(options.manager); !checked) return tl::unexpected(checked.error());
  if (options.socket_buffer > 1 << 30)
    return fail(Errc::invalid_argument, "RoceHostOptions::socket_buffer is more than 1 GiB");
  RoceHostOptions own = options;
  if (own.manager.seed == 0) own.manager.seed = draw();
  if (own.roce.seed == 0) own.roce.seed = draw();
  // Locally administered, as the interface identifier of a random address (RFC 4291 §2.5.1).
  if (own.roce.ca_guid == 0) own.roce.ca_guid = draw() & ~(std::uint64_t{2} << 56);
  auto host = std::make_unique<PacketHost>(own);
  if (!host->start())
    return fail(Errc::no_space, "no file descriptor is available; raise the limit of open files (ulimit -n)");
  return std::unique_ptr<RoceHost>(std::move(host));
}

}  // namespace parley
