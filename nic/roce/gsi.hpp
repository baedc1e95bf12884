// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// QP1, the general services interface (IBA §13.5): management datagrams in and out.
#pragma once
#include "nic/roce/nic.hpp"

namespace parley::nic::roce {

class Gsi {
 public:
  explicit Gsi(Nic& nic) : nic_(nic), in_(queue_max), out_(queue_max) {}

  /// A packet to QP1 of the GID at `sgid_index`.
  void handle_packet(const PacketFrom& from, std::uint8_t sgid_index, const wire::ib::Packet& packet);
  bool poll(MadIn& mad);
  Result<void> send(const MadOut& mad);
  bool received() const { return !in_.empty(); }
  bool ready() const { return !out_.empty(); }
  void transmit(PacketTo& to, MutBytes out);

 private:
  static constexpr std::size_t queue_max = 1024;  // enough for a storm of requests, with at most 300 KB of memory in
                                                  // each direction

  Nic& nic_;
  GrowRing<MadIn> in_;
  GrowRing<MadOut> out_;
  std::uint32_t psn_ = 0;
};

}  // namespace parley::nic::roce
