// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mad/frame.hpp"

#include "base/bits.hpp"
#include "wire/ib/crc32.hpp"
#include "wire/mad/kind.hpp"

namespace parley::mad {

namespace {

constexpr std::size_t lrh_size = 8, grh_size = 40, bth_size = 12, deth_size = 8;
constexpr std::uint8_t ud_send_only = 0x64;
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

/// IBA §7.8.1: what changes on the way counts as ones.
std::uint32_t icrc(Bytes packet, bool has_grh) {
  packet[0] |= 0xF0;  // VL
  const std::size_t bth = lrh_size + (has_grh ? grh_size : 0);
  if (has_grh) {
    packet[lrh_size] |= 0x0F;  // traffic class and flow label
    packet[lrh_size + 1] = packet[lrh_size + 2] = packet[lrh_size + 3] = 0xFF;
    packet[lrh_size + 7] = 0xFF;  // hop limit
  }
  packet[bth + 4] = 0xFF;
  return wire::ib::crc32(0, packet);
}

void put_grh(MutBytes at, const LocalPort& local, const Grh& grh, std::size_t payload, bool out) {
  write_bits(at, 0, 4, 6);
  write_bits(at, 4, 8, grh.traffic_class);
  write_bits(at, 12, 20, grh.flow_label);
  write_bits(at, 32, 16, payload);
  write_bits(at, 48, 8, 0x1B);  // a BTH is next
  write_bits(at, 56, 8, grh.hop_limit);
  const Gid &source = out ? local.gid : grh.gid, &destination = out ? grh.gid : local.gid;
  std::copy(source.begin(), source.end(), at.begin() + 8);
  std::copy(destination.begin(), destination.end(), at.begin() + 24);
}

}  // namespace

Bytes frame_of(const LocalPort& local, const Address& other, ConstBytes mad, bool out) {
  using wire::mad::MgmtClass;
  const auto mgmt_class = static_cast<MgmtClass>(mad.size() > 1 ? mad[1] : 0);
  const bool directed = mgmt_class == MgmtClass::subn_directed, smp = directed || mgmt_class == MgmtClass::subn;
  const bool has_grh = other.grh && !smp;
  const std::size_t bth = lrh_size + (has_grh ? grh_size : 0), data = bth + bth_size + deth_size;
  Bytes packet(data + mad.size());
  const std::uint16_t own =
      directed && other.lid == PARLEY_MAD_PERMISSIVE_LID ? std::uint16_t{PARLEY_MAD_PERMISSIVE_LID} : local.lid;
  const std::uint32_t own_qpn = smp ? 0 : 1, other_qpn = smp ? 0 : other.qpn;
  write_bits(packet, 0, 4, smp ? management_lane : 0);
  write_bits(packet, 8, 4, other.sl);
  write_bits(packet, 14, 2, has_grh ? 3 : 2);
  write_bits(packet, 16, 16, out ? other.lid : own);
  write_bits(packet, 37, 11, (packet.size() + 4) / 4);  // in words, with the ICRC
  write_bits(packet, 48, 16, out ? own : other.lid);
  if (has_grh) put_grh(MutBytes(packet).subspan(lrh_size), local, *other.grh, packet.size() + 4 - bth, out);
  const MutBytes at = MutBytes(packet).subspan(bth);
  write_bits(at, 0, 8, ud_send_only);
  write_bits(at, 16, 16, other.pkey);
  write_bits(at, 40, 24, out ? other_qpn : own_qpn);
  write_bits(at, 96, 32, smp ? 0 : other.qkey);
  write_bits(at, 136, 24, out ? own_qpn : other_qpn);
  std::copy(mad.begin(), mad.end(), packet.begin() + static_cast<std::ptrdiff_t>(data));
  const std::uint32_t check = icrc(packet, has_grh);
  for (unsigned i = 0; i < 4; ++i) packet.push_back(static_cast<std::uint8_t>(check >> 8 * i));
  const std::uint16_t link_check = vcrc(packet);
  packet.push_back(static_cast<std::uint8_t>(link_check));
  packet.push_back(static_cast<std::uint8_t>(link_check >> 8));
  return packet;
}

Bytes erf_record(Instant at, ConstBytes frame) {
  constexpr std::size_t head = 16;
  constexpr std::uint8_t type_infiniband = 21, varying_length = 0x04;
  constexpr std::uint64_t second = 1'000'000'000;
  const auto ns = static_cast<std::uint64_t>(at.time_since_epoch().count());
  const std::uint64_t time = ns / second << 32 | (ns % second << 32) / second;  // 32 bits of a fraction of a second
  Bytes out(head + frame.size());
  for (unsigned i = 0; i < 8; ++i) out[i] = static_cast<std::uint8_t>(time >> 8 * i);
  out[8] = type_infiniband;
  out[9] = varying_length;
  write_bits(out, 80, 16, out.size());
  write_bits(out, 112, 16, frame.size());
  std::copy(frame.begin(), frame.end(), out.begin() + head);
  return out;
}

}  // namespace parley::mad
