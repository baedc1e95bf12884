// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The host: provider, manager, and the loop that drives the provider over sockets.
#include "parley/tcp_host.hpp"

#include <algorithm>
#include <random>
#include <system_error>

#include "cm/providers/iwarp/iwarp.hpp"
#include "drivers/asio/machine_loop.hpp"
#include "drivers/xrcd/own_process.hpp"

namespace parley {
namespace {

using asio_driver::MachineLoop;

class SocketHost final : public TcpHost {
 public:
  static Result<std::unique_ptr<TcpHost>> open(const TcpHostOptions& options) {
    if (auto checked = cm::check_options(options.iwarp); !checked) return tl::unexpected(checked.error());
    if (auto checked = cm::check_options(options.manager); !checked) return tl::unexpected(checked.error());
    auto host = std::unique_ptr<SocketHost>(new SocketHost(options));
    auto loop = MachineLoop::open(*host->provider_, options);
    if (!loop) return tl::unexpected(loop.error());
    host->loop_ = std::move(*loop);
    host->provider_->set_mover(&host->loop_->mover());
    return std::unique_ptr<TcpHost>(std::move(host));
  }

  ~SocketHost() override = default;
  SocketHost(const SocketHost&) = delete;
  SocketHost& operator=(const SocketHost&) = delete;

  cm::Manager& cm() override { return manager_; }
  Device& device() override { return manager_.device(); }
  int fd() const override { return loop_->fd(); }
  Instant next_deadline() const override {
    // A time in the distant past, and not now(): a caller may have called now() before.
    return has_events() ? Instant{} : next_turn();
  }
  Instant next_turn() const override { return provider_->has_work() ? Instant{} : loop_->next_deadline(); }
  void wake() noexcept override { loop_->wake(); }
  Instant now() const override { return loop_->now(); }
  void set_tap(Tap tap) override { loop_->set_tap(std::move(tap)); }

  bool run_once(Duration wait) override {
    own_.require("TcpHost::run_once");
    if (loop_->turn(wait <= Duration{}) || has_events()) return true;
    if (wait <= Duration{}) return false;
    loop_->sleep(wait);
    return loop_->turn() || has_events();
  }

 private:
  bool has_events() const { return manager_.any_events() || provider_->has_events(); }
  explicit SocketHost(const TcpHostOptions& options)
      : provider_(cm::make_iwarp_provider(options.iwarp)), manager_(*provider_, manager_options(options)) {}

  static cm::ManagerOptions manager_options(const TcpHostOptions& options) {
    cm::ManagerOptions out = options.manager;
    if (out.seed == 0) out.seed = std::random_device{}();
    if (out.endpoints_max != 0) return out;
    // A stream that ended may remain as an id until the user destroys it, and listeners are endpoints too.
    const std::size_t streams = std::min<std::size_t>(options.streams_max, cm::endpoints_limit);
    out.endpoints_max = static_cast<std::uint32_t>(std::min<std::size_t>(2 * streams + 1024, cm::endpoints_limit));
    return out;
  }

  xrc::OwnProcess own_;
  std::unique_ptr<cm::IwarpProvider> provider_;
  cm::Manager manager_;
  std::unique_ptr<MachineLoop> loop_;
};

}  // namespace

Result<std::unique_ptr<TcpHost>> TcpHost::open(const TcpHostOptions& options) { return SocketHost::open(options); }

}  // namespace parley
