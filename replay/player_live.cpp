// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Player: compares the live side with the recorded one, item by item.
#include <fmt/format.h>

#include <algorithm>

#include "replay/player.hpp"

namespace parley::replay {

using capture::Known;
using capture::Side;
using wire::RdmapOpcode;

namespace {

struct ByItem {
  bool operator()(const Field& f, std::size_t item) const { return f.item < item; }
  bool operator()(std::size_t item, const Field& f) const { return item < f.item; }
};

/// Items that no correct stream can provoke, even with omissions: the live side's own faults, and its Terminate. An RST
/// is not among them: the live program may send it because of an omission.
bool objects(const Item& item) {
  return item.kind == Item::Kind::bad_crc || item.kind == Item::Kind::raw || item.kind == Item::Kind::startup ||
         item.kind == Item::Kind::rtr_frame || item.marker_fault || item.pad_fault || item.is(RdmapOpcode::terminate);
}

}  // namespace

void Player::handle_bytes(Instant now, ConstBytes in) {
  if (done_) return;
  last_live_ = now;
  live_octets_ += in.size();
  reader_.octets(in, {0, now, 0}, true);
  read_live(now);
  advance(now);
}

void Player::handle_end(Instant now, StreamEnd end) {
  if (done_) return;
  last_live_ = now;
  half_ = half_said();
  reader_.finish({0, now, 0}, true);
  read_live(now);
  if (done_) return;
  assembler_.finish();
  read_live(now);
  if (done_) return;
  ended_ = end != StreamEnd::fin;
  peer_fin_ = peer_fin_ || end == StreamEnd::fin;
  Item item;
  item.kind = end == StreamEnd::fin ? Item::Kind::fin : Item::Kind::rst;
  if (end == StreamEnd::timeout) {
    differ(now, {"TCP gave up: the live side acknowledges no more", ""}, nullptr, nullptr, "TCP timeout");
  } else {
    live_item(now, item);
  }
  advance(now);
}

void Player::read_live(Instant now) {
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
  const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
  if (result_.left_out && !align(lane, item, now) && !objects(item)) {
    remember(now, item, none);
    ++result_.not_compared;
    return log(now, false, 0, describe(item) + " (not compared: its request may not have been played)");
  }
  if (!lane.over() && other().items[lane.items[lane.next()]].vague() && !pass_gap(lane, item, now)) {
    remember(now, item, none);
    ++result_.not_compared;
    log(now, false, 0, describe(item) + " (not compared: not in the recording)");
    return;
  }
  if (lane.over()) return unexpected(now, item);
  const std::size_t index = lane.items[lane.next()];
  const Item& recorded = other().items[index];
  const LaneState& answers = lanes_[static_cast<std::size_t>(Lane::answered)];
  if (end && !answers.over() && recorded.kind == item.kind && next_known(answers) != nullptr && !result_.left_out) {
    const Item& due = *next_known(answers);
    differ(now, {fmt::format("{} came before {}", describe(item), describe(due)), ""}, &due, &item);
    if (done_) return;
  }
  const std::uint32_t less = item.header.tagged ? 0 : live_numbering_[item.header.qn].less;
  std::vector<Mismatch> ignored;
  if (auto mismatch = differs(index, item, less, &ignored)) {
    if (lane.unsure && !objects(item)) {
      // The item that was matched with the message after the gap was a similar one inside the gap.
      lane.matched_at.resize(*lane.unsure);
      lane.unsure.reset();
      result_.compared -= lane.matched_unsure;
      result_.not_compared += lane.matched_unsure;
      return live_item(now, item);
    }
    if (item.kind == Item::Kind::raw && recorded.kind != Item::Kind::raw && !half_.empty())
      mismatch->what = fmt::format("{}, then the end, came where {} was recorded", half_, describe(recorded));
    differ(now, std::move(*mismatch), &recorded, &item);
    if (done_) return;
  } else {
    log(now, false, recorded.last.frame,
        describe(item) + (ignored.empty() ? ": same" : ": same but for what is ignored"));
    report_ignored(now, ignored, recorded, item);
  }
  ++result_.compared;
  match(now, lane, item);
}

// An item that is not in the recording: an additional answer, or one after the recording's end.
void Player::unexpected(Instant now, const Item& item) {
  const bool end = item.kind == Item::Kind::fin || item.kind == Item::Kind::rst;
  // If the recording stops within the other side's stream, the next items are unknown.
  const bool recorded_so_far = recording_.closed || (next_step_ < mine().steps.size() && !other_stops_);
  const bool sure = !result_.left_out && !lanes_[static_cast<std::size_t>(item.lane())].unsure;
  const bool known = other().seen && recorded_so_far && (sure || objects(item));
  // A peer that answered with RST or has closed may do so again. An end that the recording lacks is then no difference.
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
  remember(now, item, none);
}

// Remembers a Read or Atomic that needs an answer.
void Player::remember(Instant now, const Item& live, std::size_t recorded) {
  if (const auto q = wire::ReadRequest::parse(live.payload); q && live.is(RdmapOpcode::read_request)) {
    if (recorded == none && too_many_ask(now, live, RequestKind::read)) return;
    asked_[static_cast<std::size_t>(RequestKind::read)].push_back({recorded, *q, 0});
  }
  if (const auto a = wire::AtomicRequest::parse(live.payload); a && live.is(RdmapOpcode::atomic_request)) {
    if (recorded == none && too_many_ask(now, live, RequestKind::atomic)) return;
    asked_[static_cast<std::size_t>(RequestKind::atomic)].push_back({recorded, {}, a->request_id});
  }
  if (owed_.erase(recorded) > 0) answer_lost(recorded);
}

// Unrecorded requests are kept to be answered, up to the IRD that we announced (RFC 6581 §9.1) and at least up to
// unrecorded_max. Without enhanced data the IRD is unknown.
bool Player::too_many_ask(Instant now, const Item& live, RequestKind kind) {
  std::size_t& waiting = unrecorded_[static_cast<std::size_t>(kind)];
  const bool told =
      own_startup_ && own_startup_->enhanced && own_startup_->enhanced->ird != PARLEY_MPA_ENH_NOT_NEGOTIATED;
  if (waiting < std::max<std::size_t>(unrecorded_max, told ? own_startup_->enhanced->ird : 0)) {
    ++waiting;
    return false;
  }
  differ(now,
         {fmt::format("{} came while {} others that the recording does not hold wait for their answers", describe(live),
                      waiting),
          told ? "RFC 6581 §9.1" : ""},
         nullptr, &live);
  return true;
}

// Describes what the live side has begun but not completed.
std::string Player::half_said() const {
  std::string out = reader_.begun();
  if (const Item* item = assembler_.begun(); item != nullptr) out += (out.empty() ? "" : ", and ") + describe(*item);
  return out;
}

std::optional<Mismatch> Player::differs(std::size_t index, const Item& live, std::uint32_t less,
                                        std::vector<Mismatch>* ignored) const {
  return compare(other().items[index], live, fields_of(index), less + (msn_less_.empty() ? 0 : msn_less_[index]),
                 {options_.ignored, ignored});
}

void Player::report_ignored(Instant now, const std::vector<Mismatch>& ignored, const Item& recorded, const Item& live) {
  constexpr std::size_t words_max = 200;
  for (const Mismatch& m : ignored) {
    ++result_.ignored;
    const std::string words = fmt::format("ignored: {}: {}", describe(live), m.what);
    log(now, false, recorded.last.frame, words);
    if (result_.ignored_words.size() < words_max)
      result_.ignored_words.push_back(fmt::format("{} (frame {} of the recording)", words, recorded.last.frame));
  }
}

// True if the live item must be compared with the lane's next item: one whose end is missing, if both begin alike, or
// one after the gap.
bool Player::pass_gap(LaneState& lane, const Item& live, Instant now) {
  for (std::size_t at = lane.next(); at < lane.items.size(); ++at) {
    const std::size_t index = lane.items[at];
    const Item& candidate = other().items[index];
    if (candidate.kind == Item::Kind::gap || candidate.headless) continue;
    if (!differs(index, live, live.header.tagged ? 0 : live_numbering_[live.header.qn].less)) {
      // Only an MSN distinguishes messages with the same names and octets; tagged ones have none (RFC 5041 §4.2, §4.3).
      if (live.header.tagged) lane.unsure = lane.next(), lane.matched_unsure = 0;
      while (lane.next() < at) lane.matched_at.push_back(now);
      return true;
    }
    // The sender may have abandoned a message that lacks its end.
    if (!candidate.vague()) return false;
  }
  return false;
}

// After an omission on our side the live side may omit answers to it, and its MSNs do not count them (RFC 5041 §5.3).
// True if the live item must be compared with the lane's next item.
bool Player::align(LaneState& lane, const Item& live, Instant now) {
  const bool counted = live.kind == Item::Kind::message && !live.header.tagged;
  Answered& n = live_numbering_[counted ? live.header.qn : 0];
  std::uint32_t skipped = 0;  // in the same queue, between the last match and the candidate
  const std::size_t stop = std::min(lane.items.size(), lane.next() + aligned_max);
  for (std::size_t at = lane.next(); at < stop; ++at) {
    const std::size_t index = lane.items[at];
    const Item& candidate = other().items[index];
    const bool same_queue = counted && candidate.kind == Item::Kind::message && !candidate.header.tagged &&
                            candidate.header.qn == live.header.qn;
    std::uint32_t less = n.less;
    bool possible = candidate.kind == live.kind && !candidate.headless;
    if (possible && same_queue && candidate.header.opcode == live.header.opcode) {
      less = candidate.header.msn - (msn_less_.empty() ? 0 : msn_less_[index]) - live.header.msn;
      possible = less - n.less <= n.passed + skipped;
    }
    // A Terminate with another meaning counts as the answer instead of the recorded one.
    const bool objection = possible && live.is(RdmapOpcode::terminate) && candidate.is(RdmapOpcode::terminate);
    if (possible && (objection || !differs(index, live, less))) {
      while (lane.next() < at) pass(lane, now);
      if (counted) n = {less, 0};
      return true;
    }
    if (same_queue && !candidate.vague()) ++skipped;
  }
  return false;
}

void Player::match(Instant now, LaneState& lane, const Item& live) {
  const std::size_t index = lane.items[lane.next()];
  lane.matched_at.push_back(now);
  ++lane.matched_unsure;
  if (live.kind != Item::Kind::message || !live.header.tagged) lane.unsure.reset();
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
  remember(now, live, index);
}

void Player::live_startup(const Item& item) {
  live_startup_ = item.startup;
  if (own_startup_) settle();
}

// Sets the format of FPDUs in both directions, once both startup frames are known (RFC 5044 §4.3, §4.4, §7.1.1).
void Player::settle() {
  if (settled_) return;
  settled_ = true;
  const bool initiator = side_ == Side::initiator;
  const capture::Agreement a =
      capture::agree(initiator ? own_startup_ : live_startup_, initiator ? live_startup_ : own_startup_);
  tx_crc_ = a.crc != Known::no;
  tx_markers_ = (initiator ? a.markers_to_responder : a.markers_to_initiator) == Known::yes;
  if (!a.accepted) return reader_.no_fpdus();
  reader_.agreed(a.crc, initiator ? a.markers_to_initiator : a.markers_to_responder, !initiator && a.revision <= 1);
}

}  // namespace parley::replay
