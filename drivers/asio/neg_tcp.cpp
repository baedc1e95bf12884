// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/neg_tcp.hpp"

#include <random>
#include <utility>

#include "cm/neg/peers.hpp"
#include "drivers/asio/machine_loop.hpp"

namespace parley::neg {
namespace {

using asio_driver::MachineLoop;

class Negotiations final : public TcpPeers {
 public:
  Negotiations(const Framework& framework, const PeersOptions& options) : peers_(framework, options) {}
  ~Negotiations() override = default;
  Negotiations(const Negotiations&) = delete;
  Negotiations& operator=(const Negotiations&) = delete;
  Result<void> open() {
    auto loop = MachineLoop::open(peers_);
    if (!loop) return tl::unexpected(loop.error());
    loop_ = std::move(*loop);
    return {};
  }

  Outcome<void> listen(const Address& local, std::vector<Offer> offers) override {
    auto listening = peers_.listen(local, std::move(offers));
    called_ = true;
    return listening;
  }
  void stop_listening() override {
    peers_.stop_listening();
    called_ = true;
  }
  Outcome<DialId> dial(Dial dial) override {
    auto id = peers_.dial(loop_->now(), std::move(dial));
    called_ = true;
    return id;
  }
  std::optional<Event> poll_event() override { return peers_.poll_event(); }
  std::size_t busy() const override { return peers_.busy(); }
  std::size_t streams() const override { return peers_.streams(); }

  bool run_once(Duration wait) override {
    called_ = false;
    if (loop_->turn(wait <= Duration{}) || peers_.has_events()) return true;
    if (wait <= Duration{}) return false;
    loop_->sleep(wait);
    return loop_->turn() || peers_.has_events();
  }
  int fd() const override { return loop_->fd(); }
  // A time in the distant past, and not now(), as in TcpHost.
  Instant next_deadline() const override { return called_ || peers_.has_events() ? Instant{} : loop_->next_deadline(); }
  void wake() noexcept override { loop_->wake(); }
  Instant now() const override { return loop_->now(); }
  void set_tap(Tap tap) override { loop_->set_tap(std::move(tap)); }

 private:
  Peers peers_;
  std::unique_ptr<MachineLoop> loop_;
  bool called_ = false;  // a call was made, and is executed in the next turn
};

}  // namespace

Result<std::unique_ptr<TcpPeers>> TcpPeers::open(const Framework& framework, const PeersOptions& options) {
  PeersOptions own = options;
  if (own.seed == 0) own.seed = std::random_device{}();
  auto peers = std::make_unique<Negotiations>(framework, own);
  if (auto opened = peers->open(); !opened) return tl::unexpected(opened.error());
  return std::unique_ptr<TcpPeers>(std::move(peers));
}

}  // namespace parley::neg
