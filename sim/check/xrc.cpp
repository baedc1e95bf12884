// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/xrc.hpp"

#include <fmt/format.h>

namespace parley::sim::check {

void check_xrc(const XrcState& state, Instant now, Judge& judge) {
  const auto add = [&](std::string text) { judge.add("xrc", now, state.label, std::move(text)); };
  const std::size_t tgts = state.registrants.size();
  if (tgts != state.held)
    add(fmt::format("{} TGT queue pairs are there when everything is over, and {} connections that need one", tgts,
                    state.held));
  if (state.created - state.destroyed != tgts)
    add(fmt::format("{} TGT queue pairs were made and {} have ended, but {} are there", state.created, state.destroyed,
                    tgts));
  if (state.members != state.members_expected)
    add(fmt::format("the domain has {} members, and {} processes live", state.members, state.members_expected));
  for (const std::size_t registrants : state.registrants)
    if (registrants != state.members_expected)
      add(fmt::format("{} are registered with a TGT queue pair, and {} processes live", registrants,
                      state.members_expected));
}

}  // namespace parley::sim::check
