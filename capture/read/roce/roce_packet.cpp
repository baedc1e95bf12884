// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/roce/roce_packet.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t frame_max = 70'000;  // no IP packet is longer

/// An IPv4 packet that is a fragment, or the first of several.
bool is_fragment(std::uint16_t ethertype, ConstBytes network) {
  Reader r(network);
  if (ethertype == wire::ethertype_ipv4) {
    r.skip(6);
    return (r.be16() & 0x3FFF) != 0;
  }
  constexpr std::uint8_t fragment_header = 44;
  r.skip(6);
  return ethertype == wire::ethertype_ipv6 && r.u8() == fragment_header;
}

}  // namespace

std::string icrc_text(std::uint32_t icrc) {
  return fmt::format("{:02x}{:02x}{:02x}{:02x}", icrc & 0xFF, icrc >> 8 & 0xFF, icrc >> 16 & 0xFF, icrc >> 24);
}

std::size_t RocePacket::headers_size() const {
  return PARLEY_IB_BTH_LEN + wire::ib::size_of_headers(wire::ib::rule_of(packet.bth.opcode).headers);
}

ConstBytes RocePacket::known_payload() const {
  const std::size_t begin = headers_size();
  return packet.payload.first(std::min(packet.payload.size(), known > begin ? known - begin : 0));
}

RoceReader::Status RoceReader::malformed(const wire::CapturedPacket& captured, std::size_t at, std::string_view what) {
  why_ = fmt::format("frame {}, octet {}: {}", captured.frame, at, what);
  return Status::malformed;
}

RoceReader::Status RoceReader::read(const wire::PacketView& view, const wire::CapturedPacket& captured,
                                    RocePacket& out) {
  if (is_fragment(view.ethertype, view.network)) return Status::fragment;
  const std::size_t network_at = captured.octets.size() - view.network.size();
  const std::size_t on_wire = std::max<std::size_t>(captured.original_length, captured.octets.size());
  ConstBytes network = view.network;
  if (on_wire > captured.octets.size()) {
    if (on_wire > frame_max) return malformed(captured, network_at, "it is longer than an IP packet can be");
    filled_.assign(network.begin(), network.end());
    filled_.resize(on_wire - network_at);
    network = filled_;
  }
  const auto parsed = wire::ib::RoceHeader::parse(view.ethertype, network);
  if (!parsed) {
    // Of a cut packet the lengths may be among what is missing.
    if (view.network.size() < network.size() && view.network.size() < wire::ipv6_header + 8) return Status::cut;
    const std::string sentence = parsed.error().sentence();
    return malformed(captured, network_at,
                     sentence.empty() ? "the headers before the BTH are not those of RoCE" : sentence);
  }
  out = RocePacket{};
  out.frame = captured.frame;
  out.at = captured.at;
  out.network = parsed->header;
  out.bth_at = network_at + parsed->network.size();
  out.wire_size = parsed->packet.size();
  const std::size_t captured_here = captured.octets.size() - std::min(captured.octets.size(), out.bth_at);
  out.known = std::min(out.wire_size, captured_here);
  if (out.wire_size < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN)
    return malformed(captured, out.bth_at,
                     fmt::format("{} octets have no room for a BTH and an ICRC, which take 16", out.wire_size));
  if (out.known < PARLEY_IB_BTH_LEN) return Status::cut;
  auto packet = wire::ib::Packet::parse(parsed->packet);
  if (!packet) {
    const auto bth = *wire::ib::Bth::parse(parsed->packet);
    const std::string sentence = packet.error().sentence();
    return malformed(captured, out.bth_at,
                     fmt::format("{}: {}", wire::ib::opcode_text(bth.opcode),
                                 sentence.empty() ? "it ends before its headers do" : sentence));
  }
  out.packet = *packet;
  if (out.whole()) {
    const auto due = wire::ib::icrc(parsed->network, parsed->packet.first(out.wire_size - PARLEY_IB_ICRC_LEN));
    if (due) out.icrc_due = *due;
  }
  return Status::packet;
}

}  // namespace parley::capture
