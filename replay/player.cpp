// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Decides when each step is sent and when the run is over. player_steps.cpp makes the octets; player_live.cpp handles
// answers.
#include "replay/player.hpp"

#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace parley::replay {

using capture::Side;

Player::Player(const Recording& recording, Side side, const PlayOptions& options)
    : recording_(recording),
      side_(side),
      options_(options),
      names_(find_names(other(), mine())),
      answers_(pair_answers(mine(), other())) {
  result_.partial = !recording.lacks.empty();
  plan_lanes();
  plan_msn();
  plan();
}

void Player::left_out(std::string text) {
  result_.left_out = result_.partial = true;
  note(std::move(text));
}

void Player::note(std::string text) {
  constexpr std::size_t notes_max = 200;
  if (result_.notes.size() < notes_max) result_.notes.push_back(std::move(text));
}

void Player::log(Instant now, bool played, std::uint64_t frame, std::string text) {
  if (result_.log.size() < PlayResult::log_max) result_.log.push_back({now - begun_, played, frame, std::move(text)});
}

void Player::plan_lanes() {
  const std::vector<Item>& theirs = other().items;
  const Item* last = theirs.empty() ? nullptr : &theirs.back();
  other_stops_ = last != nullptr && !recording_.closed &&
                 (last->kind == Item::Kind::gap || (last->kind == Item::Kind::message && !last->whole));
  bool fin = false;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const Item& item = theirs[i];
    const bool gap = item.kind == Item::Kind::gap;
    if (gap || !item.unknown.empty() || item.octets_known < item.octets.size())
      lost_of_other_ = std::min(lost_of_other_, item.end);
    // An RST after a FIN is TCP's answer to a late segment, not part of the conversation.
    if (fin && item.kind == Item::Kind::rst) continue;
    fin = fin || item.kind == Item::Kind::fin;
    const bool last_of_all = !recording_.closed && gap && i + 1 == theirs.size();
    // A message still incomplete when the recording stopped cannot be compared.
    if (last_of_all || (item.kind == Item::Kind::message && !item.whole && !recording_.closed)) continue;
    // A program that sends only what is recorded cannot ask for memory whose name the recording lacks.
    if (options_.says_recorded_only && item.whole && names_lost(item)) continue;
    // Missing octets may belong to either lane.
    if (gap) lanes_[static_cast<std::size_t>(Lane::answered)].items.push_back(i);
    lanes_[static_cast<std::size_t>(gap ? Lane::said : item.lane())].items.push_back(i);
    if (!gap && !item.headless) ++result_.expected;
  }
}

// With says_recorded_only, the live program's MSNs do not count the messages that the recording lacks. A NIC's own
// answers are given to every request.
void Player::plan_msn() {
  if (!options_.says_recorded_only) return;
  const std::vector<Item>& theirs = other().items;
  msn_less_.assign(theirs.size(), 0);
  std::map<std::uint32_t, Numbering> queues;
  std::uint64_t gaps = 0;
  for (std::size_t i = 0; i < theirs.size(); ++i) {
    const Item& item = theirs[i];
    if (item.kind == Item::Kind::gap) ++gaps;
    if (item.kind != Item::Kind::message || item.header.tagged || item.lane() == Lane::answered ||
        item.is(wire::RdmapOpcode::terminate))
      continue;
    Numbering& n = queues[item.header.qn];
    if (n.gaps != gaps && item.header.msn > n.next) n.less += item.header.msn - n.next;
    n.gaps = gaps;
    n.next = item.header.msn + 1;
    msn_less_[i] = n.less;
    if (!names_known(item) && (item.cut || item.headless || item.whole)) ++n.less;
  }
}

void Player::plan() {
  const std::vector<Item>& theirs = other().items;
  const std::vector<Step>& steps = mine().steps;
  result_.steps = steps.size();
  item_.assign(steps.size(), mine().items.size());
  for (std::size_t i = 0; i < mine().items.size(); ++i)
    for (std::size_t s = mine().items[i].first_step; s <= mine().items[i].last_step && s < steps.size(); ++s)
      if (item_[s] == mine().items.size() || mine().items[i].first_step == s) item_[s] = i;
  std::optional<std::uint64_t> peer_startup;  // startup length of an unseen peer, inferred from acknowledgments
  Instant before = recording_.report.first_at;
  for (const Step& step : steps) {
    Precondition need;
    const std::uint64_t received = step.first.peer_received;
    // Steps are sent in order, so each needs at least what the previous one needed.
    if (!needs_.empty()) need.count = needs_.back().count;
    // A gap is passed at once: the next items may answer its lost octets.
    if (step.kind == Step::Kind::gap && !needs_.empty()) {
      need.octets = needs_.back().octets;
      need.startup_needed = needs_.back().startup_needed;
      needs_.push_back(need);
      continue;
    }
    Instant since = before;
    for (std::size_t l = 0; l < 2; ++l) {
      const auto& items = lanes_[l].items;
      for (std::size_t& n = need.count[l]; n < items.size(); ++n) {
        const Item& item = theirs[items[n]];
        if (item.end > received || item.last.frame >= step.first.frame) break;
        since = std::max(since, item.last.at);
      }
    }
    if (!other().seen && received > 0) {
      if (!peer_startup) peer_startup = received;
      need.startup_needed = true;
      need.octets = received - *peer_startup;
    }
    // A responder never sends first, and a correct initiator sends nothing between its Request and the Reply.
    if (!other().seen && side_ == Side::responder) need.startup_needed = true;
    need.delay = std::max(step.first.at - since, Duration{});
    before = std::max(before, step.last.at);
    needs_.push_back(need);
  }
}

Duration Player::scaled(Duration d) const {
  if (options_.speed_of == 0) return {};
  return d / options_.speed_of * options_.speed_in;
}

void Player::start(Instant now, std::uint16_t emss) {
  started_ = true;
  begun_ = last_sent_ = last_live_ = last_made_ = last_taken_ = idle_since_ = now;
  emss_ = emss;
  advance(now);
}

void Player::fail(const std::string& why) {
  if (done_) return;
  note(why);
  done_ = true;
}

void Player::handle_deadline(Instant now) {
  if (!done_ && started_ && now >= deadline_) advance(now);
}

void Player::written(Instant now, std::size_t n) {
  last_taken_ = now;
  out_begin_ += n;
  if (out_begin_ == out_.size() || out_begin_ > out_max) {
    out_.erase(out_.begin(), out_.begin() + static_cast<std::ptrdiff_t>(out_begin_));
    out_begin_ = 0;
  }
  if (!done_ && out_.size() - out_begin_ < out_max / 2) advance(now);
}

Player::Close Player::take_close() {
  if (out_begin_ < out_.size()) return Close::none;
  return std::exchange(close_, Close::none);
}

void Player::finish(Close close) {
  if (done_) return;
  if (!ended_) close_ = close;
  if (close == Close::reset && !ended_) {
    // The peer may have stopped reading.
    out_.clear();
    out_begin_ = 0;
  }
  const std::size_t left = mine().steps.size() - next_step_;
  if (left > 0 && !result_.difference)
    left_out(fmt::format("{} of {} recorded steps were not played{}", left, mine().steps.size(),
                         ended_ || peer_fin_ ? ": the live side had ended the connection" : ""));
  if (not_come_ > 0)
    note(fmt::format("{} recorded answers did not come; they may have been to what was not played", not_come_));
  done_ = true;
  deadline_ = never;
}

void Player::progress(Instant now) {
  idle_since_ = now;
  idle_octets_ = live_octets_;
}

// The end of a wait: `patience` after the last octets sent or received, but at most `patience` plus the time that the
// awaited octets may take after the last progress. So a large message may be slow, but unrelated octets do not keep the
// run alive.
Instant Player::limit(Duration patience, std::uint64_t octets) const {
  const std::uint64_t seconds = std::min<std::uint64_t>(octets / slowest, 86'400);
  return std::min(std::max({last_sent_, last_made_, last_live_}) + patience,
                  idle_since_ + patience + std::chrono::seconds(static_cast<std::int64_t>(seconds)));
}

// The recorded pause counts from the arrival of the octets, not from later ones.
Instant Player::octets_there(Instant now) {
  if (!there_at_) there_at_ = now;
  return *there_at_;
}

// The recording holds nothing of the other side: wait for as many octets as were acknowledged.
Player::Readiness Player::check_unseen_precondition(const Precondition& need, Instant now, Instant& since) {
  // The wait for unrecorded octets is approximate, but a startup frame must arrive in any case.
  if (need.startup_needed && !reader_.startup_done()) return Readiness::answer_missing;
  const std::uint64_t octets = need.octets > 0 ? reader_.startup_length() + need.octets : 0;
  if (live_octets_ < octets) {
    since = std::max(last_sent_, idle_since_);
    const Instant until = limit(unseen_patience, octets - std::min(octets, idle_octets_));
    if (now >= until) return Readiness::yes;
    wait_until(until);
    return Readiness::waiting;
  }
  since = std::max(last_sent_, octets_there(now));
  return Readiness::yes;
}

// Whether everything that the step's sender had received has arrived; `since` is set to when the last of it arrived.
Player::Readiness Player::check_precondition(const Precondition& need, Instant now, Instant& since) {
  since = last_sent_;
  if (!other().seen) return check_unseen_precondition(need, now, since);
  for (std::size_t l = 0; l < 2; ++l) {
    LaneState& lane = lanes_[l];
    bool part_is_there = false;
    while (lane.next() < need.count[l]) {
      const Item& item = other().items[lane.items[lane.next()]];
      // Octets that never became a frame are recognised only at the end of the stream, but arrive earlier.
      part_is_there = item.kind == Item::Kind::raw && live_octets_ >= item.end;
      if (part_is_there) break;
      if (!item.vague()) return Readiness::answer_missing;
      // The live side gets some time to send what the recording lacks here.
      const Instant until = limit(gap_patience, item.end - std::min(item.end, matched_end_));
      if (now < until) {
        wait_until(until);
        return Readiness::waiting;
      }
      lane.matched_at.push_back(now);
    }
    if (part_is_there) since = std::max(since, octets_there(now));
    if (need.count[l] > 0 && !part_is_there) since = std::max(since, lane.matched_at[need.count[l] - 1]);
  }
  return Readiness::yes;
}

// The live side must read earlier output before the player makes more.
void Player::wait_for_room(Instant now) {
  const Instant until = std::max({last_taken_, last_sent_, last_made_}) + options_.patience;
  if (now < until) return wait_until(until);
  differ(now, {fmt::format("the live side reads nothing: {} octets wait", out_.size() - out_begin_), ""}, nullptr,
         nullptr, "nothing read for " + milliseconds_text(options_.patience));
  if (!done_) finish(Close::reset);
}

// Plays the next step, or a piece of an answer that must precede it; false: neither is possible now.
bool Player::try_step(Instant now) {
  if (full()) {
    wait_for_room(now);
    return false;
  }
  if (has_response_to_send()) {
    continue_response(now);
    return true;
  }
  const Step& step = mine().steps[next_step_];
  Instant since{};
  if (const Readiness met = check_precondition(needs_[next_step_], now, since); met != Readiness::yes) {
    if (met == Readiness::answer_missing) wait_for_answer(now);
    return false;
  }
  const Instant when = since + scaled(needs_[next_step_].delay);
  if (now < when) {
    wait_until(when);
    return false;
  }
  if (queue_zeros_before(step)) return true;
  last_sent_ = now;
  progress(now);
  there_at_.reset();
  ++next_step_;
  play(now, step);
  return true;
}

// The lane's next item that is whole in the recording; null if there is none.
const Item* Player::next_known(const LaneState& lane) const {
  for (std::size_t at = lane.next(); at < lane.items.size(); ++at)
    if (const Item& item = other().items[lane.items[at]]; !item.vague()) return &item;
  return nullptr;
}

// Waits for the next answer: the live side may take as long as the recorded one took, plus the patience.
void Player::wait_for_answer(Instant now) {
  Instant recorded_before = recording_.report.first_at;
  if (next_step_ > 0) recorded_before = mine().steps[next_step_ - 1].last.at;
  const Item* missing = nullptr;
  for (const LaneState& lane : lanes_)
    if (const Item* item = next_known(lane); item != nullptr)
      if (missing == nullptr || item->last.frame < missing->last.frame) missing = item;
  // After an omission the live side may not answer at all, so the wait is shorter.
  const Duration patience = result_.left_out ? std::min(options_.patience, unseen_patience) : options_.patience;
  const Duration taken = missing != nullptr && recorded_before != Instant{}
                             ? std::max(missing->last.at - recorded_before, Duration{})
                             : Duration{};
  const std::uint64_t end = missing != nullptr ? missing->end : 0;
  const Instant until = limit(taken + patience, end - std::min(end, matched_end_));
  if (now < until) return wait_until(until);
  const Duration waited = std::chrono::duration_cast<std::chrono::milliseconds>(taken + patience);
  if (result_.left_out && missing != nullptr) {
    for (LaneState& lane : lanes_)
      if (next_known(lane) == missing) pass(lane, now);
    return wait_until(now);
  }
  if (missing == nullptr) {
    left_out("the live side sent no startup frame within " + milliseconds_text(waited));
    return finish(Close::reset);
  }
  const bool silent = last_live_ <= idle_since_;
  const Duration quiet = silent ? Duration(waited) : now - last_live_;
  std::string said = half_said();
  if (!said.empty()) said += ", then ";
  said += quiet * 2 >= waited ? "nothing for " + milliseconds_text(quiet)
                              : "octets, but not that, for " + milliseconds_text(now - idle_since_);
  differ(now, {fmt::format("{} did not come", describe(*missing)), ""}, missing, nullptr, std::move(said));
  if (!done_) finish(Close::reset);
}

// Stops waiting for the lane's next recorded answer.
void Player::pass(LaneState& lane, Instant now) {
  if (lane.over()) return;
  const Item& item = other().items[lane.items[lane.next()]];
  if (!item.vague()) ++not_come_;
  if (item.kind == Item::Kind::message && !item.header.tagged) ++live_numbering_[item.header.qn].passed;
  lane.matched_at.push_back(now);
}

void Player::advance(Instant now) {
  deadline_ = never;
  if (!started_ || done_) return;
  const auto more = [this] { return !ended_ && (has_response_to_send() || next_step_ < mine().steps.size()); };
  while (!done_ && more() && try_step(now)) {
  }
  if (done_ || more()) return;
  for (LaneState& lane : lanes_)
    if (next_known(lane) == nullptr)
      while (!lane.over()) lane.matched_at.push_back(now);
  const bool all_seen = lanes_[0].over() && lanes_[1].over();
  if (ended_) return finish(Close::none);
  if (!all_seen) return wait_for_answer(now);
  // Everything was played and matched. Items that still arrive are not in the recording, or should not have been sent.
  const Instant until = limit(options_.linger, 0);
  const bool ends_here = !lanes_[0].items.empty() && (other().items[lanes_[0].items.back()].kind == Item::Kind::fin ||
                                                      other().items[lanes_[0].items.back()].kind == Item::Kind::rst);
  if (ends_here || now >= until) return finish(Close::close);
  wait_until(until);
}

void Player::differ(Instant now, Mismatch mismatch, const Item* recorded, const Item* live, std::string missing) {
  ++result_.differences;
  log(now, false, recorded != nullptr ? recorded->last.frame : 0,
      fmt::format("{}: DIFFERENT: {}", live != nullptr ? describe(*live) : missing, mismatch.what));
  if (!result_.difference) {
    Difference d;
    d.what = std::move(mismatch.what);
    d.rule = std::move(mismatch.rule);
    if (recorded != nullptr)
      d.recorded = Evidence{recorded->last.frame, recorded->last.at - recording_.report.first_at, describe(*recorded),
                            recorded->octets, recorded->octets_known};
    if (live != nullptr)
      d.live = Evidence{0, now - begun_, describe(*live), live->octets, live->octets.size()};
    else if (!missing.empty())
      d.live = Evidence{0, now - begun_, std::move(missing), {}, 0};
    result_.difference = std::move(d);
  }
  if (!options_.keep_going) finish(Close::reset);
}

}  // namespace parley::replay
