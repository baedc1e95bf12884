// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/ib/transport_packet.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::capture {

std::string icrc_text(std::uint32_t icrc) {
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", icrc & 0xFF, icrc >> 8 & 0xFF, icrc >> 16 & 0xFF, icrc >> 24);
}

std::size_t TransportPacket::headers_size() const {
  return PARLEY_IB_BTH_LEN + wire::ib::size_of_headers(wire::ib::rule_of(packet.bth.opcode).headers);
}

ConstBytes TransportPacket::known_payload() const {
  const std::size_t begin = headers_size();
  return packet.payload.first(std::min(packet.payload.size(), known > begin ? known - begin : 0));
}

TransportReader::Status TransportReader::malformed(const wire::CapturedPacket& captured, std::size_t at,
                                                   std::string_view what) {
  why_ = fmt::format("frame {}, octet {}: {}", captured.frame, at, what);
  return Status::malformed;
}

ConstBytes TransportReader::filled(ConstBytes octets, std::size_t size) {
  filled_.assign(octets.begin(), octets.end());
  filled_.resize(size);
  return filled_;
}

TransportReader::Status TransportReader::read_transport(const wire::CapturedPacket& captured, ConstBytes network,
                                                        ConstBytes packet, TransportPacket& out) {
  out.frame = captured.frame;
  out.at = captured.at;
  out.wire_size = packet.size();
  const std::size_t captured_here = captured.octets.size() - std::min(captured.octets.size(), out.bth_at);
  out.known = std::min(out.wire_size, captured_here);
  if (out.wire_size < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN)
    return malformed(captured, out.bth_at,
                     fmt::format("{} octets have no room for a BTH and an ICRC, which take 16", out.wire_size));
  if (out.known < PARLEY_IB_BTH_LEN) return Status::cut;
  auto parsed = wire::ib::Packet::parse(packet);
  if (!parsed) {
    const auto bth = *wire::ib::Bth::parse(packet);
    const std::string sentence = parsed.error().sentence();
    return malformed(captured, out.bth_at,
                     fmt::format("{}: {}", wire::ib::opcode_text(bth.opcode),
                                 sentence.empty() ? "it ends before its headers do" : sentence));
  }
  out.packet = *parsed;
  if (out.whole()) {
    const auto due = wire::ib::icrc(network, packet.first(out.wire_size - PARLEY_IB_ICRC_LEN));
    if (due) out.icrc_due = *due;
  }
  return Status::packet;
}

}  // namespace parley::capture
