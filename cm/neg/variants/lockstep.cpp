// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/lockstep.hpp"

namespace parley::neg {

void Lockstep::enter(Stage stage) {
  if (stage == stage_) return;
  stage_ = stage;
  steps_ = steps(stage);
  at_ = 0;
}

Outcome<std::optional<std::size_t>> Lockstep::message_length(Stage stage, ConstBytes) {
  enter(stage);
  return at_ < steps_.size() ? steps_[at_].length : 0;
}

Outcome<Turn> Lockstep::exchange(Stage stage, std::optional<ConstBytes> peer) {
  enter(stage);
  Turn out;
  if (peer && at_ < steps_.size()) {
    if (auto taken = steps_[at_].take(*peer); !taken) return tl::unexpected(taken.error());
    if (role_ == Role::responder && steps_[at_].answered) out.message = steps_[at_].say();
    ++at_;
  }
  if (role_ == Role::initiator && at_ < steps_.size()) {
    out.message = steps_[at_].say();
    if (!steps_[at_].answered) ++at_;
  }
  out.completed = at_ >= steps_.size();
  return out;
}

}  // namespace parley::neg
