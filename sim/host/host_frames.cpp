// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/host/host_frames.hpp"

#include <algorithm>

#include "base/bits.hpp"
#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "sim/host/host_sum.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using wire::ethertype_arp, wire::ethertype_ipv4, wire::ethertype_ipv6, wire::protocol_tcp, wire::tcp_checksum_at;
constexpr std::uint8_t hop_limit = 64, neighbour_hop_limit = 255;

void store(std::uint8_t* at, std::uint16_t checksum) { std::memcpy(at, &checksum, sizeof checksum); }

const char* read_tcp(ConstBytes segment, ConstBytes addresses, FrameIn& out) {
  // RFC 9293 §3.1: the checksum covers a pseudo header of the addresses, the protocol and the length.
  InternetSum sum;
  sum.add(addresses);
  sum.add16(protocol_tcp);
  sum.add16(static_cast<std::uint16_t>(segment.size()));
  sum.add(segment);
  if (segment.size() < 20) return "TCP header is cut";
  if (!sum.right()) return "bad TCP checksum";
  const auto parsed = wire::parse_tcp_header(segment);
  if (!parsed) return "malformed TCP header";
  out.kind = FrameIn::Kind::segment;
  out.header = parsed->header;
  out.payload = segment.subspan(parsed->size);
  return nullptr;
}

/// Only RoCE is accepted from groups; `to` is an address in IP's format.
bool find_group(ConstBytes to, const HostGroups& groups, FrameIn& out) {
  if (groups.empty()) return false;
  Address group = Address::any(to.size() == 4 ? Address::Family::v4 : Address::Family::v6, 0);
  std::copy(to.begin(), to.end(), group.octets.begin());
  if (!groups.contains(group)) return false;
  out.group = group;
  return true;
}

const char* read_ipv4(ConstBytes packet, const PortAddresses& local, RoceFlows& flows, const HostGroups& groups,
                      FrameIn& out) {
  if (packet.size() < ipv4_size) return "IPv4 header is cut";
  Reader r(packet);
  const std::uint8_t version = r.u8();
  r.skip(1);
  const std::size_t length = r.be16();
  r.skip(2);
  const std::uint16_t fragment = r.be16();
  r.skip(1);
  const std::uint8_t protocol = r.u8();
  r.skip(2);
  const ConstBytes source = r.bytes(4), destination = r.bytes(4);
  const std::size_t header = static_cast<std::size_t>(version & 0xF) * 4;
  if ((version >> 4) != 4 || header < ipv4_size) return "malformed IPv4 header";
  if (length < header || length > packet.size()) return "IPv4 length does not fit the frame";
  InternetSum sum;
  sum.add(packet.first(header));
  if (!sum.right()) return "bad IPv4 header checksum";
  const bool own = std::equal(destination.begin(), destination.end(), local.v4.octets.begin());
  if (!own && !find_group(destination, groups, out)) return "not for our IPv4 address";
  if (!own && protocol != protocol_udp) return "not UDP, and to a group";
  if ((fragment & 0x3FFF) != 0) return "IPv4 fragment";
  out.source = {};
  std::copy(source.begin(), source.end(), out.source.begin());
  out.local = LocalKind::v4;
  const ConstBytes body = packet.subspan(header, length - header), addresses = packet.subspan(12, 8);
  if (protocol == protocol_tcp) return read_tcp(body, addresses, out);
  if (protocol == protocol_udp) return read_udp(packet.first(length), body, addresses, flows, out);
  return protocol == protocol_icmp ? read_icmp(body, addresses, out) : "IPv4 protocol is not TCP, UDP or ICMP";
}

const char* read_icmp6(ConstBytes message, ConstBytes destination, std::uint8_t hops, FrameIn& out) {
  std::copy(destination.begin(), destination.end(), out.destination.begin());
  const auto parsed = wire::parse_neighbour(message, out.source, out.destination, hops);
  if (!parsed) {
    if (parsed.error() == make_error_code(Errc::crc_mismatch)) return "bad ICMPv6 checksum";
    if (parsed.error() == make_error_code(Errc::unsupported)) return "ICMPv6 type is not spoken";
    return "malformed neighbour message";
  }
  out.kind = FrameIn::Kind::neighbour;
  out.neighbour = *parsed;
  return nullptr;
}

bool is_group_of(ConstBytes address, const PortAddresses& local) {
  wire::Ip6 group{};
  std::copy(address.begin(), address.end(), group.begin());
  return group == wire::all_nodes || group == wire::solicited_node(local.v6.octets) ||
         group == wire::solicited_node(local.link_local.octets);
}

const char* read_ipv6(ConstBytes packet, const PortAddresses& local, RoceFlows& flows, const HostGroups& groups,
                      FrameIn& out) {
  if (packet.size() < ipv6_size) return "IPv6 header is cut";
  Reader r(packet);
  const std::uint8_t version = r.u8() >> 4;
  r.skip(3);
  const std::size_t length = r.be16();
  const std::uint8_t next = r.u8(), hops = r.u8();
  const ConstBytes source = r.bytes(16), destination = r.bytes(16);
  if (version != 6) return "malformed IPv6 header";
  if (length > packet.size() - ipv6_size) return "IPv6 length does not fit the frame";
  std::copy(source.begin(), source.end(), out.source.begin());
  const ConstBytes payload = packet.subspan(ipv6_size, length);
  const bool global = std::equal(destination.begin(), destination.end(), local.v6.octets.begin());
  const bool near = !global && std::equal(destination.begin(), destination.end(), local.link_local.octets.begin());
  const bool joined = !global && !near && find_group(destination, groups, out);
  if (!global && !near && !joined && !is_group_of(destination, local)) return "not for our IPv6 address";
  const ConstBytes addresses = packet.subspan(8, 32);
  out.local = global || (joined && !is_link_local_gid(out.source)) ? LocalKind::v6 : LocalKind::link_local;
  if (next == wire::protocol_icmp6 && (global || near) && is_icmp6_error(payload))
    return read_icmp(payload, addresses, out);
  if (next == wire::protocol_icmp6) return read_icmp6(payload, destination, hops, out);
  if (next != protocol_tcp && next != protocol_udp) return "IPv6 next header is not TCP, UDP or ICMPv6";
  if (next == protocol_tcp && !global && !near) return "TCP to a group";
  if (!global && !near && !joined) return "UDP to a group";
  return next == protocol_tcp ? read_tcp(payload, addresses, out)
                              : read_udp(packet.first(ipv6_size + length), payload, addresses, flows, out);
}

bool is_ours(ConstBytes mac, const PortAddresses& local, const HostGroups& groups) {
  if (std::equal(mac.begin(), mac.end(), local.mac.begin())) return true;
  const auto is_its = [mac](const Address& group) {
    const wire::Mac its = mac_of_group(group);
    return std::equal(mac.begin(), mac.end(), its.begin());
  };
  if (std::any_of(groups.begin(), groups.end(), is_its)) return true;
  if (mac.front() == 0xFF) return std::equal(mac.begin(), mac.end(), wire::broadcast_mac.begin());
  if (mac.front() != 0x33) return false;
  for (const wire::Ip6& group :
       {wire::all_nodes, wire::solicited_node(local.v6.octets), wire::solicited_node(local.link_local.octets)}) {
    const wire::Mac wanted = wire::group_mac(group);
    if (std::equal(mac.begin(), mac.end(), wanted.begin())) return true;
  }
  return false;
}

}  // namespace

wire::Mac mac_of_group(const Address& group) {
  const auto& o = group.octets;
  if (group.family == Address::Family::v6) return wire::group_mac(o);
  return {0x01, 0x00, 0x5E, static_cast<std::uint8_t>(o[1] & 0x7F), o[2], o[3]};
}

void write_ethernet(Writer& w, const wire::Mac& to, const wire::Mac& from, std::uint16_t type) {
  w.bytes(to);
  w.bytes(from);
  w.be16(type);
}

void write_ipv4(std::uint8_t* ip, std::uint16_t length, std::uint16_t id, std::uint8_t protocol, ConstBytes source,
                ConstBytes destination) {
  Writer w({ip, ipv4_size});
  w.be16(0x4500);
  w.be16(length);
  w.be16(id);
  w.be16(0x4000);  // do not fragment
  w.u8(hop_limit);
  w.u8(protocol);
  w.be16(0);
  w.bytes(source);
  w.bytes(destination);
  InternetSum sum;
  sum.add({ip, ipv4_size});
  store(ip + ipv4_checksum_at, sum.checksum());
}

void write_ipv6(std::uint8_t* ip, std::uint16_t length, std::uint8_t next, std::uint8_t hops, ConstBytes source,
                ConstBytes destination) {
  Writer w({ip, ipv6_size});
  w.be32(0x60000000);
  w.be16(length);
  w.u8(next);
  w.u8(hops);
  w.bytes(source);
  w.bytes(destination);
}

PortAddresses make_addresses(std::uint32_t number, std::uint16_t port, std::uint8_t network,
                             std::uint64_t interface_id) {
  const std::uint32_t own = number + 1;
  const auto high = static_cast<std::uint8_t>(own >> 8), low = static_cast<std::uint8_t>(own);
  PortAddresses out;
  out.port = port;
  out.mac = {0x02, 0, 0, static_cast<std::uint8_t>(port), high, low};
  out.v4 = Address::v4(10, network, high, low, 0);
  out.v6 = Address::any(Address::Family::v6, 0);
  out.v6.octets = {0x20, 0x01, 0x0D, 0xB8, 0, network};  // RFC 3849 §2: documentation prefix
  out.link_local = Address::any(Address::Family::v6, 0);
  out.link_local.octets = {0xFE, 0x80};
  out.link_local.scope_id = port + 1U;
  for (Address* address : {&out.v6, &out.link_local}) {
    address->octets[14] = high;
    address->octets[15] = low;
  }
  out.link_local.octets[13] = out.mac[3];
  if (interface_id != 0) write_bits(out.link_local.octets, 64, 64, interface_id);
  return out;
}

FramePtr write_segment(FramePool& pool, const PortAddresses& local, LocalKind kind,
                       const std::array<std::uint8_t, 16>& peer, const wire::TcpHeader& header,
                       std::span<const ConstBytes> payload, std::uint16_t ip_id) {
  std::size_t octets = 0;
  for (const ConstBytes piece : payload) octets += piece.size();
  const std::size_t head = header.wire_size(), ip_head = ip_size(kind);
  const auto length = static_cast<std::uint16_t>(head + octets);
  FramePtr frame = pool.take(ethernet_size + ip_head + length);
  std::uint8_t* const ip = frame->data() + ethernet_size;
  std::uint8_t* const tcp = ip + ip_head;
  Writer w({frame->data(), ethernet_size});
  const std::size_t n = kind == LocalKind::v4 ? 4 : 16;
  const ConstBytes source = ConstBytes(local.of(kind).octets).first(n), destination = ConstBytes(peer).first(n);
  write_ethernet(w, {}, local.mac, kind == LocalKind::v4 ? ethertype_ipv4 : ethertype_ipv6);
  if (kind == LocalKind::v4)
    write_ipv4(ip, static_cast<std::uint16_t>(ipv4_size + length), ip_id, protocol_tcp, source, destination);
  else
    write_ipv6(ip, length, protocol_tcp, hop_limit, source, destination);
  wire::emit_tcp_header(header, {tcp, head});
  InternetSum sum;
  sum.add(source);
  sum.add(destination);
  sum.add16(protocol_tcp);
  sum.add16(length);
  sum.add({tcp, head});
  std::uint8_t* at = tcp + head;
  for (const ConstBytes piece : payload) {
    sum.copy(at, piece);
    at += piece.size();
  }
  store(tcp + tcp_checksum_at, sum.checksum());
  return frame;
}

FramePtr write_arp(FramePool& pool, const wire::Mac& destination, const wire::ArpPacket& packet) {
  FramePtr frame = pool.take(ethernet_size + wire::ArpPacket::wire_size);
  Writer w(frame->octets());
  write_ethernet(w, destination, packet.sender_mac, ethertype_arp);
  wire::emit_arp(packet, frame->octets().subspan(ethernet_size));
  return frame;
}

FramePtr write_neighbour(FramePool& pool, const wire::Mac& from, const wire::Mac& to, const wire::Ip6& source,
                         const wire::Ip6& destination, const wire::NeighbourMessage& message) {
  const std::size_t length = message.wire_size();
  FramePtr frame = pool.take(ethernet_size + ipv6_size + length);
  Writer w(frame->octets());
  write_ethernet(w, to, from, ethertype_ipv6);
  write_ipv6(frame->data() + ethernet_size, static_cast<std::uint16_t>(length), wire::protocol_icmp6,
             neighbour_hop_limit, source, destination);
  wire::emit_neighbour(message, source, destination, frame->octets().subspan(ethernet_size + ipv6_size));
  return frame;
}

const char* read_frame(ConstBytes frame, const PortAddresses& local, bool ipv6, RoceFlows& flows, FrameIn& out,
                       const HostGroups& groups) {
  if (frame.size() < ethernet_size) return "Ethernet header is cut";
  out.group.reset();
  out.port = local.port;
  if (!is_ours(frame.first(6), local, groups)) return "not for our MAC address";
  Reader r(frame.subspan(12, 2));
  const std::uint16_t type = r.be16();
  const ConstBytes rest = frame.subspan(ethernet_size);
  if (type == ethertype_ipv4) return read_ipv4(rest, local, flows, groups, out);
  if (type == ethertype_ipv6) return ipv6 ? read_ipv6(rest, local, flows, groups, out) : "IPv6 is off";
  if (type != ethertype_arp) return "unknown EtherType";
  const auto packet = wire::parse_arp(rest);
  if (!packet) return "malformed ARP packet";
  out.kind = FrameIn::Kind::arp;
  out.arp = *packet;
  return nullptr;
}

}  // namespace parley::sim
