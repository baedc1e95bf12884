// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The machine's RDMA devices, their ports and GIDs, and which of them a connection would use.
#include <infiniband/verbs.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "base/gid.hpp"
#include "drivers/libraries/forward.hpp"
#include "drivers/rdmacm/provider.hpp"
#include "drivers/verbs/convert.hpp"
#include "parley/rdma_host.hpp"

namespace parley {
namespace {

using Kind = GidInfo::Kind;

/// Version first, then reach. Linux uses the GID of the route's interface and address; this order gives the best one
/// for a program that chooses by itself.
void rank(std::vector<GidInfo>& gids) {
  const auto badness = [](const GidInfo& g) {
    return (g.kind == Kind::roce_v1 ? 2 : 0) + (is_link_local_gid(g.gid) ? 1 : 0);
  };
  std::vector<GidInfo*> order;
  for (GidInfo& gid : gids) order.push_back(&gid);
  std::stable_sort(order.begin(), order.end(), [&](const auto* a, const auto* b) { return badness(*a) < badness(*b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    GidInfo& gid = *order[i];
    gid.rank = static_cast<std::uint32_t>(i);
    gid.reason = gid.kind == Kind::roce_v1    ? "RoCE v1: not routable; v2 goes first"
                 : is_link_local_gid(gid.gid) ? "link-local: reaches this link only"
                 : gid.kind == Kind::roce_v2  ? "RoCE v2, routable"
                                              : "the only kind on this link layer";
  }
}

Kind kind_of(const ibv_gid_entry& entry, bool iwarp) {
  if (iwarp) return Kind::iwarp;
  if (entry.gid_type == IBV_GID_TYPE_ROCE_V2) return Kind::roce_v2;
  return entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? Kind::roce_v1 : Kind::infiniband;
}

std::string state_text(ibv_port_state state) {
  switch (state) {
    case IBV_PORT_DOWN: return "DOWN";
    case IBV_PORT_INIT: return "INIT";
    case IBV_PORT_ARMED: return "ARMED";
    case IBV_PORT_ACTIVE: return "ACTIVE";
    default: return "UNKNOWN";
  }
}

std::string link_text(std::uint8_t link) {
  return link == IBV_LINK_LAYER_ETHERNET     ? "Ethernet"
         : link == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
                                             : "unspecified";
}

}  // namespace

namespace rdmacm {

std::vector<GidInfo> gids_of(ibv_context* context, std::uint32_t port, bool iwarp) {
  std::array<ibv_gid_entry, 512> entries;
  std::vector<GidInfo> out;
  const ssize_t count = ibv_query_gid_table(context, entries.data(), entries.size(), 0);
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<std::size_t>(i)];
    if (entry.port_num != port) continue;
    GidInfo gid;
    gid.index = entry.gid_index;
    std::copy(std::begin(entry.gid.raw), std::end(entry.gid.raw), gid.gid.begin());
    if (gid.gid == Gid{}) continue;
    gid.kind = kind_of(entry, iwarp);
    std::array<char, IF_NAMESIZE> name{};
    if (entry.ndev_ifindex != 0 && ::if_indextoname(entry.ndev_ifindex, name.data()) != nullptr)
      gid.interface = name.data();
    out.push_back(std::move(gid));
  }
  rank(out);
  return out;
}

}  // namespace rdmacm

namespace {

Result<DeviceInfo> describe(ibv_device* device) {
  ibv_context* context = ibv_open_device(device);
  if (context == nullptr) return verbs::refused(errno, "the device cannot be opened: errno {a}");
  auto nic = verbs::NicDevice::open(context);
  if (!nic) return tl::unexpected(nic.error());
  DeviceInfo out{.name = (*nic)->name(), .attr = (*nic)->attr(), .ports = {}};
  ibv_device_attr attr{};
  if (const int error = ibv_query_device(context, &attr); error != 0)
    return verbs::refused(error, "ibv_query_device: errno {a}");
  for (std::uint32_t number = 1; number <= attr.phys_port_cnt; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(context, static_cast<std::uint8_t>(number), &port) != 0) continue;
    out.ports.push_back({.number = number,
                         .state = state_text(port.state),
                         .link_layer = link_text(port.link_layer),
                         .mtu = 128U << port.active_mtu,
                         .gids = rdmacm::gids_of(context, number, out.attr.transport == Transport::iwarp)});
  }
  return out;
}

}  // namespace

Result<std::vector<DeviceInfo>> list_rdma_devices() {
  int count = 0;
  const std::unique_ptr<ibv_device*, void (*)(ibv_device**)> list(ibv_get_device_list(&count), ibv_free_device_list);
  if (!list) {
    if (errno == ELIBACC) return fail(Errc::unsupported, libraries::no_libibverbs);
    if (errno == ENOSYS) return fail(Errc::unreachable, "the kernel has no RDMA (ib_uverbs is not loaded)");
    return verbs::refused(errno, "ibv_get_device_list: errno {a}");
  }
  std::vector<DeviceInfo> out;
  for (int i = 0; i < count; ++i) {
    // A device that cannot be opened, as in a container that was given another one, does not hide the others.
    if (auto device = describe(list.get()[i])) out.push_back(std::move(*device));
  }
  return out;
}

}  // namespace parley
