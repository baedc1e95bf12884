// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoCEv2 frames as a host of the simulator sends them, made and read by wire/ib.
#pragma once
#include <fstream>
#include <functional>
#include <iterator>

#include "fault_kit.hpp"
#include "sim/fault/fault_roce.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/pcap.hpp"

namespace parley::sim::test {

struct RoceSender {
  bool ipv6 = false, udp_sum = false;
  bool reverse = false;  // from the other host

  wire::ib::RoceHeader header() const {
    wire::ib::RoceHeader h;
    h.source = gid_of(ipv6 ? *Address::parse("2001:db8::1") : Address::v4(10, 0, 0, 1, 0));
    h.destination = gid_of(ipv6 ? *Address::parse("2001:db8::2") : Address::v4(10, 0, 0, 2, 0));
    if (reverse) std::swap(h.source, h.destination);
    h.source_port = 0xC123;
    h.identification = 7;
    return h;
  }
  Bytes frame(const wire::ib::Packet& p) const {
    const wire::ib::RoceHeader h = header();
    Bytes packet(p.size());
    p.emit(packet);
    wire::ib::seal(h, packet);
    Bytes network(h.size());
    h.emit(network, packet.size());
    Bytes out{2,
              0,
              0,
              0,
              0,
              2,
              2,
              0,
              0,
              0,
              0,
              1,
              static_cast<std::uint8_t>(ipv6 ? 0x86 : 0x08),
              static_cast<std::uint8_t>(ipv6 ? 0xDD : 0x00)};
    out = out + network + packet;
    if (!udp_sum) return out;
    const std::size_t at = 14 + h.size() - 8;
    Writer(MutBytes(out).subspan(at + 6, 2)).be16(udp_checksum(out));
    return out;
  }
  /// 0 if the one in the frame is right.
  static std::uint16_t udp_checksum(ConstBytes frame) {
    const bool v6 = frame[12] == 0x86;
    const std::size_t at = v6 ? 54 : 34;
    Bytes pseudo(8);
    Writer w(pseudo);
    w.be32(static_cast<std::uint32_t>(frame.size() - at));
    w.be32(17);
    const ConstBytes pieces[] = {v6 ? frame.subspan(22, 32) : frame.subspan(26, 8), pseudo, frame.subspan(at)};
    return wire::internet_checksum(pieces);
  }
  Bytes packet(wire::ib::Service service, wire::ib::Operation operation, std::uint32_t psn = 1,
               std::uint8_t syndrome = 0x1F, ConstBytes payload = {}, std::uint32_t qpn = 0x11) const {
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(service, operation);
    p.bth.dest_qpn = qpn;
    p.bth.psn = psn;
    p.aeth = {syndrome, 3};
    p.reth = {0x1000, 0x77, static_cast<std::uint32_t>(payload.size())};
    p.payload = payload;
    return frame(p);
  }
  Bytes ack(std::uint32_t psn, std::uint8_t syndrome = 0x1F) const {
    return packet(wire::ib::Service::rc, wire::ib::Operation::acknowledge, psn, syndrome);
  }
  Bytes send(std::uint32_t psn) const {
    return packet(wire::ib::Service::rc, wire::ib::Operation::send_only, psn, 0, Bytes(9, 's'));
  }
  Bytes mad(ConstBytes octets) const {
    wire::ib::Packet p;
    p.bth.opcode = wire::ib::opcode_of(wire::ib::Service::ud, wire::ib::Operation::send_only);
    p.bth.dest_qpn = PARLEY_IB_GSI_QPN;
    p.bth.psn = 9;
    p.deth = {PARLEY_IB_GSI_Q_KEY, PARLEY_IB_GSI_QPN, 0};
    p.payload = octets;
    return frame(p);
  }
  Bytes cm(wire::ib::CmBody body, std::uint64_t transaction = 9) const {
    Bytes octets(PARLEY_IB_MAD_LEN);
    wire::ib::CmMessage{.transaction_id = transaction, .body = std::move(body)}.emit(octets);
    return mad(octets);
  }
};

/// What the frame carries, read without the code under test.
struct RoceFrame {
  wire::ib::RoceHeader header;
  wire::ib::Packet packet;
  bool sealed = false;
  std::optional<wire::ib::CmMessage> message;
};
inline std::optional<RoceFrame> read_roce(ConstBytes frame) {
  if (frame.size() < 14) return std::nullopt;
  Reader r(frame);
  r.skip(12);
  const std::uint16_t type = r.be16();
  const auto found = wire::ib::RoceHeader::parse(type, r.rest());
  if (!found) return std::nullopt;
  const auto packet = wire::ib::Packet::parse(found->packet);
  if (!packet) return std::nullopt;
  RoceFrame out{found->header, *packet, wire::ib::is_sealed(found->header, found->packet), {}};
  if (wire::ib::service_of(packet->bth.opcode) == wire::ib::Service::ud && packet->bth.dest_qpn == PARLEY_IB_GSI_QPN)
    if (auto message = wire::ib::CmMessage::parse(packet->payload)) out.message = std::move(*message);
  return out;
}

/// All that hold, but "roce_packet" and "cm_message": "roce_nak roce_nak_rnr".
inline std::string roce_kinds(ConstBytes frame) {
  const FrameLayout layout = lay_out(frame);
  std::string out;
  for (const LayerTable* layer : layers())
    for (const KindRow& row : layer->kinds) {
      if (!layout.kinds.has(row.kind) || row.kind == MessageKind::roce_packet || row.kind == MessageKind::cm_message)
        continue;
      if (!out.empty()) out += ' ';
      out += row.word;
    }
  return out;
}

inline std::vector<wire::ib::CmBody> one_of_each_message() {
  using namespace wire::ib;
  return {CmReq{}, CmMra{}, CmRej{}, CmRep{}, CmRtu{}, CmDreq{}, CmDrep{}, CmLap{}, CmApr{}, CmSidrReq{}, CmSidrRep{}};
}

/// The frames of a capture of tests/captures/roce.
inline std::vector<Bytes> captured(const std::string& name) {
  std::ifstream in(PARLEY_SOURCE_DIR "/tests/captures/roce/" + name + ".pcap", std::ios::binary);
  const Bytes file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  wire::PcapReader reader;
  ConstBytes window = file;
  wire::CapturedPacket packet;
  std::size_t consumed = 0;
  std::vector<Bytes> out;
  while (reader.next(window, packet, consumed) == wire::CaptureStatus::packet) {
    out.emplace_back(packet.octets.begin(), packet.octets.end());
    window = window.subspan(consumed);
  }
  return out;
}

}  // namespace parley::sim::test
