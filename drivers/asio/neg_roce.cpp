// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "parley/neg_roce.hpp"

#include <random>
#include <utility>

#include "cm/neg/roce_nic.hpp"
#include "drivers/asio/packet_drops.hpp"
#include "drivers/asio/packet_loop.hpp"

namespace parley::neg {
namespace {

using asio_driver::PacketLoop;

/// Lives as long as the engine or any of its queue pairs.
struct Body {
  explicit Body(std::unique_ptr<nic::roce::RoceDevice> device) : nic(std::move(device)) {}
  RoceNic nic;
  std::unique_ptr<PacketLoop> loop;
};

class Engine final : public RoceEngine {
 public:
  Engine(std::shared_ptr<Body> body, std::uint64_t seed) : body_(std::move(body)), seed_(seed) {}

  QpDrivers drivers() override {
    return roce_qp_drivers({body_, &body_->nic},
                           {.turn = [body = body_](Duration wait) { body->loop->run_once(wait); },
                            .now = [body = body_] { return body->loop->now(); }},
                           seed_);
  }
  bool run_once(Duration wait) override { return body_->loop->run_once(wait); }
  int fd() const override { return body_->loop->fd(); }
  Instant next_deadline() const override {
    return body_->nic.has_work() && !body_->loop->blocked() ? Instant{} : body_->nic.next_deadline();
  }
  void set_tap(PacketTap tap) override { body_->loop->set_tap(std::move(tap)); }
  RoceCounters counters() const override { return body_->loop->counters(); }
  std::vector<RoceDropped> dropped() const override {
    return asio_driver::dropped_packets(body_->loop->counters(), body_->nic.device().counters());
  }

 private:
  std::shared_ptr<Body> body_;
  std::uint64_t seed_;
};

}  // namespace

Result<std::unique_ptr<RoceEngine>> RoceEngine::open(const RoceHostOptions& options) {
  const std::uint64_t seed = options.roce.seed != 0 ? options.roce.seed : std::random_device{}() | std::uint64_t{1};
  auto device = nic::roce::make_device(negotiated_device(seed, options.roce.address_base));
  if (!device) return tl::unexpected(device.error());
  auto body = std::make_shared<Body>(std::move(*device));
  auto loop = PacketLoop::open(body->nic, options);
  if (!loop) return tl::unexpected(loop.error());
  body->loop = std::move(*loop);
  return std::make_unique<Engine>(std::move(body), seed);
}

}  // namespace parley::neg
