/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Judges a Terminate by what happened before it: RFC 5040 §4.8, §5.4. Linux siw writes the control word in the order of
 * its host; most of those Terminates show that by themselves, for the rest the fault that they answer decides. */
#include <string.h>

#include "parley_rdmap.h"

/* Whether the other side did what (layer, etype, code) complains of. */
static gboolean deserved(const parley_fault* fault, guint8 layer, guint8 etype, guint8 code) {
  return fault->known && fault->layer == layer && fault->etype == etype && fault->code == code;
}

/* To a responder that does not know the Rtr frame of 2007, its octets are an FPDU whose RDMAP version is 0. */
static parley_fault fault_of(parley_pdu* pdu) {
  const int culprit = 1 - pdu->from;
  parley_fault fault = parley_track_of(pdu->conn, culprit)->fault;
  if (!fault.known && culprit == PARLEY_INITIATOR && pdu->conn->rtr_frame.frame != 0)
    fault = (parley_fault){TRUE, TRUE, PARLEY_RDMAP_LAYER_RDMAP, 2, 5, pdu->conn->rtr_frame.frame};
  return fault;
}

static void check_order(parley_pdu* pdu, parley_terminate* t) {
  const guint8 hi = t->octet0 >> 4, lo = t->octet0 & 0xF;
  const parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
  const parley_fault fault = fault_of(pdu);
  const char* why = "";
  /* Both readings are registered and no header bit tells: what happened before decides. */
  if (hi != lo && (t->bits & 0xE7) == 0 && parley_terminate_text(hi, lo, t->code) != NULL &&
      parley_terminate_text(lo, hi, t->code) != NULL) {
    const gboolean as_sent = deserved(&fault, hi, lo, t->code), exchanged = deserved(&fault, lo, hi, t->code);
    if (as_sent != exchanged) {
      parley_terminate_set_swapped(t, exchanged);
      why = wmem_strdup_printf(wmem_file_scope(), "; frame %u is why", fault.frame);
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

/* The parts behind the control word are there, and they quote what the other side sent. */
static void check_parts(parley_pdu* pdu, tvbuff_t* tvb, guint offset, const parley_terminate* t) {
  const guint length = pdu->ulpdu_length - offset;
  const parley_terminate_parts parts = parley_terminate_layout(tvb, offset, length, t);
  const guint at = offset + PARLEY_RDMAP_TERM_CTRL_LEN + (parts.length ? 2 : 0), head = parts.head;
  if (length != parts.octets) {
    parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                "Terminate has %u octets, by its M, D and R bits it has %u [RFC 5040 §4.8]", length, parts.octets);
    return;
  }
  if (!t->d || tvb_captured_length(tvb) < at + head) return;
  if (t->r && (tvb_get_guint8(tvb, (gint)at + 1) & PARLEY_RDMAP_OPCODE_MASK) != 0x1)
    parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                "R is set in a Terminate that concerns no Read Request [RFC 5040 §4.8]");
  const parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
  const parley_recent* match = NULL;
  for (int i = 0; i < PARLEY_RECENT; ++i) {
    const parley_recent* r = &peer->recent[i];
    if (r->size == head && tvb_memeql(tvb, (gint)at, r->octets, head) == 0 &&
        (match == NULL || r->frame > match->frame))
      match = r;
  }
  if (match == NULL) {
    if (!peer->lossy && peer->segments <= PARLEY_RECENT)
      parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                  "Terminate quotes a DDP header that the other side never sent [RFC 5040 §4.8]");
    return;
  }
  const guint16 given = t->m ? tvb_get_ntohs(tvb, (gint)at - 2) : match->length;
  if (given != match->length)
    parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                "Terminate gives the DDP segment of frame %u a length of %u octets, it had %u%s [RFC 5040 §4.8]",
                match->frame, given, match->length,
                given + match->size == match->length ? "; the payload alone is not meant" : "");
}

void parley_terminate_track(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* track = parley_track_of(pdu->conn, pdu->from);
  parley_terminate t;
  if (track->terminate_frame == 0) track->terminate_frame = pdu->frame;
  if (pdu->conn->side[pdu->from].terminate_frame == 0) pdu->conn->side[pdu->from].terminate_frame = pdu->frame;
  if (!parley_terminate_read(tvb, s->head, &t)) {
    if (s->payload < PARLEY_RDMAP_TERM_CTRL_LEN)
      parley_find(pdu, PARLEY_FINDING_terminate_header, PARLEY_AT_BODY,
                  "Terminate has %u octets, at least 4 are due [RFC 5040 §4.8]", s->payload);
    return;
  }
  check_order(pdu, &t);
  parley_facts* facts = parley_facts_of(pdu);
  facts->terminate_judged = TRUE;
  facts->terminate_swapped = t.swapped;
  if (t.layer == PARLEY_RDMAP_LAYER_LLP && t.etype == 3 && !t.swapped)
    parley_find(
        pdu, PARLEY_FINDING_terminate_type, PARLEY_AT_BODY,
        "An error of MPA with error type 3, it is type 0; hardware of Chelsio and Intel does so [RFC 6580 §3.3]");
  if (parley_terminate_text(t.layer, t.etype, t.code) == NULL)
    parley_find(pdu, PARLEY_FINDING_terminate_code, PARLEY_AT_BODY,
                "Nothing is registered for layer %u, error type %u, code 0x%02x [RFC 5040 §4.8]", t.layer, t.etype,
                t.code);
  check_parts(pdu, tvb, s->head, &t);
  parley_find(pdu, PARLEY_FINDING_terminate, PARLEY_AT_SEGMENT, "The %s terminated the stream: %s [RFC 5040 §5.4]",
              pdu->from == PARLEY_INITIATOR ? "initiator" : "responder",
              parley_terminate_describe(wmem_file_scope(), t.layer, t.etype, t.code));
}
