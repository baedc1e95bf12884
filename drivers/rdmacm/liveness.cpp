// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Whether the peer of an idle connection is still there. A NIC only retries posted requests, and reports a peer's
// packets only by completions. An idle queue pair therefore posts a probe. While requests of the program are posted,
// the NIC's own retries decide: a request for which the peer has no receive may wait as long as rnr_retry_count allows,
// and would delay a probe after it.
#include <algorithm>

#include "base/text.hpp"
#include "drivers/rdmacm/provider.hpp"

namespace parley::rdmacm {

void Rdmacm::begin_watch(Connection& c, Instant now) {
  if (c.keepalive == Duration{} || c.type != QpType::rc || c.device->transport() == Transport::iwarp) return;
  c.heard = c.qp->heard();
  c.heard_at = now;
  set_deadline(c, after(now, c.keepalive));
}

/// A lost probe is not retransmitted before the NIC's ACK time-out, which may be seconds. A further probe shows the
/// peer's NIC the gap, which it reports at once (IBA §9.7.5.1.1). Several probes are therefore sent, spread over the
/// time that the peer has to answer.
void Rdmacm::watch(Connection& c, Instant now) {
  if (const std::uint64_t heard = c.qp->heard(); heard != c.heard) {
    c.heard = heard;
    c.heard_at = c.probed_at = now;  // requests in flight still have their full time from here on
  }
  const unsigned before = c.qp->probes();
  const bool due = before != 0 || now - c.heard_at >= c.keepalive;
  if (due && c.qp->sends_open() == 0 && c.qp->probe() && before == 0) c.probed_at = now;
  if (c.qp->probes() == 0)
    return set_deadline(c, std::max(after(c.heard_at, c.keepalive), after(now, c.keepalive / 2)));
  if (c.dead_after == Duration{}) return set_deadline(c, after(now, c.keepalive));
  // Not from heard_at on: this process may have been stopped meanwhile.
  const Duration last = cm::last_word(c.keepalive, c.dead_after);
  const Duration patience = std::max(c.dead_after - c.keepalive - last, Duration(verbs::Qp::probes_max));
  const Instant dead_at = after(c.probed_at, patience);
  if (now < dead_at) return set_deadline(c, std::min(dead_at, after(now, patience / verbs::Qp::probes_max)));
  // In SQD a queue pair sends nothing.
  if (c.qp->state() != QpState::rts) return set_deadline(c, after(now, c.keepalive));
  // A queue pair that its owner has closed does not answer either, and its DREQ may be lost: Linux repeats it after 6.1
  // s.
  hang_up(c);
  c.silent = now + last - c.heard_at;  // if nothing arrives in that time either
  enter(c, Phase::breaking);
  set_deadline(c, after(now, last));
}

void Rdmacm::silent_end(Connection& c, bool answered) {
  disconnected(c,
               answered ? cm::closed_in_silence(c.peer, c.silent)
                        : cm::no_answer(cm::step::data, {}, c.peer, " for " + duration_text(c.silent)),
               false);
}

}  // namespace parley::rdmacm
