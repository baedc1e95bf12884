// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the peers sent and agreed on in one MPA set-up. Its phase: set_up_phase.hpp.
#pragma once
#include <optional>

#include "capture/rules/mpa/startup_check.hpp"

namespace parley::capture {

struct SetUpFacts {
  std::optional<StartupSeen> request, reply;
  std::optional<StartupSeen> rtr_frame;  // or another startup frame in its place
  Agreement agreement;
  mpa::Rtr rtr_seen = mpa::Rtr::none;
  Instant first_fpdu_at{};
  bool may_refuse = false;  // the Reply gave the initiator a reason to close
};

}  // namespace parley::capture
