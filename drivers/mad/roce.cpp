// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/mad/roce.hpp"

#include <random>

#include "cm/neg/roce_nic.hpp"
#include "drivers/asio/packet_loop.hpp"
#include "drivers/mad/gsi.hpp"
#include "drivers/mad/ud.hpp"

namespace parley::mad_driver {

namespace {

class Sockets final : public RoceTransport {
 public:
  explicit Sockets(std::unique_ptr<nic::roce::RoceDevice> device)
      : nic_(std::move(device), neg::RoceNic::PolledOutput::mads) {}

  OrText<void> start(const RoceOptions& options) {
    auto loop = asio_driver::PacketLoop::open(nic_);
    if (!loop) return tl::unexpected(text_of(loop.error()));
    loop_ = std::move(*loop);
    const BindId bind = nic_.bind(options.local, Address::any(options.local.family, 0));
    loop_->run_once({});
    const auto answer = nic_.answer(bind);
    if (!answer) return tl::unexpected(std::string("the engine's sockets do not answer"));
    if (!*answer) return tl::unexpected(text_of(answer->error()));
    const auto index = nic_.addresses().add(**answer);
    if (!index) return tl::unexpected(std::string("the address is not in the port's GID table"));
    if (!options.queue_pair) {
      inner_ = std::make_unique<GsiTransport>(nic_.device(), *index);
      return {};
    }
    auto made = UdTransport::open(nic_.device(), {.local = roce_port(nic_.device().gid(*index)), .gid_index = *index});
    if (!made) return tl::unexpected(text_of(made.error()));
    qp_num_ = (*made)->qp_num();
    inner_ = std::move(*made);
    return {};
  }

  int fd() const override { return loop_->fd(); }  // also reports room to send
  std::uint32_t qp_num() const override { return qp_num_; }

 private:
  mad::Transport& inner() const override { return *inner_; }
  Result<void> drive() override {
    loop_->run_once({});
    return {};
  }

  neg::RoceNic nic_;
  std::unique_ptr<asio_driver::PacketLoop> loop_;
  std::unique_ptr<mad::Transport> inner_;
  std::uint32_t qp_num_ = PARLEY_IB_GSI_QPN;
};

}  // namespace

Result<std::optional<mad::Transport::Received>> RoceTransport::receive() {
  auto came = inner().receive();
  if (!came || *came) return came;
  if (const auto driven = drive(); !driven) return tl::unexpected(driven.error());
  return inner().receive();
}

OrText<std::unique_ptr<RoceTransport>> RoceTransport::open(const RoceOptions& options) {
  const std::uint64_t seed = std::random_device{}() | std::uint64_t{1};
  auto device = nic::roce::make_device(neg::negotiated_device(seed, 0));
  if (!device) return tl::unexpected(text_of(device.error()));
  auto out = std::make_unique<Sockets>(std::move(*device));
  if (const auto started = out->start(options); !started) return tl::unexpected(started.error());
  return out;
}

}  // namespace parley::mad_driver
