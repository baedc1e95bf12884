// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Address resolution on a segment: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861 §4).
#include "base/bytes_io.hpp"
#include "sim/fault/layer.hpp"
#include "sim/fault/message_kind_frame.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

using wire::ethertype_arp;
constexpr std::uint16_t protocol_icmpv6 = 58;

constexpr KindRow arp_kinds[] = {
    {.kind = MessageKind::arp_request, .name = "request", .word = "arp_request"},
    {.kind = MessageKind::arp_reply, .name = "reply", .word = "arp_reply"},
};
constexpr KindRow nd_kinds[] = {
    {.kind = MessageKind::nd_solicit, .name = "solicit", .word = "nd_solicit"},
    {.kind = MessageKind::nd_advert, .name = "advert", .word = "nd_advert"},
};

void classify_arp(ConstBytes arp, FrameLayout& out) {
  Reader r(arp);
  r.skip(6);
  const std::uint16_t operation = r.be16();
  if (!r.ok()) return;
  if (operation == 1) out.mark(MessageKind::arp_request);
  if (operation == 2) out.mark(MessageKind::arp_reply);
}

void classify_nd(ConstBytes icmp, FrameLayout& out) {
  if (!out.ipv6) return;
  Reader r(icmp);
  const std::uint8_t type = r.u8();
  if (type == 135) out.mark(MessageKind::nd_solicit);  // RFC 4861 §4.3
  if (type == 136) out.mark(MessageKind::nd_advert);   // RFC 4861 §4.4
}

}  // namespace

constinit const LayerTable arp_layer{.layer = Layer::arp,
                                     .name = "arp",
                                     .role = LayerRole::neighbours,
                                     .carrier = Carrier::ethernet,
                                     .number = ethertype_arp,
                                     .kinds = arp_kinds,
                                     .classify = classify_arp};
constinit const LayerTable nd_layer{.layer = Layer::nd,
                                    .name = "nd",
                                    .role = LayerRole::neighbours,
                                    .carrier = Carrier::ip,
                                    .number = protocol_icmpv6,
                                    .kinds = nd_kinds,
                                    .classify = classify_nd};

}  // namespace parley::sim
