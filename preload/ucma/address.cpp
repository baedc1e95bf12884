// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands that bind, resolve and listen, and the queries for their results.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "drivers/asio/packet_socket.hpp"
#include "preload/ucma/core.hpp"
#include "preload/ucma/sockaddrs.hpp"
#include "wire/ib/cma.hpp"

namespace parley::preload::ucma {

namespace {

constexpr std::uint16_t first_port = 32768, last_port = 60999;  // ip_local_port_range
constexpr std::uint8_t rate_25_gbps = 15;                       // ib_rate; nominal, the sockets have no rate
constexpr std::uint8_t exactly = 2;                             // IB_SA_EQ

Address without_port(Address of) {
  of.port = 0;
  return of;
}

bool same_family(const Address& a, const Address& b) { return a.family == b.family; }

/// The path record as on the wire (IBA §15.2.5.16), which ib_path_rec_data carries.
struct PathRecord {
  std::uint64_t service_id;
  Gid dgid, sgid;
  std::uint16_t dlid, slid;
  std::uint32_t flow_label_hop_limit;
  std::uint8_t traffic_class, reversible_numb_path;
  std::uint16_t p_key, qos_class_sl;
  std::uint8_t mtu, rate, packet_life_time, preference;
  std::uint8_t reserved[6];
};
static_assert(sizeof(PathRecord) == sizeof(ib_path_rec_data::path_rec));

}  // namespace

std::optional<std::uint8_t> Core::index_of(const Address& address) const {
  const auto at = std::find(options_.addresses.begin(), options_.addresses.end(), without_port(address));
  if (at == options_.addresses.end()) return std::nullopt;
  return static_cast<std::uint8_t>(at - options_.addresses.begin());
}

/// The GIDs at which requests for the listener may arrive.
std::vector<std::uint8_t> Core::gids_of(const Id& listener) const {
  std::vector<std::uint8_t> out;
  for (const Address& own : options_.addresses)
    if (without_port(*listener.local) == own ||
        (listener.local->is_any() && (!listener.af_only || same_family(own, *listener.local))))
      out.push_back(static_cast<std::uint8_t>(&own - options_.addresses.data()));
  return out;
}

void Core::attach(Id& id, const Address& local) {
  id.local = local;
  id.gid_index = index_of(local);
}

/// As on Linux, a wildcard address conflicts with every other address that has the same port. `reuse`: not with ids that
/// allow it (RDMA_OPTION_ID_REUSEADDR).
int Core::conflict(const Id& id, const Address& local, bool reuse) const {
  for (const auto& [number, other] : ids_) {
    if (number == id.number || other->space != id.space || !other->local || other->passive ||
        other->local->port != local.port)
      continue;
    if (reuse && other->reuse && other->state != IdState::listening) continue;
    if (id.af_only && other->af_only && !same_family(local, *other->local)) continue;
    if (local.is_any() || other->local->is_any()) return EADDRNOTAVAIL;
    if (without_port(local) == without_port(*other->local)) return EADDRINUSE;
  }
  return 0;
}

int Core::reserve_port(const Id& id, Address& local) {
  if (local.port != 0) return conflict(id, local, id.reuse);
  constexpr std::uint32_t many = last_port - first_port + 1;
  const auto start = static_cast<std::uint32_t>(rng_.below(many));
  // First those that no other process at the address takes: a clash would show only when both listen.
  for (const bool own : {options_.id_prefix != 0, false})
    for (std::uint32_t i = 0; i < many; ++i) {
      local.port = static_cast<std::uint16_t>(first_port + (start + i) % many);
      if (own && local.port % 255 != options_.id_prefix) continue;
      if (conflict(id, local, id.reuse) == 0) return 0;
    }
  return EADDRNOTAVAIL;
}

int Core::bind_to(Id& id, const Address& local) {
  if (id.state != IdState::idle) return EINVAL;
  if (!local.is_any() && !index_of(local)) return EADDRNOTAVAIL;
  Address bound = local;
  if (const int wrong = reserve_port(id, bound)) return wrong;
  attach(id, bound);
  id.state = IdState::bound;
  return 0;
}

int Core::bind_ip(const Call& call) {
  rdma_ucm_bind_ip asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  const auto local = parse_sockaddr(octets_of(asked.addr));
  if (!local || !local->address) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  return bind_to(*id, *local->address);
}

int Core::bind(const Call& call) {
  rdma_ucm_bind asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  const auto local = parse_sockaddr(octets_of(asked.addr));
  if (asked.reserved != 0 || !local || local->size != asked.addr_size) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (local->address) return bind_to(*id, *local->address);
  // AF_IB: librdmacm binds the wildcard GID to find out whether the kernel supports AF_IB.
  if (id->state != IdState::idle) return EINVAL;
  if (local->ib.gid != Gid{}) return EADDRNOTAVAIL;
  id->ib_addressed = true;
  id->state = IdState::bound;
  return 0;
}

/// The local address from which to reach `peer`. None: the device has no address of that family.
std::optional<Address> Core::choose_source(Host& host, const Address& peer) const {
  if (const auto routed = host.source_toward(peer); routed && index_of(*routed)) return without_port(*routed);
  if (index_of(peer)) return without_port(peer);
  const Address* found = nullptr;
  for (const Address& own : options_.addresses) {
    if (!same_family(own, peer)) continue;
    if (asio_driver::is_loopback(own) == asio_driver::is_loopback(peer)) return own;
    if (found == nullptr) found = &own;
  }
  return found == nullptr ? std::nullopt : std::optional(*found);
}

int Core::resolve_to(const Call& call, Id& id, const std::optional<Address>& source, Address peer) {
  if (id.state == IdState::idle) {
    const Address local = source.value_or(Address::any(peer.family, 0));
    if (!same_family(local, peer)) return EINVAL;
    if (const int wrong = bind_to(id, local)) return wrong;
  }
  if (id.state != IdState::bound || !id.local || !same_family(*id.local, peer)) return EINVAL;
  if (peer.is_any()) {  // as on Linux: the peer is this host
    const std::uint16_t port = peer.port;
    peer = choose_source(call.host, Address::loopback(peer.family, 0)).value_or(peer);
    peer.port = port;
  }
  id.peer = peer;
  if (id.local->is_any()) {
    auto own = choose_source(call.host, peer);
    if (!own) {
      id.peer.reset();
      push(id, static_cast<std::uint32_t>(What::addr_error), -ENETUNREACH);
      return 0;
    }
    own->port = id.local->port;
    attach(id, *own);
  }
  id.state = IdState::resolved;
  push(id, static_cast<std::uint32_t>(What::addr_resolved));
  return 0;
}

int Core::resolve_ip(const Call& call) {
  rdma_ucm_resolve_ip asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  const auto source = parse_sockaddr(octets_of(asked.src_addr)), peer = parse_sockaddr(octets_of(asked.dst_addr));
  if ((asked.src_addr.sin6_family != 0 && (!source || !source->address)) || !peer || !peer->address) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  return resolve_to(call, *id, source ? source->address : std::nullopt, *peer->address);
}

int Core::resolve_addr(const Call& call) {
  rdma_ucm_resolve_addr asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  const auto source = parse_sockaddr(octets_of(asked.src_addr)), peer = parse_sockaddr(octets_of(asked.dst_addr));
  if (asked.reserved != 0 || (asked.src_size != 0 && (!source || source->size != asked.src_size)) || !peer ||
      peer->size != asked.dst_size)
    return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (!peer->address || (asked.src_size != 0 && !source->address)) return EADDRNOTAVAIL;  // AF_IB
  return resolve_to(call, *id, asked.src_size != 0 ? source->address : std::nullopt, *peer->address);
}

int Core::resolve_route(const Call& call) {
  rdma_ucm_resolve_route asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->state != IdState::resolved) return EINVAL;
  id->state = IdState::routed;
  push(*id, static_cast<std::uint32_t>(What::route_resolved));
  return 0;
}

int Core::listen(const Call& call) {
  rdma_ucm_listen asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->ib_addressed) return EOPNOTSUPP;
  if (id->state == IdState::idle)
    if (const int wrong = bind_to(*id, Address::any(Address::Family::v4, 0))) return wrong;
  if (id->state != IdState::bound) return EINVAL;
  if (id->reuse)  // as on Linux: only one of those that are bound there may listen
    if (const int wrong = conflict(*id, *id->local, false)) return wrong;
  const std::uint64_t service = service_of(*id, id->local->port);
  if (options_.services != nullptr)
    if (const int wrong = options_.services->claim(service, gids_of(*id))) return wrong;
  auto& listeners = services_[service];
  if (listeners.empty() && !agent_.listen(service, {.connected = !id->datagrams(), .sidr = id->datagrams()})) {
    services_.erase(service);
    if (options_.services != nullptr) options_.services->release(service, gids_of(*id));
    return ENOMEM;
  }
  listeners.push_back(id->number);
  const auto wanted = static_cast<std::int32_t>(asked.backlog);
  id->backlog = wanted > 0 && asked.backlog < backlog_max ? asked.backlog : backlog_max;
  id->state = IdState::listening;
  return 0;
}

int Core::query_route(const Call& call) {
  rdma_ucm_query asked{};
  Id* id = nullptr;
  if (call.room < offsetof(rdma_ucm_query_route_resp, ibdev_index)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  rdma_ucm_query_route_resp out{};
  const auto room_of = [](auto& addr) { return MutBytes(reinterpret_cast<std::uint8_t*>(&addr), sizeof addr); };
  if (id->local) put_sockaddr(*id->local, room_of(out.src_addr));
  if (id->peer) put_sockaddr(*id->peer, room_of(out.dst_addr));
  if (id->gid_index) {
    std::memcpy(&out.node_guid, options_.node_guid.data(), sizeof out.node_guid);
    out.port_num = 1;
    ib_user_path_rec& path = out.ib_route[0];
    const Gid own = gid_of(*id->local), peer = id->peer ? gid_of(*id->peer) : Gid{};
    std::memcpy(path.sgid, own.data(), own.size());
    std::memcpy(path.dgid, peer.data(), peer.size());
    path.pkey = htons(0xFFFF);
    if (id->state >= IdState::routed) {
      out.num_paths = 1;
      path.reversible = 1;
      path.numb_path = 1;
      path.hop_limit = 64;
      path.traffic_class = id->tos;
      path.mtu_selector = path.rate_selector = path.packet_life_time_selector = exactly;
      path.mtu = id->mtu;
      path.rate = rate_25_gbps;
      path.packet_life_time = packet_life_time;
    }
  }
  return give(call, asked.response, out, offsetof(rdma_ucm_query_route_resp, ibdev_index));
}

int Core::query_path(const Call& call, const Id& id, std::uint64_t response) const {
  struct {  // rdma_ucm_query_path_resp with one path
    std::uint32_t num_paths, reserved;
    ib_path_rec_data data;
  } out{};
  if (call.room < sizeof(rdma_ucm_query_path_resp)) return ENOSPC;
  if (id.state >= IdState::routed && id.peer) {
    out.num_paths = 1;
    out.data.flags = IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL;
    PathRecord path{};
    path.dgid = gid_of(*id.peer);
    path.sgid = gid_of(*id.local);
    path.flow_label_hop_limit = htonl(64);
    path.traffic_class = id.tos;
    path.reversible_numb_path = 0x81;
    path.p_key = htons(0xFFFF);
    path.mtu = static_cast<std::uint8_t>(exactly << 6 | id.mtu);
    path.rate = exactly << 6 | rate_25_gbps;
    path.packet_life_time = exactly << 6 | packet_life_time;
    std::memcpy(out.data.path_rec, &path, sizeof path);
  }
  return give(call, response, out, sizeof(rdma_ucm_query_path_resp));
}

int Core::query(const Call& call) {
  rdma_ucm_query asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (asked.option == RDMA_USER_CM_QUERY_PATH) return query_path(call, *id, asked.response);
  if (asked.option != RDMA_USER_CM_QUERY_ADDR && asked.option != RDMA_USER_CM_QUERY_GID) return ENOSYS;
  if (call.room < offsetof(rdma_ucm_query_addr_resp, ibdev_index)) return ENOSPC;
  rdma_ucm_query_addr_resp out{};
  if (id->gid_index) {
    std::memcpy(&out.node_guid, options_.node_guid.data(), sizeof out.node_guid);
    out.port_num = 1;
    out.pkey = 0xFFFF;
  }
  const auto put = [&](const std::optional<Address>& address, __kernel_sockaddr_storage& to, std::uint16_t& size) {
    const MutBytes room(reinterpret_cast<std::uint8_t*>(&to), sizeof to);
    if (asked.option == RDMA_USER_CM_QUERY_ADDR) {
      if (address) size = static_cast<std::uint16_t>(put_sockaddr(*address, room));
      return;
    }
    const SockaddrIb ib =
        ib_sockaddr(address && id->gid_index ? gid_of(*address) : Gid{}, address ? service_of(*id, address->port) : 0);
    std::memcpy(room.data(), &ib, sizeof ib);
    size = sizeof ib;
  };
  put(id->local, out.src_addr, out.src_size);
  put(id->peer, out.dst_addr, out.dst_size);
  return give(call, asked.response, out, offsetof(rdma_ucm_query_addr_resp, ibdev_index));
}

}  // namespace parley::preload::ucma
