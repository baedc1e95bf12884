// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured RoCE packet, of version 1 or 2, with what is known of it: a snap length may have cut it.
#pragma once
#include <cstdint>

#include "capture/read/ib/transport_packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::capture {

struct RocePacket : TransportPacket {
  wire::ib::RoceHeader network;
  bool of_link =
      false;  ///< of InfiniBand's own links: `network` has the GIDs that stand for its LIDs, or those of its GRH
};

/// Reads packet after packet: of one that is cut it makes a whole one, which the next call overwrites.
class RoceReader : public TransportReader {
 public:
  /// `view` is of that frame, and carries RoCE.
  Status read(const wire::PacketView& view, const wire::CapturedPacket& captured, RocePacket& out);
};

}  // namespace parley::capture
