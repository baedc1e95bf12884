// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What one packet shows, whatever came before it and whose ever it is (IBA §9.2 to §9.4).
#pragma once
#include <string>
#include <vector>

#include "capture/read/ib/transport_packet.hpp"
#include "capture/rule.hpp"

namespace parley::capture {

struct PacketFault {
  Rule rule{};
  std::string text;  ///< goes on after "the initiator" or "the responder"
};

std::vector<PacketFault> faults_of(const TransportPacket& p);

}  // namespace parley::capture
