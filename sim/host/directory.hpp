// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The MAC addresses of all hosts of one segment, by IP address: what Neighbours::known gives to each of these hosts.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "parley/address.hpp"
#include "sim/host/stack_index.hpp"
#include "wire/neighbour.hpp"

namespace parley::sim {

class NeighbourDirectory {
 public:
  /// The port and scope of an address are ignored, here and below. The first MAC address of an IP address is kept.
  void add(const Address& address, const wire::Mac& mac);
  std::optional<wire::Mac> find(const Address& address) const;

 private:
  struct Entry {
    std::array<std::uint8_t, 16> octets{};
    wire::Mac mac{};
    Address::Family family = Address::Family::v4;
  };
  std::uint32_t slot_of(const Address& address) const;

  std::vector<Entry> entries_;
  SlotIndex index_;
};

}  // namespace parley::sim
