// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One RoCE queue pair, whose peer's packets the test writes by hand, and whose own it reads as octets.
#pragma once
#include <fmt/format.h>

#include "roce_link.hpp"

namespace parley::nic::roce::test {

/// Of a packet of a responder: what it is, and its PSN.
inline std::string answer_text(const wire::ib::Packet& packet) {
  const bool ack = wire::ib::operation_of(packet.bth.opcode) == Operation::acknowledge;
  const bool nak = (packet.aeth.syndrome & ~PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_SYNDROME_ACK;
  return fmt::format("{} {}", nak ? "NAK" : ack ? "ACK" : "data", packet.bth.psn);
}

/// Our queue pair b, whose peer is the test: PSN 100 is expected next, and 0x200 is sent first.
struct Solo : World {
  Buffer memory{*b.device, b.pd, 4096};
  Terms setup;

  explicit Solo(const Terms& given = {.psn_a = 100, .psn_b = 0x200}, wire::ib::DepartureSet play = {})
      : World(Side::options(1), playing(play)), setup(given) {
    connect(setup);
  }
  static DeviceOptions playing(wire::ib::DepartureSet play) {
    DeviceOptions out = Side::options(2);
    out.play = play;
    return out;
  }
  wire::ib::Packet packet(Operation operation, std::uint32_t psn, std::size_t length = 0) {
    wire::ib::Packet out;
    out.bth.opcode = wire::ib::opcode_of(wire::ib::Service::rc, operation);
    out.bth.dest_qpn = b.qp->qp_num();
    out.bth.psn = psn;
    out.bth.ack_req = true;
    out.payload = ConstBytes(filling).first(length);
    out.reth = {
        .va = memory.region.addr, .r_key = memory.region.rkey, .dma_length = static_cast<std::uint32_t>(length)};
    out.atomic = {.va = memory.region.addr, .r_key = memory.region.rkey, .swap_add = 1, .compare = 0};
    return out;
  }
  /// What b then sends, from the BTH to the pad, as hex: a packet a word.
  std::string octets() {
    std::array<std::uint8_t, packet_max> buffer;
    PacketTo to;
    std::string out;
    while (b.device->poll_transmit(now, to, buffer)) {
      if (!out.empty()) out += ' ';
      for (const std::uint8_t octet : ConstBytes(buffer).first(to.size)) out += fmt::format("{:02x}", octet);
    }
    return out;
  }
  /// The next packets that b sends, at most that many: opcode and PSN of each.
  std::string sends(std::size_t most = 1000) {
    std::array<std::uint8_t, packet_max> buffer;
    PacketTo to;
    std::string out;
    while (most-- > 0 && b.device->poll_transmit(now, to, buffer)) {
      const auto packet = wire::ib::Packet::parse(ConstBytes(buffer).first(to.size + PARLEY_IB_ICRC_LEN)).value();
      out += (out.empty() ? "" : ", ") + answer_text(packet);
    }
    return out.empty() ? "-" : out;
  }
  std::string answer(const wire::ib::Packet& packet) {
    inject(true, packet);
    return octets();
  }
  /// An Acknowledge with that syndrome.
  std::string ack(std::uint32_t psn, std::uint8_t syndrome, std::uint32_t msn = 0) const {
    return fmt::format("1100ffff00{:06x}00{:06x}{:02x}{:06x}", a.qp->qp_num(), psn, syndrome, msn);
  }
  Bytes filling = Bytes(4096, 0x7B);
};

}  // namespace parley::nic::roce::test
