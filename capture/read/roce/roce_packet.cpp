// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/read/roce/roce_packet.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::capture {
namespace {

constexpr std::size_t frame_max = 70'000;  // no IP packet is longer

/// An IPv4 or IPv6 fragment; for IPv4 also the first one.
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

RoceReader::Status RoceReader::read(const wire::PacketView& view, const wire::CapturedPacket& captured,
                                    RocePacket& out) {
  if (is_fragment(view.ethertype, view.network)) return Status::fragment;
  const std::size_t network_at = captured.octets.size() - view.network.size();
  const std::size_t on_wire = std::max<std::size_t>(captured.original_length, captured.octets.size());
  ConstBytes network = view.network;
  if (on_wire > captured.octets.size()) {
    if (on_wire > frame_max) return malformed(captured, network_at, "it is longer than an IP packet can be");
    network = filled(network, on_wire - network_at);
  }
  const auto parsed = wire::ib::RoceHeader::parse(view.ethertype, network);
  if (!parsed) {
    // The missing part of a cut packet may include the length fields.
    if (view.network.size() < network.size() && view.network.size() < wire::ipv6_header + 8) return Status::cut;
    if (parsed.error() == Errc::truncated)
      return malformed(captured, network_at, "the packet is shorter than its headers say");
    const std::string sentence = parsed.error().sentence();
    return malformed(captured, network_at,
                     sentence.empty() ? "the headers before the BTH are not those of RoCE" : sentence);
  }
  out = RocePacket{};
  out.network = parsed->header;
  out.bth_at = network_at + parsed->network.size();
  return read_transport(captured, parsed->network, parsed->packet, out);
}

}  // namespace parley::capture
