// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/ssa/node_acm.hpp"

#include <random>

#include <fmt/format.h>

#include "drivers/mad/run.hpp"
#include "mad/port.hpp"

namespace parley::tools {

namespace {

auto place_error(const std::string& place, const Error& why) {
  return command_error(Exit::environment, fmt::format("--acm {}: {}", place, why.message()));
}

}  // namespace

std::uint8_t ports_of_node(mad::Transport& transport) {
  const std::uint8_t own = transport.local().port;
  if (!transport.facts().smp) return own;
  mad::Port port(transport.facts(), transport.local(), {.seed = std::random_device()()});
  mad::Path self = mad::Path::to_self();
  self.retries = 1;
  self.timeout = std::chrono::milliseconds(300);  // doubled for the retry
  using wire::mad::NodeInfo;
  const auto info = mad_driver::run_blocking(port, transport, port.subn_get<NodeInfo>(self));
  return info && *info ? (*info)->get(NodeInfo::num_ports) : own;
}

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
  return std::unique_ptr<NodeAcm>(new NodeAcm(std::move(*opened), std::move(*addresses), options.ports_of_node));
}

/// The file may have a million addresses: they are copied only for another prefix.
void NodeAcm::adapt_addresses(std::uint64_t prefix) {
  if (addresses_ != nullptr && prefix == prefix_) return;
  auto adapted = std::make_shared<ssa::acm::Addresses>(from_file_);
  adapted->set_prefix(prefix);
  addresses_ = std::move(adapted);
  prefix_ = prefix;
}

/// Each P_Key of the node's port.
std::vector<ssa::acm::Endpoint> NodeAcm::endpoints() const {
  const Gid gid = ssa::gid_of_port(prefix_, local_.port_guid);
  const auto names = addresses_->texts_of(gid);
  std::vector<ssa::acm::Endpoint> out;
  for (const std::uint16_t key : local_.pkeys)
    if (key != 0) out.push_back({local_.node_guid, gid, local_.port, ports_of_node_, key, names});
  return out;
}

Or<bool> NodeAcm::follow(const ssa_driver::Daemon& daemon) {
  if (daemon.paths() == nullptr || (daemon.paths() == map_ && daemon.local() == local_)) return false;
  local_ = daemon.local();
  auto data = std::make_shared<ssa::acm::Data>();
  data->map = daemon.paths();
  adapt_addresses(data->map->gid_prefix());
  data->addresses = addresses_;
  data->endpoints = endpoints();
  const bool is_first = std::exchange(map_, daemon.paths()) == nullptr;
  if (!is_first) {
    service_->publish(std::move(data));
    return false;
  }
  std::string place;
  if (const auto started = service_->start(std::move(data), &place); !started)
    return place_error(place, started.error());
  return true;
}

}  // namespace parley::tools
