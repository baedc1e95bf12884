// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One captured RoCE packet, of version 1 or 2. A snap length may have cut it.
#pragma once
#include <cstdint>

#include "capture/read/ib/transport_packet.hpp"
#include "wire/ib/roce.hpp"
#include "wire/packet.hpp"

namespace parley::capture {

struct RocePacket : TransportPacket {
  wire::ib::RoceHeader network;
  bool of_link =
      false;  ///< from an InfiniBand link: `network` has the GIDs of the GRH, or GIDs that represent the LIDs
};

/// Reads packets one by one. It fills a cut packet with zeros up to its length; the next call overwrites that copy.
class RoceReader : public TransportReader {
 public:
  /// `view` must be the view of `captured` and carry RoCE.
  Status read(const wire::PacketView& view, const wire::CapturedPacket& captured, RocePacket& out);
};

}  // namespace parley::capture
