// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Address resolution codecs: ARP packets for Ethernet and IPv4 (RFC 826), and Neighbour Solicitations and
// Advertisements of ICMPv6 with their link-layer address options and checksum (RFC 4861 §4.3, §4.4, §4.6.1;
// RFC 4443 §2.3).
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::wire {

using Mac = std::array<std::uint8_t, 6>;
using Ip4 = std::array<std::uint8_t, 4>;
using Ip6 = std::array<std::uint8_t, 16>;

inline constexpr Mac broadcast_mac{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF};
inline constexpr std::uint8_t protocol_icmp6 = 58;

struct ArpPacket {
  static constexpr std::size_t wire_size = 28;
  bool reply = false;
  Mac sender_mac{};
  Ip4 sender_ip{};
  Mac target_mac{};
  Ip4 target_ip{};
  bool operator==(const ArpPacket&) const = default;
};

/// `out` must have room for ArpPacket::wire_size octets.
void emit_arp(const ArpPacket& packet, MutBytes out);
/// `packet` follows the Ethernet header; trailing padding is ignored. Errors: truncated; malformed (not Ethernet and
/// IPv4, or neither request nor reply).
Result<ArpPacket> parse_arp(ConstBytes packet);

struct NeighbourMessage {
  static constexpr std::size_t wire_size_max = 32;  // as emitted, option included
  bool advert = false;
  bool router = false, solicited = false, overrides = false;  ///< adverts only
  Ip6 target{};
  std::optional<Mac> link_address{};  ///< source option of a solicitation, target option of an advert
  bool operator==(const NeighbourMessage&) const = default;
  std::size_t wire_size() const { return link_address ? 32 : 24; }
};

/// Writes wire_size() octets of ICMPv6 with the checksum for these addresses.
void emit_neighbour(const NeighbourMessage& message, const Ip6& source, const Ip6& destination, MutBytes out);
/// Parses the ICMPv6 message of an IPv6 packet and validates it (RFC 4861 §7.1). Errors: truncated; unsupported
/// (another ICMPv6 type); crc_mismatch (checksum); malformed (a rule of §7.1 is broken).
Result<NeighbourMessage> parse_neighbour(ConstBytes icmp, const Ip6& source, const Ip6& destination,
                                         std::uint8_t hop_limit);

/// RFC 4291 §2.7.1: the solicited-node multicast address for `address`. It has the address's last 24 bits.
Ip6 solicited_node(const Ip6& address);
inline constexpr Ip6 all_nodes{0xFF, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
/// RFC 2464 §7: the MAC address of an IPv6 multicast group.
Mac group_mac(const Ip6& group);

}  // namespace parley::wire
