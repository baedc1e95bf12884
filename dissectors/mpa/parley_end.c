/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reports what a FIN or RST leaves unfinished, on the first pass: octets of an FPDU or startup frame, a Request without
 * Reply, an agreed RTR, messages and Reads. RFC 5044 §7.1.2, §7.2; RFC 6581 §9.2, §10; RFC 5040 §5.2; RFC 5041 §5.2. If
 * octets are missing it reports nothing, because they may have completed it. */
#include <epan/expert.h>

#include "parley_mpa.h"
#include "parley_rdmap.h"

void parley_end_say(parley_half* half, int severity, const char* format, ...) {
  parley_end* const item = (parley_end*)parley_item_add(half, PARLEY_ITEM_END, sizeof *item);
  va_list arguments;
  va_start(arguments, format);
  item->text = wmem_strdup_vprintf(wmem_file_scope(), format, arguments);
  va_end(arguments);
  item->severity = severity;
  if (severity == PI_ERROR) ++half->tcp->conn->errors;
  if (severity == PI_WARN) ++half->tcp->conn->warnings;
}

static const char* name_of(const parley_half* half) { return parley_side_name(half->side); }

static gboolean terminated(const parley_conn* c) {
  return c->side[PARLEY_INITIATOR].terminate_frame != 0 || c->side[PARLEY_RESPONDER].terminate_frame != 0;
}

/* Octets of an incomplete frame. */
static void end_of_octets(parley_half* half, gboolean reset) {
  if (half->pending_length == 0) return;
  if (half->phase == PARLEY_PHASE_FPDUS && !half->lost && !half->trying)
    parley_end_say(half, PI_NOTE, "the stream of the %s ends inside an FPDU, of which %u octets came [RFC 5044 §7.2]",
                   name_of(half), half->pending_length);
  if (half->phase != PARLEY_PHASE_STARTUP && half->startup_due == 0) return;
  parley_startup* const request = &half->tcp->conn->request;
  if (half->side == PARLEY_INITIATOR && request->frame == 0 && half->pending_length >= PARLEY_MPA_HEADER_LEN) {
    parley_startup_read(half, half->pending, half->pending_length, request);
    request->whole = FALSE;
  }
  /* RFC 5044 §7.1.1: PD_Length is exact. A reset may cut a frame short; a FIN may not. */
  const gboolean promised = !reset && half->from_syn && half->pending_length >= PARLEY_MPA_HEADER_LEN;
  parley_end_say(half, promised ? PI_ERROR : PI_NOTE,
                 promised
                     ? "the %s announced more private data than it sent: %u octets of its startup frame came before "
                       "its FIN [RFC 5044 §7.1.1]"
                     : "the startup frame of the %s is not whole: %u octets came [RFC 5044 §7.1.2]",
                 name_of(half), half->pending_length);
}

static void end_out_of_order(parley_half* half, const char* what, guint32 since) {
  parley_end_say(half, PI_WARN,
                 "the %s sent the segments of its last %s out of order, from frame %u on [RFC 5041 §5.3]",
                 name_of(half), what, since);
}

/* `all`: the side had nothing more to send. */
static void end_of_messages(parley_half* half, gboolean all) {
  const parley_track* const t = (const parley_track*)half->tcp->conn->side[half->side].track;
  if (t == NULL || t->lossy) return;
  for (guint32 qn = 0; qn < G_N_ELEMENTS(t->queues); qn++) {
    const parley_extent* const e = &t->queues[qn].extent;
    if (!e->open || e->after_gap) continue;
    if (e->ahead_count > 0 && all)
      parley_end_say(half, PI_ERROR,
                     "the last message of the %s on queue %u (MSN %u) lacks the octets from MO %" PRIu64
                     " on [RFC 5041 §5.2]",
                     name_of(half), qn, t->queues[qn].msn_before, e->run.end);
    else if (e->odd_frame != 0)
      end_out_of_order(half, "message", e->odd_frame);
    else if (!terminated(half->tcp->conn))
      parley_end_say(half, PI_NOTE,
                     "the last message of the %s on queue %u (MSN %u) has no last segment [RFC 5041 §5.2]",
                     name_of(half), qn, t->queues[qn].msn_before);
  }
  const parley_extent* const write = &t->write.extent;
  if (write->after_gap || write->odd_frame == 0) return;
  if (write->ahead_count > 0 && all)
    parley_end_say(half, PI_ERROR,
                   "the last RDMA Write of the %s lacks the octets from TO 0x%" PRIx64
                   " on (STag 0x%08x) "
                   "[RFC 5041 §5.2]",
                   name_of(half), write->run.end, t->write.stag);
  else
    end_out_of_order(half, "RDMA Write", write->odd_frame);
}

/* This side sends no more, so the other side's Reads and Atomics remain unanswered. */
static void end_of_answers(parley_half* half, gboolean all) {
  parley_half* const asker = parley_peer_of(half);
  const parley_track* const t = (const parley_track*)half->tcp->conn->side[asker->side].track;
  if (t == NULL || t->lossy || t->fetches_unknown || t->fetch_count == 0) return;
  const parley_extent* const answer = &t->answer;
  if (answer->ahead_count > 0 && all && !t->answer_wrong)
    parley_end_say(half, PI_ERROR, "the last Read Response of the %s lacks octets [RFC 5040 §4.5]", name_of(half));
  else if (answer->odd_frame != 0 && !t->answer_wrong)
    end_out_of_order(half, "Read Response", answer->odd_frame);
  if (terminated(half->tcp->conn)) return;
  parley_end_say(
      half, PI_NOTE,
      "of the Reads and Atomics of the %s %u got no complete answer, the one of frame %u for instance [RFC 5040 §5.2]",
      name_of(asker), t->fetch_count, t->fetches->request_frame);
}

static gboolean silent(const parley_half* half) {
  return half->stream.position == half->base && half->pending_length == 0 && !half->any_gap;
}

/* RFC 5044 §7.1.2 rule 2: a good Request is answered, at least with R=1. A responder that knows only revision 1 closes
 * when it sees revision 2 (RFC 6581 §10). An initiator has a timeout (rule 10). */
static void end_without_reply(parley_half* half, const char* how) {
  const parley_conn* const c = half->tcp->conn;
  if (half->side == PARLEY_INITIATOR)
    parley_end_say(half, PI_NOTE, "no Reply came before the initiator %s the connection [RFC 5044 §7.1.2]", how);
  else if (c->request.revision == 2)
    parley_end_say(half, PI_NOTE,
                   "the responder %s the connection instead of answering; it may not know revision 2 [RFC 6581 §10]",
                   how);
  else if (c->errors == 0) /* so far they can only be the Request's */
    parley_end_say(half, PI_WARN,
                   "the responder %s the connection without a Reply to a valid Request [RFC 5044 §7.1.2]", how);
}

/* An RTR was agreed but not sent. */
static void end_without_rtr(parley_half* half) {
  const parley_conn* const c = half->tcp->conn;
  const parley_half* const initiator = &half->tcp->half[PARLEY_INITIATOR];
  if (initiator->fpdus_seen > 0 || initiator->any_gap || initiator->pending_length > 0) return;
  if ((c->reply.flags & PARLEY_MPA_FLAG_R) != 0 || c->side[PARLEY_RESPONDER].terminate_frame != 0) return;
  if (c->peer_to_peer)
    parley_end_say(half, PI_NOTE, "the connection ended before the initiator sent the agreed RTR [RFC 6581 §9.2]");
  else if ((c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) != 0 && c->rtr_frame.frame == 0)
    parley_end_say(half, PI_NOTE,
                   "the connection ended before the initiator sent the agreed Rtr frame [OFA 2007-10 Rtr §2]");
}

void parley_mpa_ended(parley_half* half, gboolean reset) {
  parley_startup_broken_off(half);
  const parley_conn* const c = half->tcp->conn;
  const parley_direction *const own = &c->side[half->side], *const other = &c->side[1 - half->side];
  const gboolean first = other->fin_frame == 0 && other->rst_frame == 0;
  if ((reset && own->fin_frame != 0) || half->stream.first != NULL) return; /* reported at FIN, or octets are missing */
  parley_react_at_end(half, reset);
  if (!half->any_gap) {
    end_of_octets(half, reset);
    /* After a reset or a Terminate, the side may have had more to send. */
    const gboolean all = !reset && !terminated(c);
    end_of_messages(half, all);
    end_of_answers(half, all);
  }
  if (!first || c->request.frame == 0) return;
  if (c->reply.frame != 0)
    end_without_rtr(half);
  else if (silent(&half->tcp->half[PARLEY_RESPONDER]))
    end_without_reply(half, reset ? "reset" : "closed");
}
