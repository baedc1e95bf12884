// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/neg/variants/lockstep.hpp"

#include <fmt/format.h>

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
    // With Parley's own framing, the peer chooses the length.
    if (peer->size() != steps_[at_].length)
      return tl::unexpected(
          Failure{.problem = Problem::invalid_peer_data,
                  .text = fmt::format("a message of {} octets in the stage {}, where the peer says {}", peer->size(),
                                      to_string(stage), steps_[at_].length),
                  .advice = "see whether both sides have the same variant and configuration"});
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
