// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "nic/roce/addresses.hpp"

#include "base/same_octets.hpp"

namespace parley::nic::roce {
namespace {

bool same_way(const PacketTo& a, const PacketTo& b) {
  return same_octets(a.source, b.source) && same_octets(a.destination, b.destination) && a.sgid_index == b.sgid_index &&
         a.source_port == b.source_port && a.traffic_class == b.traffic_class && a.hop_limit == b.hop_limit;
}

}  // namespace

Addresses::Key Addresses::key_of(const Address& local, const Address& peer) {
  return {gid_of(local), is_scoped(local) ? local.scope_id : is_scoped(peer) ? peer.scope_id : 0};
}

std::optional<std::uint8_t> Addresses::add(const Address& local, const Address& peer) {
  if (const GidEntry* there = find(local, peer)) return there->index;
  if (places_.size() >= most) return std::nullopt;
  const Key key = key_of(local, peer);
  GidEntry place{.index = static_cast<std::uint8_t>(places_.size()), .address = local, .link = key.second};
  place.address.port = 0;
  if (!device_.set_gid(place.index, key.first)) return std::nullopt;
  by_key_.emplace(key, place.index);
  places_.push_back(place);
  goes_.path = {};
  return place.index;
}

const Addresses::GidEntry* Addresses::find(const Address& local, const Address& peer) const {
  const auto found = by_key_.find(key_of(local, peer));
  return found == by_key_.end() ? nullptr : &places_[found->second];
}

std::pair<Address, Address> Addresses::ends_at(std::uint8_t index, const Gid& peer) const {
  const GidEntry& own = places_[index];
  Address from = address_of_gid(peer);
  if (is_scoped(from)) from.scope_id = own.link;
  return {own.address, from};
}

/// Stores the source in `came_`.
bool Addresses::know(const PacketPath& from) {
  if (from.way != 0 && from.way == came_.way) return true;
  came_.way = 0;
  const Gid destination = gid_of(from.local);
  came_.path.sgid_index.reset();
  if (!is_multicast(destination)) {  // a group's address belongs to no host
    came_.path.sgid_index = add(from.local, from.peer);
    if (!came_.path.sgid_index) return false;
  }
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

PacketPlacement Addresses::place_of(const PacketPath& from, std::size_t size, ConstBytes packets) {
  return know(from) ? device_.place_of(came_.path, size, packets) : PacketPlacement{};
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
    const GidEntry* own = at(path.sgid_index);
    ++goes_.to.way;
    goes_.to.local = own == nullptr ? address_of_gid(path.source) : own->address;
    goes_.to.peer = address_of_gid(path.destination);
    if (own != nullptr && is_scoped(goes_.to.peer)) goes_.to.peer.scope_id = own->link;
    goes_.to.source_port = path.source_port;
    goes_.to.traffic_class = path.traffic_class;
    goes_.to.hop_limit = path.hop_limit;
    goes_.path = path;
  }
  return goes_.to;
}

}  // namespace parley::nic::roce
