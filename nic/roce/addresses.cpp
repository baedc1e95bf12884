// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/addresses.hpp"

namespace parley::nic::roce {

std::optional<std::uint8_t> Addresses::add(const Address& local) {
  const Gid gid = gid_of(local);
  if (const Place* there = find(gid)) return there->index;
  if (places_.size() >= most) return std::nullopt;
  Place place{.index = static_cast<std::uint8_t>(places_.size()), .address = local};
  place.address.port = 0;
  if (!device_.set_gid(place.index, gid)) return std::nullopt;
  places_[gid] = place;
  return place.index;
}

const Addresses::Place* Addresses::find(const Gid& gid) const {
  const auto at = places_.find(gid);
  return at == places_.end() ? nullptr : &at->second;
}

void Addresses::handle_packet(Instant now, const PacketPath& from, ConstBytes packet) {
  if (!add(from.local)) return;
  PacketFrom path;
  path.source = gid_of(from.peer);
  path.destination = gid_of(from.local);
  path.traffic_class = from.traffic_class;
  path.hop_limit = from.hop_limit;
  device_.handle_packet(now, path, packet);
}

std::size_t Addresses::poll_packet(Instant now, PacketPath& to, MutBytes out) {
  PacketTo path;
  if (!device_.poll_transmit(now, path, out)) return 0;
  const Place* own = find(path.source);
  to.local = own == nullptr ? address_of_gid(path.source) : own->address;
  to.peer = address_of_gid(path.destination);
  if (to.peer.is_link_local()) to.peer.scope_id = to.local.scope_id;
  to.source_port = path.source_port;
  to.traffic_class = path.traffic_class;
  to.hop_limit = path.hop_limit;
  return path.size;
}

}  // namespace parley::nic::roce
