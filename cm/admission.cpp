// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/admission.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace parley::cm {
namespace {

constexpr std::size_t interface_id_at = 8;  // the network part of an IPv6 address (RFC 4291 §2.5.1)

}  // namespace

Admission::Admission(std::uint32_t max, std::uint32_t share) : max_(max), share_(share) { PARLEY_ASSERT(share < max); }

// All link-local addresses share one /64, so each link-local address counts as a separate network.
Address Admission::network_of(const Address& peer) {
  Address network = peer;
  network.port = 0;
  if (peer.family == Address::Family::v6 && !peer.is_link_local())
    std::fill(network.octets.begin() + interface_id_at, network.octets.end(), std::uint8_t{0});
  return network;
}

Admission::Entry* Admission::find(Ticket ticket) {
  if (!ticket || ticket.entry >= entries_.size()) return nullptr;
  Entry& entry = entries_[ticket.entry];
  return entry.used && entry.generation == ticket.generation ? &entry : nullptr;
}

Admission::Answer Admission::arrive(const Address& peer, Owner owner) {
  PARLEY_ASSERT(owner != 0);
  const Address network_address = network_of(peer);
  Address address = peer;
  address.port = 0;
  const auto known = networks_.find(network_address);
  Network* network = known == networks_.end() ? nullptr : &known->second;
  Answer answer;
  if (size_ >= (network == nullptr ? max_ : max_ - share_)) {
    Source* own = nullptr;
    if (network != nullptr)
      if (const auto at = network->sources.find(address); at != network->sources.end()) own = &at->second;
    Source* from = busiest(network, own);
    // Nothing to evict: held connections take every place, or all but the share.
    if (from == nullptr) return {};
    answer.gave_way = remove(from->first);
  }
  Network& in = networks_[network_address];
  Source& source = in.sources[address];
  source.address = address;
  source.network = &in;
  answer.ticket.entry = add(in, source, owner);
  answer.ticket.generation = entries_[answer.ticket.entry].generation;
  return answer;
}

// The newcomer counts too: its network and its address have one half-open connection more than their rank says.
Admission::Source* Admission::busiest(Network* newcomer_network, Source* newcomer) const {
  Network* network = ranking_.first();
  if (network == nullptr) return nullptr;
  if (newcomer_network != nullptr && newcomer_network->half_open == network->half_open) network = newcomer_network;
  Source* source = network->ranking.first();
  if (newcomer != nullptr && newcomer->network == network && newcomer->half_open == source->half_open)
    source = newcomer;
  return source;
}

Admission::Owner Admission::give_way() {
  const Source* from = busiest(nullptr, nullptr);
  return from == nullptr ? 0 : remove(from->first);
}

std::uint32_t Admission::add(Network& network, Source& source, Owner owner) {
  std::uint32_t at = 0;
  if (free_.empty()) {
    at = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
    free_.reserve(entries_.capacity());  // so that leave() needs no memory
  } else {
    at = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[at];
  if (++entry.generation == 0) ++entry.generation;
  entry.used = true;
  entry.held = false;
  entry.owner = owner;
  entry.source = &source;
  ++source.total;
  ++network.total;
  ++size_;
  append(at);
  return at;
}

void Admission::append(std::uint32_t at) {
  Entry& entry = entries_[at];
  Source& source = *entry.source;
  entry.since = ++clock_;
  entry.before = source.last;
  entry.after = nobody;
  (source.last == nobody ? source.first : entries_[source.last].after) = at;
  source.last = at;
  ++half_open_;
  ++source.half_open;
  ++source.network->half_open;
  rank(source);
}

void Admission::unlink(std::uint32_t at) {
  Entry& entry = entries_[at];
  Source& source = *entry.source;
  (entry.before == nobody ? source.first : entries_[entry.before].after) = entry.after;
  (entry.after == nobody ? source.last : entries_[entry.after].before) = entry.before;
  --half_open_;
  --source.half_open;
  --source.network->half_open;
  rank(source);
}

void Admission::rank(Source& source) {
  Network& network = *source.network;
  network.ranking.set(source, source.half_open, source.half_open == 0 ? 0 : entries_[source.first].since);
  const Source* first = network.ranking.first();
  ranking_.set(network, network.half_open, first == nullptr ? 0 : entries_[first->first].since);
}

void Admission::hold(Ticket ticket) {
  Entry* entry = find(ticket);
  if (entry == nullptr || entry->held) return;
  entry->held = true;
  unlink(ticket.entry);
}

void Admission::release(Ticket ticket) {
  Entry* entry = find(ticket);
  if (entry == nullptr || !entry->held) return;
  entry->held = false;
  append(ticket.entry);
}

void Admission::leave(Ticket ticket) {
  if (find(ticket) != nullptr) (void)remove(ticket.entry);
}

Admission::Owner Admission::remove(std::uint32_t at) {
  Entry& entry = entries_[at];
  if (!entry.held) unlink(at);
  Source& source = *entry.source;
  Network& network = *source.network;
  entry.used = false;
  free_.push_back(at);
  --size_;
  --network.total;
  if (--source.total == 0) {
    const Address address = source.address;
    if (network.total == 0)
      networks_.erase(network_of(address));
    else
      network.sources.erase(address);
  }
  return std::exchange(entry.owner, 0);
}

}  // namespace parley::cm
