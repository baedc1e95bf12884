// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/fault/message_kind_frame.hpp"

#include "base/bytes_io.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint16_t ethertype_ipv4 = 0x0800, ethertype_arp = 0x0806, ethertype_ipv6 = 0x86DD;
constexpr std::uint8_t protocol_tcp = 6, protocol_icmpv6 = 58;
constexpr std::uint32_t ethernet_header = 14, ipv6_header = 40, tcp_header_min = 20;

void mark(FrameLayout& out, MessageKind m) {
  out.kind = m;
  out.kinds |= kind_bit(m);
}

void lay_out_arp(ConstBytes arp, FrameLayout& out) {
  Reader r(arp);
  r.skip(6);
  const std::uint16_t operation = r.be16();
  if (!r.ok()) return;
  if (operation == 1) mark(out, MessageKind::arp_request);
  if (operation == 2) mark(out, MessageKind::arp_reply);
}

void lay_out_icmpv6(ConstBytes icmp, FrameLayout& out) {
  Reader r(icmp);
  const std::uint8_t type = r.u8();
  if (type == 135) mark(out, MessageKind::nd_solicit);  // RFC 4861 §4.3
  if (type == 136) mark(out, MessageKind::nd_advert);   // RFC 4861 §4.4
}

// The last mark names the frame in one word: rarer kinds come later.
void mark_tcp(FrameLayout& out) {
  using namespace wire::tcp_flag;
  const bool has_syn = (out.flags & syn) != 0, has_ack = (out.flags & ack) != 0;
  if (out.payload_size == 0 && has_ack && (out.flags & (syn | fin | rst)) == 0) mark(out, MessageKind::tcp_ack);
  if (out.payload_size != 0) mark(out, MessageKind::tcp_data);
  if ((out.flags & fin) != 0) mark(out, MessageKind::tcp_fin);
  if (has_syn) mark(out, has_ack ? MessageKind::tcp_syn_ack : MessageKind::tcp_syn);
  if ((out.flags & rst) != 0) mark(out, MessageKind::tcp_rst);
}

/// `segment`: the whole TCP segment.
void lay_out_tcp(ConstBytes segment, FrameLayout& out) {
  Reader r(segment);
  r.skip(4);
  out.seq = r.be32();
  out.ack = r.be32();
  const std::uint32_t header = static_cast<std::uint32_t>(r.u8() >> 4) * 4;
  out.flags = r.u8() & 0x3F;
  if (!r.ok() || header < tcp_header_min || header > segment.size()) return;
  out.tcp = true;
  out.payload = out.transport + header;
  out.payload_size = static_cast<std::uint32_t>(segment.size()) - header;
  mark_tcp(out);
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
  if ((fragment & 0x3FFF) != 0 || protocol != protocol_tcp) return;
  out.ip = ethernet_header;
  out.transport = ethernet_header + header;
  lay_out_tcp(ip.subspan(header, total - header), out);
}

void lay_out_ipv6(ConstBytes frame, FrameLayout& out) {
  const ConstBytes ip = frame.subspan(ethernet_header);
  Reader r(ip);
  const std::uint8_t version = r.u8() >> 4;
  r.skip(3);
  const std::uint32_t length = r.be16();
  const std::uint8_t next = r.u8();
  if (!r.ok() || version != 6 || ip.size() < ipv6_header || length > ip.size() - ipv6_header) return;
  const ConstBytes rest = ip.subspan(ipv6_header, length);
  if (next == protocol_icmpv6) lay_out_icmpv6(rest, out);
  if (next != protocol_tcp) return;
  out.ipv6 = true;
  out.ip = ethernet_header;
  out.transport = ethernet_header + ipv6_header;
  lay_out_tcp(rest, out);
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
  if (type == ethertype_arp) lay_out_arp(frame.subspan(ethernet_header), out);
  return out;
}

}  // namespace parley::sim
