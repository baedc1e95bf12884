// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames in: checked, shown to the neighbour table, passed to their connection or listener.
#include <algorithm>

#include "nic/roce/addresses.hpp"
#include "sim/host/host_impl.hpp"

namespace parley::sim {
namespace {

Address v4_address(const wire::Ip4& ip) { return Address::v4(ip[0], ip[1], ip[2], ip[3], 0); }

wire::Ip4 ip4_of(const Address& address) {
  wire::Ip4 ip{};
  std::copy_n(address.octets.begin(), ip.size(), ip.begin());
  return ip;
}

Address v6_address(const wire::Ip6& octets) {
  Address address = Address::any(Address::Family::v6, 0);
  address.octets = octets;
  return address;
}

// The one of our two IPv6 addresses with the same scope (RFC 6724 §5 rule 2).
const Address& source_for(const PortAddresses& own, const Address& peer) {
  return peer.is_link_local() ? own.link_local : own.v6;
}

}  // namespace

void SimHost::receive(std::uint16_t port, FramePtr frame) {
  if (!up_) return;
  if (paused_ || !started_) {
    if (ring_.size() >= options_.ring) return;
    ++counters_.frames_in;
    ring_.push_back({port, std::move(frame)});
    return;
  }
  ++counters_.frames_in;
  handle_frame(port, *frame);
  turn();
}

std::string_view SimHost::would_discard(std::uint16_t port, const Frame& frame, DropReason& reason) const {
  reason = DropReason::host_down;
  if (!up_) return "host is down";
  reason = DropReason::ring_full;
  if (paused_ && ring_.size() >= options_.ring) return "host is paused and its ring is full";
  reason = DropReason::discarded;
  FrameIn in;
  const char* why = port < nics_.size()
                        ? read_frame(frame.octets(), nics_[port].addresses, options_.ipv6, flows_in_, in, groups_)
                        : "no such NIC";
  if (why != nullptr) return why;
  reason = DropReason::ring_full;
  if (stopped_ && is_for_the_process(in) && socket_.size() >= options_.ring)
    return "the process is stopped and its socket buffer is full";
  reason = DropReason::none;
  return {};
}

void SimHost::handle_frame(std::uint16_t port, const Frame& frame) {
  if (port >= nics_.size() ||
      read_frame(frame.octets(), nics_[port].addresses, options_.ipv6, flows_in_, in_, groups_) != nullptr) {
    ++counters_.discarded;
    return;
  }
  if (keeps(port, frame)) return;
  switch (in_.kind) {
    case FrameIn::Kind::arp: handle_arp(port); return;
    case FrameIn::Kind::neighbour: handle_neighbour(port); return;
    case FrameIn::Kind::segment: handle_segment(port); return;
    case FrameIn::Kind::roce: handle_roce(port); return;
    case FrameIn::Kind::unreachable: handle_unreachable(port); return;
  }
}

// RFC 826, "Packet Reception": a host that asks for us gets an entry; others only update an existing one.
void SimHost::handle_arp(std::uint16_t port) {
  const PortAddresses& own = nics_[port].addresses;
  const wire::ArpPacket& packet = in_.arp;
  const Address sender = v4_address(packet.sender_ip), target = v4_address(packet.target_ip);
  if (sender == own.v4) return;
  const bool for_us = target == own.v4;
  const bool announced = options_.learn_announcements && sender == target;  // RFC 5227 §3
  if (!sender.is_any())
    neighbours_.heard(now(), port, sender, packet.sender_mac, packet.reply && for_us, true, for_us || announced);
  if (packet.reply || !for_us) return;
  const wire::ArpPacket answer{.reply = true,
                               .sender_mac = own.mac,
                               .sender_ip = ip4_of(own.v4),
                               .target_mac = packet.sender_mac,
                               .target_ip = packet.sender_ip};
  transmit(port, write_arp(engine_.frames, packet.sender_mac, answer));
}

// RFC 4861 §7.2.3 to §7.2.5.
void SimHost::handle_neighbour(std::uint16_t port) {
  const PortAddresses& own = nics_[port].addresses;
  const wire::NeighbourMessage& message = in_.neighbour;
  const Address target = v6_address(message.target);
  if (message.advert) {
    // RFC 9131 §6.1.1: a neighbour that announces itself may get an entry before anyone asks for it.
    if (message.link_address)
      neighbours_.heard(now(), port, target, *message.link_address, message.solicited, message.overrides,
                        options_.learn_announcements && !message.solicited);
    return;
  }
  if (message.target != own.v6.octets && message.target != own.link_local.octets) return;
  const Address sender = v6_address(in_.source);
  const bool unspecified = sender.is_any();
  if (!unspecified && message.link_address)
    neighbours_.heard(now(), port, sender, *message.link_address, false, true, true);
  const wire::NeighbourMessage advert{
      .advert = true, .solicited = !unspecified, .overrides = true, .target = message.target, .link_address = own.mac};
  const wire::Ip6 to = unspecified ? wire::all_nodes : in_.source;
  const wire::Mac mac = unspecified            ? wire::group_mac(to)
                        : message.link_address ? *message.link_address
                                               : wire::group_mac(wire::all_nodes);
  transmit(port, write_neighbour(engine_.frames, own.mac, mac, message.target, to, advert));
}

void SimHost::handle_segment(std::uint16_t port) {
  const ConnectionKey key{.peer = in_.source,
                          .local_port = in_.header.destination_port,
                          .peer_port = in_.header.source_port,
                          .port = port,
                          .kind = in_.local};
  std::uint32_t slot = stack_->find(key);
  if (slot != SlotIndex::none && stack_->at(slot).tcp->gives_way_to(in_.header)) {
    free_connection(slot);
    slot = SlotIndex::none;
  }
  if (slot == SlotIndex::none) {
    handle_stray(key);
    return;
  }
  TcpConnection& c = stack_->at(slot);
  neighbours_.confirm(now(), c.neighbour);
  const ConnectionRef ref = stack_->ref(slot);
  const ConstBytes octets = c.tcp->handle_segment(now(), in_.header, in_.payload);
  counters_.reassembly_peak = std::max(counters_.reassembly_peak, c.tcp->reassembly());
  mark_dirty(slot);
  digest(ref, octets);
  TcpConnection* still = stack_->get(ref);
  // A third of the buffer, so that the stream does not continue octet by octet.
  if (still == nullptr || !still->blocked || still->tcp->room() < options_.tcp.send_buffer / 3) return;
  still->blocked = false;
  write(still->stream);
}

// A segment that belongs to no connection: RFC 9293 §3.10.7.1 and §3.10.7.2.
void SimHost::handle_stray(const ConnectionKey& key) {
  const wire::TcpHeader& header = in_.header;
  if (header.rst()) return;
  Address local = nics_[key.port].addresses.of(key.kind);
  local.port = key.local_port;
  Listener* listener = nics_[key.port].usable() ? stack_->find_listener(local) : nullptr;
  if (listener != nullptr && !header.has_ack()) {
    if (header.syn()) accept(key, *listener);
    return;
  }
  ++counters_.resets_sent;
  NeighbourRef neighbour;
  send(key, wire::reset_for(header, in_.payload.size()), {}, neighbour);
}

void SimHost::accept(const ConnectionKey& key, Listener& listener) {
  // Like a full backlog: the SYN is not answered, and the peer retransmits it.
  if (listener.half_open >= listener.backlog) return;
  const std::uint32_t slot = stack_->add(key);
  if (slot == SlotIndex::none) return;
  const std::uint64_t drawn = rng_.next();
  TcpConnection& c = stack_->at(slot);
  c.tcp.emplace(options_.tcp, engine_.buffers, mss_of({key.port, key.kind}), static_cast<std::uint32_t>(drawn >> 32));
  c.phase = ConnectionPhase::half_open;
  c.listener = listener.id;
  ++listener.half_open;
  c.tcp->watch_peer(listener.keepalive, listener.dead_after);
  c.tcp->accept(now(), in_.header);
  if (stopped_) hold(c);
  mark_dirty(slot);
}

void SimHost::drain_neighbours() {
  if (!neighbours_.has_work()) return;
  NeighbourAsk question;
  while (neighbours_.poll_ask(question)) ask(question);
  std::uint16_t port = 0;
  while (FramePtr frame = neighbours_.poll_frame(port)) transmit(port, std::move(frame));
  Address address;
  while (neighbours_.poll_failure(port, address)) neighbour_failed(port, address);
}

void SimHost::ask(const NeighbourAsk& question) {
  const PortAddresses& own = nics_[question.port].addresses;
  if (question.address.family == Address::Family::v4) {
    const wire::ArpPacket packet{.reply = false,
                                 .sender_mac = own.mac,
                                 .sender_ip = ip4_of(own.v4),
                                 .target_mac = {},
                                 .target_ip = ip4_of(question.address)};
    transmit(question.port, write_arp(engine_.frames, question.mac.value_or(wire::broadcast_mac), packet));
    return;
  }
  const wire::Ip6 target = question.address.octets;
  const wire::Ip6 to = question.mac ? target : wire::solicited_node(target);
  const wire::NeighbourMessage solicit{.target = target, .link_address = own.mac};
  transmit(question.port, write_neighbour(engine_.frames, own.mac, question.mac.value_or(wire::group_mac(to)),
                                          source_for(own, question.address).octets, to, solicit));
}

// RFC 4861 §7.2.2: the waiting packets are returned as unreachable. An established connection is not notified: it
// retransmits, which starts another resolution.
void SimHost::neighbour_failed(std::uint16_t port, const Address& address) {
  ++counters_.neighbour_failures;
  if (packets_ != nullptr) {
    Address peer = address;
    if (nic::roce::is_scoped(peer)) peer.scope_id = port + 1U;
    packets_->handle_unreachable(now(), {.peer = peer}, std::make_error_code(std::errc::host_unreachable));
    stirred_ = true;
  }
  std::vector<StreamId> failed;
  for (std::uint32_t slot = 0; slot < stack_->slots(); ++slot) {
    const TcpConnection& c = stack_->at(slot);
    if (c.phase != ConnectionPhase::opening && c.phase != ConnectionPhase::half_open) continue;
    const bool v4 = c.key.kind == LocalKind::v4;
    if (c.key.port != port || c.key.peer != address.octets || v4 != (address.family == Address::Family::v4)) continue;
    if (c.phase == ConnectionPhase::opening) failed.push_back(c.stream);
    free_connection(slot);
  }
  for (const StreamId stream : failed) {
    machine_->handle_connect_failed(now(), stream, std::make_error_code(std::errc::host_unreachable));
    stirred_ = true;
    pump_machine();
  }
}

}  // namespace parley::sim
