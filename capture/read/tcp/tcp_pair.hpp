// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Both directions of a TCP connection. A segment waits for the octets of the other direction that its sender had
// received (TcpHalf::heard).
// A Half is a HalfSink with these members: a TcpHalf `tcp`; the frames of the first SYN, FIN and RST (0: not seen);
// `counts`; and `first_seq`, the sequence number of stream position 0.
#pragma once
#include "capture/read/tcp/tcp_half.hpp"

namespace parley::capture {

/// Whether this SYN of direction `from` begins another connection on the same addresses and ports.
template <class Half>
bool is_another_syn(const Half (&halves)[2], unsigned from, const wire::TcpSegmentView& t) {
  if (!t.syn() || t.has_ack()) return false;
  const Half& h = halves[from];
  if (h.syn_frame != 0) return t.seq != h.tcp.syn_seq();
  if (h.tcp.synchronised()) return !h.tcp.may_begin_at(t.seq);
  return halves[1 - from].tcp.position() > 0;
}

template <class Half>
bool closed(const Half (&halves)[2]) {
  return halves[0].rst_frame != 0 || halves[1].rst_frame != 0 || (halves[0].fin_frame != 0 && halves[1].fin_frame != 0);
}

/// Closed, and no new octets are expected. Later segments are retransmissions.
template <class Half>
bool settled(const Half (&halves)[2]) {
  if (halves[0].tcp.holding() || halves[1].tcp.holding()) return false;
  if (halves[0].rst_frame != 0 || halves[1].rst_frame != 0) return true;
  // RFC 9293 §3.4: a FIN occupies one sequence number.
  const auto all_acked = [](const Half& h) { return h.tcp.acked_position() == h.tcp.position() + 1; };
  return closed(halves) && all_acked(halves[0]) && all_acked(halves[1]);
}

/// The capture holds the SYNs, both FINs and all octets between them. Packets that the capture dropped do not matter.
template <class Half>
bool whole(const Half (&halves)[2]) {
  const auto seen = [](const Half& h) {
    return h.tcp.from_syn() && h.fin_frame != 0 && h.rst_frame == 0 && h.counts.missing_octets == 0;
  };
  return seen(halves[0]) && seen(halves[1]) && settled(halves);
}

/// Computes first_seq from a segment, by a sequence number that is certainly ahead of the delivered octets.
template <class Half>
void note_sequence(Half& h, const wire::TcpSegmentView& t) {
  const std::uint32_t seq = t.syn() ? t.seq + 1 : t.seq;
  const std::uint32_t ahead = seq + (1u << 30);
  if (!h.tcp.synchronised())
    h.first_seq = seq;
  else if (const auto at = h.tcp.position_of(ahead))
    h.first_seq = ahead - static_cast<std::uint32_t>(*at);
}

/// Delivers segments that waited for octets of the other direction if these were read or waited for too long. `now`:
/// stop waiting.
template <class Half>
void deliver_both(Half (&halves)[2], bool now, const SegmentRef& ref, ReassemblyBudget& budget) {
  for (bool moved = true; moved;) {
    moved = false;
    for (unsigned i = 0; i < 2; ++i) {
      Half &h = halves[i], &peer = halves[1 - i];
      if (now) h.tcp.never_wait();
      h.tcp.heard(peer.tcp.position());
      const std::uint64_t before = h.tcp.position();
      h.tcp.deliver_buffered(budget, h);
      moved = moved || h.tcp.position() != before;
    }
  }
  for (unsigned i = 0; i < 2; ++i) {
    Half &h = halves[i], &peer = halves[1 - i];
    const std::uint64_t wanted = h.tcp.waits_for();
    if (wanted == 0 || !h.tcp.waited_long()) continue;
    peer.tcp.concede(wanted, ref, budget, peer);
    h.tcp.heard(peer.tcp.position());
    h.tcp.deliver_buffered(budget, h);
  }
}

/// The capture ends: treats octets that are waited for as missing.
template <class Half>
void settle_waits_of(Half (&halves)[2], const SegmentRef& ref, ReassemblyBudget& budget) {
  for (int turn = 0; turn < 2; ++turn)
    for (unsigned i = 0; i < 2; ++i) {
      Half &h = halves[i], &peer = halves[1 - i];
      while (const std::uint64_t wanted = h.tcp.waits_for()) {
        peer.tcp.concede(wanted, ref, budget, peer);
        h.tcp.heard(peer.tcp.position());
        h.tcp.deliver_buffered(budget, h);
      }
      peer.tcp.heard(h.tcp.position());
      peer.tcp.deliver_buffered(budget, peer);
    }
}

}  // namespace parley::capture
