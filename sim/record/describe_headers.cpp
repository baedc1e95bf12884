// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/record/describe_headers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes_io.hpp"
#include "base/text.hpp"
#include "capture/report_ib.hpp"
#include "capture/rules/ibcm/cm_exchange.hpp"
#include "sim/fault/layer.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/neighbour.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::uint8_t nd_solicit = 135, nd_advert = 136;
constexpr std::uint8_t protocol_icmp = 1, protocol_udp = 17;
constexpr std::size_t udp_size = 8;

std::string mac_text(ConstBytes mac) {
  std::string out;
  for (std::uint8_t octet : mac) out += fmt::format("{}{:02x}", out.empty() ? "" : ":", octet);
  return out;
}

Address address_of(ConstBytes octets) {
  Address a;
  a.family = octets.size() == 16 ? Address::Family::v6 : Address::Family::v4;
  std::copy_n(octets.begin(), std::min(octets.size(), a.octets.size()), a.octets.begin());
  return a;
}

/// Without the port.
std::string ip_text(const Address& a) {
  Address bare = a;
  bare.port = 0;
  bare.scope_id = 0;
  std::string text = bare.to_string();
  text = text.substr(0, text.rfind(':'));
  if (text.size() > 2 && text.front() == '[') text = text.substr(1, text.size() - 2);
  return text;
}

bool is_group(const Address& a) { return a.family == Address::Family::v6 && a.octets[0] == 0xFF; }

void dissect_arp(ConstBytes arp, FrameHeaders& h) {
  Reader r(arp);
  r.skip(6);
  const std::uint16_t operation = r.be16();
  const std::string sender_mac = mac_text(r.bytes(6));
  const ConstBytes sender = r.bytes(4);
  r.skip(6);
  const ConstBytes target = r.bytes(4);
  if (!r.ok()) return;
  h.lowest = Layer::arp;
  h.layer = "arp";
  h.source = address_of(sender);
  if (operation == 2) h.target = address_of(target);
  if (operation == 1 && std::equal(sender.begin(), sender.end(), target.begin())) {  // RFC 5227 §3
    h.text = "ARP announcement";
    h.detail = fmt::format("{} is at {}", ip_text(address_of(sender)), sender_mac);
    return;
  }
  h.text = operation == 1 ? "ARP request" : operation == 2 ? "ARP reply" : "ARP";
  h.detail = operation == 1 ? fmt::format("who has {}?", ip_text(address_of(target)))
                            : fmt::format("{} is at {}", ip_text(address_of(sender)), sender_mac);
}

void dissect_nd(ConstBytes icmp, FrameHeaders& h) {
  if (!h.source || h.source->family != Address::Family::v6) return;
  Reader r(icmp);
  const std::uint8_t type = r.u8();
  r.skip(3);
  const std::uint32_t flags = r.be32();
  const ConstBytes about = r.bytes(16);
  if (!r.ok() || (type != nd_solicit && type != nd_advert)) return;
  h.lowest = Layer::nd;
  h.layer = "nd";
  const Address target = address_of(about);
  h.text = type == nd_solicit ? "ND solicit" : "ND advert";
  h.detail = type == nd_solicit
                 ? fmt::format("who has {}?", ip_text(target))
                 : fmt::format("{} is here{}", ip_text(target), (flags >> 30 & 1) != 0 ? ", solicited" : "");
  if (type == nd_solicit) h.target = target;  // the group that it is sent to represents this one host
}

void dissect_tcp(ConstBytes segment, FrameHeaders& h) {
  if (segment.size() >= wire::tcp_header) h.lowest = Layer::tcp;
}

void arp_fields(Reader r, Fields& out) {
  out.emplace_back("ARP", "");
  out.emplace_back("Hardware type", fmt::format("{}", r.be16()));
  out.emplace_back("Protocol type", fmt::format("0x{:04x}", r.be16()));
  r.skip(2);
  const std::uint16_t operation = r.be16();
  out.emplace_back("Operation", operation == 1   ? "1, request"
                                : operation == 2 ? "2, reply"
                                                 : fmt::format("{}", operation));
  for (const std::string_view who : {"Sender", "Target"}) {
    out.emplace_back(fmt::format("{} MAC", who), mac_text(r.bytes(6)));
    const ConstBytes ip = r.bytes(4);
    out.emplace_back(fmt::format("{} IP", who), ip_text(address_of(ip)));
  }
}

void nd_fields(Reader r, Fields& out) {
  out.emplace_back("ICMPv6", "");
  const std::uint8_t type = r.u8(), code = r.u8();
  out.emplace_back(
      "Type", fmt::format("{}, {}", type, type == nd_solicit ? "neighbour solicitation" : "neighbour advertisement"));
  out.emplace_back("Code", fmt::format("{}", code));
  out.emplace_back("Checksum", fmt::format("0x{:04x}", r.be16()));
  const std::uint32_t flags = r.be32();
  if (type == nd_advert)
    out.emplace_back("Router, solicited, override",
                     fmt::format("{} {} {}", flags >> 31, flags >> 30 & 1, flags >> 29 & 1));
  out.emplace_back("Target", ip_text(address_of(r.bytes(16))));
  const std::uint8_t option = r.u8(), units = r.u8();
  if (r.ok() && (option == 1 || option == 2) && units == 1)
    out.emplace_back(option == 1 ? "Source MAC option" : "Target MAC option", mac_text(r.bytes(6)));
}

std::string cm_detail(const wire::ib::CmMessage& message) {
  const std::string text = capture::cm_event_text(message);
  const std::size_t name = wire::ib::to_string(message.type()).size();
  std::string out = text.size() > name ? text.substr(name + 1) : "";
  if (const auto* req = std::get_if<wire::ib::CmReq>(&message.body)) {
    capture::IbSeen seen;
    seen.service_id = req->service_id;
    out = fmt::format("to {} {}", seen.service(), out);
  }
  return out;
}

/// The packet may be cut: its first octets are enough, except for a CM message.
void dissect_udp(ConstBytes datagram, FrameHeaders& h) {
  Reader r(datagram);
  r.skip(2);
  const std::uint16_t to = r.be16(), length = r.be16();
  r.skip(2);
  if (!r.ok()) return;
  const ConstBytes packet = datagram.subspan(udp_size);
  const auto bth = wire::ib::Bth::parse(packet);
  if (to != PARLEY_ROCE_UDP_PORT || !bth) return;
  const wire::ib::OpcodeRule rule = wire::ib::rule_of(bth->opcode);
  h.roce = true;
  h.request = !rule.response;
  h.qpn = bth->dest_qpn;
  h.psn = bth->psn;
  h.text = wire::ib::opcode_text(bth->opcode);
  h.detail = fmt::format("QP {:#08x} PSN {:#08x}", bth->dest_qpn, bth->psn);
  const std::size_t around =
      udp_size + PARLEY_IB_BTH_LEN + wire::ib::size_of_headers(rule.headers) + bth->pad_count + PARLEY_IB_ICRC_LEN;
  if (length > around) h.detail += fmt::format(", {} octets", length - around);
  const auto parsed = wire::ib::Packet::parse(packet);
  if (!parsed) return;
  if ((rule.headers & PARLEY_IB_XRCETH) != 0) h.detail += fmt::format(", SRQ {:#08x}", parsed->xrceth.srqn);
  if ((rule.headers & PARLEY_IB_AETH) != 0) {
    h.text += ": " + wire::ib::syndrome_text(parsed->aeth.syndrome);
    if (length == around && (parsed->aeth.syndrome & PARLEY_IB_SYNDROME_KIND) == PARLEY_IB_SYNDROME_ACK)
      h.layer = "ack";
  }
  if (bth->dest_qpn != PARLEY_IB_GSI_QPN) return;
  h.cm = parsed->payload;
  const auto message = wire::ib::CmMessage::parse(parsed->payload);
  if (!message) return;
  h.text = wire::ib::to_string(message->type());
  h.detail = cm_detail(*message);
}

void dissect_icmp(ConstBytes icmp, bool v6, FrameHeaders& h) {
  Reader r(icmp);
  const std::uint8_t type = r.u8(), code = r.u8();
  const bool closed = v6 ? type == 1 && code == 4 : type == 3 && code == 3;  // RFC 4443 §3.1, RFC 792
  if (!r.ok() || !closed) return;
  h.text = v6 ? "ICMPv6" : "ICMP";
  h.detail = "port unreachable";
}

void roce_fields(ConstBytes datagram, Fields& out) {
  Reader r(datagram);
  out.emplace_back("UDP", "");
  out.emplace_back("Source port", fmt::format("{}", r.be16()));
  out.emplace_back("Destination port", fmt::format("{}", r.be16()));
  out.emplace_back("Length", fmt::format("{}", r.be16()));
  out.emplace_back("Checksum", fmt::format("0x{:04x}", r.be16()));
  if (!r.ok()) return;
  const auto bth = wire::ib::Bth::parse(datagram.subspan(udp_size));
  if (!bth) return;
  out.emplace_back("BTH", "");
  out.emplace_back("Opcode", fmt::format("0x{:02x}, {}", bth->opcode, wire::ib::opcode_text(bth->opcode)));
  out.emplace_back("Solicited, migrated, pad, version",
                   fmt::format("{} {} {} {}", bth->solicited ? 1 : 0, bth->mig_req ? 1 : 0, bth->pad_count, bth->tver));
  out.emplace_back("P_Key", fmt::format("0x{:04x}", bth->p_key));
  out.emplace_back("Destination QP", fmt::format("0x{:06x}", bth->dest_qpn));
  out.emplace_back("ACK asked for", bth->ack_req ? "1" : "0");
  out.emplace_back("PSN", fmt::format("0x{:06x}", bth->psn));
}

/// A layer's text for the ladder's row, and for the list of fields. TCP's fields need its stream: describe_tcp.
struct HeaderReader {
  Layer layer;
  void (*parse_headers)(ConstBytes octets, FrameHeaders& h);
  void (*fields)(Reader r, Fields& out);
};
constexpr HeaderReader readers[] = {
    {Layer::arp, dissect_arp, arp_fields},
    {Layer::nd, dissect_nd, nd_fields},
    {Layer::tcp, dissect_tcp, nullptr},
};

void dissect_body(Carrier carrier, std::uint16_t number, ConstBytes frame, FrameHeaders& h) {
  for (const HeaderReader& reader : readers)
    if (const LayerTable& layer = *table_of(reader.layer); layer.carrier == carrier && layer.number == number)
      reader.parse_headers(frame.subspan(h.body_at, h.body_size), h);
}

void body_fields(ConstBytes head, const FrameHeaders& h, Fields& out) {
  for (const HeaderReader& reader : readers)
    if (reader.layer == h.lowest && reader.fields != nullptr)
      reader.fields(Reader(head.subspan(std::min(h.body_at, head.size()))), out);
}

void dissect_ip(ConstBytes frame, std::size_t at, bool v6, FrameHeaders& h) {
  Reader r(frame.subspan(std::min(at, frame.size())));
  std::uint8_t protocol = 0;
  std::size_t header = wire::ipv6_header, total = 0;
  if (v6) {
    r.skip(4);
    total = wire::ipv6_header + r.be16();
    protocol = r.u8();
    r.skip(1);
  } else {
    header = (r.u8() & 0x0Fu) * std::size_t{4};
    r.skip(1);
    total = r.be16();
    r.skip(5);
    protocol = r.u8();
    r.skip(2);
  }
  const std::size_t width = v6 ? 16 : 4;
  const ConstBytes source = r.bytes(width), destination = r.bytes(width);
  if (!r.ok() || total < header || at + header > frame.size()) return;
  h.source = address_of(source);
  h.target = address_of(destination);
  if (is_group(*h.target)) h.target.reset();
  h.text = v6 ? "IPv6" : "IPv4";
  h.detail = fmt::format("protocol {}", protocol);
  h.body_at = at + header;
  h.body_size = std::min(total - header, frame.size() - at - header);
  dissect_body(Carrier::ip, protocol, frame, h);
  const ConstBytes body = frame.subspan(h.body_at, h.body_size);
  if (protocol == protocol_udp) dissect_udp(body, h);
  if (protocol == (v6 ? wire::protocol_icmp6 : protocol_icmp) && h.lowest == Layer::any) dissect_icmp(body, v6, h);
}

void ip4_fields(Reader r, Fields& out) {
  const std::uint8_t version = r.u8(), service = r.u8();
  out.emplace_back("IPv4", "");
  out.emplace_back("Header length", fmt::format("{}", (version & 0x0F) * 4));
  out.emplace_back("DSCP, ECN", fmt::format("{}, {}", service >> 2, service & 3));
  out.emplace_back("Total length", fmt::format("{}", r.be16()));
  out.emplace_back("Identification", fmt::format("0x{:04x}", r.be16()));
  const std::uint16_t fragment = r.be16();
  out.emplace_back("Flags, offset", fmt::format("{}{}, {}", (fragment & 0x4000) != 0 ? "DF" : "-",
                                                (fragment & 0x2000) != 0 ? " MF" : "", (fragment & 0x1FFF) * 8));
  out.emplace_back("TTL", fmt::format("{}", r.u8()));
  out.emplace_back("Protocol", fmt::format("{}", r.u8()));
  out.emplace_back("Header checksum", fmt::format("0x{:04x}", r.be16()));
  out.emplace_back("Source", ip_text(address_of(r.bytes(4))));
  out.emplace_back("Destination", ip_text(address_of(r.bytes(4))));
}

void ip6_fields(Reader r, Fields& out) {
  const std::uint32_t head = r.be32();
  out.emplace_back("IPv6", "");
  out.emplace_back("Traffic class", fmt::format("{}", head >> 20 & 0xFF));
  out.emplace_back("Flow label", fmt::format("0x{:05x}", head & 0xFFFFF));
  out.emplace_back("Payload length", fmt::format("{}", r.be16()));
  out.emplace_back("Next header", fmt::format("{}", r.u8()));
  out.emplace_back("Hop limit", fmt::format("{}", r.u8()));
  out.emplace_back("Source", ip_text(address_of(r.bytes(16))));
  out.emplace_back("Destination", ip_text(address_of(r.bytes(16))));
}

std::string flag_names(std::uint8_t flags) {
  static constexpr std::array<std::string_view, 8> names{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"};
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    if ((flags >> i & 1) != 0) out += fmt::format("{}{}", out.empty() ? "" : " ", names[i]);
  return out.empty() ? "none" : out;
}

}  // namespace

FrameHeaders parse_headers(ConstBytes frame) {
  FrameHeaders h;
  Reader r(frame);
  r.skip(12);
  const std::uint16_t type = r.be16();
  h.text = "frame";
  h.detail = fmt::format("{} octets, type 0x{:04x}", frame.size(), type);
  if (!r.ok()) return h;
  h.body_at = wire::ethernet_header;
  h.body_size = frame.size() - wire::ethernet_header;
  dissect_body(Carrier::ethernet, type, frame, h);
  if (type == wire::ethertype_ipv4 || type == wire::ethertype_ipv6)
    dissect_ip(frame, wire::ethernet_header, type == wire::ethertype_ipv6, h);
  return h;
}

void describe_headers(ConstBytes head, std::size_t size, const FrameHeaders& headers, Fields& out) {
  Reader r(head);
  const std::string destination = mac_text(r.bytes(6)), source = mac_text(r.bytes(6));
  const std::uint16_t type = r.be16();
  if (!r.ok()) {
    out.emplace_back("Octets", hex_text(head));
    return;
  }
  out.emplace_back("Ethernet", "");
  out.emplace_back("Octets", fmt::format("{}", size));
  out.emplace_back("Destination", destination);
  out.emplace_back("Source", source);
  out.emplace_back("Type", fmt::format("0x{:04x}", type));
  if (headers.source && type == wire::ethertype_ipv4) ip4_fields(r, out);
  if (headers.source && type == wire::ethertype_ipv6) ip6_fields(r, out);
  body_fields(head, headers, out);
  if (headers.roce) roce_fields(head.subspan(std::min(headers.body_at, head.size())), out);
}

void describe_tcp(const wire::TcpHeader& t, std::size_t header_size, const Describer::Seen& seen, Fields& out) {
  out.emplace_back("TCP", "");
  out.emplace_back("Source port", fmt::format("{}", t.source_port));
  out.emplace_back("Destination port", fmt::format("{}", t.destination_port));
  out.emplace_back("Sequence number",
                   t.syn() ? fmt::format("{}", t.seq) : fmt::format("{} (octet {} of the stream)", t.seq, seen.begin));
  if (t.has_ack())
    out.emplace_back("Acknowledgment number", fmt::format("{} (octet {} of the stream)", t.ack, seen.acked));
  out.emplace_back("Header length", fmt::format("{}", header_size));
  out.emplace_back("Flags", flag_names(t.flags));
  out.emplace_back("Window", fmt::format("{}", t.window));
  if (t.mss != 0) out.emplace_back("MSS", fmt::format("{}", t.mss));
  if (t.window_scale >= 0) out.emplace_back("Window scale", fmt::format("{}", t.window_scale));
  if (t.sack_permitted) out.emplace_back("SACK permitted", "1");
  if (t.timestamps) out.emplace_back("Timestamps", fmt::format("{}, echo {}", t.ts_value, t.ts_echo));
  for (std::size_t i = 0; i < std::min<std::size_t>(t.sack_count, t.sack.size()); ++i)
    out.emplace_back("SACK block", fmt::format("{}..{}", t.sack[i].left, t.sack[i].right));
  out.emplace_back("Payload octets", fmt::format("{}", seen.end - seen.begin));
}

}  // namespace parley::sim
