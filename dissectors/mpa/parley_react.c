/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judges how each side reacted to the other side's faults, on the first pass. The octets prove a fault; the reaction is
 * inferred from what a side acknowledged, sent and closed, so that most of these remarks are warnings. Faults that a
 * Terminate may still answer are judged when its sender ends. RFC 5040 §5.4, §7.2; RFC 5041 §7; RFC 5044 §7.1.2, §8;
 * RFC 6581 §9. */
#include "parley_mpa.h"
#include "parley_rdmap.h"

/* This side ends without a Terminate. A FIN that it sent before the fault arrived does not count. */
static void no_terminate(parley_half* half, gboolean reset) {
  const parley_conn* const c = half->tcp->conn;
  const parley_half* const bad = parley_peer_of(half);
  const parley_track *const own = (const parley_track*)c->side[half->side].track,
                            *const peer = (const parley_track*)c->side[bad->side].track;
  if (peer == NULL || peer->fault_count == 0 || peer->fault_end == 0 || c->outcome == PARLEY_FAILED) return;
  const parley_fault* const first = &peer->faults[0];
  if (parley_blameless(c, half->side, first) || c->side[half->side].terminate_frame != 0 ||
      c->side[bad->side].terminate_frame != 0 || c->side[bad->side].rst_frame != 0)
    return;
  if (bad->stream.acked < peer->fault_end) return; /* the fault may not have arrived */
  const gboolean went_on = own != NULL && own->heard >= peer->fault_end;
  parley_end_say(half, PI_WARN, "the %s received the fault of frame %u and %s without a Terminate; %s [RFC 5040 §7.2]",
                 parley_side_name(half->side), first->frame,
                 went_on ? "went on"
                 : reset ? "reset the connection"
                         : "closed",
                 parley_fault_due(first));
}

/* RFC 5040 §6.2.1: the stream is closed so that the Terminate arrives. */
static void reset_after_terminate(parley_half* half) {
  const parley_conn* const c = half->tcp->conn;
  const parley_track* const own = (const parley_track*)c->side[half->side].track;
  if (own == NULL || own->terminate_end == 0 || half->stream.acked >= own->terminate_end) return;
  if (c->side[1 - half->side].rst_frame != 0 || c->outcome == PARLEY_FAILED) return;
  parley_end_say(half, PI_WARN,
                 "the %s reset the connection before its Terminate was acknowledged: it may never arrive "
                 "[RFC 5040 §6.2.1]",
                 parley_side_name(half->side));
}

/* ------------------------------------------------------------------ the set-up */

static gboolean flag(const parley_startup* s, guint8 mask) { return (s->flags & mask) != 0; }
static guint depth(guint16 word) { return word & PARLEY_MPA_ENH_DEPTH_MASK; }
static gboolean negotiated(guint16 word) { return depth(word) != PARLEY_MPA_ENH_NOT_NEGOTIATED; }

/* RFC 5044 §7.1.2 rules 3, 5 and 9: the initiator closes after an invalid Reply. */
void parley_after_reply(parley_pdu* pdu) {
  const parley_startup *const q = &pdu->conn->request, *const r = &pdu->conn->reply;
  if (r->frame == 0) return;
  if (parley_reply_invalid(r))
    parley_find(pdu, PARLEY_FINDING_set_up, PARLEY_AT_SEGMENT,
                "the initiator went on with FPDUs after the invalid Reply of frame %u [RFC 5044 §7.1.2]", r->frame);
  if (q->frame != 0 && q->enhanced && r->enhanced && (q->ird & PARLEY_MPA_ENH_A) != 0 &&
      (r->ird & PARLEY_MPA_ENH_A) == 0)
    parley_find(
        pdu, PARLEY_FINDING_set_up_warning, PARLEY_AT_SEGMENT,
        "the initiator, which asked for A=1, went on although the Reply has A=0: no RTR was agreed, and it must "
        "terminate (layer 2, code 7) [RFC 6581 §9.2]");
}

/* RFC 6581 §9.1: whether the Reply requests at most what the Request offers. */
static gboolean depths_fit(const parley_startup* q, const parley_startup* r) {
  const gboolean read_rtr = (q->ird & r->ird & PARLEY_MPA_ENH_A) != 0 && (q->ord & r->ord & PARLEY_MPA_ENH_D) != 0;
  if (negotiated(r->ord) && negotiated(q->ird) && depth(r->ord) > depth(q->ird)) return FALSE;
  if (negotiated(q->ord) && negotiated(r->ird) && depth(q->ord) > depth(r->ird)) return FALSE;
  return !(read_rtr && depth(r->ird) == 0);
}

/* The initiator ended the set-up with a Terminate: checks whether it had a reason. */
void parley_set_up_terminated(parley_pdu* pdu, guint8 code) {
  const parley_conn* const c = pdu->conn;
  const parley_startup *const q = &c->request, *const r = &c->reply;
  if (r->frame != 0 && r->key != PARLEY_KEY_REP) {
    /* RFC 5044 §8: after an invalid startup frame TCP is closed at once; a Terminate cannot be sent outside FPDU
     * mode. */
    parley_find(pdu, PARLEY_FINDING_set_up, PARLEY_AT_SEGMENT,
                "the initiator sent a Terminate after an invalid Reply [RFC 5044 §8]");
    return;
  }
  if (q->frame == 0 || r->frame == 0 || parley_reply_invalid(r) || q->cut || r->cut) return;
  const gboolean both = q->enhanced && r->enhanced;
  if (code == 7 && both && c->peer_to_peer && c->rtr_agreed != 0)
    parley_find(pdu, PARLEY_FINDING_set_up, PARLEY_AT_SEGMENT,
                "the initiator found no matching RTR although Request and Reply have%s%s%s in common [RFC 6581 §9.2]",
                (c->rtr_agreed & (1 << PARLEY_RTR_SEND)) != 0 ? " Send" : "",
                (c->rtr_agreed & (1 << PARLEY_RTR_WRITE)) != 0 ? " Write" : "",
                (c->rtr_agreed & (1 << PARLEY_RTR_READ)) != 0 ? " Read" : "");
  if (code == 6 && both && (!negotiated(r->ird) || !negotiated(r->ord)))
    parley_find(pdu, PARLEY_FINDING_set_up_warning, PARLEY_AT_SEGMENT,
                "the initiator terminates for lack of IRD although the Reply asks not to negotiate (0x3fff) "
                "[RFC 6581 §9.1]");
  else if (code == 6 && both && depths_fit(q, r))
    parley_find(pdu, PARLEY_FINDING_set_up_warning, PARLEY_AT_SEGMENT,
                "the initiator terminates for lack of IRD, yet the Reply (IRD %u, ORD %u) asks for no more than its "
                "Request (IRD %u, ORD %u) offers [RFC 6581 §9.1]",
                depth(r->ird), depth(r->ord), depth(q->ird), depth(q->ord));
  if (code == 4)
    parley_find(pdu, PARLEY_FINDING_set_up_warning, PARLEY_AT_SEGMENT,
                "the initiator calls the Reply invalid, and nothing in the capture shows why [RFC 5044 §8]");
}

/* Whether the initiator may regard the Reply as one that does not fit its Request (RFC 6581 §10). */
static gboolean may_refuse(const parley_startup* q, const parley_startup* r) {
  const gboolean enhanced_refused =
      q->frame != 0 && flag(q, PARLEY_MPA_FLAG_S) && q->revision >= 2 && !flag(r, PARLEY_MPA_FLAG_S);
  return flag(r, PARLEY_MPA_FLAG_M) || r->revision > 2 || r->pd_length > PARLEY_MPA_PD_MAX || enhanced_refused ||
         (q->frame != 0 && r->revision != q->revision);
}

/* The initiator ends and has sent nothing after the Reply. */
static void initiator_closed(parley_half* half) {
  parley_conn* const c = half->tcp->conn;
  const parley_startup *const q = &c->request, *const r = &c->reply;
  if (r->frame == 0 || flag(r, PARLEY_MPA_FLAG_R) || half->fpdus_seen > 0 || half->any_gap || c->rtr_frame.frame != 0 ||
      half->pending_length > 0 || c->outcome == PARLEY_FAILED)
    return;
  if (c->peer_to_peer && c->rtr_agreed == 0) {
    parley_end_say(
        half, PI_WARN,
        "the initiator closed without the Terminate (layer 2, code 7) that a Reply without a common RTR kind "
        "asks for [RFC 6581 §9.2]");
    c->outcome = PARLEY_FAILED;
  }
  if (!may_refuse(q, r)) return;
  c->outcome = PARLEY_FAILED;
  if (flag(r, PARLEY_MPA_FLAG_M) && !parley_reply_invalid(r) && q->frame != 0 && q->revision == r->revision &&
      (flag(q, PARLEY_MPA_FLAG_S) || !flag(r, PARLEY_MPA_FLAG_S)))
    parley_end_say(half, PI_WARN,
                   "the initiator closed after a Reply that requires markers; every sender must be able to insert them "
                   "[RFC 5044 §4.3]");
  else /* it may close, and after an invalid Reply it must */
    parley_end_say(half, PI_NOTE, "the initiator closed after a Reply that does not fit its Request [RFC 6581 §10]");
}

static void responder_reset(parley_half* half) {
  const parley_conn* const c = half->tcp->conn;
  const parley_half* const initiator = parley_peer_of(half);
  if (c->rtr_frame.frame == 0 || (c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) == 0 || half->fpdus_seen > 0 ||
      c->outcome == PARLEY_FAILED || half->any_gap || initiator->fpdus_seen > 0)
    return;
  parley_end_say(half, PI_WARN,
                 "the responder reset the connection on the agreed Rtr frame: the S of its Reply may be an echo of "
                 "reserved bits [OFA 2007-10 Rtr §2]");
}

const char* parley_rtr_frame_unproven(parley_conn* c) {
  if ((c->rtr_agreed & (1 << PARLEY_RTR_FRAME)) == 0 || c->rtr_frame.frame != 0 || c->echo_told ||
      parley_reply_invalid(&c->reply) || /* there is no agreement */
      (c->reply.flags & (PARLEY_MPA_RES_V2 | PARLEY_MPA_FLAG_R)) != 0)
    return NULL;
  c->echo_told = TRUE;
  return "the responder answered S with S under revision 1, and nothing shows whether it knows the Rtr frame or echoes "
         "reserved bits, as Linux siw does [OFA 2007-10 Rtr §2]";
}

void parley_react_at_end(parley_half* half, gboolean reset) {
  const parley_half* const initiator = &half->tcp->half[PARLEY_INITIATOR];
  /* The Rtr frame may come until the initiator ends or is cut off. */
  const gboolean no_more = half->side == PARLEY_INITIATOR || reset;
  const char* const unproven = no_more && !initiator->any_gap ? parley_rtr_frame_unproven(half->tcp->conn) : NULL;
  no_terminate(half, reset);
  if (reset) reset_after_terminate(half);
  if (half->side == PARLEY_INITIATOR) initiator_closed(half);
  if (half->side == PARLEY_RESPONDER && reset) responder_reset(half);
  if (unproven != NULL) parley_end_say(half, PI_WARN, "%s", unproven);
}
