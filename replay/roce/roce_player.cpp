// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RocePlayer: the sequence of the recording. roce_player_live.cpp receives from the live side and sends to it.
#include "replay/roce/roce_player.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/after.hpp"
#include "base/text.hpp"
#include "replay/roce/roce_compare.hpp"

namespace parley::replay {

using capture::Side;
using tester::Task;
using namespace std::chrono_literals;

namespace {

constexpr Duration bind_patience = 5s;
constexpr Duration nudge_after = 1s;  // of silence, when a packet of ours may be lost

}  // namespace

RocePlayer::RocePlayer(const RoceRecording& recording, Side side, const PlayOptions& options, const RoceTarget& target)
    : recording_(recording), side_(side), options_(options), target_(target), map_(recording, side, target.seed) {
  result_.steps = recording.count(side);
  result_.expected = recording.count(capture::other(side));
  result_.partial = !recording.lacks.empty();
}

void RocePlayer::start(Instant now) {
  begun_ = now;
  peer_.start(now, script());
}

void RocePlayer::fail(const std::string& why) {
  if (!done_) differ({why, ""}, nullptr, nullptr);
  done_ = true;
}

Duration RocePlayer::scaled(Duration d) const {
  if (options_.speed_of == 0 || d <= Duration{0}) return Duration{0};
  return d / options_.speed_of * options_.speed_in;
}

Task<> RocePlayer::script() {
  if (!co_await address()) co_return;
  before_ = recording_.steps.front().at;
  paced_ = peer_.now();
  for (next_ = 0; next_ < recording_.steps.size() && !done_; ++next_) {
    const RoceStep& step = recording_.steps[next_];
    if (step.again) continue;
    if (step.from == side_)
      co_await play(next_);
    else
      co_await expect(next_);
    before_ = step.at;
    paced_ = peer_.now();
  }
  if (!done_) co_await linger();
  done_ = true;
}

Task<bool> RocePlayer::address() {
  const bool asks = side_ == Side::initiator;
  // Not in one expression: gcc 12 mixes up the two temporaries.
  if (asks)
    local_ = co_await peer_.bind(target_.where, bind_patience);
  else
    local_ = co_await peer_.bind_at(target_.where, bind_patience);
  if (!local_) {
    failed_ = peer_.why();
    done_ = true;
    co_return false;
  }
  begun_ = peer_.now();
  if (!asks) co_return true;
  live_ = target_.where;
  map_.set_addresses(*local_, *live_, target_.where.port);
  started_ = true;
  co_return true;
}

Task<> RocePlayer::play(std::size_t index) {
  const RoceStep& step = recording_.steps[index];
  const Instant due = after(paced_, scaled(step.at - before_));
  const auto over = [this] {
    drain();
    return done_;
  };
  if (due > peer_.now()) co_await peer_.until(over, due - peer_.now());
  drain();
  if (!done_) send(index);
}

bool RocePlayer::met(const RoceStep& step) const {
  const std::deque<RoceStep>& lane = heard_[static_cast<std::size_t>(lane_of(step))];
  if (!step.is_ack()) return !lane.empty();
  // IBA §9.7.5.1.2: an acknowledgment covers all PSNs before it.
  const std::uint32_t psn = map_.request_psn(step.packet().bth.psn);
  return (acked_ && ((*acked_ - psn) & PARLEY_IB_QPN_MAX) < 0x800000) || (!lane.empty() && lane.front().is_nak());
}

Task<bool> RocePlayer::wait_for(const RoceStep& step, Duration patience) {
  const Instant limit = after(peer_.now(), patience);
  const auto there = [&] {
    drain();
    return done_ || met(step);
  };
  for (;;) {
    const bool first = !started_;  // no peer has connected yet: wait without a limit
    const Instant until = first ? never : std::min(limit, resend_at_);
    const Duration rest = until == never ? Duration(1h) : until - peer_.now();
    co_await peer_.until(there, std::clamp(rest, Duration{0}, first ? Duration(1h) : Duration(nudge_after)));
    if (done_ || met(step)) co_return !done_;
    if (!first && peer_.now() >= limit) co_return false;
    nudge();
  }
}

Task<> RocePlayer::expect(std::size_t index) {
  const RoceStep& step = recording_.steps[index];
  const bool came = co_await wait_for(step, scaled(step.at - before_) + options_.patience);
  if (done_) co_return;
  std::deque<RoceStep>& lane = heard_[static_cast<std::size_t>(lane_of(step))];
  if (!came) {
    std::string instead;
    for (const auto& other : heard_)
      if (!other.empty() && instead.empty()) instead = "; it sent " + describe(other.front());
    differ({fmt::format("the live side did not send {}{}", describe(step), instead), ""}, &step, nullptr,
           fmt::format("nothing that answers it for {}", duration_text(peer_.now() - paced_)));
    co_return;
  }
  if (step.is_ack() && (lane.empty() || !lane.front().is_nak())) {
    ++result_.compared;
    log(false, step.frame, "acknowledged");
    co_return;
  }
  const RoceStep live = std::move(lane.front());
  lane.pop_front();
  compare_with(index, live);
}

// Waits for packets after the last one of the recording.
Task<> RocePlayer::linger() {
  co_await peer_.until(
      [this] {
        drain();
        return done_;
      },
      options_.linger);
  for (const auto& lane : heard_)
    for (const RoceStep& live : lane) {
      log(false, 0, describe(live) + ", not in the recording");
      ++result_.not_compared;
      if (recording_.lacks.empty() && result_.expected > 0 && !done_)
        differ({fmt::format("the live side sent {}, which is not in the recording", describe(live)), ""}, nullptr,
               &live);
    }
}

void RocePlayer::compare_with(std::size_t index, const RoceStep& live) {
  const RoceStep& step = recording_.steps[index];
  std::vector<Mismatch> ignored;
  const auto mismatch = compare(step, live, map_.masks(index), {options_.ignored, &ignored});
  for (const Mismatch& one : ignored) {
    ++result_.ignored;
    constexpr std::size_t words_max = 16;
    if (result_.ignored_words.size() < words_max)
      result_.ignored_words.push_back(fmt::format("ignored: {} (frame {})", one.what, step.frame));
  }
  ++result_.compared;
  log(false, step.frame, describe(live));
  if (mismatch) differ(*mismatch, &step, &live);
  map_.learn(step, index, live);
}

Evidence RocePlayer::evidence(const RoceStep& step, Instant since) const {
  Evidence out{
      .frame = step.frame, .at = step.at - since, .words = describe(step), .octets = step.octets, .known = step.known};
  if (!step.cm) return out;
  out.octets.assign(PARLEY_IB_MAD_LEN, 0);
  step.cm->emit(out.octets);
  out.known = out.octets.size();
  return out;
}

void RocePlayer::differ(Mismatch mismatch, const RoceStep* recorded, const RoceStep* live, std::string missing) {
  if (result_.differences++ == 0) {
    Difference& d = result_.difference.emplace();
    d.what = std::move(mismatch.what);
    d.rule = std::move(mismatch.rule);
    if (recorded != nullptr) d.recorded = evidence(*recorded, recording_.steps.front().at);
    if (live != nullptr) d.live = evidence(*live, begun_);
    if (live == nullptr && !missing.empty())
      d.live = Evidence{.frame = 0, .at = peer_.now() - begun_, .words = std::move(missing), .octets = {}, .known = 0};
  }
  if (!options_.keep_going) done_ = true;
}

void RocePlayer::log(bool played, std::uint64_t frame, std::string text) {
  if (result_.log.size() < PlayResult::log_max)
    result_.log.push_back({peer_.now() - begun_, played, frame, std::move(text)});
}

}  // namespace parley::replay
