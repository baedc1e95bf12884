// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A UD queue pair of a real device.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "drivers/mad/gsi.hpp"
#include "drivers/mad/roce.hpp"
#include "drivers/mad/ud.hpp"
#include "drivers/verbs/device.hpp"
#include "drivers/verbs/gid_choice.hpp"
#include "drivers/verbs/resolve.hpp"

namespace parley::mad_driver {

namespace {

constexpr std::chrono::milliseconds look_up{200};  // for a port's Ethernet address

OrText<std::shared_ptr<verbs::NicDevice>> open_device(const std::string& name) {
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count), ibv_free_device_list);
  for (int i = 0; list && i < count; ++i) {
    if (name != ibv_get_device_name(list.get()[i])) continue;
    ibv_context* const context = ibv_open_device(list.get()[i]);
    if (context == nullptr)
      return tl::unexpected(
          fmt::format("{}: {}; check the permissions on /dev/infiniband", name, std::strerror(errno)));
    auto device = verbs::NicDevice::open(context);
    if (!device) return tl::unexpected(text_of(device.error()));
    return std::shared_ptr<verbs::NicDevice>(std::move(*device));
  }
  return tl::unexpected(fmt::format("the device {} is gone", name));
}

class Verbs final : public RoceTransport {
 public:
  explicit Verbs(std::shared_ptr<verbs::NicDevice> nic) : nic_(std::move(nic)) {}

  OrText<void> start(const verbs::GidChoice& choice) {
    UdOptions options{.local = roce_port(choice.gid->gid),
                      .gid_index = static_cast<std::uint8_t>(choice.gid->index),
                      .port = static_cast<std::uint8_t>(choice.port->number)};
    options.reach = [this](const AhAttr& to) { return resolver_.resolve(nic_, to, look_up); };
    auto made = UdTransport::open(*nic_, options);
    if (!made) return tl::unexpected(text_of(made.error()));
    inner_ = std::move(*made);
    return {};
  }

  int fd() const override { return nic_->completion_fd(); }
  std::uint32_t qp_num() const override { return inner_->qp_num(); }

 private:
  mad::Transport& inner() const override { return *inner_; }
  Result<void> drive() override {
    if (nic_->gone()) return fail(Errc::peer_closed, "the device is gone");
    nic_->collect();
    nic_->arm();
    static_cast<void>(nic_->take_broken());  // completions report the same
    return {};
  }

  std::shared_ptr<verbs::NicDevice> nic_;
  verbs::Resolver resolver_;
  std::unique_ptr<UdTransport> inner_;
};

}  // namespace

OrText<std::unique_ptr<RoceTransport>> open_verbs(const VerbsOptions& options) {
  const auto there = list_rdma_devices();
  if (!there) return tl::unexpected(text_of(there.error()));
  const auto choice = verbs::choose_gid(*there, {.device = options.device, .index = options.gid_index});
  if (!choice) return tl::unexpected(choice.error());
  if (choice->gid->kind != GidInfo::Kind::roce_v2 && choice->gid->kind != GidInfo::Kind::roce_v1)
    return tl::unexpected(fmt::format("{} is not a RoCE device; for InfiniBand, use umad:{}", choice->device->name,
                                      choice->device->name));
  auto nic = open_device(choice->device->name);
  if (!nic) return tl::unexpected(nic.error());
  auto out = std::make_unique<Verbs>(std::move(*nic));
  if (const auto started = out->start(*choice); !started)
    return tl::unexpected(fmt::format("{}: {}", choice->device->name, started.error()));
  return out;
}

}  // namespace parley::mad_driver
