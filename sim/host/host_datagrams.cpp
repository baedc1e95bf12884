// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCEv2 packets in UDP datagrams (IBA Annex A17), and the ICMP errors that answer packets that cannot be delivered.
#include <algorithm>
#include <iterator>
#include <optional>

#include "sim/host/host_frames.hpp"
#include "sim/host/host_sum.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::sim {
namespace {

constexpr std::size_t icrc_size = PARLEY_IB_ICRC_LEN, ipv4_id_at = 4;
constexpr std::size_t udp_size = 8, udp_checksum_at = 6, icmp_size = 8, icmp_checksum_at = 2;
constexpr std::uint8_t icmp_unreachable = 3, icmp6_unreachable = 1;  // RFC 792; RFC 4443 §3.1
constexpr std::uint8_t error_hop_limit = 64;
constexpr std::size_t icmp6_packet_max = 1280;  // RFC 4443 §3.1: as much as fits into the minimum MTU

void put_sum(MutBytes octets, std::size_t at, std::uint16_t checksum) {
  std::memcpy(octets.subspan(at, sizeof checksum).data(), &checksum, sizeof checksum);
}

/// RFC 768, RFC 8200 §8.1, RFC 4443 §2.3: the sum over the pseudo header: addresses, protocol and length of the
/// message.
InternetSum sum_of(ConstBytes addresses, std::uint8_t protocol, std::size_t length) {
  InternetSum sum;
  sum.add(addresses);
  sum.add16(protocol);
  sum.add16(static_cast<std::uint16_t>(length));
  return sum;
}

/// The same, including the message.
InternetSum sum_over(ConstBytes addresses, std::uint8_t protocol, ConstBytes message) {
  InternetSum sum = sum_of(addresses, protocol, message.size());
  sum.add(message);
  return sum;
}

std::uint16_t ethertype_of(LocalKind kind) {
  return kind == LocalKind::v4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
}

ConstBytes address_octets(const std::array<std::uint8_t, 16>& octets, LocalKind kind) {
  return ConstBytes(octets).first(kind == LocalKind::v4 ? 4 : 16);
}

/// The addresses of an outgoing packet, which starts at its IP header.
ConstBytes addresses_in(ConstBytes packet, LocalKind kind) {
  return kind == LocalKind::v4 ? packet.subspan(12, 8) : packet.subspan(8, 32);
}

/// A code of ICMP (RFC 792, RFC 1812 §5.2.7.1) or ICMPv6 (RFC 4443 §3.1), and the error that Linux reports for it.
struct IcmpCode {
  std::uint8_t v4, v6;
  Unreachable why;
  std::errc v4_error, v6_error;
};
constexpr IcmpCode icmp_codes[] = {
    {3, 4, Unreachable::port, std::errc::connection_refused, std::errc::connection_refused},
    {1, 3, Unreachable::host, std::errc::host_unreachable, std::errc::host_unreachable},
    {13, 1, Unreachable::prohibited, std::errc::host_unreachable, std::errc::permission_denied},
};

/// The packet that an error answers: TCP segments, and datagrams to the port of RoCE.
const char* read_undelivered(ConstBytes datagram, FrameIn& out) {
  const bool v4 = out.local == LocalKind::v4;
  Reader r(datagram);
  r.skip(v4 ? 9 : 6);
  const std::uint8_t protocol = r.u8();
  r.skip(v4 ? 6 : 17);  // skip to the destination
  const ConstBytes to = r.bytes(v4 ? 4 : 16);
  FrameIn::Undelivered& sent = out.undelivered;
  sent.from_port = r.be16();
  sent.to_port = r.be16();
  sent.seq = r.be32();
  if (!r.ok()) return "ICMP error is cut";
  sent.tcp = protocol == wire::protocol_tcp;
  if (!sent.tcp && (protocol != protocol_udp || sent.to_port != PARLEY_ROCE_UDP_PORT))
    return "ICMP error of nothing that was sent";
  sent.to = {};
  std::copy(to.begin(), to.end(), sent.to.begin());
  out.kind = FrameIn::Kind::unreachable;
  return nullptr;
}

template <class T>
bool same_at(const std::uint8_t* a, const std::uint8_t* b, std::size_t at) {
  T x{}, y{};
  std::memcpy(&x, a + at, sizeof x);
  std::memcpy(&y, b + at, sizeof y);
  return x == y;
}

/// Whether IPv4 and UDP headers differ only in lengths, identification and checksums.
bool same_ipv4_flow(const std::uint8_t* a, const std::uint8_t* b) {
  using Two = std::uint16_t;
  using Four = std::uint32_t;
  return same_at<Two>(a, b, 0) && same_at<Two>(a, b, 6) && same_at<Two>(a, b, 8) && same_at<Four>(a, b, 12) &&
         same_at<Four>(a, b, 16) && same_at<Four>(a, b, 20);
}

LocalKind kind_of(const RoceFlow& flow) { return flow.header.is_ipv4() ? LocalKind::v4 : LocalKind::v6; }

/// The headers of all packets of `size` octets, including the ICRC.
void write_head(RoceFlow& flow, const wire::Mac& from, std::size_t size) {
  const LocalKind kind = kind_of(flow);
  flow.head_for = size;
  Writer w(flow.head);
  write_ethernet(w, {}, from, ethertype_of(kind));
  const MutBytes network = MutBytes(flow.head).subspan(ethernet_size);
  flow.header.emit(network, size);
  flow.network_sum = {};
  if (kind == LocalKind::v4) {
    put_sum(network, ipv4_checksum_at, 0);
    flow.network_sum.add(network.first(ipv4_size));
  }
  flow.udp_sum = sum_of(addresses_in(network, kind), protocol_udp, udp_size + size);
  flow.udp_sum.add(network.subspan(ip_size(kind), udp_size));
}

struct RoceIn {
  RoceFlow& flow;
  std::uint16_t identification;
  ConstBytes octets;
};
/// `packet` starts at the IP header; `length` is UDP's. For most packets the headers equal those of the previous
/// packet, which are already parsed.
std::optional<RoceIn> read_roce(ConstBytes packet, const FrameIn& in, std::size_t length, RoceFlows& flows) {
  const bool v4 = in.local == LocalKind::v4;
  RoceFlow* const last = flows.last(in.port);
  Reader r(packet);
  r.skip(2);
  const std::uint16_t total = r.be16(), identification = r.be16();
  if (v4 && last != nullptr && total == ipv4_size + length && same_ipv4_flow(packet.data(), last->head.data()))
    return RoceIn{*last, identification, packet.subspan(ipv4_size + udp_size, length - udp_size)};
  const auto parsed = wire::ib::RoceHeader::parse(v4 ? wire::ethertype_ipv4 : wire::ethertype_ipv6, packet);
  if (!parsed) return std::nullopt;
  RoceFlow& flow = flows.of(parsed->header, in.port);
  std::copy(parsed->network.begin(), parsed->network.end(), flow.head.begin());
  return RoceIn{flow, parsed->header.identification, parsed->packet};
}

}  // namespace

FramePtr write_roce(FramePool& pool, const wire::Mac& from, RoceFlow& flow, std::uint16_t ip_id, ConstBytes front,
                    ConstBytes rest) {
  const std::size_t size = front.size() + rest.size() + icrc_size;
  if (flow.head_for != size) write_head(flow, from, size);
  // The ICRC comes first: reading octets that were just written would stall.
  const std::uint32_t icrc = flow.sealer.icrc(ip_id, front, rest);
  const LocalKind kind = kind_of(flow);
  const std::size_t head = ethernet_size + ip_size(kind) + udp_size;
  FramePtr frame = pool.take(head + size);
  std::copy_n(flow.head.begin(), head, frame->data());
  const MutBytes network = frame->octets().subspan(ethernet_size);
  if (kind == LocalKind::v4) {
    Writer(network.subspan(ipv4_id_at)).be16(ip_id);
    InternetSum sum = flow.network_sum;
    sum.add16(ip_id);
    put_sum(network, ipv4_checksum_at, sum.checksum());
  }
  const MutBytes packet = network.subspan(ip_size(kind) + udp_size);
  const MutBytes trailer = packet.last(icrc_size);
  store(trailer.data(), icrc, std::endian::little);
  InternetSum sum = flow.udp_sum;
  sum.copy(packet.data(), front);
  sum.copy(packet.data() + front.size(), rest);
  sum.add(trailer);
  const std::uint16_t checksum = sum.checksum();
  // RFC 768: 0 means that there is no checksum.
  put_sum(network, ip_size(kind) + udp_checksum_at, checksum == 0 ? std::uint16_t{0xFFFF} : checksum);
  return frame;
}

const char* read_udp(ConstBytes packet, ConstBytes body, ConstBytes addresses, RoceFlows& flows, FrameIn& out) {
  Reader r(body);
  r.skip(2);
  const std::uint16_t port = r.be16(), length = r.be16(), checksum = r.be16();
  if (!r.ok()) return "UDP header is cut";
  if (length < udp_size || length > body.size()) return "UDP length does not fit the packet";
  // 0: no checksum, which RoCEv2 also allows over IPv6 (IBA Annex A17).
  if (checksum != 0 && !sum_over(addresses, protocol_udp, body.first(length)).right()) return "bad UDP checksum";
  if (port != PARLEY_ROCE_UDP_PORT) return "UDP port is not that of RoCE";
  const auto roce = read_roce(packet, out, length, flows);
  if (!roce) return "malformed RoCE packet";
  if (!roce->flow.sealer.is_sealed(roce->identification, roce->octets)) return "bad ICRC";
  const wire::ib::RoceHeader& header = roce->flow.header;
  out.kind = FrameIn::Kind::roce;
  out.path = {.source_port = header.source_port,
              .traffic_class = header.traffic_class,
              .hop_limit = header.hop_limit,
              .ip_id = roce->identification};
  out.way = roce->flow.way;
  out.payload = roce->octets;
  out.network = packet;
  return nullptr;
}

FramePtr write_unreachable(FramePool& pool, const PortAddresses& local, LocalKind kind,
                           const std::array<std::uint8_t, 16>& peer, ConstBytes packet, std::uint16_t ip_id,
                           Unreachable why) {
  const bool v4 = kind == LocalKind::v4;
  // RFC 792: the header and 64 bits.
  const ConstBytes said =
      packet.first(std::min(packet.size(), v4 ? ipv4_size + udp_size : icmp6_packet_max - ipv6_size - icmp_size));
  const std::size_t length = icmp_size + said.size();
  FramePtr frame = pool.take(ethernet_size + ip_size(kind) + length);
  Writer w(frame->octets());
  write_ethernet(w, {}, local.mac, ethertype_of(kind));
  std::uint8_t* const ip = frame->data() + ethernet_size;
  const ConstBytes from = address_octets(local.of(kind).octets, kind), to = address_octets(peer, kind);
  if (v4)
    write_ipv4(ip, static_cast<std::uint16_t>(ipv4_size + length), ip_id, protocol_icmp, from, to);
  else
    write_ipv6(ip, static_cast<std::uint16_t>(length), wire::protocol_icmp6, error_hop_limit, from, to);
  const MutBytes message = frame->octets().subspan(ethernet_size + ip_size(kind));
  Writer m(message);
  m.u8(v4 ? icmp_unreachable : icmp6_unreachable);
  const auto code =
      std::find_if(std::begin(icmp_codes), std::end(icmp_codes), [why](const IcmpCode& c) { return c.why == why; });
  m.u8(v4 ? code->v4 : code->v6);
  m.be16(0);
  m.be32(0);
  m.bytes(said);
  InternetSum sum;
  if (v4)
    sum.add(message);
  else
    sum = sum_over(frame->octets().subspan(ethernet_size + 8, 32), wire::protocol_icmp6, message);
  put_sum(message, icmp_checksum_at, sum.checksum());
  return frame;
}

bool is_icmp6_error(ConstBytes message) { return !message.empty() && message.front() == icmp6_unreachable; }

const char* read_icmp(ConstBytes body, ConstBytes addresses, FrameIn& out) {
  const bool v4 = out.local == LocalKind::v4;
  Reader r(body);
  const std::uint8_t type = r.u8(), code = r.u8();
  r.skip(6);
  if (!r.ok()) return "ICMP header is cut";
  InternetSum sum;
  if (v4)
    sum.add(body);
  else
    sum = sum_over(addresses, wire::protocol_icmp6, body);
  if (!sum.right()) return v4 ? "bad ICMP checksum" : "bad ICMPv6 checksum";
  if (v4 && type != icmp_unreachable) return "ICMP type is not spoken";
  for (const IcmpCode& known : icmp_codes) {
    if (code != (v4 ? known.v4 : known.v6)) continue;
    out.undelivered.why = v4 ? known.v4_error : known.v6_error;
    return read_undelivered(body.subspan(icmp_size), out);
  }
  return "ICMP code is not spoken";
}

}  // namespace parley::sim
