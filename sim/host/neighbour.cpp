// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/host/neighbour.hpp"

#include <algorithm>

namespace parley::sim {

namespace {

// Takes the element at `at`; an exhausted queue starts over.
template <class T>
bool take(std::vector<T>& from, std::size_t& at, T& out) {
  if (at == from.size()) {
    from.clear();
    at = 0;
    return false;
  }
  out = std::move(from[at++]);
  return true;
}

}  // namespace

std::uint32_t NeighbourTable::hash_of(std::uint16_t port, const Address& address) {
  const std::uint64_t family = address.family == Address::Family::v4 ? 4 : 6;
  return hash_of_address(address.octets, family << 60 ^ port);
}

std::uint32_t NeighbourTable::slot_of(std::uint16_t port, const Address& address) const {
  return index_.find(hash_of(port, address), [&](std::uint32_t slot) { return is_of(entries_[slot], port, address); });
}

Address NeighbourTable::address_of(const Entry& entry) const {
  Address address;
  address.family = entry.family;
  address.octets = entry.octets;
  return address;
}

std::uint32_t NeighbourTable::make(std::uint16_t port, const Address& address, const NeighbourDirectory* directory) {
  if (index_.size() >= entries_max) {
    if (entries_[oldest_].state == State::incomplete)
      failures_.push_back({entries_[oldest_].port, address_of(entries_[oldest_])});
    remove(oldest_);
  }
  std::uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[slot];
  const std::uint32_t generation = entry.generation + 1;
  entry = Entry{};
  entry.generation = generation;
  entry.octets = address.octets;
  entry.port = port;
  entry.family = address.family;
  if (const auto mac = directory != nullptr ? directory->find(address) : std::nullopt) {
    entry.mac = *mac;
    entry.state = State::permanent;
  }
  entry.older = newest_;
  if (newest_ != SlotIndex::none) entries_[newest_].newer = slot;
  newest_ = slot;
  if (oldest_ == SlotIndex::none) oldest_ = slot;
  index_.insert(hash_of(port, address), slot);
  return slot;
}

void NeighbourTable::remove(std::uint32_t slot) {
  Entry& entry = entries_[slot];
  if (slot == last_) last_ = SlotIndex::none;
  drop_queue(slot);
  index_.erase(hash_of(entry.port, address_of(entry)), slot);
  (entry.older == SlotIndex::none ? oldest_ : entries_[entry.older].newer) = entry.newer;
  (entry.newer == SlotIndex::none ? newest_ : entries_[entry.newer].older) = entry.older;
  deadlines_.set(slot, never);
  ++entry.generation;
  entry.state = State::free;
  free_.push_back(slot);
}

void NeighbourTable::drop_queue(std::uint32_t slot) {
  Entry& entry = entries_[slot];
  if (entry.queue == SlotIndex::none) return;
  queues_[entry.queue].clear();
  free_queues_.push_back(entry.queue);
  entry.queue = SlotIndex::none;
}

NeighbourRef NeighbourTable::find(std::uint16_t port, const Address& address, const NeighbourDirectory* directory) {
  if (last_ == SlotIndex::none || !is_of(entries_[last_], port, address)) {
    const std::uint32_t slot = slot_of(port, address);
    last_ = slot == SlotIndex::none ? make(port, address, directory) : slot;
  }
  return {last_, entries_[last_].generation};
}

void NeighbourTable::ask(Instant now, std::uint32_t slot, bool alone) {
  Entry& entry = entries_[slot];
  ++entry.tries;
  NeighbourAsk question{.port = entry.port, .address = address_of(entry), .mac = {}};
  if (alone) question.mac = entry.mac;
  asks_.push_back(question);
  deadlines_.set(slot, now + retransmit);
}

const wire::Mac* NeighbourTable::resolve(Instant now, NeighbourRef ref) {
  Entry& entry = entries_[ref.slot];
  switch (entry.state) {
    case State::free:
      entry.state = State::incomplete;
      entry.tries = 0;
      ask(now, ref.slot, false);
      return nullptr;
    case State::incomplete: return nullptr;
    case State::reachable:
      if (now >= entry.until) {
        // RFC 4861 §7.3.3: stale; the packet goes out, and its answer may save the probe.
        entry.state = State::delay;
        deadlines_.set(ref.slot, now + first_probe);
      }
      return &entry.mac;
    case State::delay:
    case State::probe:
    case State::permanent: return &entry.mac;
  }
  return nullptr;
}

void NeighbourTable::wait(NeighbourRef ref, FramePtr frame) {
  Entry& entry = entries_[ref.slot];
  if (entry.queue == SlotIndex::none) {
    if (free_queues_.empty()) {
      entry.queue = static_cast<std::uint32_t>(queues_.size());
      queues_.emplace_back();
    } else {
      entry.queue = free_queues_.back();
      free_queues_.pop_back();
    }
  }
  std::vector<FramePtr>& queue = queues_[entry.queue];
  if (queue.size() >= waiting_max) queue.erase(queue.begin());
  queue.push_back(std::move(frame));
}

void NeighbourTable::confirm_slot(Instant now, std::uint32_t slot) {
  Entry& entry = entries_[slot];
  if (entry.state == State::delay || entry.state == State::probe) deadlines_.set(slot, never);
  entry.state = State::reachable;
  entry.until = now + reachable;
  entry.tries = 0;
}

// The address is known: sends the waiting frames.
void NeighbourTable::found(Instant now, std::uint32_t slot) {
  Entry& entry = entries_[slot];
  deadlines_.set(slot, never);
  confirm_slot(now, slot);
  if (entry.queue == SlotIndex::none) return;
  for (FramePtr& frame : queues_[entry.queue]) {
    std::copy(entry.mac.begin(), entry.mac.end(), frame->data());
    outgoing_.push_back({entry.port, std::move(frame)});
  }
  drop_queue(slot);
}

void NeighbourTable::heard(Instant now, std::uint16_t port, const Address& address, const wire::Mac& mac, bool answer,
                           bool overrides, bool may_make) {
  std::uint32_t slot = slot_of(port, address);
  if (slot == SlotIndex::none) {
    if (!may_make) return;
    slot = make(port, address, nullptr);
  }
  Entry& entry = entries_[slot];
  if (entry.state == State::permanent) return;
  const bool unknown = entry.state == State::free || entry.state == State::incomplete;
  const bool changed = unknown || entry.mac != mac;
  if (!unknown && changed && !overrides) {
    // RFC 4861 §7.2.5: not accepted, but the known address is now in doubt.
    if (entry.state == State::reachable) entry.until = now;
    return;
  }
  if (changed) entry.mac = mac;
  if (unknown) found(now, slot);
  if (answer) {
    confirm_slot(now, slot);
  } else if (changed) {
    // Known, but not yet known to receive from us: RFC 4861 §7.2.3, §7.2.5.
    deadlines_.set(slot, never);
    entry.state = State::reachable;
    entry.until = now;
  }
}

bool NeighbourTable::poll_ask(NeighbourAsk& out) { return take(asks_, asks_at_, out); }

FramePtr NeighbourTable::poll_frame(std::uint16_t& port) {
  Outgoing out;
  if (!take(outgoing_, outgoing_at_, out)) return nullptr;
  port = out.port;
  return std::move(out.frame);
}

bool NeighbourTable::poll_failure(std::uint16_t& port, Address& address) {
  Failure out;
  if (!take(failures_, failures_at_, out)) return false;
  port = out.port;
  address = out.address;
  return true;
}

void NeighbourTable::handle_deadline(Instant now) {
  while (const auto slot = deadlines_.pop_due(now)) {
    Entry& entry = entries_[*slot];
    if (entry.state == State::delay) {
      entry.state = State::probe;
      entry.tries = 0;
    }
    if (entry.tries < tries_max) {
      ask(now, *slot, entry.state == State::probe);
      continue;
    }
    failures_.push_back({entry.port, address_of(entry)});
    remove(*slot);
  }
}

}  // namespace parley::sim
