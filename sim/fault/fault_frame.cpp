// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/fault_frame.hpp"

#include <array>

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint32_t ip_checksum_at = 10, ip_length_at = 2, ipv6_length_at = 4;
using wire::protocol_tcp, wire::tcp_checksum_at;
constexpr std::uint32_t tcp_flags_at = 13;

std::uint32_t segment_size(const FrameLayout& f) { return f.payload - f.transport + f.payload_size; }

std::uint16_t ip_sum(ConstBytes frame, const FrameLayout& f) {
  const std::array<ConstBytes, 1> pieces{frame.subspan(f.ip, f.transport - f.ip)};
  return wire::internet_checksum(pieces);
}

std::uint16_t tcp_sum(ConstBytes frame, const FrameLayout& f) { return transport_sum(frame, f, protocol_tcp); }

std::uint16_t read16(ConstBytes octets, std::uint32_t at) {
  Reader r(octets.subspan(at));
  return r.be16();
}

void write16(MutBytes octets, std::uint32_t at, std::uint32_t value) {
  Writer w(octets.subspan(at));
  w.be16(static_cast<std::uint16_t>(value));
}

bool holds(const Frame& frame, const FrameLayout& f) { return f.tcp && frame.size >= f.payload + f.payload_size; }

}  // namespace

// RFC 9293 §3.1, RFC 768: the checksum covers a pseudo header (addresses, protocol, length), then the segment.
std::uint16_t transport_sum(ConstBytes frame, const FrameLayout& f, std::uint8_t protocol) {
  std::array<std::uint8_t, 8> pseudo{};
  Writer w(pseudo);
  w.be32(segment_size(f));
  w.be32(protocol);
  const ConstBytes addresses = f.ipv6 ? frame.subspan(f.ip + 8, 32) : frame.subspan(f.ip + 12, 8);
  const std::array<ConstBytes, 3> pieces{addresses, ConstBytes(pseudo), frame.subspan(f.transport, segment_size(f))};
  return wire::internet_checksum(pieces);
}

bool flip(Frame& frame, std::uint32_t octet, std::uint8_t bits) {
  if (octet >= frame.size) return false;
  frame.octets()[octet] ^= bits;
  frame.altered = true;
  return true;
}

bool flip_payload(Frame& frame, const FrameLayout& layout, std::uint32_t octet, std::uint8_t bits) {
  if (!holds(frame, layout) || octet < layout.payload || octet >= layout.payload + layout.payload_size) return false;
  const MutBytes octets = frame.octets();
  const std::uint8_t before = octets[octet];
  flip(frame, octet, bits);
  // RFC 1624 §3: HC' = ~(~HC + ~m + m'), where m is the 16-bit word that changed.
  const bool high = (octet - layout.transport) % 2 == 0;
  const std::uint32_t old_word = high ? static_cast<std::uint32_t>(before) << 8 : before;
  const std::uint32_t new_word = high ? static_cast<std::uint32_t>(octets[octet]) << 8 : octets[octet];
  const std::uint32_t at = layout.transport + tcp_checksum_at;
  std::uint32_t sum =
      static_cast<std::uint16_t>(~read16(octets, at)) + static_cast<std::uint16_t>(~old_word) + new_word;
  sum = (sum & 0xFFFF) + (sum >> 16);
  sum = (sum & 0xFFFF) + (sum >> 16);
  write16(octets, at, ~sum);
  return true;
}

void write_checksums(Frame& frame, const FrameLayout& layout) {
  const MutBytes octets = frame.octets();
  if (!layout.ipv6) {
    write16(octets, layout.ip + ip_checksum_at, 0);
    write16(octets, layout.ip + ip_checksum_at, ip_sum(octets, layout));
  }
  write16(octets, layout.transport + tcp_checksum_at, 0);
  write16(octets, layout.transport + tcp_checksum_at, tcp_sum(octets, layout));
}

bool checksums_right(const Frame& frame, const FrameLayout& layout) {
  if (!holds(frame, layout)) return false;
  return (layout.ipv6 || ip_sum(frame.octets(), layout) == right_sum) && tcp_sum(frame.octets(), layout) == right_sum;
}

void cut_payload(Frame& frame, const FrameLayout& layout, std::uint32_t keep, bool fin) {
  if (!holds(frame, layout) || keep > layout.payload_size) return;
  FrameLayout after = layout;
  after.payload_size = keep;
  frame.size = layout.payload + keep;
  frame.altered = true;
  const MutBytes octets = frame.octets();
  const std::uint32_t packet = frame.size - layout.ip;
  if (layout.ipv6)
    write16(octets, layout.ip + ipv6_length_at, frame.size - layout.transport);
  else
    write16(octets, layout.ip + ip_length_at, packet);
  std::uint8_t& flags = octets[layout.transport + tcp_flags_at];
  flags = static_cast<std::uint8_t>(fin ? flags | wire::tcp_flag::fin : flags & ~wire::tcp_flag::fin);
  write_checksums(frame, after);
}

}  // namespace parley::sim
