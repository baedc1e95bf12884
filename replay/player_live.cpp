// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Player: what the live side says, item by item, against what the recorded one said.
#include <fmt/format.h>

#include <algorithm>

#include "replay/player.hpp"

namespace parley::replay {

using verdict::Known;
using verdict::Side;
using wire::RdmapOpcode;

namespace {

struct ByItem {
  bool operator()(const Field& f, std::size_t item) const { return f.item < item; }
  bool operator()(std::size_t item, const Field& f) const { return item < f.item; }
};

constexpr std::size_t reads_max = 1 << 20;  // Read Requests of the live side that the recording says nothing of

}  // namespace

void Player::handle_bytes(Instant now, ConstBytes in) {
  if (done_) return;
  last_live_ = now;
  live_octets_ += in.size();
  reader_.octets(in, {0, now, 0}, true);
  take_live(now);
  advance(now);
}

void Player::handle_end(Instant now, StreamEnd end) {
  if (done_) return;
  last_live_ = now;
  reader_.finish({0, now, 0}, true);
  take_live(now);
  if (done_) return;
  assembler_.finish();
  take_live(now);
  if (done_) return;
  ended_ = end != StreamEnd::fin;
  Item item;
  item.kind = end == StreamEnd::fin ? Item::Kind::fin : Item::Kind::rst;
  item.first.at = item.last.at = now;
  if (end == StreamEnd::timeout) {
    differ(now, {"TCP gave up: the live side acknowledges no more", ""}, nullptr, nullptr, "TCP timeout");
  } else {
    live_item(now, item);
  }
  advance(now);
}

void Player::take_live(Instant now) {
  for (;;) {
    std::vector<Step> steps;
    steps.swap(reader_.steps());
    for (const Step& step : steps) assembler_.add(step, live_steps_++);
    std::vector<Item> items;
    items.swap(assembler_.items());
    if (items.empty()) return;
    for (Item& item : items) {
      if (done_) return;
      live_item(now, item);
    }
  }
}

std::span<const Field> Player::fields_of(std::size_t item) const {
  const auto [begin, end] = std::equal_range(names_.fields.begin(), names_.fields.end(), item, ByItem{});
  return {begin, end};
}

void Player::live_item(Instant now, Item& item) {
  if (item.startup) {
    progress(now);  // the reader finds at most one
    live_startup(item);
  }
  LaneState& lane = lanes_[static_cast<std::size_t>(item.lane())];
  if (!lane.over() && other().items[lane.items[lane.next()]].vague() && !pass_gap(lane, item, now)) {
    ++result_.not_compared;
    log(now, false, 0, describe(item) + " (not compared: not in the recording)");
    return;
  }
  if (lane.over()) return unexpected(now, item);
  const std::size_t index = lane.items[lane.next()];
  const Item& recorded = other().items[index];
  const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
  const LaneState& answers = lanes_[static_cast<std::size_t>(Lane::answered)];
  if (end && !answers.over() && recorded.kind == item.kind) {
    const Item& due = other().items[answers.items[answers.next()]];
    differ(now, {fmt::format("{} came before {}", describe(item), describe(due)), ""}, &due, &item);
    if (done_) return;
  }
  if (auto mismatch = compare(recorded, item, fields_of(index))) {
    differ(now, std::move(*mismatch), &recorded, &item);
    if (done_) return;
  } else {
    log(now, false, recorded.last.frame, describe(item) + ": same");
  }
  ++result_.compared;
  match(now, lane, item);
}

// The recording says nothing of this one: an answer too much, or one that it does not reach.
void Player::unexpected(Instant now, const Item& item) {
  const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
  const bool recorded_so_far = recording_.closed || next_step_ < mine().steps.size();
  const bool known = other().seen && recorded_so_far;
  // Whoever is answered by RST or has closed may be answered so again; that the recording lacks it means little.
  const bool after_end = end && std::any_of(other().items.begin(), other().items.end(), [](const Item& i) {
                           return i.kind == Item::Kind::fin || i.kind == Item::Kind::rst;
                         });
  const bool after_own_end =
      end && recording_.closed &&
      std::all_of(mine().steps.begin() + static_cast<std::ptrdiff_t>(next_step_), mine().steps.end(),
                  [](const Step& s) { return s.kind == Step::Kind::fin || s.kind == Step::Kind::rst; });
  if (known && !after_end && !after_own_end)
    return differ(now, {fmt::format("{} came; the recorded side said nothing more", describe(item)), ""}, nullptr,
                  &item);
  ++result_.not_compared;
  log(now, false, 0, describe(item) + " (not compared: the recording does not reach so far)");
  if (item.is(RdmapOpcode::read_request) && live_reads_.size() < reads_max)
    if (const auto q = wire::ReadRequest::parse(item.payload)) live_reads_.push_back(*q);
}

// True when the lane's next is what the live item is to be compared with: the item whose end is missing, if the two
// begin alike, or what comes after the gap.
bool Player::pass_gap(LaneState& lane, const Item& live, Instant now) {
  for (std::size_t at = lane.next(); at < lane.items.size(); ++at) {
    const std::size_t index = lane.items[at];
    const Item& candidate = other().items[index];
    if (candidate.kind == Item::Kind::gap) continue;
    if (!compare(candidate, live, fields_of(index))) {
      while (lane.next() < at) lane.matched_at.push_back(now);
      return true;
    }
    // A message of which the end is missing may have been given up by its sender.
    if (!candidate.vague()) return false;
  }
  return false;
}

void Player::match(Instant now, LaneState& lane, const Item& live) {
  const std::size_t index = lane.items[lane.next()];
  lane.matched_at.push_back(now);
  progress(now);
  matched_end_ = std::max(matched_end_, other().items[index].end);
  const ConstBytes said = names_in(live);
  for (const Field& f : fields_of(index)) {
    if (f.offset + f.size() > said.size()) continue;
    const std::uint64_t value = read_field(said, f);
    if (f.is_to)
      map_.learn_to(f.stag, f.to, value);
    else
      map_.learn_stag(f.stag, static_cast<std::uint32_t>(value));
  }
  if (live.is(RdmapOpcode::read_request))
    if (const auto q = wire::ReadRequest::parse(live.payload)) live_reads_.push_back(*q);
  if (live.is(RdmapOpcode::atomic_request))
    if (const auto a = wire::AtomicRequest::parse(live.payload)) live_atomics_.push_back(a->request_id);
}

void Player::live_startup(const Item& item) {
  live_startup_ = item.startup;
  if (own_startup_) settle();
}

// Both startup frames are known: how FPDUs look from here on, in both directions (RFC 5044 §4.3, §4.4, §7.1.1).
void Player::settle() {
  if (settled_) return;
  settled_ = true;
  const bool initiator = side_ == Side::initiator;
  const verdict::Agreement a =
      verdict::agree(initiator ? own_startup_ : live_startup_, initiator ? live_startup_ : own_startup_);
  tx_crc_ = a.crc != Known::no;
  tx_markers_ = (initiator ? a.markers_to_responder : a.markers_to_initiator) == Known::yes;
  if (!a.accepted) return reader_.no_fpdus();
  reader_.agreed(a.crc, initiator ? a.markers_to_initiator : a.markers_to_responder, !initiator && a.revision <= 1);
}

}  // namespace parley::replay
