// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/rules/roce/packet_faults.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {
namespace {

void judge_pad(const TransportPacket& p, std::vector<PacketFault>& out) {
  const wire::ib::Packet& k = p.packet;
  if ((k.payload.size() + k.pad.size()) % 4 != 0)
    // IBA §9.4: payload and pad together are a multiple of 4 octets.
    out.push_back({Rule::ib_pad, fmt::format("'s packet has {} of payload and {} of pad",
                                             counted(k.payload.size(), "octet"), k.pad.size())});
  else if (p.whole() && std::any_of(k.pad.begin(), k.pad.end(), [](std::uint8_t octet) { return octet != 0; }))
    out.push_back({Rule::ib_pad_octets, "'s pad is not of zeros"});
}

std::string reserved_text(const wire::ib::Bth& b) {
  std::string out = "'s BTH has reserved bits set";
  const bool hns = b.reserved6 == wire::ib::bth_bit_of_hns && b.reserved7 == 0 && !wire::ib::rule_of(b.opcode).response;
  if (hns) out += fmt::format(", as hns does (quirk {})", facts_of(wire::ib::Departure::sets_reserved_bit).name);
  return out;
}

}  // namespace

std::vector<PacketFault> faults_of(const TransportPacket& p) {
  std::vector<PacketFault> out;
  const wire::ib::Bth& b = p.packet.bth;
  if (b.tver != 0)
    out.push_back({Rule::ib_tver, fmt::format(" sent a packet of transport version {}; there is only 0", b.tver)});
  if (b.reserved6 != 0 || b.reserved7 != 0) out.push_back({Rule::ib_reserved, reserved_text(b)});
  const auto headers = p.headers_known() ? wire::ib::rule_of(b.opcode).headers : 0;
  const bool deth = (headers & PARLEY_IB_DETH) != 0 && p.packet.deth.reserved != 0;
  if (deth || ((headers & PARLEY_IB_XRCETH) != 0 && p.packet.xrceth.reserved != 0))
    out.push_back({Rule::ib_eth_reserved, fmt::format("'s {} has reserved bits set", deth ? "DETH" : "XRCETH")});
  judge_pad(p, out);
  return out;
}

}  // namespace parley::capture
