// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <sys/eventfd.h>
#include <unistd.h>

#include <fmt/format.h>

#include "capi/backend.hpp"
#include "capi/handles.hpp"
#include "capi/options.hpp"
#include "parley/ratio.hpp"

namespace parley::capi {

/// A context on a simulated host. The host reports through its App that it needs a turn; calls of the program run it.
class SimBackend final : public Backend, private sim::App {
 public:
  SimBackend(World& world, sim::Host& host) : world_(world), host_(host), manager_(host.cm()), device_(host.device()) {
    host_.set_app(this);
    ++world_.contexts_;
  }
  ~SimBackend() override {
    host_.set_app(nullptr);
    see(false);
    --world_.contexts_;
    if (fd_ >= 0) ::close(fd_);
  }
  SimBackend(const SimBackend&) = delete;
  SimBackend& operator=(const SimBackend&) = delete;

  std::string_view provider() const override { return "sim"; }
  cm::Manager& manager() override { return manager_; }
  Device& device() override { return device_; }
  void called() override {
    if (std::exchange(called_, true)) return;
    host_.set_timer(now() + std::chrono::nanoseconds(1), 0);
  }
  void drained() override {}
  int fd() override {
    if (fd_ < 0) fd_ = ::eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd_ >= 0 ? fd_ : fail(PARLEY_E_NO_SPACE, "eventfd: no descriptor is left");
  }
  int progress() override {
    see(false);
    // If other contexts have something to poll, run only one step, so that they can react in time.
    const std::uint32_t others = world_.seen_;
    const Instant end = now() + quantum;
    bool any = manager_.has_events();
    for (int steps = others == 0 ? steps_max : 1; steps > 0 && world_.seen_ == others; --steps) {
      if (!world_.world_.step(end)) {
        if (now() < end) world_.world_.run_for(end - now());
        break;
      }
      any = true;
    }
    return any ? 1 : exhausted();
  }
  int wait(int timeout_ms) override {
    see(manager_.has_events());
    const Instant end = timeout_ms < 0 ? never : now() + std::chrono::milliseconds(timeout_ms);
    while (!seen_ && world_.world_.step(end)) {
    }
    if (seen_) return 1;
    if (end != never && now() < end) world_.world_.run_for(end - now());
    return exhausted();
  }
  int wake() override { return fail(PARLEY_E_UNSUPPORTED, "a world has one thread: there is no thread to wake"); }
  Instant now() const override { return host_.now(); }
  Result<Address> address(Address::Family family) const override { return host_.address(family); }

 private:
  static constexpr int steps_max = 256;                                // of the world, in one call
  static constexpr Duration quantum = std::chrono::microseconds(100);  // maximum simulated time for one call

  void on_start(sim::Host&) override {}
  void on_crash(sim::Host&) override {}
  void on_turn(sim::Host&) override {
    called_ = false;
    see(true);
  }
  void on_timer(sim::Host&, std::uint64_t) override { called_ = false; }
  void see(bool something) {
    if (seen_ == something) return;
    seen_ = something;
    something ? ++world_.seen_ : --world_.seen_;
  }
  int exhausted() const {
    return world_.world_.counters().exhausted
               ? fail(PARLEY_E_NO_SPACE, "the world has had more steps than it can count")
               : 0;
  }

  World& world_;
  sim::Host& host_;
  cm::Manager& manager_;
  Device& device_;
  bool called_ = false;
  bool seen_ = false;
  int fd_ = -1;
};

World::World(const parley_world_opts& options) : options_(options), world_(options.seed) {
  switch_ = *world_.add_switch("switch");
}

std::unique_ptr<Backend> World::add_host(const char* name, const cm::ManagerOptions& options) {
  const auto refused = [](std::string why) {
    fail_with(PARLEY_E_INVALID_ARGUMENT, std::move(why));
    return nullptr;
  };
  sim::HostOptions host_options;
  const cm::Liveness as_in_a_world = host_options.manager.liveness;
  host_options.manager = options;
  host_options.manager.liveness = as_in_a_world;
  if (host_options.manager.endpoints_max == 0) host_options.manager.endpoints_max = cm::endpoints_default;
  host_options.learn_announcements = true;
  auto host = world_.add_host(name != nullptr ? name : fmt::format("host{}", hosts_ + 1), host_options);
  if (!host) return refused(host.error());
  ++hosts_;
  sim::LinkOptions link_options;
  if (options_.delay_ns != 0) link_options.delay = std::chrono::nanoseconds(options_.delay_ns);
  if (options_.rate_bps != 0) link_options.rate_bps = options_.rate_bps;
  if (options_.mtu != 0) link_options.mtu = static_cast<std::uint16_t>(options_.mtu);
  auto link = world_.add_link((*host)->id(), switch_, link_options);
  if (!link) return refused(link.error());
  if (options_.loss_ppm != 0) {
    sim::FaultRule loss;
    loss.name = "loss";
    loss.chance = {options_.loss_ppm, 1'000'000};
    if (auto added = world_.add_fault(*link, sim::LinkDirection::both, loss); !added) return refused(added.error());
  }
  return std::make_unique<SimBackend>(*this, **host);
}

namespace {

using Worlds = Handles<World, parley_world, 1024>;
Worlds& worlds() {
  static Worlds all;
  return all;
}

int check_world(const parley_world_opts& o) {
  if (o.loss_ppm > 1'000'000)
    return fail(PARLEY_E_INVALID_ARGUMENT, "loss_ppm is {a}; it is at most {b}", o.loss_ppm, 1'000'000);
  if (o.mtu != 0 && (o.mtu < 576 || o.mtu > 9000))
    return fail(PARLEY_E_INVALID_ARGUMENT, "mtu is {a}; must be 576 to 9000, or 0 for 1500", o.mtu);
  if (o.delay_ns > 1'000'000'000'000)
    return fail(PARLEY_E_INVALID_ARGUMENT, "delay_ns is {a}; it is at most {b}", static_cast<std::int64_t>(o.delay_ns),
                1'000'000'000'000);
  if (o.reserved != 0) return fail(PARLEY_E_INVALID_ARGUMENT, "reserved is {a}; must be 0", o.reserved);
  return 0;
}

}  // namespace

World* find_world(const parley_world* world) {
  World* found = worlds().find(world);
  return found != nullptr && found->forks() == forks_until_now() ? found : nullptr;
}

}  // namespace parley::capi

using namespace parley::capi;

extern "C" int parley_world_open(parley_world** out, const struct parley_world_opts* opts) {
  return guarded([&] {
    if (out == nullptr) return fail(PARLEY_E_INVALID_ARGUMENT, "out is null");
    *out = nullptr;
    parley_world_opts o = PARLEY_WORLD_OPTS_INIT;
    if (const int rc = read_options(opts, o); rc != 0) return rc;
    if (const int rc = check_world(o); rc != 0) return rc;
    *out = worlds().add(std::make_unique<World>(o));
    return *out != nullptr ? 0 : fail(PARLEY_E_NO_SPACE, "1024 worlds are open; close some");
  });
}

extern "C" int parley_world_close(parley_world* world) {
  return guarded([&] {
    const World* found = find_world(world);
    if (found == nullptr)
      return fail(PARLEY_E_BAD_HANDLE,
                  "there is no such world: it was never opened, or it is closed, or another process opened it");
    if (found->in_use()) return fail(PARLEY_E_WRONG_STATE, "contexts of the world are open; close them first");
    worlds().take(world);
    return 0;
  });
}
