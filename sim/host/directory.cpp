// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/host/directory.hpp"

namespace parley::sim {

std::uint32_t NeighbourDirectory::slot_of(const Address& address) const {
  return index_.find(hash_of_address(address.octets, 0), [&](std::uint32_t slot) {
    return entries_[slot].family == address.family && entries_[slot].octets == address.octets;
  });
}

void NeighbourDirectory::add(const Address& address, const wire::Mac& mac) {
  if (slot_of(address) != SlotIndex::none) return;
  index_.insert(hash_of_address(address.octets, 0), static_cast<std::uint32_t>(entries_.size()));
  entries_.push_back({address.octets, mac, address.family});
}

std::optional<wire::Mac> NeighbourDirectory::find(const Address& address) const {
  const std::uint32_t slot = slot_of(address);
  return slot == SlotIndex::none ? std::nullopt : std::optional(entries_[slot].mac);
}

}  // namespace parley::sim
