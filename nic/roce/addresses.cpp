// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/addresses.hpp"

#include "base/same_octets.hpp"

namespace parley::nic::roce {
namespace {

bool same_way(const PacketTo& a, const PacketTo& b) {
  return same_octets(a.source, b.source) && same_octets(a.destination, b.destination) &&
         a.source_port == b.source_port && a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
}

}  // namespace

std::optional<std::uint8_t> Addresses::add(const Address& local) {
  const Gid gid = gid_of(local);
  if (const Place* there = find(gid)) return there->index;
  if (places_.size() >= most) return std::nullopt;
  Place place{.index = static_cast<std::uint8_t>(places_.size()), .address = local};
  place.address.port = 0;
  if (!device_.set_gid(place.index, gid)) return std::nullopt;
  places_[gid] = place;
  goes_.path = {};
  return place.index;
}

const Addresses::Place* Addresses::find(const Gid& gid) const {
  const auto at = places_.find(gid);
  return at == places_.end() ? nullptr : &at->second;
}

/// Where it came from goes to `came_`.
bool Addresses::know(const PacketPath& from) {
  if (from.way != 0 && from.way == came_.way) return true;
  came_.way = 0;
  const Gid destination = gid_of(from.local);
  if (!is_multicast(destination) && !add(from.local)) return false;  // a group's address is nobody's
  came_.way = from.way;
  came_.path.source = gid_of(from.peer);
  came_.path.destination = destination;
  came_.path.traffic_class = from.traffic_class;
  came_.path.hop_limit = from.hop_limit;
  return true;
}

void Addresses::handle_packet(Instant now, const PacketPath& from, ConstBytes packet) {
  if (know(from)) device_.handle_packet(now, came_.path, packet);
}

PacketPlace Addresses::place_of(const PacketPath& from, std::size_t size, ConstBytes packets) {
  return know(from) ? device_.place_of(came_.path, size, packets) : PacketPlace{};
}

void Addresses::handle_placed(Instant now, const PacketPath& from, std::size_t size, ConstBytes packets) {
  if (know(from)) device_.handle_placed(now, came_.path, size, packets);
}

std::size_t Addresses::poll_packet(Instant now, PacketPath& to, MutBytes out) {
  PacketTo path;
  if (!device_.poll_transmit(now, path, out)) return 0;
  to = path_to(path);
  return path.size;
}

PacketRun Addresses::poll_packets(Instant now, std::size_t at_most, PacketPath& to, MutBytes out) {
  PacketTo path;
  const PacketRun run = device_.poll_run(now, at_most, path, out);
  if (run.count != 0) to = path_to(path);
  return run;
}

const PacketPath& Addresses::path_to(const PacketTo& path) {
  if (!same_way(path, goes_.path)) {
    const Place* own = find(path.source);
    ++goes_.to.way;
    goes_.to.local = own == nullptr ? address_of_gid(path.source) : own->address;
    goes_.to.peer = address_of_gid(path.destination);
    if (goes_.to.peer.is_link_local()) goes_.to.peer.scope_id = goes_.to.local.scope_id;
    goes_.to.source_port = path.source_port;
    goes_.to.traffic_class = path.traffic_class;
    goes_.to.hop_limit = path.hop_limit;
    goes_.path = path;
  }
  return goes_.to;
}

}  // namespace parley::nic::roce
