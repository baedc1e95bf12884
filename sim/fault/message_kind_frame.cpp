// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/message_kind_frame.hpp"

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using wire::ethernet_header, wire::ethertype_ipv4, wire::ethertype_ipv6, wire::ipv6_header;

void classify(Carrier carrier, std::uint16_t number, ConstBytes octets, FrameLayout& out) {
  for (const LayerTable* layer : layers())
    if (layer->carrier == carrier && layer->number == number) layer->classify(octets, out);
}

void classify_ip(std::uint8_t protocol, ConstBytes octets, FrameLayout& out) {
  classify(Carrier::ip, protocol, octets, out);
  constexpr std::uint32_t header = FrameLayout::udp_header;
  if (protocol != FrameLayout::protocol_udp || octets.size() < header) return;
  Reader r(octets);
  r.skip(2);
  const std::uint16_t port = r.be16(), length = r.be16();
  if (length < header || length > octets.size()) return;
  out.payload = out.transport + header;
  out.payload_size = length - header;
  classify(Carrier::udp, port, octets.subspan(header, out.payload_size), out);
}

void lay_out_ipv4(ConstBytes frame, FrameLayout& out) {
  const ConstBytes ip = frame.subspan(ethernet_header);
  Reader r(ip);
  const std::uint8_t version_ihl = r.u8();
  r.skip(1);
  const std::uint32_t total = r.be16();
  r.skip(2);
  const std::uint16_t fragment = r.be16();
  r.skip(1);
  const std::uint8_t protocol = r.u8();
  const std::uint32_t header = static_cast<std::uint32_t>(version_ihl & 0xF) * 4;
  if (!r.ok() || version_ihl >> 4 != 4 || header < 20 || total < header || total > ip.size()) return;
  if ((fragment & 0x3FFF) != 0) return;
  out.ip = ethernet_header;
  out.transport = ethernet_header + header;
  classify_ip(protocol, ip.subspan(header, total - header), out);
}

void lay_out_ipv6(ConstBytes frame, FrameLayout& out) {
  const ConstBytes ip = frame.subspan(ethernet_header);
  Reader r(ip);
  const std::uint8_t version = r.u8() >> 4;
  r.skip(3);
  const std::uint32_t length = r.be16();
  const std::uint8_t next = r.u8();
  if (!r.ok() || version != 6 || ip.size() < ipv6_header || length > ip.size() - ipv6_header) return;
  out.ipv6 = true;
  out.ip = ethernet_header;
  out.transport = ethernet_header + ipv6_header;
  classify_ip(next, ip.subspan(ipv6_header, length), out);
}

}  // namespace

FrameLayout lay_out(ConstBytes frame) {
  FrameLayout out;
  Reader r(frame);
  r.skip(12);
  const std::uint16_t type = r.be16();
  if (!r.ok()) return out;
  if (type == ethertype_ipv4) lay_out_ipv4(frame, out);
  if (type == ethertype_ipv6) lay_out_ipv6(frame, out);
  classify(Carrier::ethernet, type, frame.subspan(ethernet_header), out);
  return out;
}

}  // namespace parley::sim
