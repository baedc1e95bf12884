// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// How Ethernet carries InfiniBand packets: RoCEv1 after a GRH (IBA Annex A16), RoCEv2 after IP and UDP (Annex A17).
#pragma once
#include <cstdint>
#include <optional>

#include "base/gid.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/ib.h"

namespace parley::wire::ib {

/// The headers before the BTH that the ICRC covers: 28 octets (IPv4, UDP), 48 (IPv6, UDP) or 40 (GRH).
struct RoceHeader {
  bool v2 = true;                  ///< else a GRH
  Gid source{}, destination{};     ///< RoCEv2 between two IPv4 addresses (::ffff:a.b.c.d) is over IPv4
  std::uint8_t traffic_class = 0;  ///< IPv4: type of service; its low two bits are ECN
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;      ///< 20 bits; not IPv4
  std::uint16_t source_port = 0;     ///< RoCEv2; serves only to spread flows over paths
  std::uint16_t udp_checksum = 0;    ///< 0: none
  std::uint16_t identification = 0;  ///< IPv4
  bool dont_fragment = true;         ///< IPv4

  bool is_ipv4() const;
  std::size_t size() const;
  struct Parsed;
  /// The packet's length comes from the lengths in these headers. The IPv4 checksum is not checked. Errors: truncated;
  /// unsupported (not RoCE, IPv4 options or a fragment, IPv6 extension headers); malformed (lengths contradict each
  /// other, or the version is not 6).
  static Result<Parsed> parse(std::uint16_t ethertype, ConstBytes network);
  /// Writes size() octets for a packet (BTH to ICRC) of `packet_size`, at most 65,000.
  void emit(MutBytes out, std::size_t packet_size) const;
  bool operator==(const RoceHeader&) const = default;
};

struct RoceHeader::Parsed {
  RoceHeader header;
  ConstBytes network;  ///< a view of the headers, for icrc()
  ConstBytes packet;   ///< a view from the BTH to the ICRC
};

/// Parses the 40 octets before a received datagram (IBA §11.4): an IPv6 header or GRH, or an IPv4 header in the last 20
/// octets (IBA Annex A17), after 20 octets of any value. Sets only source, destination, traffic class and, except for
/// IPv4, the flow label.
RoceHeader header_of_datagram(ConstBytes network);

/// Writes the ICRC of `packet` (BTH to ICRC, at least 16 octets) under `header` into its last four octets.
void seal(const RoceHeader& header, MutBytes packet);
/// Whether the ICRC of `packet` (BTH to ICRC) is correct under `header`; false if `packet` is too short to have one.
bool is_sealed(const RoceHeader& header, ConstBytes packet);
/// The IPv4 identification under which the ICRC is correct, with the header's "don't fragment"; nullopt if there is
/// none, or without IPv4.
std::optional<std::uint16_t> identification_of(RoceHeader header, ConstBytes packet);

/// The UDP source port of a flow, 0xC000 to 0xFFFF. Linux derives it in this way from the flow label or, if that is 0,
/// from the two queue pair numbers. It is the same in both directions.
std::uint16_t roce_source_port(std::uint32_t flow_label, std::uint32_t local_qpn, std::uint32_t remote_qpn);

}  // namespace parley::wire::ib
