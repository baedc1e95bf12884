// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Back-pressure of a RoCEv2 driver on unreliable services (UC, UD), which repeat nothing: a lossless fabric pauses a sender whose
// receiver has no room (IEEE 802.1Qbb). The machine calls the driver through this interface.
#pragma once
#include <cstddef>

#include "base/gid.hpp"
#include "parley/time.hpp"

namespace parley {

class PacketPace {
 public:
  PacketPace() = default;
  PacketPace(const PacketPace&) = delete;
  PacketPace& operator=(const PacketPace&) = delete;

  /// When packets may be sent to `peer`, or the driver is to be asked again. `now` or earlier: now, run_max packets.
  virtual Instant may_send(Instant now, const Gid& peer) = 0;
  /// So many were, of `size` octets each.
  virtual void sent(const Gid& peer, std::size_t count, std::size_t size) noexcept = 0;

  static constexpr std::size_t run_max = 16;

 protected:
  ~PacketPace() = default;
};

}  // namespace parley
