// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/ecn.hpp"

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint16_t ce = 3;
constexpr std::size_t checksum_at = 10;  // in the IPv4 header

/// The first 16 bits of the IP header, which hold the traffic class, and the position of its low two bits.
struct Head {
  std::uint16_t word = 0;
  unsigned shift = 0;
  bool v4 = false;
  bool known = false;
  std::uint16_t ecn() const { return static_cast<std::uint16_t>(word >> shift & ce); }
};

Head read_head(ConstBytes frame) {
  Reader r(frame);
  r.skip(12);
  const std::uint16_t type = r.be16(), word = r.be16();
  const bool v4 = type == wire::ethertype_ipv4;
  if (!r.ok() || (!v4 && type != wire::ethertype_ipv6)) return {};
  const std::size_t header = wire::ethernet_header + (v4 ? wire::ipv4_header : wire::ipv6_header);
  return {.word = word, .shift = v4 ? 0U : 4U, .v4 = v4, .known = frame.size() >= header};
}

/// RFC 1624 §3: the checksum of a header after one word has changed.
std::uint16_t updated_checksum(std::uint16_t checksum, std::uint16_t before, std::uint16_t after) {
  std::uint32_t sum =
      static_cast<std::uint16_t>(~checksum) + std::uint32_t{static_cast<std::uint16_t>(~before)} + after;
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

}  // namespace

bool is_congestion_marked(ConstBytes frame) {
  const Head head = read_head(frame);
  return head.known && head.ecn() == ce;
}

bool mark_congestion(MutBytes frame) {
  const Head head = read_head(frame);
  if (!head.known || head.ecn() == 0 || head.ecn() == ce) return false;
  const auto marked = static_cast<std::uint16_t>(head.word | ce << head.shift);
  const MutBytes packet = frame.subspan(wire::ethernet_header);
  Writer w(packet);
  w.be16(marked);
  if (!head.v4) return true;
  Reader r(packet.subspan(checksum_at));
  const std::uint16_t checksum = r.be16();
  Writer c(packet.subspan(checksum_at));
  c.be16(updated_checksum(checksum, head.word, marked));
  return true;
}

}  // namespace parley::sim
