// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The device behind the seam of base/packet_port.hpp: this side's addresses are the GIDs of its port, and packets go from
// address to address.
#pragma once
#include <map>
#include <optional>

#include "base/packet_port.hpp"
#include "nic/roce/device.hpp"

namespace parley::nic::roce {

class Addresses {
 public:
  static constexpr std::size_t most = 256;
  struct Place {
    std::uint8_t index = 0;  ///< in the port's table of GIDs
    Address address{};       ///< with its scope, without a port
  };

  /// `device` stays the caller's, and outlives this.
  explicit Addresses(RoceDevice& device) : device_(device) {}
  /// Where an address of this host stands, which comes there if it was not. None: the table is full.
  std::optional<std::uint8_t> add(const Address& local);
  /// Null: none of this host's.
  const Place* find(const Gid& gid) const;

  /// To the device. What arrived at an address for which there is no place is dropped.
  void handle_packet(Instant now, const PacketPath& from, ConstBytes packet);
  /// PacketMachine::poll_packet() and poll_packets().
  std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out);
  PacketRun poll_packets(Instant now, std::size_t at_most, PacketPath& to, MutBytes out);
  /// PacketMachine::place_of() and handle_placed().
  PacketPlace place_of(const PacketPath& from, std::size_t size, ConstBytes packets);
  void handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets);

 private:
  bool know(const PacketPath& from);
  const PacketPath& path_to(const PacketTo& path);

  RoceDevice& device_;
  std::map<Gid, Place> places_;  // at most `most`
  // Of the last packet each way: the next is likely to go the same way.
  struct {
    std::uint64_t way = 0;  // PacketPath::way
    PacketFrom path{};
  } came_{};
  struct {
    PacketTo path{};
    PacketPath to{};
  } goes_{};
};

}  // namespace parley::nic::roce
