// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/tunnel.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::capture {
namespace {

constexpr std::uint16_t type_bridged = 0x6558, type_mpls = 0x8847, type_mpls_upstream = 0x8848, type_erspan = 0x88BE,
                        type_erspan_3 = 0x22EB;
constexpr std::uint8_t ip_in_ip = 4, udp = 17, ipv6_in_ip = 41, gre = 47, mpls_in_ip = 137;
constexpr std::uint16_t port_vxlan = 4789, port_vxlan_of_linux = 8472, port_geneve = 6081, port_mpls = 6635;
constexpr std::size_t labels_max = 16, label_size = 4;

/// The packet behind the tunnel headers: its link type, and its offset.
struct InnerPacket {
  std::uint16_t link_type = 0;
  std::size_t at = 0;
};
using Found = std::optional<InnerPacket>;

constexpr std::uint16_t link_of(wire::LinkType type) { return static_cast<std::uint16_t>(type); }

Found ethernet_at(const Reader& r) {
  if (!r.ok()) return std::nullopt;
  return InnerPacket{link_of(wire::LinkType::ethernet), r.offset()};
}
Found ip_at(const Reader& r) {
  if (!r.ok()) return std::nullopt;
  return InnerPacket{link_of(wire::LinkType::raw), r.offset()};
}

/// Skips the label stack. If an IP version follows, the rest is IP; anything else is an Ethernet pseudowire (RFC 4448).
Found in_mpls(Reader& r) {
  for (std::size_t n = 0; n < labels_max; ++n) {
    const std::uint32_t label = r.be32();
    if (!r.ok()) return std::nullopt;
    if ((label & 0x100) == 0) continue;
    const std::uint8_t version = Reader(r).u8() >> 4;  // 0 if nothing follows
    if (version == 4 || version == 6) return ip_at(r);
    if (version == 0 && r.left() > label_size) r.skip(label_size);  // the control word
    return ethernet_at(r);
  }
  return std::nullopt;
}

Found in_type(std::uint16_t type, Reader& r) {
  if (type == type_bridged) return ethernet_at(r);
  if (type == wire::ethertype_ipv4 || type == wire::ethertype_ipv6) return ip_at(r);
  if (type == type_mpls || type == type_mpls_upstream) return in_mpls(r);
  return std::nullopt;
}

Found in_erspan_3(Reader& r) {
  r.skip(10);
  const std::uint16_t flags = r.be16();
  if ((flags & 1) != 0) r.skip(8);  // a subheader of the platform
  constexpr std::uint16_t type_mask = 0x7C00, type_ip = 2 << 10;
  return (flags & type_mask) == type_ip ? ip_at(r) : ethernet_at(r);
}

Found in_gre(Reader& r) {
  constexpr std::uint16_t checksum = 0x8000, routing = 0x4000, key = 0x2000, sequence = 0x1000, version = 7;
  const std::uint16_t flags = r.be16(), type = r.be16();
  if ((flags & (routing | version)) != 0) return std::nullopt;
  for (const std::uint16_t field : {checksum, key, sequence})
    if ((flags & field) != 0) r.skip(4);
  if (type == type_erspan_3) return in_erspan_3(r);
  if (type != type_erspan) return in_type(type, r);
  if ((flags & sequence) != 0) r.skip(8);  // type II; type I has no header of its own
  return ethernet_at(r);
}

Found in_udp(Reader& r) {
  r.skip(2);
  const std::uint16_t port = r.be16();
  r.skip(4);
  if (port == port_mpls) return in_mpls(r);
  if (port == port_vxlan || port == port_vxlan_of_linux) {
    constexpr std::uint8_t has_network = 0x08;
    const bool valid = (r.u8() & has_network) != 0;
    r.skip(7);
    return valid ? ethernet_at(r) : std::nullopt;
  }
  if (port != port_geneve) return std::nullopt;
  const std::uint8_t first = r.u8();
  r.skip(1);
  const std::uint16_t type = r.be16();
  r.skip(4 + std::size_t{first & 0x3Fu} * 4);
  return (first >> 6) == 0 ? in_type(type, r) : std::nullopt;
}

Found in_ip(std::uint8_t protocol, Reader& r) {
  switch (protocol) {
    case ip_in_ip:
    case ipv6_in_ip: return ip_at(r);
    case gre: return in_gre(r);
    case mpls_in_ip: return in_mpls(r);
    case udp: return in_udp(r);
    default: return std::nullopt;
  }
}

/// `end`: where the IP packet ends by its Total Length.
Found in_ipv4(Reader& r, std::size_t& end) {
  const std::uint8_t first = r.u8();
  r.skip(1);
  const std::uint16_t total = r.be16();
  r.skip(2);
  const std::uint16_t fragment = r.be16();
  r.skip(1);
  const std::uint8_t protocol = r.u8();
  const std::size_t header = std::size_t{first & 0xFu} * 4;
  if (!r.ok() || (fragment & 0x3FFF) != 0 || header < wire::ipv4_header) return std::nullopt;
  r.skip(header - r.offset());
  if (total >= header) end = total;
  return in_ip(protocol, r);
}

Found in_ipv6(Reader& r, std::size_t& end) {
  r.skip(4);
  const std::uint16_t length = r.be16();
  const std::uint8_t next = r.u8();
  r.skip(33);
  if (!r.ok()) return std::nullopt;
  if (length != 0) end = wire::ipv6_header + length;
  return in_ip(next, r);
}

}  // namespace

std::optional<wire::CapturedPacket> open_tunnel(const wire::PacketView& view, const wire::CapturedPacket& outer) {
  if (view.kind != wire::PacketKind::other || view.network.empty()) return std::nullopt;
  if (view.cargo != wire::PacketCargo::other && view.cargo != wire::PacketCargo::udp) return std::nullopt;
  Reader r(view.network);
  std::size_t end = SIZE_MAX;
  Found found;
  if (view.ethertype == wire::ethertype_ipv4)
    found = in_ipv4(r, end);
  else if (view.ethertype == wire::ethertype_ipv6)
    found = in_ipv6(r, end);
  else if (view.ethertype == type_mpls || view.ethertype == type_mpls_upstream)
    found = in_mpls(r);
  if (!found || found->at >= std::min(end, view.network.size())) return std::nullopt;
  const std::size_t lacking = std::max<std::size_t>(outer.original_length, outer.octets.size()) - outer.octets.size();
  const std::size_t on_wire = std::min(end, view.network.size() + lacking);
  wire::CapturedPacket inner = outer;
  inner.link_type = found->link_type;
  inner.octets = view.network.first(std::min(end, view.network.size())).subspan(found->at);
  inner.original_length = static_cast<std::uint32_t>(on_wire - found->at);
  return inner;
}

}  // namespace parley::capture
