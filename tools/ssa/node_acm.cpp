// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/node_acm.hpp"

#include <fmt/format.h>

namespace parley::tools {

namespace {

/// Each P_Key of the node's port.
std::vector<ssa::acm::Endpoint> endpoints_of(const mad::LocalPort& local, std::uint64_t prefix,
                                             const ssa::acm::Addresses& addresses) {
  const Gid gid = ssa::gid_of_port(prefix, local.port_guid);
  const auto names = addresses.texts_of(gid);
  std::vector<ssa::acm::Endpoint> out;
  for (const std::uint16_t key : local.pkeys)
    if (key != 0) out.push_back({local.node_guid, gid, local.port, local.port, key, names});
  return out;
}

auto place_error(const std::string& place, const Error& why) {
  return command_error(Exit::environment, fmt::format("--acm {}: {}", place, why.message()));
}

}  // namespace

Or<std::unique_ptr<NodeAcm>> NodeAcm::open(const NodeAcmOptions& options) {
  // The SA is the root's to ask: requests for its own answers have none.
  const ssa_driver::AcmServiceOptions service{.sockets = options.sockets, .asks_sa = false};
  if (const std::string wrong = hidden_librdmacm(service); !wrong.empty())
    return command_error(Exit::environment, "--acm " + wrong);
  auto addresses = read_addresses(options.addresses);
  if (!addresses) return tl::unexpected(addresses.error());
  std::string place;
  auto opened = ssa_driver::AcmService::open(service, &place);
  if (!opened) return place_error(place, opened.error());
  return std::unique_ptr<NodeAcm>(new NodeAcm(std::move(*opened), std::move(*addresses)));
}

Or<void> NodeAcm::follow(const ssa_driver::Daemon& daemon) {
  if (daemon.paths() == nullptr || (daemon.paths() == map_ && daemon.local() == local_)) return {};
  local_ = daemon.local();
  auto data = std::make_shared<ssa::acm::Data>();
  data->map = daemon.paths();
  data->addresses = addresses_;
  data->addresses.set_prefix(data->map->gid_prefix());
  data->endpoints = endpoints_of(local_, data->map->gid_prefix(), data->addresses);
  const bool is_first = std::exchange(map_, daemon.paths()) == nullptr;
  if (!is_first) {
    service_->publish(std::move(data));
    return {};
  }
  std::string place;
  if (const auto started = service_->start(std::move(data), &place); !started)
    return place_error(place, started.error());
  return {};
}

}  // namespace parley::tools
