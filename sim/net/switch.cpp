// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/net/switch.hpp"

#include <utility>

#include "base/bytes_io.hpp"
#include "sim/net/ecn.hpp"

namespace parley::sim {
namespace {

constexpr std::uint64_t group_bit = 1ull << 40;  // in the first octet (IEEE 802 §8.2)

struct Macs {
  std::uint64_t destination = 0, source = 0;
};

bool read_macs(const Frame& frame, Macs& macs) {
  constexpr std::size_t header = 14;
  if (frame.size < header) return false;
  Reader in(frame.octets());
  macs.destination = std::uint64_t{in.be16()} << 32;
  macs.destination |= in.be32();
  macs.source = std::uint64_t{in.be16()} << 32;
  macs.source |= in.be32();
  return (macs.source & group_bit) == 0;
}

}  // namespace

// ---- MacTable ----------------------------------------------------------------------------------------------------

std::size_t MacTable::home(std::uint64_t mac) const {
  return static_cast<std::size_t>((mac * 0x9E3779B97F4A7C15) >> 32) & (places_.size() - 1);
}

/// The place of the address, or the free place for it.
std::size_t MacTable::place_of(std::uint64_t mac) const {
  std::size_t place = home(mac);
  while (places_[place] != none && entries_[places_[place]].mac != mac) place = (place + 1) & (places_.size() - 1);
  return place;
}

std::uint16_t MacTable::find(std::uint64_t mac) const {
  if (places_.empty()) return unknown;
  const std::uint32_t index = places_[place_of(mac)];
  return index == none ? unknown : entries_[index].port;
}

void MacTable::learn(std::uint64_t mac, std::uint16_t port) {
  if (newest_ != none && entries_[newest_].mac == mac) {
    entries_[newest_].port = port;
    return;
  }
  if (entries_.size() * 2 >= places_.size()) grow();
  const std::size_t place = place_of(mac);
  std::uint32_t index = places_[place];
  if (index != none) {
    unlink(index);
    entries_[index].port = port;
    link_newest(index);
    return;
  }
  if (entries_.size() < limit_) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.push_back({.mac = mac, .port = port});
    places_[place] = index;
  } else {
    index = oldest_;
    unlink(index);
    remove_place(place_of(entries_[index].mac));
    entries_[index].mac = mac;
    entries_[index].port = port;
    places_[place_of(mac)] = index;  // the removal may have moved the free place
  }
  link_newest(index);
}

/// Closes the gap, so that no search ends early: a later entry that belongs before the gap moves up.
void MacTable::remove_place(std::size_t place) {
  const std::size_t mask = places_.size() - 1;
  places_[place] = none;
  for (std::size_t next = (place + 1) & mask; places_[next] != none; next = (next + 1) & mask) {
    const std::size_t wanted = home(entries_[places_[next]].mac);
    if (((next - wanted) & mask) < ((next - place) & mask)) continue;
    places_[place] = std::exchange(places_[next], none);
    place = next;
  }
}

void MacTable::grow() {
  places_.assign(places_.empty() ? 64 : places_.size() * 2, none);
  for (std::uint32_t index = 0; index < entries_.size(); ++index) places_[place_of(entries_[index].mac)] = index;
}

void MacTable::unlink(std::uint32_t index) {
  Entry& entry = entries_[index];
  (entry.newer != none ? entries_[entry.newer].older : newest_) = entry.older;
  (entry.older != none ? entries_[entry.older].newer : oldest_) = entry.newer;
}

void MacTable::link_newest(std::uint32_t index) {
  Entry& entry = entries_[index];
  entry.newer = none;
  entry.older = newest_;
  (newest_ != none ? entries_[newest_].newer : oldest_) = index;
  newest_ = index;
}

// ---- Switch ------------------------------------------------------------------------------------------------------

std::uint16_t Switch::attach(LinkPort& port) {
  ports_.push_back(&port);
  return static_cast<std::uint16_t>(ports_.size() - 1);
}

std::string_view Switch::would_discard(std::uint16_t, const Frame& frame, DropReason& reason) const {
  Macs macs;
  if (read_macs(frame, macs)) return {};
  reason = DropReason::discarded;
  return "no Ethernet header of one sender";
}

void Switch::receive(std::uint16_t port, FramePtr frame) {
  Macs macs;
  if (!read_macs(*frame, macs)) return;
  table_.learn(macs.source, port);
  if ((macs.destination & group_bit) != 0) {
    flood(port, std::move(frame));
    return;
  }
  const std::uint16_t to = table_.find(macs.destination);
  if (to == MacTable::unknown) {
    flood(port, std::move(frame));
  } else if (to != port) {
    send(*ports_[to], std::move(frame));
  }
}

void Switch::flood(std::uint16_t from, FramePtr frame) {
  std::size_t last = ports_.size();  // the last port gets the frame itself, the others a copy
  while (last != 0 && last - 1 == from) --last;
  if (last == 0) return;
  for (std::size_t port = 0; port + 1 < last; ++port) {
    if (port != from) send(*ports_[port], engine_.frames.copy(*frame));
  }
  send(*ports_[last - 1], std::move(frame));
}

void Switch::send(LinkPort& port, FramePtr frame) {
  if (options_.ecn_threshold != 0 && port.has_waiting(options_.ecn_threshold) && mark_congestion(frame->octets()))
    ++engine_.counters.ecn_marked;
  port.transmit(std::move(frame));
}

}  // namespace parley::sim
