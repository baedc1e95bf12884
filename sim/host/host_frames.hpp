// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames as a host writes and reads them: Ethernet with ARP (RFC 826), IPv4 (RFC 791), IPv6 (RFC 8200), ICMPv6
// neighbour messages (RFC 4861), TCP (RFC 9293 §3.1), RoCEv2 over UDP (IBA Annex A17) and ICMP's destination unreachable
// (RFC 792, RFC 4443). Every length and checksum, and the ICRC, is computed on transmission and checked on reception.
#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <system_error>

#include "base/bytes_io.hpp"
#include "parley/address.hpp"
#include "sim/host/roce_flows.hpp"
#include "sim/net/frame.hpp"
#include "wire/neighbour.hpp"
#include "wire/tcp.hpp"

namespace parley::sim {

inline constexpr std::size_t ethernet_size = 14, ipv4_size = 20, ipv6_size = 40, ipv4_checksum_at = 10;
inline constexpr std::uint8_t protocol_icmp = 1, protocol_udp = 17;

/// Which of a port's addresses a packet uses.
enum class LocalKind : std::uint8_t { v4, v6, link_local };
constexpr std::size_t ip_size(LocalKind kind) { return kind == LocalKind::v4 ? ipv4_size : ipv6_size; }

struct PortAddresses {
  std::uint16_t port = 0;  ///< number at its host, from 0
  wire::Mac mac{};
  Address v4{}, v6{}, link_local{};  ///< without a port; link_local with its scope
  const Address& of(LocalKind kind) const {
    return kind == LocalKind::v4 ? v4 : kind == LocalKind::v6 ? v6 : link_local;
  }
};
/// The addresses of host `number` (from 0) on its `port` (from 0), which belongs to `network`. `interface_id`: from
/// NicOptions.
PortAddresses make_addresses(std::uint32_t number, std::uint16_t port, std::uint8_t network,
                             std::uint64_t interface_id = 0);

/// Multicast groups that a host has joined, without port and scope.
using HostGroups = std::set<Address>;
/// RFC 1112 §6.4, RFC 2464 §7.
wire::Mac mac_of_group(const Address& group);

/// A TCP segment in a frame; the destination's MAC address is filled in later.
FramePtr write_segment(FramePool& pool, const PortAddresses& local, LocalKind kind,
                       const std::array<std::uint8_t, 16>& peer, const wire::TcpHeader& header,
                       std::span<const ConstBytes> payload, std::uint16_t ip_id);
/// Header fields of a RoCE packet other than the addresses.
struct RocePath {
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0, hop_limit = 64;
  std::uint16_t ip_id = 0;
};
/// The packet consists of `front`, which begins with the BTH, and `rest`, which may be elsewhere in memory, up to the
/// pad. `ip_id`: IPv4. The destination's MAC address is filled in later, here and below.
FramePtr write_roce(FramePool& pool, const wire::Mac& from, RoceFlow& flow, std::uint16_t ip_id, ConstBytes front,
                    ConstBytes rest = {});
/// Why a packet was not delivered: nothing has its port, no way leads to its host, or a filter refuses it.
enum class Unreachable : std::uint8_t { port, host, prohibited };
/// ICMP destination unreachable from `local` to `peer`, the sender of `packet`, which is from the IP header on.
FramePtr write_unreachable(FramePool& pool, const PortAddresses& local, LocalKind kind,
                           const std::array<std::uint8_t, 16>& peer, ConstBytes packet, std::uint16_t ip_id,
                           Unreachable why);
FramePtr write_arp(FramePool& pool, const wire::Mac& destination, const wire::ArpPacket& packet);
FramePtr write_neighbour(FramePool& pool, const wire::Mac& from, const wire::Mac& to, const wire::Ip6& source,
                         const wire::Ip6& destination, const wire::NeighbourMessage& message);

/// The content of a frame; only the fields of its kind are set.
struct FrameIn {
  enum class Kind : std::uint8_t { arp, neighbour, segment, roce, unreachable };
  Kind kind = Kind::segment;
  std::uint16_t port = 0;                      ///< PortAddresses::port
  LocalKind local = LocalKind::v4;             ///< segment, roce, unreachable
  std::array<std::uint8_t, 16> source{};       ///< of IP; IPv4 uses the first four, the others are 0
  std::array<std::uint8_t, 16> destination{};  ///< neighbour
  wire::ArpPacket arp;
  wire::NeighbourMessage neighbour;
  wire::TcpHeader header;
  ConstBytes payload;            ///< segment; roce: from the BTH to the ICRC, which is right
  RocePath path;                 ///< roce
  std::uint64_t way = 0;         ///< roce: PacketPath::way
  ConstBytes network;            ///< roce: from the IP header on
  std::optional<Address> group;  ///< roce: it went there; `local` is the kind of its source
  /// unreachable: of the packet that ICMP quotes, which this host sent.
  struct Undelivered {
    std::array<std::uint8_t, 16> to{};
    bool tcp = false;  ///< else UDP, to RoCE's port
    std::uint16_t from_port = 0, to_port = 0;
    std::uint32_t seq = 0;  ///< TCP's
    std::errc why{};        ///< the error that Linux reports for the ICMP code
  };
  Undelivered undelivered;
};
// Shared by host_frames.cpp and host_datagrams.cpp. `packet` starts at the IP header, `body` is its payload,
// `addresses` starts the pseudo header.
const char* read_udp(ConstBytes packet, ConstBytes body, ConstBytes addresses, RoceFlows& flows, FrameIn& out);
/// Only errors; IPv6: those for which is_icmp6_error() holds.
const char* read_icmp(ConstBytes body, ConstBytes addresses, FrameIn& out);
bool is_icmp6_error(ConstBytes message);
void write_ethernet(Writer& w, const wire::Mac& to, const wire::Mac& from, std::uint16_t type);
void write_ipv4(std::uint8_t* ip, std::uint16_t length, std::uint16_t id, std::uint8_t protocol, ConstBytes source,
                ConstBytes destination);
void write_ipv6(std::uint8_t* ip, std::uint16_t length, std::uint8_t next, std::uint8_t hops, ConstBytes source,
                ConstBytes destination);

/// Null, or the reason for discarding the frame. `flows`: the host's received flows.
const char* read_frame(ConstBytes frame, const PortAddresses& local, bool ipv6, RoceFlows& flows, FrameIn& out,
                       const HostGroups& groups = {});

}  // namespace parley::sim
