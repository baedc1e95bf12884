// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/roce.hpp"

#include <algorithm>
#include <array>

#include "base/bytes_io.hpp"
#include "wire/ib/crc32.hpp"
#include "wire/ib/icrc_head.hpp"
#include "wire/ib/packet.hpp"
#include "wire/packet.hpp"

namespace parley::wire::ib {
namespace {

constexpr std::uint32_t udp_header = 8;
constexpr std::uint8_t protocol_udp = 17;
constexpr std::uint16_t dont_fragment_bit = 0x4000, fragment_bits = 0x3FFF;
constexpr std::size_t v4_in_gid = 12;

void put_v4(Writer& w, const Gid& gid) { w.bytes(ConstBytes(gid).subspan(v4_in_gid)); }

Gid v4_gid(ConstBytes address) {
  Gid out{};
  out[10] = out[11] = 0xFF;
  std::copy(address.begin(), address.end(), out.begin() + v4_in_gid);
  return out;
}

Gid gid_from(ConstBytes octets) {
  Gid out{};
  std::copy(octets.begin(), octets.end(), out.begin());
  return out;
}

Result<std::size_t> read_udp(Reader& r, RoceHeader& out) {
  out.source_port = r.be16();
  const std::uint16_t port = r.be16(), length = r.be16();
  out.udp_checksum = r.be16();
  if (!r.ok()) return fail(Errc::truncated);
  if (port != PARLEY_ROCE_UDP_PORT)
    return fail(Errc::unsupported, "a datagram to UDP port {a} is not RoCE, whose port is {b}", port,
                PARLEY_ROCE_UDP_PORT);
  if (length < udp_header) return fail(Errc::malformed, "a UDP datagram cannot have {a} octets", length);
  return std::size_t{length} - udp_header;
}

Result<std::size_t> read_ipv4(Reader& r, RoceHeader& out) {
  const std::uint8_t first = r.u8();
  out.traffic_class = r.u8();
  const std::uint16_t total = r.be16();
  out.identification = r.be16();
  const std::uint16_t fragment = r.be16();
  out.hop_limit = r.u8();
  const std::uint8_t protocol = r.u8();
  r.skip(2);  // header checksum
  const ConstBytes source = r.bytes(4), destination = r.bytes(4);
  if (!r.ok()) return fail(Errc::truncated);
  if (first != 0x45) return fail(Errc::unsupported, "RoCEv2 allows no IPv4 options (first octet {a})", first);
  if ((fragment & fragment_bits) != 0 || protocol != protocol_udp) return fail(Errc::unsupported);
  out.source = v4_gid(source);
  out.destination = v4_gid(destination);
  out.dont_fragment = (fragment & dont_fragment_bit) != 0;
  const auto payload = read_udp(r, out);
  if (payload && total != ipv4_header + udp_header + *payload)
    return fail(Errc::malformed, "the IPv4 length is {a} octets, the UDP length {b}", total,
                static_cast<std::int64_t>(ipv4_header + udp_header + *payload));
  return payload;
}

// A GRH is laid out as an IPv6 header (IBA §8.3).
Result<std::size_t> read_ipv6(Reader& r, RoceHeader& out) {
  const std::uint32_t first = r.be32();
  const std::uint16_t length = r.be16();
  const std::uint8_t next = r.u8();
  out.hop_limit = r.u8();
  out.source = gid_from(r.bytes(out.source.size()));
  out.destination = gid_from(r.bytes(out.destination.size()));
  if (!r.ok()) return fail(Errc::truncated);
  if (first >> 28 != 6) return fail(Errc::malformed, "the version is {a}, not 6", first >> 28);
  out.traffic_class = static_cast<std::uint8_t>(first >> 20);
  out.flow_label = first & 0xFFFFF;
  if (next != (out.v2 ? protocol_udp : PARLEY_ROCE_GRH_NEXT_HEADER)) return fail(Errc::unsupported);
  if (!out.v2) return length;
  const auto payload = read_udp(r, out);
  if (payload && length != udp_header + *payload)
    return fail(Errc::malformed, "the IPv6 length is {a} octets, the UDP length {b}", length,
                static_cast<std::int64_t>(udp_header + *payload));
  return payload;
}

}  // namespace

bool RoceHeader::is_ipv4() const { return v2 && is_v4_gid(source) && is_v4_gid(destination); }

std::size_t RoceHeader::size() const {
  if (!v2) return PARLEY_ROCE_GRH_LEN;
  return (is_ipv4() ? ipv4_header : ipv6_header) + udp_header;
}

Result<RoceHeader::Parsed> RoceHeader::parse(std::uint16_t ethertype, ConstBytes network) {
  Reader r(network);
  Parsed out;
  out.header.v2 = ethertype != PARLEY_ROCE_ETHERTYPE;
  if (out.header.v2 && ethertype != ethertype_ipv4 && ethertype != ethertype_ipv6)
    return fail(Errc::unsupported, "frames of type {a} do not carry RoCE", ethertype);
  const auto length = ethertype == ethertype_ipv4 ? read_ipv4(r, out.header) : read_ipv6(r, out.header);
  if (!length) return tl::unexpected(length.error());
  out.network = network.first(r.offset());
  out.packet = r.bytes(*length);
  if (!r.ok()) return fail(Errc::truncated);
  return out;
}

void RoceHeader::emit(MutBytes out, std::size_t packet_size) const {
  Writer w(out);
  const auto udp_length = static_cast<std::uint16_t>(udp_header + packet_size);
  if (is_ipv4()) {
    w.u8(0x45);
    w.u8(traffic_class);
    w.be16(static_cast<std::uint16_t>(ipv4_header + udp_length));
    w.be16(identification);
    w.be16(dont_fragment ? dont_fragment_bit : std::uint16_t{0});
    w.u8(hop_limit);
    w.u8(protocol_udp);
    w.be16(0);
    put_v4(w, source);
    put_v4(w, destination);
    const ConstBytes header = out.first(ipv4_header);
    Writer(out.subspan(10)).be16(internet_checksum({&header, 1}));
  } else {
    w.be32(6U << 28 | std::uint32_t{traffic_class} << 20 | (flow_label & 0xFFFFF));
    w.be16(v2 ? udp_length : static_cast<std::uint16_t>(packet_size));
    w.u8(v2 ? protocol_udp : std::uint8_t{PARLEY_ROCE_GRH_NEXT_HEADER});
    w.u8(hop_limit);
    w.bytes(source);
    w.bytes(destination);
  }
  if (!v2) return;
  w.be16(source_port);
  w.be16(PARLEY_ROCE_UDP_PORT);
  w.be16(udp_length);
  w.be16(udp_checksum);
}

namespace {

std::uint32_t icrc_under(const RoceHeader& header, ConstBytes packet) {
  std::array<std::uint8_t, ipv6_header + udp_header> network;
  const MutBytes head = MutBytes(network).first(header.size());
  header.emit(head, packet.size());
  return *icrc(head, packet.first(packet.size() - icrc_size));
}

std::uint32_t icrc_in(ConstBytes packet) { return Reader(packet.last(icrc_size)).le32(); }

}  // namespace

RoceHeader header_of_datagram(ConstBytes network) {
  const ConstBytes v4 = network.subspan(PARLEY_ROCE_GRH_LEN - ipv4_header);
  RoceHeader out;
  if (network[0] >> 4 != 6 || (v4[0] == 0x45 && internet_checksum({&v4, 1}) == 0)) {
    out.traffic_class = v4[1];
    out.source = v4_gid(v4.subspan(12, 4));
    out.destination = v4_gid(v4.subspan(16, 4));
    return out;
  }
  Reader r(network);
  const std::uint32_t first = r.be32();
  out.traffic_class = static_cast<std::uint8_t>(first >> 20);
  out.flow_label = first & 0xFFFFF;
  r.skip(4);
  out.source = gid_from(r.bytes(out.source.size()));
  out.destination = gid_from(r.bytes(out.destination.size()));
  return out;
}

void seal(const RoceHeader& header, MutBytes packet) {
  Writer(packet.last(icrc_size)).le32(icrc_under(header, packet));
}

bool is_sealed(const RoceHeader& header, ConstBytes packet) {
  return packet.size() >= sealed_min && icrc_under(header, packet) == icrc_in(packet);
}

std::optional<std::uint16_t> identification_of(RoceHeader header, ConstBytes packet) {
  if (packet.size() < sealed_min || !header.is_ipv4()) return std::nullopt;
  header.identification = 0;
  const std::size_t behind = header.size() - ipv4_identification_at + packet.size() - icrc_size;
  const std::uint32_t difference = icrc_under(header, packet) ^ icrc_in(packet);
  if (difference == 0) return std::uint16_t{0};
  // Only the two octets of the identification can differ: they are the low half of the cause.
  const std::uint32_t cause = crc32_cause(difference, behind);
  if (cause > 0xFFFF) return std::nullopt;
  return static_cast<std::uint16_t>(cause << 8 | cause >> 8);
}

std::uint16_t roce_source_port(std::uint32_t flow_label, std::uint32_t local_qpn, std::uint32_t remote_qpn) {
  flow_label &= 0xFFFFF;
  if (flow_label == 0) {
    std::uint64_t product = std::uint64_t{local_qpn} * remote_qpn;
    product ^= product >> 20;
    product ^= product >> 40;
    flow_label = static_cast<std::uint32_t>(product & 0xFFFFF);
  }
  return static_cast<std::uint16_t>(0xC000 | ((flow_label & 0x3FFF) ^ (flow_label >> 14 & 0x3F)));
}

}  // namespace parley::wire::ib
