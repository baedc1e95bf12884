// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Both directions of a TCP connection: each waits for what its sender had received of the other (TcpHalf::heard).
// A Half is a HalfSink with a TcpHalf `tcp`.
#pragma once
#include "capture/read/tcp/tcp_half.hpp"

namespace parley::capture {

/// What waited for octets of the other direction goes on when they came, or when they will not come. `now`: nothing waits
/// any longer.
template <class Half>
void go_on_together(Half (&halves)[2], bool now, const SegmentRef& ref, ReassemblyBudget& budget) {
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned i = 0; i < 2; ++i) {
      Half &h = halves[i], &peer = halves[1 - i];
      if (now) h.tcp.never_wait();
      h.tcp.heard(peer.tcp.position());
      const std::uint64_t before = h.tcp.position();
      h.tcp.go_on(budget, h);
      moved = moved || h.tcp.position() != before;
    }
  }
  for (unsigned i = 0; i < 2; ++i) {
    Half &h = halves[i], &peer = halves[1 - i];
    const std::uint64_t wanted = h.tcp.waits_for();
    if (wanted == 0 || !h.tcp.waited_long()) continue;
    peer.tcp.concede(wanted, ref, budget, peer);
    h.tcp.heard(peer.tcp.position());
    h.tcp.go_on(budget, h);
  }
}

/// The capture ends: what is waited for will not come.
template <class Half>
void settle_waits_of(Half (&halves)[2], const SegmentRef& ref, ReassemblyBudget& budget) {
  for (int turn = 0; turn < 2; ++turn)
    for (unsigned i = 0; i < 2; ++i) {
      Half &h = halves[i], &peer = halves[1 - i];
      while (const std::uint64_t wanted = h.tcp.waits_for()) {
        peer.tcp.concede(wanted, ref, budget, peer);
        h.tcp.heard(peer.tcp.position());
        h.tcp.go_on(budget, h);
      }
      peer.tcp.heard(h.tcp.position());
      peer.tcp.go_on(budget, peer);
    }
}

}  // namespace parley::capture
