// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Back-pressure of a RoCEv2 driver for unreliable services (UC, UD), which never retransmit. A lossless fabric pauses a
// sender whose receiver has no room (IEEE 802.1Qbb). The machine calls the driver through this interface.
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

  /// When the machine may send to `peer`, or should ask again. If that is `now` or earlier, it may send run_max packets
  /// at once.
  virtual Instant may_send(Instant now, const Gid& peer) = 0;
  /// Reports that `count` packets of `size` octets each were sent.
  virtual void sent(const Gid& peer, std::size_t count, std::size_t size) noexcept = 0;

  static constexpr std::size_t run_max = 16;

 protected:
  ~PacketPace() = default;
};

}  // namespace parley
