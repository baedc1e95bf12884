// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// FrameAnonymizer: RoCE. Fields that rules use stay: opcodes, QPNs, PSNs, lengths, syndromes, communication IDs and the
// fields of CM messages. Addresses and GIDs get the same pseudonyms as elsewhere. R_Keys, virtual addresses, Q_Keys,
// GUIDs, ports in service IDs, private data, payload and immediate data are replaced. A retransmission stays identical
// to the first packet.
#include <algorithm>
#include <type_traits>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "capture/anonymize/frame_parts.hpp"
#include "wire/ib/cm_fields.hpp"
#include "wire/ib/cma.hpp"
#include "wire/ib/packet.hpp"

namespace parley::capture {
namespace {

using wire::ib::CmMessage;

void mask_octets(const Keystream& keys, std::uint64_t at, MutBytes octets) {
  Bytes mask(octets.size());
  keys.fill(at, mask);
  std::transform(octets.begin(), octets.end(), mask.begin(), octets.begin(),
                 [](std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>(a ^ b); });
}

std::uint64_t mask_number(const Keystream& keys, std::uint64_t at, std::uint64_t number) {
  std::array<std::uint8_t, 8> octets{};
  Writer(octets).be64(number);
  mask_octets(keys, at, octets);
  return Reader(octets).be64();
}

/// The reserved bits of a MAD, which CmMessage does not hold.
Bytes reserved_bits_of(ConstBytes mad, const CmMessage& message) {
  Bytes out(PARLEY_IB_MAD_LEN);
  message.emit(out);
  std::transform(out.begin(), out.end(), mad.begin(), out.begin(),
                 [](std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>(a ^ b); });
  return out;
}

}  // namespace

struct FrameAnonymizer::RoceNames {
  Pseudonyms& names;
  bool keep_keys = false;
  Keystream keys{};

  Gid gid(const Gid& in) const { return names.v6(in); }
  std::uint32_t r_key(std::uint32_t in) const { return keep_keys ? in : names.stag(in); }
  std::uint64_t va(std::uint32_t key, std::uint64_t in) const { return keep_keys ? in : names.tagged_offset(key, in); }
  std::uint32_t q_key(std::uint32_t in) const { return in == PARLEY_IB_GSI_Q_KEY ? in : names.stag(in); }
  std::uint64_t guid(std::uint64_t in) const { return in == 0 ? 0 : names.identifier(in); }
  std::uint32_t flow_label(std::uint32_t in) const {
    return in == 0 ? 0 : static_cast<std::uint32_t>(names.identifier(in)) & 0xFFFFF;
  }
  std::uint64_t service(std::uint64_t in) const {
    const auto cma = wire::ib::cma_service_of(in);
    return cma ? wire::ib::service_id_of(cma->space, names.port(cma->port)) : names.identifier(in);
  }
  template <wire::ib::CmRole Role, class T>
  T field(const T& in) const {
    using wire::ib::CmRole;
    if constexpr (Role == CmRole::gid) return in == T{} ? in : gid(in);
    if constexpr (Role == CmRole::guid) return guid(in);
    if constexpr (Role == CmRole::flow_label) return flow_label(in);
    if constexpr (Role == CmRole::service) return service(in);
    if constexpr (Role == CmRole::q_key) return q_key(in);
    return in;
  }
  /// Rewrites the header of the RDMA IP CM service. An invalid header keeps only its versions, because a rule checks
  /// them. Returns the number of octets of private data that must not be masked.
  std::size_t cma_header(std::uint64_t service_id, MutBytes private_data) const {
    const auto cma = wire::ib::cma_service_of(service_id);
    if (!cma) return 0;
    constexpr std::size_t versions = 2;
    auto header = wire::ib::CmaHeader::parse(private_data);
    if (!header) return cma->space == wire::ib::PortSpace::ib ? 0 : versions;
    const bool tidy = (Reader(private_data.subspan(1)).u8() & 0x0F) == 0;
    if (!tidy) return versions;
    const std::uint16_t port = names.port(header->source.port);
    header->source.port = 0;
    header->source = names.address(header->source);
    header->destination = names.address(header->destination);
    header->source.port = port;
    header->emit(private_data);
    return PARLEY_CMA_HEADER_LEN;
  }
  template <class M>
  void body(M& m) const {
    using namespace wire::ib;
    std::size_t kept = 0;
    if constexpr (std::is_same_v<M, CmReq> || std::is_same_v<M, CmSidrReq>)
      kept = cma_header(m.service_id, m.private_data);
    Renamer renamer{*this};
    visit_fields(renamer, m);
    if constexpr (requires { m.info; }) mask_octets(keys, 4096, m.info);
    mask_octets(keys, kept, MutBytes(m.private_data).subspan(kept));
  }

 private:
  struct Renamer {  // replaces the fields that have a role in parley/wire/ibcm_fields.h
    const RoceNames& names;
    template <class Place, class T>
    void field(Place, T& value) {
      value = names.field<Place::role>(value);
    }
    template <class Place>
    void part(Place, std::uint32_t, unsigned) {}
    template <class Place, class T>
    void octets(Place, T&) {}
  };
};

/// Rewrites a CM MAD; a truncated one keeps its length. MADs of other classes become zeros.
void FrameAnonymizer::roce_mad(const RoceNames& names, ConstBytes in, MutBytes out) {
  const auto header = wire::ib::MadHeader::parse(in);
  if (!header || header->mgmt_class != PARLEY_IB_CLASS_CM) return;
  Bytes mad(PARLEY_IB_MAD_LEN);
  Writer(mad).bytes(in.first(std::min(in.size(), mad.size())));
  wire::ib::MadHeader right = *header;
  right.base_version = PARLEY_IB_MAD_BASE_VERSION;
  right.class_version = PARLEY_IB_CLASS_CM_VERSION;
  right.method = PARLEY_IB_MAD_METHOD_SEND;
  right.emit(mad);
  auto message = CmMessage::parse(mad);
  if (!message) return;
  const Bytes reserved = reserved_bits_of(mad, *message);
  std::visit([&](auto& m) { names.body(m); }, message->body);
  Bytes after(PARLEY_IB_MAD_LEN);
  message->emit(after);
  std::transform(after.begin(), after.end(), reserved.begin(), after.begin(),
                 [](std::uint8_t a, std::uint8_t b) { return static_cast<std::uint8_t>(a ^ b); });
  header->emit(after);
  Writer(out).bytes(ConstBytes(after).first(std::min(in.size(), after.size())));
}

// `network`, `network_after`: the old and new headers before the BTH. `wire_size`: octets from BTH to ICRC on the wire.
void FrameAnonymizer::roce(ConstBytes network, ConstBytes network_after, ConstBytes in, MutBytes out,
                           std::size_t wire_size, const Address& source, const Address& destination) {
  ++counts_.roce;
  constexpr std::size_t packet_max = 70'000;
  if (wire_size > packet_max || wire_size < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN) return;
  Bytes before(in.begin(), in.end());
  before.resize(wire_size);
  Bytes after(wire_size);
  Writer(after).bytes(ConstBytes(before).first(PARLEY_IB_BTH_LEN));
  const auto parsed = wire::ib::Packet::parse(before);
  if (!parsed) return Writer(out).bytes(ConstBytes(after).first(out.size()));  // a malformed packet stays malformed
  RoceNames names{names_, plan_.keep_stags()};
  wire::ib::Packet p = *parsed;
  names.keys = names_.stream(source, destination, p.bth.dest_qpn);
  const std::uint64_t at = std::uint64_t{p.bth.psn} << 16;
  p.reth.va = names.va(p.reth.r_key, p.reth.va);
  p.reth.r_key = names.r_key(p.reth.r_key);
  p.atomic.va = names.va(p.atomic.r_key, p.atomic.va);
  p.atomic.r_key = names.r_key(p.atomic.r_key);
  p.atomic.swap_add = mask_number(names.keys, at, p.atomic.swap_add);
  p.atomic.compare = mask_number(names.keys, at + 8, p.atomic.compare);
  p.atomic_original = mask_number(names.keys, at + 16, p.atomic_original);
  p.deth.q_key = names.q_key(p.deth.q_key);
  p.invalidate = names.r_key(p.invalidate);
  mask_octets(names.keys, at + 24, p.imm);
  p.payload = p.pad = {};
  const std::size_t headers = p.size() - PARLEY_IB_ICRC_LEN;
  Bytes head(p.size());
  p.emit(head);
  const ConstBytes extended = ConstBytes(head).subspan(PARLEY_IB_BTH_LEN, headers - PARLEY_IB_BTH_LEN);
  Writer(MutBytes(after).subspan(PARLEY_IB_BTH_LEN)).bytes(extended);
  const MutBytes payload = MutBytes(after).subspan(headers, parsed->payload.size());
  const bool gsi = p.bth.dest_qpn == PARLEY_IB_GSI_QPN && wire::ib::service_of(p.bth.opcode) == wire::ib::Service::ud;
  const std::size_t mad = std::min<std::size_t>(parsed->payload.size(), PARLEY_IB_MAD_LEN);
  if (gsi && mad >= PARLEY_IB_MAD_HEADER_LEN + sizeof(std::uint32_t) && in.size() >= headers + mad) {
    // Retransmissions of a CM message have different PSNs but the same octets, so the mask must not depend on the PSN.
    names.keys = names_.stream(source, destination, Reader(parsed->payload.subspan(PARLEY_IB_MAD_HEADER_LEN)).be32());
    roce_mad(names, parsed->payload, payload);
  } else if (!gsi) {
    Writer(payload).bytes(parsed->payload);
    mask_octets(names.keys, at + 64, payload);
  }
  // A rule checks that the pad is zero: a nonzero octet stays nonzero.
  std::transform(parsed->pad.begin(), parsed->pad.end(),
                 after.begin() + static_cast<std::ptrdiff_t>(headers + payload.size()),
                 [](std::uint8_t octet) { return static_cast<std::uint8_t>(octet == 0 ? 0 : 1); });
  if (in.size() == wire_size) {
    const std::size_t covered = wire_size - PARLEY_IB_ICRC_LEN;
    const auto due = wire::ib::icrc(network, ConstBytes(before).first(covered));
    const auto now = wire::ib::icrc(network_after, ConstBytes(after).first(covered));
    if (due && now)
      Writer(MutBytes(after).subspan(covered)).le32(*due == parsed->icrc ? *now : *now + names_.error32(parsed->icrc));
  }
  Writer(out).bytes(ConstBytes(after).first(out.size()));
}

void FrameAnonymizer::rocev2(const Internet& ip) {
  constexpr std::size_t udp_header = 8, udp_length_at = 4;
  if (ip.before.size() < udp_header || Reader(ip.before.subspan(udp_length_at)).be16() != ip.length) return;
  Bytes before(ip.header_before.begin(), ip.header_before.end());
  const ConstBytes udp = ip.before.first(udp_header);
  before.insert(before.end(), udp.begin(), udp.end());
  roce(before, ip.with_header_after.first(before.size()), ip.before.subspan(udp_header), ip.after.subspan(udp_header),
       ip.length - udp_header, ip.source, ip.destination);
}

// IBA Annex A16: a GRH, laid out as an IPv6 header, and the packet.
void FrameAnonymizer::rocev1(Cursor& c, std::size_t wire_length) {
  const ConstBytes head = c.rest_before();
  const MutBytes head_after = c.rest_after();
  const std::uint32_t first = Reader(c.drop(4)).be32(), label = first & 0xFFFFF;
  std::array<std::uint8_t, 4> flow{};
  Writer(flow).be32((first & 0xFFF00000) | (label == 0 ? 0 : names_.identifier(label) & 0xFFFFF));
  c.put(flow);
  const std::size_t length = c.keep(2);
  c.keep(2);
  Address source, destination;
  source.family = destination.family = Address::Family::v6;
  for (Address* address : {&source, &destination}) {
    const ConstBytes octets = c.rest_before().first(std::min<std::size_t>(16, c.left()));
    std::copy(octets.begin(), octets.end(), address->octets.begin());
    gid(c);
  }
  if (!c.ok() || length + PARLEY_ROCE_GRH_LEN > wire_length) return;
  const std::size_t captured = std::min(length, c.left());
  roce(head.first(PARLEY_ROCE_GRH_LEN), head_after.first(PARLEY_ROCE_GRH_LEN), c.rest_before().first(captured),
       c.rest_after().first(captured), length, source, destination);
}

/// Rewrites a GID: an IPv6 address, or an IPv4-mapped one.
void FrameAnonymizer::gid(Cursor& c) {
  wire::Ip6 ip{};
  const ConstBytes octets = c.rest_before().first(std::min(ip.size(), c.left()));
  std::copy(octets.begin(), octets.end(), ip.begin());
  if (!is_v4_gid(ip)) return v6(c);
  c.keep(12);
  v4(c);
}

}  // namespace parley::capture
