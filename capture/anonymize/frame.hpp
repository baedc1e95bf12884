// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rewrites one captured frame with other addresses, ports and payload, of the same length. The new frame starts as
// zeros. Only decoded fields are written into it: link headers and VLAN tags, ARP (RFC 826), IPv4, IPv6 with extension
// headers, TCP (RFC 9293 §3.1) with its common options, UDP, RoCE, ICMP and Neighbour Discovery (RFC 4861 §4).
// Correct checksums are recomputed. Wrong ones stay wrong by a different amount, because the amount would reveal
// something of the octets. Checksums of segments that are not captured whole become 0.
#pragma once
#include <cstdint>

#include "capture/anonymize/plan.hpp"
#include "wire/pcap.hpp"

namespace parley::capture {

struct FrameCounts {
  std::uint64_t packets = 0;
  std::uint64_t tcp = 0, udp = 0, icmp = 0, arp = 0, other = 0;
  std::uint64_t roce = 0;                                  ///< RoCEv2 also counts as UDP
  std::uint64_t addresses = 0, ports = 0;                  ///< rewritten fields, not distinct values
  std::uint64_t checksums_right = 0, checksums_wrong = 0;  ///< in the original; they are right or wrong as before
  std::uint64_t options_dropped = 0;                       ///< TCP options and IP options
};

class FrameAnonymizer {
 public:
  FrameAnonymizer(Pseudonyms& names, StreamPlan& plan) : names_(names), plan_(plan) {}
  /// `out` must have the size of packet.octets.
  void rewrite(const wire::CapturedPacket& packet, MutBytes out);
  const FrameCounts& counts() const { return counts_; }

 private:
  class Cursor;
  struct Internet;
  struct RoceNames;

  std::uint16_t link(std::uint16_t link_type, Cursor& c);
  void cooked_address(Cursor& c, std::size_t length);
  void mac(Cursor& c);
  void v4(Cursor& c);
  void v6(Cursor& c);
  void gid(Cursor& c);
  void port(Cursor& c);
  void arp(Cursor& c);
  void ipv4(Cursor& c, std::size_t wire_length, const wire::CapturedPacket& packet);
  void ipv6(Cursor& c, std::size_t wire_length, const wire::CapturedPacket& packet);
  void transport(std::uint8_t protocol, const Internet& ip, const wire::CapturedPacket& packet);
  void tcp(Cursor& c, const wire::CapturedPacket& packet, const Internet& ip);
  void tcp_options(ConstBytes in, MutBytes out, bool whole, const Internet& ip);
  void udp(Cursor& c);
  void rocev1(Cursor& c, std::size_t wire_length);
  void rocev2(const Internet& ip);
  void roce(ConstBytes network, ConstBytes network_after, ConstBytes in, MutBytes out, std::size_t wire_size,
            const Address& source, const Address& destination);
  static void roce_mad(const RoceNames& names, ConstBytes in, MutBytes out);
  void icmp6(Cursor& c);
  void checksum(ConstBytes before, MutBytes after, std::size_t at, ConstBytes pseudo_before, ConstBytes pseudo_after);

  Pseudonyms& names_;
  StreamPlan& plan_;
  FrameCounts counts_;
};

}  // namespace parley::capture
