// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Between the HCA and UDP: the provider's commands, its packets, and packets for it (IBA Annex A17).
#include <algorithm>

#include "base/gid.hpp"
#include "sim/host/host_impl.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t icrc_octets = 4;

}  // namespace

/// Neither it nor its timer has any work, as after most received packets.
bool SimHost::hca_is_quiet() {
  if (hca_ == nullptr || !hca_->is_quiet(now())) return false;
  (void)must_wait();  // the App's posts use the current state of the links
  return true;
}

/// True if there was anything. Each packet needs room on the links, so the loop ends.
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

// An HCA generates the next packet when its link can accept it. Here it has one queue for all of its links.
bool SimHost::must_wait() {
  if (packets_from_ > now()) return true;
  for (const Nic& nic : nics_)
    if (nic.link != nullptr && nic.link->has_waiting(backlog_max))
      packets_from_ = std::max(packets_from_, nic.link->idle_at());
  return packets_from_ > now();
}

/// The number of packets that cannot make it wait: until then it need not check.
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

bool SimHost::is_bound(std::uint16_t port, Address::Family family) const {
  if (family == Address::Family::v4) return is_bound(port, LocalKind::v4);
  return is_bound(port, LocalKind::v6) || is_bound(port, LocalKind::link_local);
}

/// On the interfaces of the addresses in use, current and later ones, as over sockets.
Result<void> SimHost::join(const Address& group) {
  if (group.family == Address::Family::v6 && !options_.ipv6)
    return fail(Errc::unsupported, "this host has no IPv6 (HostOptions::ipv6)");
  if (groups_.size() >= groups_max)
    return fail(Errc::no_space, "a host joins at most {a} multicast groups", groups_max);
  for (std::uint16_t port = 0; port < nics_.size(); ++port) {
    if (!nics_[port].usable() || !is_bound(port, group.family)) continue;
    groups_.insert(group);
    return {};
  }
  return fail(Errc::wrong_state,
              "this host has no IPv{a} address in use, on whose interface to join the group: listen or connect first",
              static_cast<int>(group.family));
}

/// Datagrams to a group leave by the NIC of their source address.
bool SimHost::route_to_group(const Address& local, Route& out) const {
  for (std::uint16_t port = 0; port < nics_.size(); ++port)
    for (const LocalKind kind : {LocalKind::v4, LocalKind::v6, LocalKind::link_local}) {
      const Address& own = nics_[port].addresses.of(kind);
      if (!nics_[port].usable() || own.family != local.family || own.octets != local.octets) continue;
      if (kind == LocalKind::link_local && own.scope_id != local.scope_id) continue;
      out = {port, kind};
      return true;
    }
  return false;
}

/// The route and the headers of a path's packets; null: no route.
RoceFlow* SimHost::flow_of(const PacketPath& path, Route& route) {
  if (path.way != 0 && path.way == sends_.way && sends_.flow->way == sends_.flow_way) {
    route = sends_.route;
    return sends_.flow;
  }
  if (is_multicast(gid_of(path.peer))) {
    if (!route_to_group(path.local, route)) return nullptr;
  } else if (route_to(path.peer, Address::any(path.peer.family, 0), route)) {
    return nullptr;
  }
  wire::ib::RoceHeader header;
  header.source = gid_of(nics_[route.port].addresses.of(route.kind));
  header.destination = gid_of(path.peer);
  header.traffic_class = path.traffic_class;
  header.hop_limit = path.hop_limit;
  header.source_port = path.source_port;
  RoceFlow& flow = flows_out_.of(header, route.port);
  sends_ = {.way = path.way, .route = route, .flow = &flow, .flow_way = flow.way};
  return &flow;
}

void SimHost::send_packets(const PacketPath& path, const PacketRun& run) {
  Route route;
  RoceFlow* flow = flow_of(path, route);
  if (flow == nullptr) return;  // like packets without a route
  const std::size_t share = run.payload.size() / run.count;
  const bool to_group = is_multicast(gid_of(path.peer));
  std::vector<FramePtr> own;  // copies for this host, if it is a member
  for (std::size_t i = 0; i < run.count; ++i) {
    const std::uint16_t id = route.kind == LocalKind::v4 ? ip_id_++ : std::uint16_t{0};
    const ConstBytes front = ConstBytes(engine_.packets).subspan(i * (run.size + icrc_octets), run.size - share);
    FramePtr frame = write_roce(engine_.frames, nics_[route.port].addresses.mac, *flow, id, front,
                                run.payload.subspan(i * share, share));
    if (!to_group) {
      send_to(route.port, path.peer, std::move(frame));
      continue;
    }
    const wire::Mac mac = mac_of_group(path.peer);
    std::copy(mac.begin(), mac.end(), frame->data());
    if (groups_.contains(path.peer)) own.push_back(engine_.frames.copy(*frame));
    transmit(route.port, std::move(frame));
  }
  for (const FramePtr& frame : own) handle_frame(route.port, *frame);
}

void SimHost::send_to(std::uint16_t port, const Address& peer, FramePtr frame) {
  const NeighbourRef neighbour = neighbours_.find(port, peer, nics_[port].directory);
  const wire::Mac* mac = neighbours_.resolve(now(), neighbour);
  if (mac == nullptr) {
    neighbours_.wait(neighbour, std::move(frame));
    return;
  }
  std::copy(mac->begin(), mac->end(), frame->data());
  transmit(port, std::move(frame));
}

/// The path of the received packet; false: no receiver.
bool SimHost::find_way(std::uint16_t port) {
  if (packets_ == nullptr || !nics_[port].usable()) return false;
  if (in_.group ? !is_bound(port, in_.group->family) : !is_bound(port, in_.local)) return false;
  PacketPath& path = came_.path;
  path.local = in_.group ? *in_.group : nics_[port].addresses.of(in_.local);
  path.peer = peer_of({.peer = in_.source, .port = port, .kind = in_.local});
  path.source_port = in_.path.source_port;
  path.traffic_class = in_.path.traffic_class;
  path.hop_limit = in_.path.hop_limit;
  path.way = in_.way;
  came_.port = port;
  // A datagram to a group does not prove that its sender hears this host.
  came_.neighbour = in_.group ? NeighbourRef{} : neighbours_.find(port, path.peer, nics_[port].directory);
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

// Closed port: RFC 1122 §4.1.3.1, RFC 4443 §3.1; a datagram to a group gets no answer (RFC 1122 §3.2.2, RFC 4443 §2.4
// (e.3)).
void SimHost::refuse_datagram(std::uint16_t port) {
  if (in_.group || refusals_from_ > now()) return;
  refusals_from_ = now() + refusals_every;
  const std::uint16_t id = in_.local == LocalKind::v4 ? ip_id_++ : std::uint16_t{0};
  send_to(port, peer_of({.peer = in_.source, .port = port, .kind = in_.local}),
          write_unreachable(engine_.frames, nics_[port].addresses, in_.local, in_.source, in_.network, id,
                            Unreachable::port));
}

void SimHost::handle_unreachable(std::uint16_t port) {
  const FrameIn::Undelivered& sent = in_.undelivered;
  if (sent.tcp) return handle_segment_undelivered(port);
  if (packets_ == nullptr) return;
  PacketPath path;
  path.local = nics_[port].addresses.of(in_.local);
  path.peer = peer_of({.peer = sent.to, .port = port, .kind = in_.local});
  packets_->handle_unreachable(now(), path, std::make_error_code(sent.why));
  stirred_ = true;
}

// RFC 1122 §4.2.3.9, RFC 5927 §4: only advice for a connection that is up, which goes on; an open that its SYN began fails, as on Linux.
void SimHost::handle_segment_undelivered(std::uint16_t port) {
  const FrameIn::Undelivered& sent = in_.undelivered;
  const std::uint32_t slot = stack_->find(
      {.peer = sent.to, .local_port = sent.from_port, .peer_port = sent.to_port, .port = port, .kind = in_.local});
  if (slot == SlotIndex::none) return;
  const TcpConnection& c = stack_->at(slot);
  if (c.phase != ConnectionPhase::opening || !c.tcp->awaits_ack_of(sent.seq)) return;
  const StreamId stream = c.stream;
  free_connection(slot);
  machine_->handle_connect_failed(now(), stream, std::make_error_code(sent.why));
  stirred_ = true;
  pump_machine();
}

}  // namespace parley::sim
