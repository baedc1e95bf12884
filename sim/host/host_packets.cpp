// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Between the HCA and UDP: the provider's commands, its packets, and what comes for it (IBA Annex A17).
#include <algorithm>

#include "base/gid.hpp"
#include "sim/host/host_impl.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t icrc_octets = 4;

}  // namespace

/// Neither it nor its timer has anything to do, as after most packets that it is given.
bool SimHost::hca_is_quiet() {
  if (hca_ == nullptr || !hca_->is_quiet(now())) return false;
  (void)must_wait();  // what the App posts will find the links as they are now
  return true;
}

/// True if there was anything. Each packet needs room on the links, so it ends.
bool SimHost::pump_packets() {
  engine_.packets.resize(packets_at_once * (PacketMachine::packet_max + icrc_octets));
  bool any = false;
  for (bool more = true; more;) {
    more = false;
    for (PacketCommand command; packets_->poll_command(command); more = true) carry_out(command);
    if (must_wait()) break;
    PacketPath path;
    const PacketRun run = packets_->poll_packets(now(), packets_until_waiting(), path, engine_.packets);
    if (run.count != 0) {
      send_packets(path, run);
      more = true;
    }
    any = any || more;
  }
  return any;
}

// An HCA makes the next packet when its link can take it. It has one queue for all of its links here.
bool SimHost::must_wait() {
  if (packets_from_ > now()) return true;
  for (const Nic& nic : nics_)
    if (nic.link != nullptr && nic.link->has_waiting(backlog_max))
      packets_from_ = std::max(packets_from_, nic.link->idle_at());
  return packets_from_ > now();
}

/// So many can be made before it could have to wait: with each it would say that it need not.
std::size_t SimHost::packets_until_waiting() const {
  std::uint64_t most = packets_at_once;
  for (const Nic& nic : nics_)
    if (nic.link != nullptr) most = std::min(most, nic.link->frames_until_waiting(backlog_max));
  return static_cast<std::size_t>(most);
}

void SimHost::carry_out(const PacketCommand& command) {
  forget_ways();
  if (command.kind == PacketCommand::Kind::release) {
    bound_.erase(command.id);
    return;
  }
  Address local = command.local;
  local.port = 0;
  if (const auto error = bind(command, local)) {
    packets_->handle_bind_failed(now(), command.id, std::make_error_code(*error), local);
    return;
  }
  bound_[command.id] = local;
  packets_->handle_bound(now(), command.id, local);
}

std::optional<std::errc> SimHost::bind(const PacketCommand& command, Address& local) const {
  if (command.peer.is_any()) return check_local(local);
  Route route;
  if (const auto error = route_to(command.peer, local, route)) return error;
  local = nics_[route.port].addresses.of(route.kind);
  return std::nullopt;
}

bool SimHost::is_bound(std::uint16_t port, LocalKind kind) const {
  const Address& own = nics_[port].addresses.of(kind);
  return std::any_of(bound_.begin(), bound_.end(), [&own](const auto& bound) {
    const Address& local = bound.second;
    return local.family == own.family && (local.is_any() || local == own);
  });
}

/// Where the packets of a path go and what their headers are; null: nothing carries them.
RoceFlow* SimHost::flow_of(const PacketPath& path, Route& route) {
  if (path.way != 0 && path.way == sends_.way && sends_.flow->way == sends_.flow_way) {
    route = sends_.route;
    return sends_.flow;
  }
  if (route_to(path.peer, Address::any(path.peer.family, 0), route)) return nullptr;
  wire::ib::RoceHeader header;
  header.source = gid_of(nics_[route.port].addresses.of(route.kind));
  header.destination = gid_of(path.peer);
  header.traffic_class = path.traffic_class;
  header.hop_limit = path.hop_limit;
  header.source_port = path.source_port;
  RoceFlow& flow = flows_out_.of(header);
  sends_ = {.way = path.way, .route = route, .flow = &flow, .flow_way = flow.way};
  return &flow;
}

void SimHost::send_packets(const PacketPath& path, const PacketRun& run) {
  Route route;
  RoceFlow* flow = flow_of(path, route);
  if (flow == nullptr) return;  // as packets that nothing carries
  const std::size_t share = run.payload.size() / run.count;
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::uint16_t id = route.kind == LocalKind::v4 ? ip_id_++ : std::uint16_t{0};
    const ConstBytes front = ConstBytes(engine_.packets).subspan(i * (run.size + icrc_octets), run.size - share);
    send_to(route.port, path.peer,
            write_roce(engine_.frames, nics_[route.port].addresses.mac, *flow, id, front,
                       run.payload.subspan(i * share, share)));
  }
}

void SimHost::send_to(std::uint16_t port, const Address& peer, FramePtr frame) {
  const NeighbourRef neighbour = neighbours_.find(port, peer);
  const wire::Mac* mac = neighbours_.resolve(now(), neighbour);
  if (mac == nullptr) {
    neighbours_.wait(neighbour, std::move(frame));
    return;
  }
  std::copy(mac->begin(), mac->end(), frame->data());
  transmit(port, std::move(frame));
}

/// Where the packet that is looked at came from; false: nobody takes it.
bool SimHost::find_way(std::uint16_t port) {
  if (packets_ == nullptr || !nics_[port].usable() || !is_bound(port, in_.local)) return false;
  PacketPath& path = came_.path;
  path.local = nics_[port].addresses.of(in_.local);
  path.peer = peer_of({.peer = in_.source, .port = port, .kind = in_.local});
  path.source_port = in_.path.source_port;
  path.traffic_class = in_.path.traffic_class;
  path.hop_limit = in_.path.hop_limit;
  path.way = in_.way;
  came_.port = port;
  came_.neighbour = neighbours_.find(port, path.peer);
  return true;
}

void SimHost::handle_roce(std::uint16_t port) {
  const bool known = came_.path.way == in_.way && came_.port == port && neighbours_.valid(came_.neighbour);
  if (!known && !find_way(port)) {
    refuse_datagram(port);
    return;
  }
  neighbours_.confirm(now(), came_.neighbour);
  packets_->handle_packet(now(), came_.path, in_.payload);
  stirred_ = true;
}

// Nobody has the port: RFC 1122 §4.1.3.1, RFC 4443 §3.1.
void SimHost::refuse_datagram(std::uint16_t port) {
  if (refusals_from_ > now()) return;
  refusals_from_ = now() + refusals_every;
  const std::uint16_t id = in_.local == LocalKind::v4 ? ip_id_++ : std::uint16_t{0};
  send_to(port, peer_of({.peer = in_.source, .port = port, .kind = in_.local}),
          write_port_closed(engine_.frames, nics_[port].addresses, in_.local, in_.source, in_.network, id));
}

void SimHost::handle_port_closed(std::uint16_t port) {
  if (packets_ == nullptr) return;
  PacketPath path;
  path.local = nics_[port].addresses.of(in_.local);
  path.peer = peer_of({.peer = in_.refused, .port = port, .kind = in_.local});
  packets_->handle_unreachable(now(), path, std::make_error_code(std::errc::connection_refused));
  stirred_ = true;
}

}  // namespace parley::sim
