// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The Analyzer on a live capture: which connections have ended, and how many packets the capture dropped.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "capture/analyzer.hpp"
#include "capture/report/text.hpp"

namespace parley::capture {

void Analyzer::dropped(std::uint64_t n) {
  // The next packets may have been queued before the last drop. Therefore the drops since the previous call count for
  // connections that begin after this call, too.
  dropped_before_ = report_.dropped;
  report_.dropped += n;
}

std::vector<ConnectionReport> Analyzer::take_ended(Instant now) {
  end_closed(now);
  // A clock that was set back must not delay the sweep.
  if (now >= next_sweep_ || next_sweep_ - now > sweep_every) {
    next_sweep_ = now + sweep_every;
    end_silent(now);
    end_silent_roce(now);
  }
  reports_octets_ = 0;
  return report_.take_connections();
}

// As retire_closed(), but by time alone; a connection that is kept does not keep those behind it.
void Analyzer::end_closed(Instant now) {
  Fifo<Key> left;
  for (const Key& key : closed_) {
    const auto it = connections_.find(key);
    if (it == connections_.end() || !it->second.followed() || !it->second.closed()) continue;
    const Duration quiet = now - it->second.last_at();
    if (quiet < (it->second.settled() ? settled_quiet : closed_quiet)) {
      left.push_back(key);
      continue;
    }
    it->second.may_be_mpa = it->second.may_be_negotiation = false;
    retire(it->second);
  }
  closed_ = std::move(left);
}

void Analyzer::end_silent(Instant now) {
  for (auto it = connections_.begin(); it != connections_.end();) {
    Known& known = it->second;
    end_silent_negotiation(known, now);
    const bool followed = known.slot != nullptr && !(*known.slot)->closed();
    const bool mpa = followed && (*known.slot)->is_mpa();
    if (!followed ||
        now - (*known.slot)->last_at() < (mpa ? options_.idle : std::min(options_.idle, undecided_quiet))) {
      ++it;
      continue;
    }
    const std::size_t listed = report_.connections.size();
    retire(known.slot);
    if (report_.connections.size() > listed)
      report_.connections.back().end =
          fmt::format("open, and silent for {}: not followed any longer", duration_text(options_.idle));
    // If an MPA connection continues later, its FPDUs identify it. Any other one is forgotten: its set-up may follow.
    known.may_be_mpa = mpa;
    if (!mpa) forget_negotiation(known);
    it = mpa ? std::next(it) : connections_.erase(it);
  }
}

}  // namespace parley::capture
