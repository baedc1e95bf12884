// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/host/stack.hpp"

#include <memory>

namespace parley::sim {

Stack::Stack(Rng& rng) : port_secret_(rng.next()) {}

std::uint32_t Stack::hash_of(const ConnectionKey& key) {
  const std::uint64_t rest = std::uint64_t{key.local_port} << 48 | std::uint64_t{key.peer_port} << 32 |
                             std::uint64_t{key.port} << 8 | static_cast<std::uint64_t>(key.kind);
  return hash_of_address(key.peer, rest);
}

std::uint32_t Stack::find(const ConnectionKey& key) const {
  return keys_.find(hash_of(key), [&](std::uint32_t slot) { return connections_[slot].key == key; });
}

std::uint32_t Stack::find_stream(StreamId stream) const {
  return streams_.find(hash_of(stream), [&](std::uint32_t slot) { return connections_[slot].stream == stream; });
}

bool Stack::make_room() {
  while (!time_waits_.empty()) {
    const ConnectionRef oldest = time_waits_.front();
    time_waits_.pop_front();
    const TcpConnection* c = get(oldest);
    if (c == nullptr) continue;
    remove(oldest.slot);
    return true;
  }
  return false;
}

std::uint32_t Stack::add(const ConnectionKey& key) {
  if (keys_.size() >= connections_max && !make_room()) return SlotIndex::none;
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(connections_.size());
    connections_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  connections_[slot].key = key;
  keys_.insert(hash_of(key), slot);
  return slot;
}

void Stack::name(std::uint32_t slot, StreamId stream) {
  connections_[slot].stream = stream;
  streams_.insert(hash_of(stream), slot);
}

void Stack::unname(std::uint32_t slot) {
  TcpConnection& c = connections_[slot];
  if (c.stream == 0) return;
  streams_.erase(hash_of(c.stream), slot);
  c.stream = 0;
}

void Stack::remove(std::uint32_t slot) {
  TcpConnection& c = connections_[slot];
  unname(slot);
  keys_.erase(hash_of(c.key), slot);
  std::erase_if(exhausted_, [&c](const ConnectionKey& key) { return same_destination(key, c.key); });
  const std::uint32_t generation = c.generation + 1;
  // Its entries in the host's list remain, and are skipped there.
  const bool dirty = c.dirty;
  const Instant armed = c.armed;
  std::destroy_at(&c);
  std::construct_at(&c);
  c.generation = generation;
  c.dirty = dirty;
  c.armed = armed;
  free_.push_back(slot);
}

void Stack::note_time_wait(std::uint32_t slot) {
  connections_[slot].time_wait = true;
  // All wait equally long, so the front ones end first and the list stays short.
  while (!time_waits_.empty() && get(time_waits_.front()) == nullptr) time_waits_.pop_front();
  time_waits_.push_back(ref(slot));
}

// A separate port sequence for each destination, as in Linux (RFC 6056 §3.3.4): in order, from a secret offset, so that
// a port is reused as late as possible.
std::uint16_t Stack::pick_port(ConnectionKey key) {
  for (const ConnectionKey& known : exhausted_)
    if (same_destination(known, key)) return 0;
  constexpr std::uint32_t range = ephemeral_ports;
  key.local_port = 0;
  const std::uint64_t mixed = mix_bits(hash_of(key) ^ port_secret_);
  std::uint16_t& step = port_steps_[mixed & 0xFF];
  const auto first = static_cast<std::uint32_t>((mixed >> 8) % range);
  const Address::Family family = key.kind == LocalKind::v4 ? Address::Family::v4 : Address::Family::v6;
  for (std::uint32_t i = 0; i < range; ++i) {
    const std::uint32_t offset = (first + step) % range;
    step = static_cast<std::uint16_t>((step + 1U) % range);
    key.local_port = static_cast<std::uint16_t>(ephemeral_first + offset);
    if (find(key) == SlotIndex::none && !listens_on(family, key.local_port)) return key.local_port;
  }
  exhausted_.push_back(key);
  return 0;
}

std::optional<std::errc> Stack::listen(StreamId id, Address& local, int backlog) {
  if (local.port == 0) {
    const auto first = static_cast<std::uint32_t>(mix_bits(port_secret_ + id) % ephemeral_ports);
    for (std::uint32_t i = 0; i < ephemeral_ports && local.port == 0; ++i) {
      const auto port = static_cast<std::uint16_t>(ephemeral_first + (first + i) % ephemeral_ports);
      if (!listeners_.contains(port)) local.port = port;
    }
    if (local.port == 0) return std::errc::address_in_use;
  }
  for (const Listener& other : listeners_[local.port]) {
    if (other.local.family != local.family) continue;
    if (other.local == local || other.local.is_any() || local.is_any()) return std::errc::address_in_use;
  }
  listeners_[local.port].push_back({.id = id, .local = local, .backlog = backlog, .half_open = 0});
  listener_ports_[id] = local.port;
  return std::nullopt;
}

bool Stack::unlisten(StreamId id) {
  const auto at = listener_ports_.find(id);
  if (at == listener_ports_.end()) return false;
  std::vector<Listener>& here = listeners_[at->second];
  std::erase_if(here, [id](const Listener& listener) { return listener.id == id; });
  if (here.empty()) listeners_.erase(at->second);
  listener_ports_.erase(at);
  exhausted_.clear();
  return true;
}

std::vector<StreamId> Stack::listeners() const {
  std::vector<StreamId> ids;
  for (const auto& [id, port] : listener_ports_) ids.push_back(id);
  return ids;
}

Listener* Stack::find_listener(const Address& local) {
  const auto at = listeners_.find(local.port);
  if (at == listeners_.end()) return nullptr;
  for (Listener& listener : at->second) {
    if (listener.local.family != local.family) continue;
    if (listener.local.is_any() || listener.local == local) return &listener;
  }
  return nullptr;
}

Listener* Stack::find_listener(StreamId id) {
  const auto at = listener_ports_.find(id);
  if (at == listener_ports_.end()) return nullptr;
  for (Listener& listener : listeners_[at->second])
    if (listener.id == id) return &listener;
  return nullptr;
}

bool Stack::listens_on(Address::Family family, std::uint16_t port) const {
  const auto at = listeners_.find(port);
  if (at == listeners_.end()) return false;
  for (const Listener& listener : at->second)
    if (listener.local.family == family) return true;
  return false;
}

}  // namespace parley::sim
