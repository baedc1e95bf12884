// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The device behind the seam of base/packet_port.hpp: this side's addresses are the GIDs of its port, and packets go from
// address to address. A link-local address means something only within its link (RFC 4007 §4, §6), and a GID says nothing of links:
// where such an address is one of the two ends, this side's has a place in the table for each link, whose index goes along with packets
// both ways.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/packet_port.hpp"
#include "nic/roce/device.hpp"

namespace parley::nic::roce {

/// An address that comes with an interface. Those of IPv4 never do: RFC 4007 §4 is of IPv6.
inline bool is_scoped(const Address& address) {
  return address.family == Address::Family::v6 && address.is_link_local();
}

class Addresses {
 public:
  static constexpr std::size_t most = 256;
  struct Place {
    std::uint8_t index = 0;  ///< in the port's table of GIDs
    Address address{};       ///< with its scope, without a port
    std::uint32_t link = 0;  ///< the interface of packets from or to a link-local address; 0: they are neither
  };

  /// `device` stays the caller's, and outlives this.
  explicit Addresses(RoceDevice& device) : device_(device) {}
  /// Where an address of this host stands for packets to `peer` and from there, which comes there if it was not. None: the table is
  /// full.
  std::optional<std::uint8_t> add(const Address& local, const Address& peer);
  /// For peers that are not link-local, or on the link of `local`.
  std::optional<std::uint8_t> add(const Address& local) { return add(local, local); }
  /// Null: there is none.
  const Place* find(const Address& local, const Address& peer) const;
  const Place* at(std::uint8_t index) const { return index < places_.size() ? &places_[index] : nullptr; }
  /// The two ends of what came from `peer` to the address at `index`, which there is: with their scopes, without ports.
  std::pair<Address, Address> ends_at(std::uint8_t index, const Gid& peer) const;

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

  using Key = std::pair<Gid, std::uint32_t>;  // and Place::link
  static Key key_of(const Address& local, const Address& peer);

  RoceDevice& device_;
  std::vector<Place> places_;           // by index; at most `most`
  std::map<Key, std::uint8_t> by_key_;  // each place's
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
