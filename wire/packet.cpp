// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/packet.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::wire {
namespace {

constexpr std::uint16_t ethertype_vlan = 0x8100, ethertype_qinq = 0x88A8, ethertype_qinq_old = 0x9100,
                        ethertype_rocev1 = 0x8915;
constexpr std::uint8_t protocol_udp = 17;
constexpr std::uint16_t port_rocev2 = 4791;
constexpr std::size_t tags_max = 4, extensions_max = 16;

/// The captured part of a network-layer packet, and its length on the wire.
struct Datagram {
  std::uint16_t ethertype = 0;
  ConstBytes octets;
  std::size_t wire_length = 0;
};

bool is_vlan(std::uint16_t type) {
  return type == ethertype_vlan || type == ethertype_qinq || type == ethertype_qinq_old;
}

std::uint16_t ethertype_of_version(ConstBytes ip) {
  Reader r(ip);
  const int version = r.u8() >> 4;
  return version == 4 ? ethertype_ipv4 : version == 6 ? ethertype_ipv6 : std::uint16_t{0};
}

// Address family numbers of the systems that write NULL and LOOP captures; IPv6 has several.
std::uint16_t ethertype_of_family(ConstBytes head) {
  Reader be(head), le(head);
  const std::uint32_t a = be.be32(), b = le.le32();
  const std::uint32_t family = std::min(a, b);
  if (family == 2) return ethertype_ipv4;
  if (family == 10 || family == 24 || family == 28 || family == 30) return ethertype_ipv6;
  return 0;
}

/// Strips the link header. The ethertype is 0 if the frame is too short. For a link type without an EtherType it is
/// also 0 if the packet is not IP.
Datagram strip_link(std::uint16_t link_type, ConstBytes frame, std::size_t wire_length) {
  Reader r(frame);
  Datagram d;
  switch (static_cast<LinkType>(link_type)) {
    case LinkType::ethernet:
      r.skip(12);
      d.ethertype = r.be16();
      break;
    case LinkType::linux_sll:
      r.skip(14);
      d.ethertype = r.be16();
      break;
    case LinkType::linux_sll2:
      d.ethertype = r.be16();
      r.skip(18);
      break;
    case LinkType::null:
    case LinkType::loop: d.ethertype = ethertype_of_family(r.bytes(4)); break;
    case LinkType::ipv4: d.ethertype = ethertype_ipv4; break;
    case LinkType::ipv6: d.ethertype = ethertype_ipv6; break;
    default: d.ethertype = ethertype_of_version(frame); break;
  }
  for (std::size_t tags = 0; is_vlan(d.ethertype) && tags < tags_max; ++tags) {
    r.skip(2);
    d.ethertype = r.be16();
  }
  if (!r.ok()) return {};
  const std::size_t head = r.offset();
  d.octets = r.rest();
  d.wire_length = wire_length > head ? wire_length - head : 0;
  return d;
}

Address address_of(Reader& r, Address::Family family) {
  Address a;
  a.family = family;
  // Constant lengths let the compiler inline the copy; this runs twice per packet.
  if (family == Address::Family::v4) {
    if (const ConstBytes octets = r.bytes(4); r.ok()) std::copy_n(octets.begin(), 4, a.octets.begin());
  } else {
    if (const ConstBytes octets = r.bytes(16); r.ok()) std::copy_n(octets.begin(), 16, a.octets.begin());
  }
  return a;
}

void parse_tcp_options(ConstBytes options, TcpSegmentView& t) {
  Reader r(options);
  while (r.left() > 0) {
    const std::uint8_t kind = r.u8();
    if (kind == 0) return;
    if (kind == 1) continue;
    const std::uint8_t length = r.u8();
    if (!r.ok() || length < 2) return;
    Reader value(r.bytes(length - 2u));
    if (kind == 2 && length == 4) t.mss = value.be16();
    if (kind == 8 && length == 10) t.timestamps = true;
  }
}

/// `ip_payload` octets were captured, out of `length` on the wire.
void parse_tcp(ConstBytes ip_payload, std::size_t length, PacketView& out) {
  Reader r(ip_payload);
  TcpSegmentView& t = out.tcp;
  t.source.port = r.be16();
  t.destination.port = r.be16();
  t.seq = r.be32();
  t.ack = r.be32();
  const std::size_t header = static_cast<std::size_t>(r.u8() >> 4) * 4;
  t.flags = r.u8() & 0x3F;
  if (!r.ok()) {
    out.kind = PacketKind::cut;
    return;
  }
  if (header < 20 || header > length) {
    out.kind = PacketKind::malformed;
    return;
  }
  t.window = r.be16();
  out.kind = PacketKind::tcp;
  out.cargo = PacketCargo::tcp;
  t.length = static_cast<std::uint32_t>(length - header);
  if (ip_payload.size() > 20) parse_tcp_options(ip_payload.subspan(20, std::min(header, ip_payload.size()) - 20), t);
  if (ip_payload.size() > header)
    t.payload = ip_payload.subspan(header, std::min(ip_payload.size() - header, std::size_t{t.length}));
}

/// `later`: a fragment that does not begin with the UDP header.
PacketCargo cargo_of_udp(ConstBytes ip_payload, bool later) {
  Reader r(ip_payload);
  r.skip(2);
  const std::uint16_t to = r.be16();
  return r.ok() && !later && to == port_rocev2 ? PacketCargo::rocev2 : PacketCargo::udp;
}

void parse_ipv4(const Datagram& d, PacketView& out) {
  Reader r(d.octets);
  const std::uint8_t version_ihl = r.u8();
  r.skip(1);
  std::size_t total = r.be16();
  r.skip(2);
  const std::uint16_t fragment = r.be16();
  r.skip(1);
  const std::uint8_t protocol = r.u8();
  r.skip(2);
  out.tcp.source = address_of(r, Address::Family::v4);
  out.tcp.destination = address_of(r, Address::Family::v4);
  const std::size_t header = static_cast<std::size_t>(version_ihl & 0xF) * 4;
  if (!r.ok()) {
    out.kind = PacketKind::cut;
    return;
  }
  if (total == 0) total = d.wire_length;  // segmentation offload: the length is filled in below the capture point
  if ((version_ihl >> 4) != 4 || header < 20 || total < header) {
    out.kind = PacketKind::malformed;
    return;
  }
  if (protocol == protocol_udp)
    out.cargo = cargo_of_udp(d.octets.subspan(std::min(header, d.octets.size())), (fragment & 0x1FFF) != 0);
  if (protocol != protocol_tcp) return;
  if ((fragment & 0x1FFF) != 0) {
    out.kind = PacketKind::fragment;
    return;
  }
  out.first_fragment = (fragment & 0x2000) != 0;
  const std::size_t captured = std::min(d.octets.size(), total);
  if (captured < header) {
    out.kind = PacketKind::cut;
    return;
  }
  parse_tcp(d.octets.subspan(header, captured - header), total - header, out);
}

void parse_ipv6(const Datagram& d, PacketView& out) {
  Reader r(d.octets);
  const std::uint8_t version = r.u8() >> 4;
  r.skip(3);
  std::size_t length = r.be16();
  std::uint8_t next = r.u8();
  r.skip(1);
  out.tcp.source = address_of(r, Address::Family::v6);
  out.tcp.destination = address_of(r, Address::Family::v6);
  if (!r.ok()) {
    out.kind = PacketKind::cut;
    return;
  }
  if (version != 6) {
    out.kind = PacketKind::malformed;
    return;
  }
  if (length == 0) length = d.wire_length > 40 ? d.wire_length - 40 : 0;  // jumbogram, or segmentation offload
  ConstBytes rest = d.octets.subspan(40, std::min(d.octets.size() - 40, length));
  for (std::size_t n = 0; next != protocol_tcp; ++n) {
    const bool authentication = next == 51, fragment = next == 44;
    const bool walkable = next == 0 || next == 43 || next == 60 || next == 135 || authentication || fragment;
    if (next == protocol_udp) out.cargo = cargo_of_udp(rest, false);
    if (!walkable || n == extensions_max) return;
    Reader e(rest);
    next = e.u8();
    const std::size_t units = e.u8();
    const std::uint16_t where = e.be16();
    const std::size_t size = fragment ? 8 : authentication ? (units + 2) * 4 : (units + 1) * 8;
    if (!e.ok() || size > rest.size()) {
      out.kind = PacketKind::cut;
      return;
    }
    if (size > length) {
      out.kind = PacketKind::malformed;
      return;
    }
    if (fragment && (where & 0xFFF8) != 0) {
      if (next == protocol_udp) out.cargo = PacketCargo::udp;
      if (next == protocol_tcp) out.kind = PacketKind::fragment;
      return;
    }
    if (fragment && (where & 1) != 0) out.first_fragment = true;
    rest = rest.subspan(size);
    length -= size;
  }
  parse_tcp(rest, length, out);
}

std::uint32_t sum_of(std::uint32_t sum, ConstBytes in, bool& odd) {
  for (std::uint8_t octet : in) {
    sum += odd ? octet : static_cast<std::uint32_t>(octet) << 8;
    odd = !odd;
    sum = (sum & 0xFFFF) + (sum >> 16);
  }
  return sum;
}

void write_mac(Writer& w, const Address& a) {
  const std::size_t n = a.family == Address::Family::v4 ? 4 : 16;
  w.be16(0x0200);  // locally administered, unicast
  w.bytes(ConstBytes(a.octets).subspan(n - 4, 4));
}

Bytes emit_ip_header(const TcpFrame& f, std::size_t tcp_length) {
  const bool v4 = f.source.family == Address::Family::v4;
  Bytes ip(v4 ? 20 : 40);
  Writer w(ip);
  if (v4) {
    w.be16(0x4500);
    w.be16(static_cast<std::uint16_t>(20 + tcp_length));
    w.be32(0x00004000);  // do not fragment
    w.u8(64);
    w.u8(protocol_tcp);
    w.be16(0);
    w.bytes(ConstBytes(f.source.octets).first(4));
    w.bytes(ConstBytes(f.destination.octets).first(4));
    const ConstBytes pieces[] = {ip};
    Writer sum(MutBytes(ip).subspan(10, 2));
    sum.be16(internet_checksum(pieces));
  } else {
    w.be32(0x60000000);
    w.be16(static_cast<std::uint16_t>(tcp_length));
    w.u8(protocol_tcp);
    w.u8(64);
    w.bytes(f.source.octets);
    w.bytes(f.destination.octets);
  }
  return ip;
}

Bytes emit_tcp_header(const TcpFrame& f) {
  const std::size_t header = f.mss != 0 ? 24 : 20;
  Bytes tcp(header);
  Writer w(tcp);
  w.be16(f.source.port);
  w.be16(f.destination.port);
  w.be32(f.seq);
  w.be32(f.ack);
  w.u8(static_cast<std::uint8_t>(header / 4 << 4));
  w.u8(f.flags);
  w.be16(f.window);
  w.be32(0);  // checksum, urgent pointer
  if (f.mss != 0) {
    w.be16(0x0204);
    w.be16(f.mss);
  }
  // RFC 9293 §3.1: the checksum covers a pseudo header of the addresses, the protocol and the length.
  const std::size_t n = f.source.family == Address::Family::v4 ? 4 : 16;
  std::array<std::uint8_t, 8> pseudo{};
  Writer p(pseudo);
  p.be32(static_cast<std::uint32_t>(header + f.payload.size()));
  p.be32(protocol_tcp);
  const ConstBytes pieces[] = {ConstBytes(f.source.octets).first(n), ConstBytes(f.destination.octets).first(n), pseudo,
                               tcp, f.payload};
  Writer sum(MutBytes(tcp).subspan(16, 2));
  sum.be16(internet_checksum(pieces));
  return tcp;
}

}  // namespace

bool link_type_supported(std::uint16_t link_type) {
  switch (static_cast<LinkType>(link_type)) {
    case LinkType::null:
    case LinkType::ethernet:
    case LinkType::raw_bsd:
    case LinkType::raw_openbsd:
    case LinkType::raw:
    case LinkType::loop:
    case LinkType::linux_sll:
    case LinkType::ipv4:
    case LinkType::ipv6:
    case LinkType::linux_sll2: return true;
  }
  return false;
}

PacketView parse_packet(std::uint16_t link_type, ConstBytes frame, std::uint32_t original_length) {
  PacketView out;
  if (!link_type_supported(link_type)) {
    out.kind = PacketKind::unsupported;
    return out;
  }
  const Datagram d = strip_link(link_type, frame, std::max<std::size_t>(original_length, frame.size()));
  if (d.ethertype == ethertype_ipv4) parse_ipv4(d, out);
  if (d.ethertype == ethertype_ipv6) parse_ipv6(d, out);
  if (d.ethertype == ethertype_rocev1) out.cargo = PacketCargo::rocev1;
  out.ethertype = d.ethertype;
  out.network = d.octets;
  return out;
}

std::uint16_t internet_checksum(std::span<const ConstBytes> pieces) {
  std::uint32_t sum = 0;
  bool odd = false;
  for (ConstBytes piece : pieces) sum = sum_of(sum, piece, odd);
  return static_cast<std::uint16_t>(~sum);
}

Result<Bytes> emit_tcp_frame(const TcpFrame& f) {
  if (f.source.family != f.destination.family || f.payload.size() > tcp_frame_payload_max || f.vlans.size() > tags_max)
    return fail(Errc::invalid_argument);
  const Bytes tcp = emit_tcp_header(f);
  const Bytes ip = emit_ip_header(f, tcp.size() + f.payload.size());
  Bytes out(14 + 4 * f.vlans.size() + ip.size() + tcp.size() + f.payload.size());
  Writer w(out);
  write_mac(w, f.destination);
  write_mac(w, f.source);
  for (std::size_t i = 0; i < f.vlans.size(); ++i) {
    w.be16(i + 1 < f.vlans.size() ? ethertype_qinq : ethertype_vlan);
    w.be16(f.vlans[i] & 0x0FFF);
  }
  w.be16(f.source.family == Address::Family::v4 ? ethertype_ipv4 : ethertype_ipv6);
  w.bytes(ip);
  w.bytes(tcp);
  w.bytes(f.payload);
  return out;
}

}  // namespace parley::wire
