// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/node/uplink.hpp"

#include <algorithm>

#include "base/after.hpp"
#include "ssa/node/options.hpp"

namespace parley::ssa {

namespace {

constexpr unsigned hook_tries = 8, hook_refusals = 10;
constexpr Duration heartbeat_min = std::chrono::milliseconds(10), heartbeat_max = std::chrono::seconds(60);
constexpr Duration hook_wait_min = std::chrono::milliseconds(50);

}  // namespace

void Uplink::assign(const wire::mad::SsaEndpoint& endpoint, bool is_backup, Duration heartbeat, Instant at) {
  *this = Uplink{};
  endpoint_ = endpoint;
  is_backup_ = is_backup;
  heartbeat_ = std::clamp(heartbeat, heartbeat_min, heartbeat_max);
  stage_ = Stage::waiting;
  deadline_ = at;
}

void Uplink::promote(Instant now) {
  is_backup_ = false;
  stage_ = Stage::waiting;
  tries_ = refusals_ = 0;
  transaction_ = 0;
  deadline_ = now;
}

Uplink::Step Uplink::send(Instant now, Rng& rng, Step step, Duration wait) {
  if (tries_++ == 0) transaction_ = draw_transaction_id(rng);
  deadline_ = after(now, wait);
  return step;
}

Uplink::Step Uplink::handle_deadline(Instant now, Rng& rng) {
  if (now < deadline_) return Step::nothing;
  switch (stage_) {
    case Stage::none: return Step::nothing;
    case Stage::waiting:
      stage_ = Stage::hooking;
      tries_ = 0;
      return send(now, rng, Step::hook, heartbeat_ / 8);
    case Stage::hooking: return tries_ < hook_tries ? send(now, rng, Step::hook, heartbeat_ / 8) : lose();
    case Stage::up: break;
  }
  const Instant end = after(heard_, interval() * 5 / 2);
  if (now >= end) return lose();
  const Step step = send(now, rng, Step::heartbeat, interval() / 4);
  deadline_ = std::min(deadline_, end);
  return step;
}

Uplink::Step Uplink::handle_answer(Instant now, AnswerStatus status, Duration heartbeat, Rng& rng) {
  transaction_ = 0;
  tries_ = 0;
  if (status == AnswerStatus::not_ready || status == AnswerStatus::unknown_node) {
    if (++refusals_ > hook_refusals) return lose();
    stage_ = Stage::waiting;
    const Duration wait = std::clamp(heartbeat, hook_wait_min, heartbeat_max);
    deadline_ = after(now, status == AnswerStatus::not_ready ? jittered(rng, wait) : jittered(rng, hook_wait_min));
    return Step::nothing;
  }
  if (status != AnswerStatus::ok) return lose();
  const bool was_up = is_up();
  heartbeat_ = std::clamp(heartbeat, heartbeat_min, heartbeat_max);
  heard_ = now;
  stage_ = Stage::up;
  const auto ns = static_cast<std::uint64_t>(interval().count());
  deadline_ = after(now, Duration(static_cast<Duration::rep>(ns - rng.below(ns / 8 + 1))));
  if (was_up) return Step::nothing;
  refusals_ = 0;
  return Step::connected;
}

}  // namespace parley::ssa
