// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Decodes captured frames to TCP segments, and encodes such frames. Decoded: Ethernet with VLAN tags (802.1Q, QinQ),
// Linux cooked SLL and SLL2, BSD loopback, raw IP; IPv4 with options, IPv6 with extension headers; TCP with options
// (RFC 9293 §3.1).
// Frames cut by the snap length are decoded up to the cut. IP fragments are recognised but not reassembled.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::wire {

/// Link types as pcap files number them.
enum class LinkType : std::uint16_t {
  null = 0,
  ethernet = 1,
  raw_bsd = 12,
  raw_openbsd = 14,
  raw = 101,
  loop = 108,
  linux_sll = 113,
  ipv4 = 228,
  ipv6 = 229,
  linux_sll2 = 276,
};
bool link_type_supported(std::uint16_t link_type);

inline constexpr std::uint16_t ethertype_ipv4 = 0x0800, ethertype_arp = 0x0806, ethertype_ipv6 = 0x86DD;
inline constexpr std::uint8_t protocol_tcp = 6;
/// Header sizes in octets, without tags, options and extensions, and the offset of TCP's checksum (RFC 9293 §3.1).
inline constexpr std::uint32_t ethernet_header = 14, ipv4_header = 20, ipv6_header = 40, tcp_header = 20;
inline constexpr std::uint32_t tcp_checksum_at = 16;

namespace tcp_flag {
inline constexpr std::uint8_t fin = 0x01, syn = 0x02, rst = 0x04, psh = 0x08, ack = 0x10;
}

struct TcpSegmentView {
  Address source, destination;
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;
  std::uint16_t window = 0;
  std::uint16_t mss = 0;     ///< from the option; 0 when absent
  bool timestamps = false;   ///< the option is present; it takes 12 octets per segment
  ConstBytes payload;        ///< as captured
  std::uint32_t length = 0;  ///< octets of payload on the wire; more than payload.size() when the frame is cut

  bool syn() const { return (flags & tcp_flag::syn) != 0; }
  bool fin() const { return (flags & tcp_flag::fin) != 0; }
  bool rst() const { return (flags & tcp_flag::rst) != 0; }
  bool has_ack() const { return (flags & tcp_flag::ack) != 0; }
};

enum class PacketKind : std::uint8_t {
  tcp,
  other,        ///< not TCP over IP
  fragment,     ///< a fragment of an IP packet other than the first: no TCP header
  cut,          ///< the capture ends before the end of the TCP header
  malformed,    ///< lengths contradict each other
  unsupported,  ///< link type
};

/// What a packet carries; it selects the next parser.
enum class PacketCargo : std::uint8_t {
  other,
  tcp,  ///< kind tcp
  udp,
  rocev2,  ///< to UDP port 4791
  rocev1,  ///< InfiniBand packets directly over Ethernet, type 0x8915
};

struct PacketView {
  PacketKind kind = PacketKind::other;
  PacketCargo cargo = PacketCargo::other;  ///< kinds tcp and other
  bool first_fragment = false;             ///< kind tcp: the rest of its payload is in fragments
  TcpSegmentView tcp;                      ///< kind tcp
  std::uint16_t ethertype = 0;             ///< of `network`; 0: the link header is cut, or names no protocol
  ConstBytes network;                      ///< after the link header (from the GRH or IP header on), as captured
};

/// Never fails: any octets give a kind. `original_length` is the frame's length on the wire.
PacketView parse_packet(std::uint16_t link_type, ConstBytes frame, std::uint32_t original_length);

/// A TCP segment to be written as a complete Ethernet frame.
struct TcpFrame {
  Address source, destination;  ///< of one family
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;
  std::uint16_t window = 65535;
  std::uint16_t mss = 0;                   ///< written as an option when not 0
  ConstBytes payload;                      ///< at most tcp_frame_payload_max
  std::span<const std::uint16_t> vlans{};  ///< outermost first; at most 4
};
inline constexpr std::size_t tcp_frame_payload_max = 65000;

/// Writes Ethernet, IP and TCP headers with correct lengths and checksums. The MAC addresses are made from the IP
/// addresses (locally administered). Errors: invalid_argument.
Result<Bytes> emit_tcp_frame(const TcpFrame& frame);

/// The Internet checksum over `pieces` (RFC 1071); 0 if they include a correct checksum.
std::uint16_t internet_checksum(std::span<const ConstBytes> pieces);

}  // namespace parley::wire
