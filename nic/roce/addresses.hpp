// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Connects the device to base/packet_port.hpp: this side's addresses are the GIDs of its port, and packets go from
// address to address. A link-local address is only unique within its link (RFC 4007 §4, §6), and a GID does not
// identify links. If one of the two ends is such an address, this side's address therefore has a place in the table for
// each link, and the index of that place accompanies packets in both directions.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/packet_port.hpp"
#include "nic/roce/device.hpp"

namespace parley::nic::roce {

/// An address with an interface. IPv4 addresses have none: RFC 4007 §4 is about IPv6.
inline bool is_scoped(const Address& address) {
  return address.family == Address::Family::v6 && address.is_link_local();
}

class Addresses {
 public:
  static constexpr std::size_t most = 256;
  struct GidEntry {
    std::uint8_t index = 0;  ///< in the port's table of GIDs
    Address address{};       ///< with its scope, without a port
    std::uint32_t link = 0;  ///< the interface for packets from or to a link-local address; 0: neither is link-local
  };

  /// `device` is not owned, and must outlive this.
  explicit Addresses(RoceDevice& device) : device_(device) {}
  /// The place of a local address for packets to and from `peer`, added if necessary. None: the table is full.
  std::optional<std::uint8_t> add(const Address& local, const Address& peer);
  /// For peers that are not link-local, or are on the link of `local`.
  std::optional<std::uint8_t> add(const Address& local) { return add(local, local); }
  /// Null: there is none.
  const GidEntry* find(const Address& local, const Address& peer) const;
  const GidEntry* at(std::uint8_t index) const { return index < places_.size() ? &places_[index] : nullptr; }
  /// The two ends of a packet from `peer` to the address at `index`, which must exist: with their scopes, without
  /// ports.
  std::pair<Address, Address> ends_at(std::uint8_t index, const Gid& peer) const;

  /// Passes a packet to the device. A packet to an address without a place is dropped.
  void handle_packet(Instant now, const PacketPath& from, ConstBytes packet);
  /// PacketMachine::poll_packet() and poll_packets().
  std::size_t poll_packet(Instant now, PacketPath& to, MutBytes out);
  PacketRun poll_packets(Instant now, std::size_t at_most, PacketPath& to, MutBytes out);
  /// PacketMachine::place_of() and handle_placed().
  PacketPlacement place_of(const PacketPath& from, std::size_t size, ConstBytes packets);
  void handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets);

 private:
  bool know(const PacketPath& from);
  const PacketPath& path_to(const PacketTo& path);

  using Key = std::pair<Gid, std::uint32_t>;  // the latter: GidEntry::link
  static Key key_of(const Address& local, const Address& peer);

  RoceDevice& device_;
  std::vector<GidEntry> places_;        // by index; at most `most`
  std::map<Key, std::uint8_t> by_key_;  // the index of each place
  // The last packet in each direction: the next one probably takes the same path.
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
