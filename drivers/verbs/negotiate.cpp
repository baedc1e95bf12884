// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The driver "verbs" of staged negotiation: one queue pair of a real device, moved manually from INIT to RTS.
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include <fmt/format.h>

#include "base/gid.hpp"
#include "cm/neg/guarded.hpp"
#include "cm/neg/variants/device_qp.hpp"
#include "cm/neg/variants/manual_driver.hpp"
#include "drivers/asio/sockaddr.hpp"
#include "drivers/clock.hpp"
#include "drivers/verbs/device.hpp"
#include "drivers/verbs/gid_choice.hpp"
#include "drivers/verbs/resolve.hpp"
#include "parley/neg_verbs.hpp"

namespace parley::verbs {
namespace {

using namespace std::chrono_literals;
using neg::Config;
using neg::Outcome;
using neg::Problem;

constexpr auto look_up = 200ms;            // for resolving the peer's Ethernet address: other sessions wait that long
constexpr Duration between_looks = 200us;  // at completions

/// The devices of existing queue pairs.
class Devices {
 public:
  Outcome<std::shared_ptr<NicDevice>> open(const std::string& name) {
    std::erase_if(open_, [](const auto& entry) { return entry.second.expired(); });
    if (auto there = open_[name].lock(); there && !there->gone()) return there;
    int count = 0;
    const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count), ibv_free_device_list);
    for (int i = 0; list && i < count; ++i) {
      if (name != ibv_get_device_name(list.get()[i])) continue;
      ibv_context* context = ibv_open_device(list.get()[i]);
      if (context == nullptr)
        return neg::failed(Problem::vendor_library_error, fmt::format("{}: {}", name, std::strerror(errno)),
                           "see the rights on /dev/infiniband");
      auto device = NicDevice::open(context);
      if (!device) return neg::device_failed(name, device.error());
      std::shared_ptr<NicDevice> shared = std::move(*device);
      open_[name] = shared;
      return shared;
    }
    return neg::failed(Problem::vendor_library_error, fmt::format("the device {} is gone", name));
  }

  const Resolver& resolver() const { return resolver_; }

 private:
  Resolver resolver_;
  std::map<std::string, std::weak_ptr<NicDevice>> open_;  // at most one per device of the machine
};

Outcome<GidPreference> gid_preference_of(const Config& config) {
  GidPreference out{.device = neg::text_in(config, "device")};
  if (const auto port = neg::number_of(config, "port"); port != 0) out.port = static_cast<std::uint32_t>(port);
  if (config.contains("gid_index")) out.index = static_cast<std::uint32_t>(neg::number_of(config, "gid_index"));
  if (const std::string gid = neg::text_in(config, "gid"); !gid.empty()) {
    const auto parsed = neg::parse_gid(gid);
    if (!parsed) return tl::unexpected(parsed.error());
    out.gid = *parsed;
  }
  const auto toward = neg::toward_of(config);
  if (!toward) return tl::unexpected(toward.error());
  out.peer = *toward;
  if (out.peer)
    if (const auto source = asio_driver::source_toward(*out.peer)) out.source = *source;
  return out;
}

/// A queue pair's device, and the kernel's path to its peer.
class VerbsQpEnvironment final : public neg::QpEnvironment {
 public:
  VerbsQpEnvironment(std::shared_ptr<NicDevice> device, Resolver resolver)
      : nic_(std::move(device)), resolver_(std::move(resolver)) {}
  Device& device() override { return *nic_; }
  Outcome<void> reach(const AhAttr& peer) override;
  void work(Duration wait) override;
  Instant now() const override { return clock_now(); }

 private:
  std::shared_ptr<NicDevice> nic_;
  Resolver resolver_;
};

Outcome<void> VerbsQpEnvironment::reach(const AhAttr& peer) {
  const auto known = resolver_.resolve(nic_, peer, look_up);
  if (known) return {};
  const Problem problem = problem_of_path(known.error());
  return neg::failed(problem,
                     fmt::format("the path to {}: {}", peer.grh ? gid_text(peer.grh->dgid) : std::string("it"),
                                 known.error().message()),
                     problem == Problem::invalid_peer_data
                         ? "see which GID the peer has chosen, and whether this side's reaches it"
                         : "");
}

void VerbsQpEnvironment::work(Duration wait) {
  if (wait > Duration{}) std::this_thread::sleep_for(std::min(wait, between_looks));
  nic_->collect();
  (void)nic_->take_broken();  // completions report the same
  (void)nic_->take_reached();
}

Outcome<std::unique_ptr<neg::QpDriver>> make_qp_driver(Devices& devices, neg::Transport transport,
                                                       const Config& config) {
  if (transport == neg::Transport::xrc)
    return neg::failed(Problem::configuration_error, "XRC is not used on real devices in this version",
                       "use verbs-rc, or driver=manual with a queue pair of yours");
  if (auto sane = neg::check_device_qp(config); !sane) return tl::unexpected(sane.error());
  const auto preference = gid_preference_of(config);
  if (!preference) return tl::unexpected(preference.error());
  const auto there = list_rdma_devices();
  if (!there)
    return neg::failed(Problem::configuration_error,
                       there.error().sentence().empty() ? there.error().message() : there.error().sentence(),
                       "load a device's driver, or give the values of a queue pair of yours (driver=manual)");
  const auto choice = choose_gid(*there, *preference);
  if (!choice)
    return neg::failed(Problem::configuration_error, choice.error(),
                       "'parley doctor rdmacm' lists devices, ports and GIDs; driver=manual takes values of yours");
  auto device = devices.open(choice->device->name);
  if (!device) return tl::unexpected(device.error());
  const auto& [entry, port, gid, reason] = *choice;
  neg::QpAttributes own{.gid = gid->gid, .mtu = port->mtu};
  const auto number = static_cast<std::uint8_t>(port->number);
  ibv_port_attr attr{};
  if (ibv_query_port((*device)->context(), number, &attr) == 0) own.lid = attr.lid;
  const neg::DeviceQpOptions options{
      .transport = transport,
      .port = number,
      .gid_index = static_cast<std::uint8_t>(gid->index),
      .where = fmt::format("{} port {}, GID {} {} ({})", entry->name, number, gid->index, gid_text(gid->gid), reason),
      .own = own,
      .random = std::random_device{}()};
  return neg::make_device_qp(std::make_unique<VerbsQpEnvironment>(std::move(*device), devices.resolver()), options,
                             config);
}

std::vector<neg::Parameter> parameters_of_verbs() {
  using Kind = neg::Parameter::Kind;
  std::vector<neg::Parameter> out{
      {.name = "device", .help = "verbs: RDMA device; otherwise the one with the best GID"},
      {.name = "port", .kind = Kind::number, .help = "verbs: its port; 0: any", .otherwise = "0", .most = 255},
      {.name = "gid_index", .kind = Kind::number, .help = "verbs: index of the GID; otherwise the best", .most = 255}};
  for (neg::Parameter& p : neg::device_parameters("verbs")) out.push_back(std::move(p));
  return out;
}

}  // namespace
}  // namespace parley::verbs

namespace parley::neg {

QpDrivers verbs_drivers() {
  return {.name = "verbs",
          .parameters = verbs::parameters_of_verbs(),
          .make = [devices = std::make_shared<verbs::Devices>()](Transport transport, const Config& config) {
            return verbs::make_qp_driver(*devices, transport, config);
          }};
}

}  // namespace parley::neg
