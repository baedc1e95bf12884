/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Follows the DDP segments of each direction in stream order, on the first pass: versions, opcodes, MSN, MO and TO,
 * messages of several segments, and what comes after a Terminate. RFC 5041 §4, §5; RFC 5040 §4, §5. */
#include <string.h>

#include "parley_rdmap.h"

/* A message that is longer than this is followed but not put together. */
enum { message_max = 16 * 1024 * 1024 };

gboolean parley_reassemble = TRUE;

typedef struct finding_kind {
  expert_field field;
  int severity;
} finding_kind;

static finding_kind kinds[PARLEY_FINDING_COUNT] = {
#define PARLEY_X(name, group, severity, text) {EI_INIT, severity},
    PARLEY_FINDINGS(PARLEY_X)
#undef PARLEY_X
};

parley_facts* parley_facts_of(parley_pdu* pdu) {
  if (pdu->facts == NULL) {
    parley_facts* facts = wmem_new0(wmem_file_scope(), parley_facts);
    facts->tail = &facts->findings;
    pdu->facts = facts;
  }
  return (parley_facts*)pdu->facts;
}

void parley_find(parley_pdu* pdu, parley_finding_kind kind, guint8 place, const char* format, ...) {
  parley_facts* facts = parley_facts_of(pdu);
  parley_finding* finding = wmem_new0(wmem_file_scope(), parley_finding);
  va_list arguments;
  va_start(arguments, format);
  finding->text = wmem_strdup_vprintf(wmem_file_scope(), format, arguments);
  va_end(arguments);
  finding->kind = kind;
  finding->place = place;
  *facts->tail = finding;
  facts->tail = &finding->next;
  if (kinds[kind].severity == PI_ERROR) ++pdu->conn->errors;
  if (kinds[kind].severity == PI_WARN) ++pdu->conn->warnings;
}

void parley_findings_show(const parley_pdu* pdu, packet_info* pinfo, proto_item* const items[PARLEY_PLACES]) {
  const parley_facts* facts = (const parley_facts*)pdu->facts;
  if (facts == NULL) return;
  for (const parley_finding* f = facts->findings; f != NULL; f = f->next) {
    proto_item* item = items[f->place] != NULL ? items[f->place] : items[PARLEY_AT_SEGMENT];
    expert_add_info_format(pinfo, item, &kinds[f->kind].field, "%s", f->text);
  }
}

parley_track* parley_track_of(parley_conn* conn, int side) {
  parley_direction* direction = &conn->side[side];
  if (direction->track == NULL) {
    parley_track* t = wmem_new0(wmem_file_scope(), parley_track);
    t->reads_tail = &t->reads;
    t->atomics_tail = &t->atomics;
    direction->track = t;
  }
  return (parley_track*)direction->track;
}

void parley_blame(parley_pdu* pdu, guint8 layer, guint8 etype, guint8 code, gboolean weak) {
  parley_fault* fault = &parley_track_of(pdu->conn, pdu->from)->fault;
  if (weak && fault->known && !fault->weak) return;
  *fault = (parley_fault){TRUE, weak, layer, etype, code, pdu->frame};
}

/* Octets or their meaning are missing: nothing is due any more until it was seen again. */
static void forget(parley_pdu* pdu) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  t->lossy = TRUE;
  for (int i = 0; i < 4; ++i) {
    t->queues[i].unknown = TRUE;
    t->queues[i].open = FALSE;
    t->queues[i].message = NULL;
  }
  t->write.open = FALSE;
  t->fetches_unknown = TRUE;
  parley_track_of(pdu->conn, 1 - pdu->from)->fetches_unknown = TRUE;
}

/* RFC 5044 Appendix C: peers of the RDMA Consortium speak version 0 everywhere. */
static guint8 version_due(const parley_conn* conn) {
  return conn->reply.frame != 0 && conn->reply.revision == 0 ? 0 : PARLEY_DDP_DV;
}

/* Versions and reserved bits. False: the rest of the segment has no known meaning. */
static gboolean check_controls(parley_pdu* pdu, const parley_segment* s) {
  const guint8 due = version_due(pdu->conn);
  const guint8 dv = s->ddp & PARLEY_DDP_DV_MASK;
  const guint8 rv = (guint8)((s->rdmap & PARLEY_RDMAP_RV_MASK) >> 6);
  if (dv != due) {
    parley_find(pdu, PARLEY_FINDING_ddp_version, PARLEY_AT_DDP_CONTROL, "DDP version %u, %u is due [RFC 5041 §4.1]", dv,
                due);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, s->tagged ? 1 : 2, s->tagged ? 4 : 6, FALSE);
    return FALSE;
  }
  if (rv != due) {
    parley_find(pdu, PARLEY_FINDING_rdmap_version, PARLEY_AT_RDMAP_CONTROL,
                "RDMAP version %u, %u is due [RFC 5040 §4.1]", rv, due);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 5, FALSE);
    return FALSE;
  }
  if ((s->ddp & PARLEY_DDP_RSVD) != 0)
    parley_find(pdu, PARLEY_FINDING_reserved, PARLEY_AT_DDP_CONTROL,
                "Reserved bits of the DDP control octet are set: 0x%02x [RFC 5041 §4.1]", s->ddp & PARLEY_DDP_RSVD);
  if ((s->rdmap & 0x30) != 0)
    parley_find(pdu, PARLEY_FINDING_reserved, PARLEY_AT_RDMAP_CONTROL,
                "Reserved bits of the RDMAP control octet are set: 0x%02x [RFC 5040 §4.1]", s->rdmap & 0x30);
  return TRUE;
}

/* Opcode, T bit and queue. False: as above. */
static gboolean check_opcode(parley_pdu* pdu, const parley_segment* s) {
  const char* name = parley_opcode_name(s->opcode);
  gboolean tagged;
  guint32 qn;
  if (!parley_opcode_rule(s->opcode, &tagged, &qn)) {
    parley_find(
        pdu, PARLEY_FINDING_opcode, PARLEY_AT_RDMAP_CONTROL, "Opcode 0x%X %s", s->opcode,
        s->opcode == 0xF ? "is for experiments [RFC 5040 §4.1, RFC 6580 §3.1]" : "is not assigned [RFC 5040 §4.1]");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, FALSE);
    return FALSE;
  }
  /* Peers that know only RFC 5040 answer the opcodes of RFC 7306 with "unexpected opcode". */
  if (s->opcode >= 0x8) parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, TRUE);
  if (tagged != s->tagged) {
    parley_find(pdu, PARLEY_FINDING_t_bit, PARLEY_AT_DDP_CONTROL, "%s in %s DDP segment [RFC 5040 §4.2]", name,
                s->tagged ? "a tagged" : "an untagged");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, FALSE);
    return FALSE;
  }
  if (s->tagged) return TRUE;
  if (qn != s->qn) {
    parley_find(pdu, PARLEY_FINDING_queue, PARLEY_AT_QN, "%s on queue %u, it belongs on queue %u [RFC 5040 §4.2]", name,
                s->qn, qn);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 1, FALSE);
    return FALSE;
  }
  if (s->stag != 0 && !parley_opcode_invalidates(s->opcode))
    parley_find(pdu, PARLEY_FINDING_reserved_ulp, PARLEY_AT_STAG,
                "%s sets the Invalidate STag word to 0x%08x, it is 0 [RFC 5040 §4.1]", name, s->stag);
  return TRUE;
}

static void begin_message(parley_pdu* pdu, parley_queue* q) {
  q->message = NULL;
  if (!parley_reassemble) return;
  q->message = wmem_new0(wmem_file_scope(), parley_message);
  q->message->first_frame = pdu->frame;
  q->message->frames = wmem_array_new(wmem_file_scope(), sizeof(guint32));
  q->message->octets = wmem_array_new(wmem_file_scope(), 1);
}

/* Puts a segment behind its message. Whatever does not fit ends the putting together, not the showing. */
static void put_together(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s, parley_queue* q) {
  parley_message* m = q->message;
  if (m == NULL) return;
  parley_facts_of(pdu)->message = m;
  ++m->segments;
  const guint32 count = wmem_array_get_count(m->frames);
  if (count == 0 || *(guint32*)wmem_array_index(m->frames, count - 1) != pdu->frame)
    wmem_array_append(m->frames, &pdu->frame, 1);
  if (wmem_array_get_count(m->octets) + s->payload > message_max ||
      tvb_captured_length_remaining(tvb, (gint)s->head) < (gint)s->payload) {
    m->too_long = TRUE;
  } else if (!m->too_long && s->payload > 0) {
    wmem_array_append(m->octets, tvb_get_ptr(tvb, (gint)s->head, (gint)s->payload), s->payload);
  }
  if (!s->last) return;
  m->last_frame = pdu->frame;
  m->whole = !m->too_long;
  q->message = NULL;
}

static void check_next_segment(parley_pdu* pdu, const parley_segment* s, parley_queue* q) {
  const char* name = parley_opcode_name(s->opcode);
  if (s->mo != q->mo) {
    parley_find(pdu, PARLEY_FINDING_mo, PARLEY_AT_MO,
                "%s goes on at MO %u, %u is due (queue %u, MSN %u) [RFC 5041 §5.2]", name, s->mo, q->mo, s->qn, s->msn);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, FALSE);
    q->message = NULL;
  }
  if (s->opcode != q->opcode) {
    parley_find(pdu, PARLEY_FINDING_mixed, PARLEY_AT_RDMAP_CONTROL,
                "Opcode changes inside a message, from %s to %s (queue %u, MSN %u) [RFC 5040 §4.1]",
                parley_opcode_name(q->opcode), name, s->qn, s->msn);
    q->message = NULL;
  }
}

static void check_first_segment(parley_pdu* pdu, const parley_segment* s, parley_queue* q) {
  const char* name = parley_opcode_name(s->opcode);
  const guint32 due = q->msn_before + 1;
  if (q->open)
    parley_find(pdu, PARLEY_FINDING_unfinished, PARLEY_AT_MSN,
                "Message %u begins on queue %u before message %u has its last segment [RFC 5041 §5.2]", s->msn, s->qn,
                q->msn_before);
  q->message = NULL;
  if (q->unknown) return;
  if (s->msn != due) {
    parley_find(pdu, PARLEY_FINDING_msn, PARLEY_AT_MSN, "%s has MSN %u, %u is due (queue %u) [RFC 5041 §4.3]", name,
                s->msn, due, s->qn);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 3, FALSE);
  }
  if (s->mo != 0) {
    parley_find(pdu, PARLEY_FINDING_mo, PARLEY_AT_MO,
                "%s begins at MO %u, a message begins at 0 (MSN %u) [RFC 5041 §5.2]", name, s->mo, s->msn);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, FALSE);
  }
}

static void track_untagged(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s, parley_track* t) {
  parley_queue* q = &t->queues[s->qn & 3];
  const gboolean goes_on = q->open && s->msn == q->msn_before;
  if (goes_on)
    check_next_segment(pdu, s, q);
  else
    check_first_segment(pdu, s, q);
  if (!s->last && !parley_opcode_is_send(s->opcode))
    parley_find(pdu, PARLEY_FINDING_segmented, PARLEY_AT_DDP_CONTROL,
                "%s is cut in several segments, it has one [RFC 5040 §4.2]", parley_opcode_name(s->opcode));
  if (!goes_on && !s->last && s->mo == 0 && parley_opcode_is_send(s->opcode)) begin_message(pdu, q);
  put_together(pdu, tvb, s, q);
  q->unknown = FALSE;
  q->msn_before = s->msn;
  q->mo = s->mo + s->payload;
  q->open = !s->last;
  q->opcode = s->opcode;
}

static void track_write(parley_pdu* pdu, const parley_segment* s, parley_track* t) {
  parley_tagged* w = &t->write;
  if (w->open && (s->stag != w->stag || s->to != w->to))
    parley_find(pdu, PARLEY_FINDING_to, PARLEY_AT_TO,
                "RDMA Write goes on at STag 0x%08x TO 0x%" PRIx64 ", STag 0x%08x TO 0x%" PRIx64
                " is due [RFC 5041 §5.2]",
                s->stag, s->to, w->stag, w->to);
  if (s->payload > 0 && s->to + s->payload < s->to) {
    parley_find(pdu, PARLEY_FINDING_to_wrap, PARLEY_AT_TO,
                "RDMA Write of %u octets wraps TO 0x%" PRIx64 " [RFC 5041 §7.1]", s->payload, s->to);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 1, 3, FALSE);
  } else if (s->payload > 0) {
    /* Whether the STag is valid cannot be seen; if the peer says it is not, this is what it speaks of. */
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 1, 0, TRUE);
  }
  *w = (parley_tagged){!s->last, s->stag, s->to + s->payload};
}

static void dispatch(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s, parley_track* t) {
  if (!s->tagged) track_untagged(pdu, tvb, s, t);
  if (s->last) ++pdu->conn->side[pdu->from].messages;
  switch (s->opcode) {
    case 0x0: track_write(pdu, s, t); return;
    case 0x1: parley_fetch_read_request(pdu, tvb, s); return;
    case 0x2: parley_fetch_read_response(pdu, s); return;
    case 0x7: parley_terminate_track(pdu, tvb, s); return;
    case 0x8:
    case 0x9:
      if (s->payload != PARLEY_RDMAP_IMMEDIATE_LEN)
        parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                    "Immediate Data has %u octets, 8 are due [RFC 7306 §6.3]", s->payload);
      return;
    case 0xA: parley_fetch_atomic_request(pdu, tvb, s); return;
    case 0xB: parley_fetch_atomic_response(pdu, tvb, s); return;
    default: return;
  }
}

static void remember(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s, parley_track* t) {
  parley_recent* r = &t->recent[t->segments % PARLEY_RECENT];
  r->size = (guint8)s->head;
  r->length = pdu->ulpdu_length;
  r->frame = pdu->frame;
  tvb_memcpy(tvb, r->octets, 0, s->head);
}

void parley_rdmap_track(parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo _U_) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  parley_segment s;
  if (pdu->after_gap || (pdu->number == 0 && t->segments == 0)) forget(pdu);
  ++t->segments;
  if (pdu->peer_behind) {
    parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
    peer->lossy = peer->fetches_unknown = TRUE;
  }
  if (!parley_segment_read(tvb, pdu->ulpdu_length, &s)) {
    forget(pdu);
    if (tvb_captured_length(tvb) < pdu->ulpdu_length) return; /* the capture cut it */
    parley_find(pdu, PARLEY_FINDING_too_short, PARLEY_AT_SEGMENT,
                "ULPDU of %u octets is too short for a DDP header [RFC 5041 §4]", pdu->ulpdu_length);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_LLP, 0, 3, FALSE);
    return;
  }
  remember(pdu, tvb, &s, t);
  if (t->terminate_frame != 0)
    parley_find(pdu, PARLEY_FINDING_after_terminate, PARLEY_AT_SEGMENT,
                "%s after its sender's Terminate in frame %u [RFC 5040 §5.4]", parley_opcode_name(s.opcode),
                t->terminate_frame);
  if (!check_controls(pdu, &s) || !check_opcode(pdu, &s)) {
    for (int i = 0; i < 4; ++i) t->queues[i].unknown = TRUE;
    t->fetches_unknown = TRUE;
    parley_track_of(pdu->conn, 1 - pdu->from)->fetches_unknown = TRUE;
    return;
  }
  dispatch(pdu, tvb, &s, t);
}

void parley_track_register(void) {
  static ei_register_info ei[] = {
#define PARLEY_X(name, group, severity, text) \
  {&kinds[PARLEY_FINDING_##name].field, {"parley.rdmap.expert." #name, group, severity, text, EXPFILL}},
      PARLEY_FINDINGS(PARLEY_X)
#undef PARLEY_X
  };
  expert_register_field_array(expert_register_protocol(proto_parley), ei, array_length(ei));
}
