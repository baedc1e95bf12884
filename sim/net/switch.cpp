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

std::uint64_t number_of(ConstBytes mac) {
  Reader in(mac);
  const std::uint64_t high = in.be16();
  return high << 32 | in.be32();
}

bool read_macs(const Frame& frame, Macs& macs) {
  constexpr std::size_t header = 14;
  if (frame.size < header) return false;
  macs.destination = number_of(frame.octets().first(6));
  macs.source = number_of(frame.octets().subspan(6, 6));
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
  Arrivals together;  // of ports that were served last
  for (std::uint32_t port = 0; port < last; ++port) {
    if (port == from) continue;
    LinkPort& link = *ports_[port];
    const bool final = port + 1 == last;
    if (!link.shares_frames() || must_mark(link)) {
      schedule(together, *frame);
      send(link, final ? std::move(frame) : engine_.frames.copy(*frame));
      continue;
    }
    if (!final) engine_.frames.share();
    const Instant at = link.transmit_shared(*frame);
    if (at != together.at) schedule(together, *frame);
    if (at == never) {
      if (!final) engine_.frames.unshare();
      continue;
    }
    if (together.count++ == 0) together = {.frame = nullptr, .at = at, .port = port, .count = 1, .from = from};
    if (final) schedule(together, std::move(frame));
  }
}

void Switch::schedule(Arrivals& arrivals, const Frame& frame) {
  if (arrivals.count == 0) return;
  engine_.frames.unshare();
  schedule(arrivals, engine_.frames.copy(frame));
}

void Switch::schedule(Arrivals& arrivals, FramePtr frame) {
  arrivals.frame = std::move(frame);
  auto index = static_cast<std::uint32_t>(arrivals_.size());
  if (free_arrivals_.empty()) {
    arrivals_.emplace_back();
  } else {
    index = free_arrivals_.back();
    free_arrivals_.pop_back();
  }
  engine_.at_each(arrivals.at, *this, 0, index, arrivals.count);
  arrivals_[index] = std::exchange(arrivals, {});
}

/// The next of these arrivals.
void Switch::on_event(std::uint32_t, std::uint64_t argument) {
  Arrivals& arrivals = arrivals_[argument];
  if (arrivals.port == arrivals.from) ++arrivals.port;
  LinkPort& link = *ports_[arrivals.port++];
  if (--arrivals.count != 0) {
    engine_.frames.unshare();
    return link.deliver(engine_.frames.copy(*arrivals.frame));
  }
  FramePtr frame = std::move(arrivals.frame);
  free_arrivals_.push_back(static_cast<std::uint32_t>(argument));
  link.deliver(std::move(frame));
}

void Switch::know(const wire::Mac& mac, std::uint16_t port) { table_.know(number_of(mac), port); }

void Switch::send(LinkPort& port, FramePtr frame) {
  if (must_mark(port) && mark_congestion(frame->octets())) ++engine_.counters.ecn_marked;
  port.transmit(std::move(frame));
}

}  // namespace parley::sim
