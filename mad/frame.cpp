// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/frame.hpp"

#include "base/bits.hpp"
#include "base/bytes_io.hpp"
#include "wire/ib/packet.hpp"
#include "wire/mad/kind.hpp"
#include "wire/mad/rpc.hpp"

namespace parley::mad {

namespace {

constexpr std::size_t lrh_size = 8, vcrc_size = 2;
constexpr std::uint8_t management_lane = 15;  // of SMPs (IBA §7.6.3)

/// IBA §7.8.2: x^16 + x^12 + x^3 + x + 1, least significant bit first, from all ones.
std::uint16_t vcrc(ConstBytes packet) {
  std::uint16_t crc = 0xFFFF;
  for (const std::uint8_t octet : packet) {
    crc ^= octet;
    for (int bit = 0; bit < 8; ++bit) crc = static_cast<std::uint16_t>((crc & 1) != 0 ? (crc >> 1) ^ 0xD008 : crc >> 1);
  }
  return static_cast<std::uint16_t>(~crc);
}

void put_grh(MutBytes at, const LocalPort& local, const Grh& grh, std::size_t payload, bool out) {
  write_bits(at, 0, 4, 6);
  write_bits(at, 4, 8, grh.traffic_class);
  write_bits(at, 12, 20, grh.flow_label);
  write_bits(at, 32, 16, payload);
  write_bits(at, 48, 8, PARLEY_ROCE_GRH_NEXT_HEADER);
  write_bits(at, 56, 8, grh.hop_limit);
  const Gid &source = out ? local.gid : grh.gid, &destination = out ? grh.gid : local.gid;
  std::copy(source.begin(), source.end(), at.begin() + 8);
  std::copy(destination.begin(), destination.end(), at.begin() + 24);
}

}  // namespace

Bytes frame_of(const LocalPort& local, const Address& other, ConstBytes mad, bool out) {
  using wire::mad::MgmtClass;
  const auto mgmt_class = static_cast<MgmtClass>(mad.size() > 1 ? mad[1] : 0);
  const bool directed = mgmt_class == MgmtClass::subn_directed,
             smp = wire::mad::is_smp(static_cast<std::uint8_t>(mgmt_class));
  const bool has_grh = other.grh && !smp;
  const std::size_t bth = lrh_size + (has_grh ? PARLEY_ROCE_GRH_LEN : 0);
  const std::uint16_t own =
      directed && other.lid == PARLEY_MAD_PERMISSIVE_LID ? std::uint16_t{PARLEY_MAD_PERMISSIVE_LID} : local.lid;
  const std::uint32_t own_qpn = smp ? 0 : 1, other_qpn = smp ? 0 : other.qpn;
  wire::ib::Packet transport;
  transport.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
  transport.bth.p_key = other.pkey;
  transport.bth.dest_qpn = out ? other_qpn : own_qpn;
  transport.deth = {.q_key = smp ? 0 : other.qkey, .source_qpn = out ? own_qpn : other_qpn};
  transport.payload = mad;
  Bytes packet(bth + transport.size() + vcrc_size);
  const std::size_t in_link = packet.size() - vcrc_size;  // up to the ICRC's end
  write_bits(packet, 0, 4, smp ? management_lane : 0);
  write_bits(packet, 8, 4, other.sl);
  write_bits(packet, 14, 2, has_grh ? 3 : 2);
  write_bits(packet, 16, 16, out ? other.lid : own);
  write_bits(packet, 37, 11, in_link / 4);  // in words
  write_bits(packet, 48, 16, out ? own : other.lid);
  if (has_grh) put_grh(MutBytes(packet).subspan(lrh_size), local, *other.grh, transport.size(), out);
  transport.emit(MutBytes(packet).subspan(bth));
  // With a GRH the packet may leave the subnet, and the LRH is not covered (IBA §7.8.1).
  const ConstBytes covered = ConstBytes(packet).first(in_link - PARLEY_IB_ICRC_LEN);
  const ConstBytes network = has_grh ? covered.subspan(lrh_size, PARLEY_ROCE_GRH_LEN) : covered.first(lrh_size);
  Writer checks(MutBytes(packet).subspan(in_link - PARLEY_IB_ICRC_LEN));
  checks.le32(*wire::ib::icrc(network, covered.subspan(bth)));
  checks.le16(vcrc(ConstBytes(packet).first(in_link)));
  return packet;
}

Bytes erf_record(Instant at, ConstBytes frame) {
  constexpr std::size_t head = 16;
  constexpr std::uint8_t type_infiniband = 21, varying_length = 0x04;
  constexpr std::uint64_t second = 1'000'000'000;
  const auto ns = static_cast<std::uint64_t>(at.time_since_epoch().count());
  const std::uint64_t time = ns / second << 32 | (ns % second << 32) / second;  // 32 bits of a fraction of a second
  Bytes out(head + frame.size());
  Writer w(out);
  w.le64(time);
  w.u8(type_infiniband);
  w.u8(varying_length);
  w.be16(static_cast<std::uint16_t>(out.size()));
  w.zeros(2);  // losses
  w.be16(static_cast<std::uint16_t>(frame.size()));
  w.bytes(frame);
  return out;
}

}  // namespace parley::mad
