// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Multicast groups of a RoCEv2 driver (IBA Annex A17: a multicast GID is the group's IP address). The machine calls the
// driver through this interface, in the reverse direction of PacketMachine, and gets the result at once.
#pragma once
#include "parley/address.hpp"
#include "parley/result.hpp"

namespace parley {

class PacketGroups {
 public:
  PacketGroups() = default;
  PacketGroups(const PacketGroups&) = delete;
  PacketGroups& operator=(const PacketGroups&) = delete;

  /// Receives datagrams to the group until leave(): PacketMachine::handle_packet() gets them with the group as
  /// PacketPath::local. Must not be called twice for a group before leave(). Errors: with a sentence.
  virtual Result<void> join(const Address& group) = 0;
  virtual void leave(const Address& group) noexcept = 0;

 protected:
  ~PacketGroups() = default;
};

}  // namespace parley
