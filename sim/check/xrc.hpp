// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// State of an XRC domain after the run: one TGT queue pair for each connection that its service still holds and no
// others, each with all living processes registered; and members for these processes only (docs/xrc.md).
#pragma once
#include <string>
#include <vector>

#include "sim/check/judge.hpp"

namespace parley::sim::check {

struct XrcState {
  std::string label{};   ///< "b:7471"
  std::size_t held = 0;  ///< connections of its service
  std::size_t members = 0, members_expected = 0;
  std::vector<std::size_t> registrants{};  ///< registrants of each existing TGT queue pair
  std::uint64_t created = 0, destroyed = 0;
};

void check_xrc(const XrcState& state, Instant now, Judge& judge);

}  // namespace parley::sim::check
