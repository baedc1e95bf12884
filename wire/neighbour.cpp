// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/neighbour.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::wire {
namespace {

constexpr std::uint16_t hardware_ethernet = 1, protocol_ipv4 = 0x0800, arp_request = 1, arp_reply = 2;
constexpr std::uint8_t type_solicit = 135, type_advert = 136;
constexpr std::uint8_t option_source_link = 1, option_target_link = 2;
constexpr std::uint32_t flag_router = 0x80000000, flag_solicited = 0x40000000, flag_override = 0x20000000;

template <std::size_t n>
void read_array(Reader& r, std::array<std::uint8_t, n>& out) {
  const ConstBytes octets = r.bytes(n);
  std::copy(octets.begin(), octets.end(), out.begin());
}

// RFC 4443 §2.3: the checksum covers a pseudo header of the addresses, the length and the protocol (RFC 8200 §8.1).
std::uint16_t checksum_of(ConstBytes icmp, const Ip6& source, const Ip6& destination) {
  std::array<std::uint8_t, 8> pseudo{};
  Writer w(pseudo);
  w.be32(static_cast<std::uint32_t>(icmp.size()));
  w.be32(protocol_icmp6);
  const ConstBytes pieces[] = {source, destination, pseudo, icmp};
  return internet_checksum(pieces);
}

bool is_group(const Ip6& address) { return address[0] == 0xFF; }

// Finds the link-layer address among the options; false if one of them breaks a rule.
bool parse_options(Reader& r, std::uint8_t wanted, std::optional<Mac>& link) {
  while (r.left() > 0) {
    const std::uint8_t type = r.u8();
    const std::size_t units = r.u8();
    if (!r.ok() || units == 0) return false;  // RFC 4861 §7.1.1, §7.1.2: every option has a length above zero
    Reader value(r.bytes(8 * units - 2));
    if (!r.ok()) return false;
    if (type != wanted) continue;
    Mac mac{};
    read_array(value, mac);
    link = mac;
  }
  return true;
}

}  // namespace

void emit_arp(const ArpPacket& packet, MutBytes out) {
  Writer w(out);
  w.be16(hardware_ethernet);
  w.be16(protocol_ipv4);
  w.u8(6);
  w.u8(4);
  w.be16(packet.reply ? arp_reply : arp_request);
  w.bytes(packet.sender_mac);
  w.bytes(packet.sender_ip);
  w.bytes(packet.target_mac);
  w.bytes(packet.target_ip);
}

Result<ArpPacket> parse_arp(ConstBytes packet) {
  Reader r(packet);
  ArpPacket out;
  const std::uint16_t hardware = r.be16(), protocol = r.be16();
  const std::uint8_t hardware_size = r.u8(), protocol_size = r.u8();
  const std::uint16_t operation = r.be16();
  read_array(r, out.sender_mac);
  read_array(r, out.sender_ip);
  read_array(r, out.target_mac);
  read_array(r, out.target_ip);
  if (!r.ok()) return fail(Errc::truncated);
  if (hardware != hardware_ethernet || protocol != protocol_ipv4 || hardware_size != 6 || protocol_size != 4)
    return fail(Errc::malformed);
  if (operation != arp_request && operation != arp_reply) return fail(Errc::malformed);
  out.reply = operation == arp_reply;
  return out;
}

void emit_neighbour(const NeighbourMessage& message, const Ip6& source, const Ip6& destination, MutBytes out) {
  out = out.first(message.wire_size());
  Writer w(out);
  w.u8(message.advert ? type_advert : type_solicit);
  w.u8(0);
  w.be16(0);
  std::uint32_t flags = 0;
  if (message.advert) {
    if (message.router) flags |= flag_router;
    if (message.solicited) flags |= flag_solicited;
    if (message.overrides) flags |= flag_override;
  }
  w.be32(flags);
  w.bytes(message.target);
  if (message.link_address) {
    w.u8(message.advert ? option_target_link : option_source_link);
    w.u8(1);
    w.bytes(*message.link_address);
  }
  Writer sum(out.subspan(2, 2));
  sum.be16(checksum_of(out, source, destination));
}

Result<NeighbourMessage> parse_neighbour(ConstBytes icmp, const Ip6& source, const Ip6& destination,
                                         std::uint8_t hop_limit) {
  Reader r(icmp);
  NeighbourMessage out;
  const std::uint8_t type = r.u8(), code = r.u8();
  r.skip(2);
  if (!r.ok()) return fail(Errc::truncated);
  if (checksum_of(icmp, source, destination) != 0) return fail(Errc::crc_mismatch);
  if (type != type_solicit && type != type_advert) return fail(Errc::unsupported);
  out.advert = type == type_advert;
  const std::uint32_t flags = r.be32();
  read_array(r, out.target);
  if (!r.ok()) return fail(Errc::truncated);
  if (out.advert) {
    out.router = (flags & flag_router) != 0;
    out.solicited = (flags & flag_solicited) != 0;
    out.overrides = (flags & flag_override) != 0;
  }
  // RFC 4861 §7.1.1, §7.1.2: the hop limit is 255 (no router forwarded it), the code is 0, the target is not multicast.
  if (hop_limit != 255 || code != 0 || is_group(out.target)) return fail(Errc::malformed);
  if (!parse_options(r, out.advert ? option_target_link : option_source_link, out.link_address))
    return fail(Errc::malformed);
  const bool unspecified = source == Ip6{};
  // §7.1.1: a solicitation from the unspecified address goes to the solicited-node multicast address and has no source
  // link-layer address option.
  if (!out.advert && unspecified && (destination != solicited_node(out.target) || out.link_address))
    return fail(Errc::malformed);
  // §7.1.2: an advertisement to a multicast address has the Solicited flag clear.
  if (out.advert && is_group(destination) && out.solicited) return fail(Errc::malformed);
  return out;
}

Ip6 solicited_node(const Ip6& address) {
  Ip6 group{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF};
  std::copy(address.begin() + 13, address.end(), group.begin() + 13);
  return group;
}

Mac group_mac(const Ip6& group) { return {0x33, 0x33, group[12], group[13], group[14], group[15]}; }

}  // namespace parley::wire
