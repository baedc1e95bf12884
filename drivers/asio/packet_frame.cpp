// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "drivers/asio/packet_frame.hpp"

#include <algorithm>
#include <array>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::asio_driver {

namespace {

std::array<std::uint8_t, 6> made_up_mac(bool own) { return {2, 0, 0, 0, 0, static_cast<std::uint8_t>(own ? 1 : 2)}; }

}  // namespace

Bytes frame_of(const PacketTapRecord& record) {
  wire::ib::RoceHeader header;
  header.source = gid_of(record.sent ? record.local : record.peer);
  header.destination = gid_of(record.sent ? record.peer : record.local);
  header.traffic_class = record.traffic_class;
  header.source_port = record.source_port;
  // The IPv4 identification of received packets is unknown, and the ICRC covers it: use the one that makes the ICRC
  // right.
  auto identification = wire::ib::identification_of(header, record.octets);
  if (!identification && header.is_ipv4()) {
    header.dont_fragment = false;
    identification = wire::ib::identification_of(header, record.octets);
    header.dont_fragment = !identification;
  }
  header.identification = identification.value_or(record.identification);
  Bytes frame(wire::ethernet_header + header.size() + record.octets.size());
  Writer w(frame);
  for (const bool source : {false, true}) w.bytes(made_up_mac(record.sent == source));
  w.be16(header.is_ipv4() ? wire::ethertype_ipv4 : wire::ethertype_ipv6);
  header.emit(MutBytes(frame).subspan(wire::ethernet_header), record.octets.size());
  std::copy(record.octets.begin(), record.octets.end(), frame.end() - std::ssize(record.octets));
  return frame;
}

}  // namespace parley::asio_driver
