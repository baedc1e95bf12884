// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/anonymize/frame.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"
#include "capture/anonymize/frame_parts.hpp"
#include "parley/wire/ib.h"
#include "wire/packet.hpp"

namespace parley::capture {
namespace {

using wire::ethertype_arp, wire::ethertype_ipv4, wire::ethertype_ipv6, wire::protocol_tcp;
constexpr std::uint16_t ethertype_rocev1 = PARLEY_ROCE_ETHERTYPE, port_rocev2 = PARLEY_ROCE_UDP_PORT;
constexpr std::uint8_t protocol_icmp = 1, protocol_udp = 17, protocol_icmp6 = 58;
constexpr std::size_t tags_max = 4, extensions_max = 16;  // the limits of wire::parse_packet

bool is_vlan(std::uint16_t type) { return type == 0x8100 || type == 0x88A8 || type == 0x9100; }

/// 0 if the octets are not there.
std::uint16_t read16(ConstBytes in, std::size_t at) { return Reader(in.subspan(std::min(at, in.size()))).be16(); }
void write16(MutBytes out, std::size_t at, std::uint16_t v) { Writer(out.subspan(at, 2)).be16(v); }

std::uint16_t sum_of(ConstBytes pseudo, ConstBytes body) {
  const ConstBytes pieces[] = {pseudo, body};
  return wire::internet_checksum(pieces);
}

}  // namespace

void FrameAnonymizer::mac(Cursor& c) {
  wire::Mac m{};
  const ConstBytes in = c.drop(m.size());
  if (in.empty()) return;
  std::copy(in.begin(), in.end(), m.begin());
  c.put(names_.mac(m));
  ++counts_.addresses;
}

void FrameAnonymizer::v4(Cursor& c) {
  wire::Ip4 ip{};
  const ConstBytes in = c.drop(ip.size());
  if (in.empty()) return;
  std::copy(in.begin(), in.end(), ip.begin());
  c.put(names_.v4(ip));
  ++counts_.addresses;
}

void FrameAnonymizer::v6(Cursor& c) {
  wire::Ip6 ip{};
  const ConstBytes in = c.drop(ip.size());
  if (in.empty()) return;
  std::copy(in.begin(), in.end(), ip.begin());
  c.put(names_.v6(ip));
  ++counts_.addresses;
}

void FrameAnonymizer::port(Cursor& c) {
  const ConstBytes in = c.drop(2);
  if (in.empty()) return;
  std::array<std::uint8_t, 2> out{};
  write16(out, 0, names_.port(read16(in, 0)));
  c.put(out);
  ++counts_.ports;
}

void FrameAnonymizer::cooked_address(Cursor& c, std::size_t length) {
  if (length == 6) {
    mac(c);
    c.drop(2);
  } else {
    c.drop(8);
  }
}

/// Rewrites the link header and any VLAN tags. Returns the ethertype, or 0 if there is none.
std::uint16_t FrameAnonymizer::link(std::uint16_t link_type, Cursor& c) {
  std::uint64_t type = 0;
  switch (static_cast<wire::LinkType>(link_type)) {
    case wire::LinkType::ethernet:
      mac(c);
      mac(c);
      type = c.keep(2);
      break;
    case wire::LinkType::linux_sll: {
      c.keep(4);
      cooked_address(c, c.keep(2));
      type = c.keep(2);
      break;
    }
    case wire::LinkType::linux_sll2:
      type = c.keep(2);
      c.drop(2);
      c.keep(7);  // interface index, hardware and packet type
      cooked_address(c, c.keep(1));
      break;
    case wire::LinkType::null:
    case wire::LinkType::loop: {
      // The numbers of the address families depend on the system; these are the ones that wire::parse_packet accepts.
      const ConstBytes family = c.drop(4);
      const std::uint32_t be = Reader(family).be32(), le = Reader(family).le32(), v = std::min(be, le);
      if (v > 255) return 0;
      c.put(family);
      type = v == 2 ? ethertype_ipv4 : v == 10 || v == 24 || v == 28 || v == 30 ? ethertype_ipv6 : 0;
      break;
    }
    case wire::LinkType::ipv4: type = ethertype_ipv4; break;
    case wire::LinkType::ipv6: type = ethertype_ipv6; break;
    case wire::LinkType::raw:
    case wire::LinkType::raw_bsd:
    case wire::LinkType::raw_openbsd: {
      const int version = Reader(c.rest_before()).u8() >> 4;
      type = version == 4 ? ethertype_ipv4 : version == 6 ? ethertype_ipv6 : 0;
      break;
    }
    default: return 0;
  }
  for (std::size_t tags = 0; is_vlan(static_cast<std::uint16_t>(type)) && tags < tags_max; ++tags) {
    const std::uint16_t tci = read16(c.drop(2), 0);
    std::array<std::uint8_t, 2> out{};
    write16(out, 0, static_cast<std::uint16_t>((tci & 0xF000) | names_.vlan(tci & 0x0FFF)));
    c.put(out);
    type = c.keep(2);
  }
  return c.ok() ? static_cast<std::uint16_t>(type) : std::uint16_t{0};
}

// RFC 826, for Ethernet and IPv4 only.
void FrameAnonymizer::arp(Cursor& c) {
  ++counts_.arp;
  const auto hardware = c.keep(2), protocol = c.keep(2), hardware_length = c.keep(1), protocol_length = c.keep(1);
  c.keep(2);
  if (hardware != 1 || protocol != ethertype_ipv4 || hardware_length != 6 || protocol_length != 4) return;
  for (int i = 0; i < 2; ++i) {
    mac(c);
    v4(c);
  }
}

void FrameAnonymizer::ipv4(Cursor& c, std::size_t wire_length, const wire::CapturedPacket& packet) {
  const ConstBytes head = c.rest_before();
  const MutBytes head_after = c.rest_after();
  const std::size_t header = std::size_t{Reader(head).u8()} % 16 * 4;
  if (head.empty() || Reader(head).u8() >> 4 != 4 || header < 20) return;
  c.keep(2);
  std::size_t total = c.keep(2);
  c.keep(2);
  const std::uint64_t fragment = c.keep(2);
  c.keep(1);
  const auto protocol = static_cast<std::uint8_t>(c.keep(1));
  c.drop(2);
  v4(c);
  v4(c);
  if (header > 20) ++counts_.options_dropped;
  c.drop(header - 20);
  if (!c.ok()) return;
  checksum(head.first(header), head_after.first(header), 10, {}, {});
  if (total == 0) total = wire_length;  // segmentation offload
  if (total < header || (fragment & 0x1FFF) != 0) return;
  const std::size_t captured = std::min(head.size(), total) - header;
  Internet ip;
  ip.before = head.subspan(header, captured);
  ip.after = head_after.subspan(header, captured);
  ip.length = total - header;
  ip.whole = captured == ip.length && (fragment & 0x2000) == 0;
  ip.header_before = head.first(header);
  ip.with_header_after = head_after;
  const ConstBytes addresses = head.subspan(12, 8), renamed = ConstBytes(head_after).subspan(12, 8);
  ip.addresses_before.assign(addresses.begin(), addresses.end());
  ip.addresses_after.assign(renamed.begin(), renamed.end());
  std::copy_n(addresses.begin(), 4, ip.source.octets.begin());
  std::copy_n(addresses.begin() + 4, 4, ip.destination.octets.begin());
  transport(protocol, ip, packet);
}

void FrameAnonymizer::ipv6(Cursor& c, std::size_t wire_length, const wire::CapturedPacket& packet) {
  const ConstBytes head = c.rest_before();
  const MutBytes head_after = c.rest_after();
  if (head.empty() || Reader(head).u8() >> 4 != 6) return;
  // The flow label is often made from addresses and ports.
  const std::uint32_t first = Reader(c.drop(4)).be32();
  std::array<std::uint8_t, 4> flow{};
  const std::uint32_t label = first & 0xFFFFF;
  Writer(flow).be32((first & 0xFFF00000) | (label == 0 ? 0 : names_.identifier(label) & 0xFFFFF));
  c.put(flow);
  std::size_t length = c.keep(2);
  auto next = static_cast<std::uint8_t>(c.keep(1));
  c.keep(1);
  v6(c);
  v6(c);
  if (!c.ok()) return;
  if (length == 0) length = wire_length > 40 ? wire_length - 40 : 0;
  bool fragmented = false;
  std::size_t at = 40;
  const std::size_t end = std::min(head.size(), 40 + length);
  for (std::size_t n = 0; next == 0 || next == 43 || next == 44 || next == 51 || next == 60 || next == 135; ++n) {
    const bool fragment = next == 44, authentication = next == 51, routing = next == 43;
    Cursor e(head.subspan(at, end - at), head_after.subspan(at, end - at));
    next = static_cast<std::uint8_t>(e.keep(1));
    const std::size_t units = e.keep(1);
    const std::uint64_t where = fragment || routing ? e.keep(2) : Reader(e.drop(2)).be16();
    if (fragment) e.keep(4);
    const std::size_t size = fragment ? 8 : authentication ? (units + 2) * 4 : (units + 1) * 8;
    if (!e.ok() || n == extensions_max || at + size > end) return;
    if (!fragment) ++counts_.options_dropped;
    if (fragment && (where & 0xFFF8) != 0) return;
    fragmented = fragmented || (fragment && (where & 1) != 0);
    at += size;
    length -= std::min(length, size);
  }
  Internet ip;
  ip.before = head.subspan(at, end - at);
  ip.after = head_after.subspan(at, end - at);
  ip.length = length;
  ip.whole = ip.before.size() == length && !fragmented;
  ip.header_before = head.first(at);
  ip.with_header_after = head_after;
  const ConstBytes addresses = head.subspan(8, 32), renamed = ConstBytes(head_after).subspan(8, 32);
  ip.addresses_before.assign(addresses.begin(), addresses.end());
  ip.addresses_after.assign(renamed.begin(), renamed.end());
  ip.source.family = ip.destination.family = Address::Family::v6;
  std::copy_n(addresses.begin(), 16, ip.source.octets.begin());
  std::copy_n(addresses.begin() + 16, 16, ip.destination.octets.begin());
  transport(next, ip, packet);
}

void FrameAnonymizer::transport(std::uint8_t protocol, const Internet& ip, const wire::CapturedPacket& packet) {
  Cursor c(ip.before, ip.after);
  std::size_t checksum_at = 2;
  switch (protocol) {
    case protocol_tcp:
      tcp(c, packet, ip);
      checksum_at = 16;
      break;
    case protocol_udp:
      udp(c);
      if (read16(ip.before, 2) == port_rocev2) rocev2(ip);
      checksum_at = 6;
      break;
    case protocol_icmp:
      ++counts_.icmp;
      c.keep(2);
      break;
    case protocol_icmp6: icmp6(c); break;
    default: ++counts_.other; return;
  }
  if (!ip.whole || ip.before.size() < checksum_at + 2) return;
  if (protocol == protocol_udp && read16(ip.before, checksum_at) == 0) return;  // none
  if (protocol == protocol_icmp) return checksum(ip.before, ip.after, checksum_at, {}, {});
  checksum(ip.before, ip.after, checksum_at, ip.pseudo(ip.addresses_before, protocol),
           ip.pseudo(ip.addresses_after, protocol));
}

void FrameAnonymizer::tcp(Cursor& c, const wire::CapturedPacket& packet, const Internet& ip) {
  ++counts_.tcp;
  port(c);
  port(c);
  c.keep(8);  // sequence numbers: the verdict depends on them, and they identify no one
  const std::size_t header = (c.keep(1) >> 4) * 4;
  const std::uint64_t flags = c.keep(1);
  c.keep(2);
  c.drop(2);
  if ((flags & 0x20) != 0)
    c.keep(2);  // urgent pointer
  else
    c.drop(2);
  if (!c.ok() || header < 20 || header > ip.length) return;
  const std::size_t seen = std::min(header, ip.before.size());
  tcp_options(ip.before.subspan(20, seen - 20), ip.after.subspan(20, seen - 20), seen == header, ip);
  const wire::PacketView view = wire::parse_packet(packet.link_type, packet.octets, packet.original_length);
  if (view.kind != wire::PacketKind::tcp || header + view.tcp.payload.size() > ip.after.size()) return;
  plan_.apply(view.tcp, packet.frame, ip.after.subspan(header, view.tcp.payload.size()));
}

// RFC 9293 §3.2, RFC 7323 §2 and §3, RFC 2018. An unknown option becomes NOPs of the same length.
void FrameAnonymizer::tcp_options(ConstBytes in, MutBytes out, bool whole, const Internet& ip) {
  Cursor c(in, out);
  while (c.left() > 0) {
    const Cursor start = c;
    const std::uint64_t kind = c.keep(1);
    if (kind <= 1) {
      if (kind == 0) return;
      continue;
    }
    const std::uint64_t length = c.keep(1);
    const bool known = (kind == 2 && length == 4) || (kind == 3 && length == 3) || (kind == 4 && length == 2) ||
                       (kind == 5 && length >= 10 && length % 8 == 2) || (kind == 8 && length == 10);
    if (!c.ok() || length < 2 || length - 2 > c.left()) {
      if (!known || whole) {
        Writer(start.rest_after()).zeros(std::min<std::size_t>(2, start.left()));
        ++counts_.options_dropped;
      }
      return;
    }
    if (!known) {
      c.drop(length - 2);
      c.put(Bytes(length, 1));
      ++counts_.options_dropped;
    } else if (kind == 8) {
      std::array<std::uint8_t, 4> clock{};
      for (const Address* host : {&ip.source, &ip.destination}) {
        const std::uint32_t value = Reader(c.drop(4)).be32();
        Writer(clock).be32(value == 0 ? 0 : value + names_.clock_shift(*host));
        c.put(clock);
      }
    } else {
      c.keep(length - 2);
    }
  }
}

void FrameAnonymizer::udp(Cursor& c) {
  ++counts_.udp;
  port(c);
  // RoCEv2 is recognised by its port. No other port may become it.
  const std::uint16_t to = read16(c.rest_before(), 0);
  if (to == port_rocev2) {
    c.keep(2);
  } else if (names_.port(to) == port_rocev2) {
    std::array<std::uint8_t, 2> out{};
    write16(out, 0, names_.port(port_rocev2));
    c.drop(2);
    c.put(out);
    ++counts_.ports;
  } else {
    port(c);
  }
  c.keep(2);
}

// RFC 4861 §4.3, §4.4, §4.6.1. Other messages keep only type and code.
void FrameAnonymizer::icmp6(Cursor& c) {
  ++counts_.icmp;
  const std::uint64_t type = c.keep(1);
  c.keep(1);
  c.drop(2);
  if (type != 135 && type != 136) return;
  c.keep(4);
  v6(c);
  while (c.left() >= 2) {
    const std::uint64_t option = c.keep(1), units = c.keep(1);
    if (units == 0) return;
    if ((option == 1 || option == 2) && units == 1)
      mac(c);
    else
      c.drop(units * 8 - 2);
  }
}

/// Writes the checksum at `at`. `after` must be rewritten except for the checksum, which must be 0.
void FrameAnonymizer::checksum(ConstBytes before, MutBytes after, std::size_t at, ConstBytes pseudo_before,
                               ConstBytes pseudo_after) {
  const std::uint16_t was = read16(before, at), right = sum_of(pseudo_after, after);
  if (sum_of(pseudo_before, before) == 0) {
    ++counts_.checksums_right;
    // RFC 768: in UDP, 0 means no checksum. Elsewhere both zeros of one's complement are equivalent.
    return write16(after, at, right == 0 && was == 0xFFFF ? std::uint16_t{0xFFFF} : right);
  }
  ++counts_.checksums_wrong;
  const auto partial = [](ConstBytes pseudo) { return static_cast<std::uint16_t>(~sum_of(pseudo, {})); };
  if (!pseudo_before.empty() && was == partial(pseudo_before)) return write16(after, at, partial(pseudo_after));
  if (was == 0 && right != 0 && right != 0xFFFF) return;
  std::uint16_t other = static_cast<std::uint16_t>(right + names_.error16(std::uint64_t{was} << 16 | right));
  while (other == right || other == 0 || other == 0xFFFF) ++other;
  write16(after, at, other);
}

void FrameAnonymizer::rewrite(const wire::CapturedPacket& packet, MutBytes out) {
  ++counts_.packets;
  std::fill(out.begin(), out.end(), std::uint8_t{0});
  Cursor c(packet.octets, out);
  const std::uint16_t type = link(packet.link_type, c);
  const std::size_t wire_length = packet.original_length - std::min<std::size_t>(packet.original_length, c.at());
  if (c.ok() && type == ethertype_ipv4)
    ipv4(c, wire_length, packet);
  else if (c.ok() && type == ethertype_ipv6)
    ipv6(c, wire_length, packet);
  else if (c.ok() && type == ethertype_arp)
    arp(c);
  else if (c.ok() && type == ethertype_rocev1)
    rocev1(c, wire_length);
  else
    ++counts_.other;
}

}  // namespace parley::capture
