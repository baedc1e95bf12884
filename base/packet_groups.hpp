// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a driver of RoCEv2 does so that datagrams to a multicast group come here (IBA Annex A17: a multicast GID is the group's IP
// address). Beside PacketMachine and the other way round: who asks is told at once whether it can be.
#pragma once
#include "parley/address.hpp"
#include "parley/result.hpp"

namespace parley {

class PacketGroups {
 public:
  PacketGroups() = default;
  PacketGroups(const PacketGroups&) = delete;
  PacketGroups& operator=(const PacketGroups&) = delete;

  /// From now on what is sent to the group comes as PacketMachine::handle_packet() with the group as PacketPath::local. Asked for once
  /// until leave(). Errors: with a sentence.
  virtual Result<void> join(const Address& group) = 0;
  virtual void leave(const Address& group) noexcept = 0;

 protected:
  ~PacketGroups() = default;
};

}  // namespace parley
