// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/node/lost_report.hpp"

#include <algorithm>

#include "base/after.hpp"

namespace parley::ssa {

namespace {
constexpr unsigned report_tries = 8;
}

void LostReport::add(Instant now, const Gid& child) {
  if (std::find(lost_.begin(), lost_.end(), child) != lost_.end()) return;
  if (lost_.size() >= bound_) {
    if (batch_ == lost_.size()) return;
    lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(batch_));
  }
  lost_.push_back(child);
  if (deadline_ == never) deadline_ = after(now, timers_.report_delay);
}

void LostReport::remove(const Gid& child) {
  const auto found = std::find(lost_.begin() + static_cast<std::ptrdiff_t>(batch_), lost_.end(), child);
  if (found == lost_.end()) return;
  lost_.erase(found);
  if (lost_.empty()) clear();
}

bool LostReport::handle_deadline(Instant now, Rng& rng) {
  if (now < deadline_) return false;
  if (tries_ == report_tries) {  // the master is gone; its successor asks the nodes themselves
    clear();
    return false;
  }
  if (tries_ == 0) {
    transaction_ = draw_transaction_id(rng);
    batch_ = std::min<std::size_t>(lost_.size(), PARLEY_SSA_CHILDREN_MAX);
  }
  deadline_ = after(now, jittered(rng, doubled(timers_.report_first, tries_++, 16 * timers_.report_first)));
  return batch_ > 0;
}

bool LostReport::handle_answer(Instant now, std::uint32_t transaction_id) {
  if (transaction_ == 0 || transaction_id != transaction_) return false;
  lost_.erase(lost_.begin(), lost_.begin() + static_cast<std::ptrdiff_t>(batch_));
  batch_ = 0;
  transaction_ = 0;
  tries_ = 0;
  deadline_ = lost_.empty() ? never : after(now, timers_.report_delay);
  return true;
}

void LostReport::clear() {
  lost_.clear();
  batch_ = 0;
  transaction_ = 0;
  tries_ = 0;
  deadline_ = never;
}

}  // namespace parley::ssa
