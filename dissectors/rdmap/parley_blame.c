/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judges a Terminate from earlier events: RFC 5040 §4.8, §5.4. Linux siw writes the control word in host order. Most
 * such Terminates show that themselves; for the rest, the fault that they answer decides. */
#include <string.h>

#include "parley_rdmap.h"

static gboolean is(const parley_fault* fault, guint8 layer, guint8 etype, guint8 code) {
  return fault->known && fault->layer == layer && fault->etype == etype && fault->code == code;
}

/* The other side's fault that (layer, etype, code) reports; NULL: none. */
static const parley_fault* cause_of(const parley_track* peer, guint8 layer, guint8 etype, guint8 code) {
  if (is(&peer->cause, layer, etype, code)) return &peer->cause;
  for (guint i = 0; i < peer->fault_count; ++i)
    if (is(&peer->faults[i], layer, etype, code)) return &peer->faults[i];
  return NULL;
}

/* True: both halves of octet 0 are equal, and the bits in siw's places of M, D and R are not siw's. The Terminate's
 * size contradicts the parts that they would announce, and fits the order of the RFC. */
static gboolean only_bits(tvbuff_t* tvb, guint offset, guint length, const parley_terminate* t) {
  if (!t->swapped || t->octet0 >> 4 != (t->octet0 & 0xF)) return FALSE;
  parley_terminate as_sent = *t;
  parley_terminate_set_swapped(&as_sent, FALSE);
  return parley_terminate_layout(tvb, offset, length, t).octets != length &&
         parley_terminate_layout(tvb, offset, length, &as_sent).octets == length;
}

static void check_order(parley_pdu* pdu, tvbuff_t* tvb, guint offset, parley_terminate* t) {
  const guint8 hi = t->octet0 >> 4, lo = t->octet0 & 0xF;
  if (only_bits(tvb, offset, pdu->ulpdu_length - offset, t)) parley_terminate_set_swapped(t, FALSE);
  const parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
  const char* why = "";
  /* Both readings are registered and no header bit distinguishes them: earlier events decide. */
  if (hi != lo && (t->bits & 0xE7) == 0 && parley_terminate_text(hi, lo, t->code) != NULL &&
      parley_terminate_text(lo, hi, t->code) != NULL) {
    const parley_fault *const as_sent = cause_of(peer, hi, lo, t->code), *const meant = cause_of(peer, lo, hi, t->code);
    if ((as_sent == NULL) != (meant == NULL)) {
      parley_terminate_set_swapped(t, meant != NULL);
      why = wmem_strdup_printf(wmem_file_scope(), "; frame %u is why", (meant != NULL ? meant : as_sent)->frame);
    } else if (peer->segments == 0 && !peer->lossy && hi != PARLEY_RDMAP_LAYER_LLP && lo == PARLEY_RDMAP_LAYER_LLP) {
      parley_terminate_set_swapped(t, TRUE);
      why = "; it had received no FPDU by then";
    } else if (t->swapped) {
      why = "; the first comes with a DDP header";
    }
  }
  if (!t->swapped) return;
  const char* sent = parley_terminate_describe(wmem_file_scope(), hi, lo, t->code);
  const char* meant = parley_terminate_describe(wmem_file_scope(), lo, hi, t->code);
  parley_find(pdu, PARLEY_FINDING_terminate_order, PARLEY_AT_BODY,
              "Control word 0x%02x%02x%02x is in siw's order: as sent %s, meant is %s%s%s [RFC 5040 §4.8]", t->octet0,
              t->code, t->bits, sent, meant, hi == lo ? ", M, D, R in low bits" : "", why);
}

/* RFC 5040 §4.8 defines the headers for each error. */
static void check_headers(parley_pdu* pdu, tvbuff_t* tvb, guint offset, const parley_terminate* t) {
  const char* who = parley_side_name(pdu->from);
  if (t->layer == PARLEY_RDMAP_LAYER_LLP) {
    if (t->d || t->r) /* check_form() reports M without D */
      parley_find(pdu, PARLEY_FINDING_terminate_parts, PARLEY_AT_BODY,
                  "the %s sent headers with the Terminate of an MPA error, which has none [RFC 5040 §4.8]", who);
    return;
  }
  if (t->etype == 0) {
    if (t->d || t->r)
      parley_find(
          pdu, PARLEY_FINDING_terminate_parts, PARLEY_AT_BODY,
          "the %s sent headers with the Terminate of a local catastrophic error, which has none [RFC 5040 §4.8]", who);
    return;
  }
  const gboolean of_segment = (t->layer == PARLEY_RDMAP_LAYER_DDP && t->etype != 0) ||
                              (t->layer == PARLEY_RDMAP_LAYER_RDMAP && t->etype == 2 && t->code <= 6);
  if (of_segment && !t->d) {
    parley_find(pdu, PARLEY_FINDING_terminate_parts, PARLEY_AT_BODY,
                "the %s left the DDP header of the faulty segment out of its Terminate (D) [RFC 5040 §4.8]", who);
    return;
  }
  if (t->layer != PARLEY_RDMAP_LAYER_RDMAP || t->etype != 1 || !t->d || t->r) return;
  parley_segment quoted;
  if (parley_terminate_quotes(tvb, offset, pdu->ulpdu_length - offset, t, &quoted) && !quoted.tagged &&
      quoted.opcode == 0x1)
    parley_find(pdu, PARLEY_FINDING_terminate_parts, PARLEY_AT_BODY,
                "the %s left the Read Request that it refuses out of its Terminate (R) [RFC 5040 §4.8]", who);
}

/* RFC 5041 §5.1, RFC 5040 §5.2: in a message without octets, neither STag nor TO is checked. */
static void check_of_nothing(parley_pdu* pdu, const parley_terminate* t, const parley_segment* quoted) {
  const gboolean of_stag =
      t->etype == 1 && t->code <= 4 &&
      (t->layer == PARLEY_RDMAP_LAYER_RDMAP || (t->layer == PARLEY_RDMAP_LAYER_DDP && t->code <= 3));
  const char* who = parley_side_name(pdu->from);
  if (!of_stag) return;
  if (quoted->tagged) {
    parley_find(pdu, PARLEY_FINDING_groundless, PARLEY_AT_BODY,
                "the %s refused STag or TO of a message without octets [RFC 5041 §5.1]", who);
    return;
  }
  if (quoted->opcode != 0x1) return;
  /* The quoted length may be the part that is still unanswered; only the request has the whole length. */
  for (const parley_fetch* f = parley_track_of(pdu->conn, 1 - pdu->from)->fetches; f != NULL; f = f->next)
    if (!f->atomic && f->msn == quoted->msn && f->size == 0) {
      parley_find(pdu, PARLEY_FINDING_groundless, PARLEY_AT_BODY,
                  "the %s refused the source of a Read of no octets [RFC 5040 §5.2]", who);
      return;
    }
}

/* The other side's segment that the Terminate quotes, if its header is among the recent ones: the last match, and
 * preferably one of the given length. */
static const parley_recent* quoted_segment(const parley_track* peer, tvbuff_t* tvb, guint at, guint head,
                                           guint16 given) {
  const parley_recent* match = NULL;
  for (int i = 0; i < PARLEY_RECENT; ++i) {
    const parley_recent* r = &peer->recent[i];
    if (r->size != head || tvb_memeql(tvb, (gint)at, r->octets, head) != 0) continue;
    const gboolean fits = r->length == given, fitted = match != NULL && match->length == given;
    if (match == NULL || fits > fitted || (fits == fitted && r->frame > match->frame)) match = r;
  }
  return match;
}

static void check_quoted(parley_pdu* pdu, tvbuff_t* tvb, guint offset, const parley_terminate* t) {
  const char* who = parley_side_name(pdu->from);
  const parley_terminate_parts parts = parley_terminate_layout(tvb, offset, pdu->ulpdu_length - offset, t);
  const guint at = offset + PARLEY_RDMAP_TERM_CTRL_LEN + (parts.length ? 2 : 0);
  parley_segment quoted;
  if (!parley_terminate_quotes(tvb, offset, pdu->ulpdu_length - offset, t, &quoted)) return;
  if (t->r && quoted.opcode != 0x1)
    parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                "the %s set R in a Terminate that concerns no Read Request [RFC 5040 §4.8]", who);
  const parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
  const guint16 given = t->m ? tvb_get_ntohs(tvb, (gint)at - 2) : 0;
  const parley_recent* match = quoted_segment(peer, tvb, at, parts.head, given);
  if (match == NULL) {
    if (!peer->lossy && peer->segments <= PARLEY_RECENT)
      parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                  "the %s copied into its Terminate a DDP header that the other side never sent [RFC 5040 §4.8]", who);
    return;
  }
  if (!quoted.tagged || (match->length == match->size && quoted.last && (!peer->lossy || given == match->length)))
    check_of_nothing(pdu, t, &quoted);
  /* If the stream has holes, the Terminate may quote another segment with the same header. */
  if (t->m && given != match->length && !peer->lossy)
    parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                "the %s gave the terminated DDP segment of frame %u a length of %u octets, it had %u%s [RFC 5040 §4.8]",
                who, match->frame, given, match->length,
                given + match->size == match->length ? " (the payload alone is not meant)" : "");
}

/* RFC 5040 §4.8: M, D and R define the parts behind the control word; its other bits are 0. */
static void check_form(parley_pdu* pdu, tvbuff_t* tvb, guint offset, const parley_terminate* t) {
  const char* who = parley_side_name(pdu->from);
  const guint8 used = t->swapped ? 0x07 : PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D | PARLEY_RDMAP_TERM_R;
  const guint8 odd = t->bits & (guint8)~used, reserved = tvb_get_guint8(tvb, (gint)offset + 3);
  if (odd != 0 || reserved != 0)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s set reserved bits in its Terminate (0x%02x%02x) [RFC 5040 §4.8]", who, odd, reserved);
  if (t->m && !t->d)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s set M without D in its Terminate: a length without the header that it belongs to "
                "[RFC 5040 §4.8]",
                who);
  else if (t->d && !t->m)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s set D without M in its Terminate: a header without the length of its segment [RFC 5040 §4.8]",
                who);
  else if (t->r && !t->d)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s set R without D in its Terminate: a Read Request without its DDP header [RFC 5040 §4.8]", who);
  const guint length = pdu->ulpdu_length - offset;
  const parley_terminate_parts parts = parley_terminate_layout(tvb, offset, length, t);
  if (length < parts.octets)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s cut its Terminate: it has %u octets, M, D and R ask for %u [RFC 5040 §4.8]", who, length,
                parts.octets);
  else if (length > parts.octets)
    parley_find(pdu, PARLEY_FINDING_terminate_form, PARLEY_AT_BODY,
                "the %s sent %u octets after the end of its Terminate [RFC 5040 §4.8]", who, length - parts.octets);
}

/* Checks that the parts behind the control word are present and quote what the other side sent. */
static void check_parts(parley_pdu* pdu, tvbuff_t* tvb, guint offset, const parley_terminate* t) {
  if (tvb_captured_length(tvb) < pdu->ulpdu_length) return;
  check_form(pdu, tvb, offset, t);
  check_headers(pdu, tvb, offset, t);
  if (t->d) check_quoted(pdu, tvb, offset, t);
}

void parley_terminate_track(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* track = parley_track_of(pdu->conn, pdu->from);
  const char* who = parley_side_name(pdu->from);
  const gboolean first = track->terminate_frame == 0;
  parley_terminate t;
  if (first) {
    track->terminate_frame = pdu->frame;
    track->terminate_end = pdu->end;
  }
  if (pdu->conn->side[pdu->from].terminate_frame == 0) pdu->conn->side[pdu->from].terminate_frame = pdu->frame;
  if (!parley_terminate_read(tvb, s->head, &t)) {
    if (s->payload < PARLEY_RDMAP_TERM_CTRL_LEN)
      parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                  "the %s sent a Terminate of %u octets, at least 4 are expected [RFC 5040 §4.8]", who, s->payload);
    return;
  }
  check_order(pdu, tvb, s->head, &t);
  if (first) track->terminated = (parley_fault){TRUE, FALSE, t.layer, t.etype, t.code, pdu->frame};
  parley_facts* facts = parley_facts_of(pdu);
  facts->terminate_judged = TRUE;
  facts->terminate_swapped = t.swapped;
  if (t.layer == PARLEY_RDMAP_LAYER_LLP && t.etype == 3 && !t.swapped)
    parley_find(pdu, PARLEY_FINDING_terminate_type, PARLEY_AT_BODY,
                "the %s sent an MPA error with error type 3, it is type 0; hardware of Chelsio and Intel does so [RFC "
                "6580 §3.3]",
                who);
  if (parley_terminate_text(t.layer, t.etype, t.code) == NULL)
    parley_find(
        pdu, PARLEY_FINDING_terminate_code, PARLEY_AT_BODY,
        "the %s sent a Terminate of layer %u, error type %u, code 0x%02x, which is not registered [RFC 5040 §4.8]", who,
        t.layer, t.etype, t.code);
  check_parts(pdu, tvb, s->head, &t);
  if (first) parley_terminate_answers(pdu);
  parley_find(pdu, PARLEY_FINDING_terminate, PARLEY_AT_SEGMENT, "The %s terminated the stream: %s [RFC 5040 §5.4]", who,
              parley_terminate_describe(wmem_file_scope(), t.layer, t.etype, t.code));
}
