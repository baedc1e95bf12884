// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Faults of one packet by itself, independent of its connection (IBA §9.2 to §9.4).
#pragma once
#include <string>
#include <vector>

#include "capture/read/ib/transport_packet.hpp"
#include "capture/rule.hpp"

namespace parley::capture {

struct PacketFault {
  Rule rule{};
  std::string text;  ///< follows "the initiator" or "the responder"
};

std::vector<PacketFault> faults_of(const TransportPacket& p);

}  // namespace parley::capture
