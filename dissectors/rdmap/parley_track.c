/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tracks the DDP segments of each direction in stream order, on the first pass: versions, opcodes, MSN, MO and TO,
 * messages of several segments, and octets after a Terminate. RFC 5041 §4, §5; RFC 5040 §4, §5. */
#include <string.h>

#include "parley_rdmap.h"

/* A message that is longer than this is tracked but not reassembled. */
enum { message_max = 16 * 1024 * 1024 };

parley_bool parley_reassemble = TRUE;

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
  if (pdu->proving && kinds[kind].severity == PI_ERROR) {
    pdu->refuted = TRUE;
    return;
  }
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
    t->fetches_tail = &t->fetches;
    direction->track = t;
  }
  return (parley_track*)direction->track;
}

void parley_blame_at(parley_conn* conn, int side, const parley_fault* fault, guint64 end) {
  parley_track* t = parley_track_of(conn, side);
  if (t->fault_count < PARLEY_FAULTS_MAX) t->faults[t->fault_count++] = *fault;
  t->cause = *fault;
  if (t->fault_end == 0) t->fault_end = end;
}

void parley_blame(parley_pdu* pdu, guint8 layer, guint8 etype, guint8 code, parley_blame_kind kind) {
  if (pdu->proving) return;
  const parley_fault fault = {TRUE, kind == PARLEY_BLAME_ANY, layer, etype, code, pdu->frame};
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  if (kind != PARLEY_BLAME_NOT)
    parley_blame_at(pdu->conn, pdu->from, &fault, pdu->end);
  else if (t->fault_count == 0)
    t->cause = fault;
}

void parley_forget(parley_conn* conn, int side) {
  parley_track* t = parley_track_of(conn, side);
  t->lossy = TRUE;
  for (int i = 0; i < 4; ++i) {
    t->queues[i].unknown = TRUE;
    parley_extent_close(&t->queues[i].extent);
    t->queues[i].message = NULL;
  }
  parley_extent_close(&t->write.extent);
  t->write.before_known = FALSE;
  t->write.unknown = TRUE;
  t->fetches_unknown = TRUE;
  parley_track_of(conn, 1 - side)->fetches_unknown = TRUE;
}

/* RFC 5044 Appendix C: RDMA Consortium peers use version 0 in all layers. */
static guint8 version_due(const parley_conn* conn) {
  return conn->reply.frame != 0 && conn->reply.revision == 0 ? 0 : PARLEY_DDP_DV;
}

/* Checks versions and reserved bits. False: the rest of the segment has no known meaning. */
static gboolean check_controls(parley_pdu* pdu, const parley_segment* s) {
  const guint8 due = version_due(pdu->conn);
  const guint8 dv = s->ddp & PARLEY_DDP_DV_MASK;
  const guint8 rv = (guint8)((s->rdmap & PARLEY_RDMAP_RV_MASK) >> 6);
  if (dv != due) {
    parley_find(pdu, PARLEY_FINDING_ddp_version, PARLEY_AT_DDP_CONTROL,
                "DDP version %u, %u is expected [RFC 5041 §4.1]", dv, due);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, s->tagged ? 1 : 2, s->tagged ? 4 : 6, PARLEY_BLAME);
    return FALSE;
  }
  if (rv != due) {
    parley_find(pdu, PARLEY_FINDING_rdmap_version, PARLEY_AT_RDMAP_CONTROL,
                "RDMAP version %u, %u is expected [RFC 5040 §4.1]", rv, due);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 5, PARLEY_BLAME);
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

/* Checks opcode, T bit and queue. False: as above. */
static gboolean check_opcode(parley_pdu* pdu, const parley_segment* s) {
  const char* name = parley_opcode_name(s->opcode);
  gboolean tagged;
  guint32 qn;
  if (!parley_opcode_rule(s->opcode, &tagged, &qn)) {
    parley_find(
        pdu, PARLEY_FINDING_opcode, PARLEY_AT_RDMAP_CONTROL, "Opcode 0x%X %s", s->opcode,
        s->opcode == 0xF ? "is for experiments [RFC 5040 §4.1, RFC 6580 §3.1]" : "is not assigned [RFC 5040 §4.1]");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, PARLEY_BLAME);
    return FALSE;
  }
  /* Peers that know only RFC 5040 answer the opcodes of RFC 7306 with "unexpected opcode". */
  if (s->opcode >= 0x8) parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, PARLEY_BLAME_NOT);
  if (tagged != s->tagged) {
    parley_find(pdu, PARLEY_FINDING_t_bit, PARLEY_AT_DDP_CONTROL, "%s in %s DDP segment [RFC 5040 §4.2]", name,
                s->tagged ? "a tagged" : "an untagged");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, PARLEY_BLAME_ANY);
    return FALSE;
  }
  if (s->tagged) return TRUE;
  if (qn != s->qn) {
    parley_find(pdu, PARLEY_FINDING_queue, PARLEY_AT_QN, "%s on queue %u, it belongs on queue %u [RFC 5040 §4.2]", name,
                s->qn, qn);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 1, PARLEY_BLAME);
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

/* Appends a segment to its message. A segment that does not fit ends the reassembly, but segments are still shown. */
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

/* Checks a further segment of the present message. */
static void check_next_segment(parley_pdu* pdu, const parley_segment* s, parley_queue* q) {
  const char* name = parley_opcode_name(s->opcode);
  if (s->opcode != q->opcode) {
    parley_find(pdu, PARLEY_FINDING_mixed, PARLEY_AT_RDMAP_CONTROL,
                "Opcode changes inside a message, from %s to %s (queue %u, MSN %u) [RFC 5041 §4.3]",
                parley_opcode_name(q->opcode), name, s->qn, s->msn);
    q->message = NULL;
  } else if (s->stag != q->stag) {
    parley_find(pdu, PARLEY_FINDING_stag_changed, PARLEY_AT_STAG,
                "Invalidate STag changes inside a message, from 0x%08x to 0x%08x (queue %u, MSN %u) [RFC 5041 §4.3]",
                q->stag, s->stag, s->qn, s->msn);
  }
}

static void check_first_segment(parley_pdu* pdu, const parley_segment* s, parley_queue* q) {
  const char* name = parley_opcode_name(s->opcode);
  const guint32 due = q->msn_before + 1;
  const gboolean judged = q->extent.open && !q->extent.after_gap;
  if (judged && !q->extent.last)
    parley_find(pdu, PARLEY_FINDING_unfinished, PARLEY_AT_MSN,
                "Message %u begins on queue %u before message %u has its last segment [RFC 5041 §5.2]", s->msn, s->qn,
                q->msn_before);
  else if (judged)
    parley_find(pdu, PARLEY_FINDING_mo, PARLEY_AT_MSN,
                "Message %u begins on queue %u although message %u lacks the octets from MO %" PRIu64
                " on [RFC 5041 §5.2]",
                s->msn, s->qn, q->msn_before, q->extent.run.end);
  if (judged && q->extent.last) parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, PARLEY_BLAME);
  q->message = NULL;
  const gboolean as_due = !q->unknown && s->msn == due;
  parley_extent_open(&q->extent, as_due ? 0 : s->mo, !as_due);
  q->extent.after_gap = !as_due;
  q->opcode = s->opcode;
  q->stag = s->stag;
  if (q->unknown || as_due) return;
  parley_find(pdu, PARLEY_FINDING_msn, PARLEY_AT_MSN, "%s has MSN %u, %u is expected (queue %u) [RFC 5041 §4.3]", name,
              s->msn, due, s->qn);
  parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 3, PARLEY_BLAME);
}

/* RFC 5041 §5.3: segments SHOULD be sent in the order of their MO; a receiver places them in any order. */
static void place_untagged(parley_pdu* pdu, const parley_segment* s, parley_queue* q) {
  const guint64 due = parley_extent_due(&q->extent);
  const char* name = parley_opcode_name(s->opcode);
  if (!parley_opcode_is_send(s->opcode)) { /* RFC 5040 §4.2: a message of one segment */
    if (s->mo != 0) {
      parley_find(pdu, PARLEY_FINDING_mo, PARLEY_AT_MO,
                  "%s begins at MO %u, a message begins at 0 (queue %u, MSN %u) [RFC 5041 §5.2]", name, s->mo, s->qn,
                  s->msn);
      parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, PARLEY_BLAME);
    }
    if (s->last) parley_extent_close(&q->extent);
    return;
  }
  switch (parley_extent_place(&q->extent, s->mo, s->payload, s->last)) {
    case PARLEY_PLACED_IN_ORDER: break;
    case PARLEY_PLACED_AHEAD:
      /* A peer may regard it as a fault. */
      parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, PARLEY_BLAME_NOT);
      if (q->extent.odd_frame == 0) q->extent.odd_frame = pdu->frame;
      q->message = NULL;
      break;
    case PARLEY_PLACED_WRONG:
      parley_find(pdu, PARLEY_FINDING_mo, PARLEY_AT_MO,
                  "%s goes on at MO %u, %" PRIu64 " is expected (queue %u, MSN %u) [RFC 5041 §5.2]", name, s->mo, due,
                  s->qn, s->msn);
      parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 2, 4, PARLEY_BLAME);
      parley_extent_close(&q->extent);
      if (!s->last) parley_extent_open(&q->extent, (guint64)s->mo + s->payload, TRUE);
      q->extent.after_gap = TRUE;
      q->message = NULL;
      return;
    case PARLEY_PLACED_UNKNOWN:
      q->unknown = TRUE;
      parley_extent_close(&q->extent);
      return;
  }
  /* If the beginning may be missing, segments with lower MO may still come. */
  if (!parley_extent_whole(&q->extent) || q->extent.run.begin != 0) return;
  if (q->extent.odd_frame != 0)
    parley_find(pdu, PARLEY_FINDING_order, PARLEY_AT_MO,
                "The segments of this %s were not sent in the order of their MO, from frame %u on (queue %u, MSN %u) "
                "[RFC 5041 §5.3]",
                name, q->extent.odd_frame, s->qn, s->msn);
  parley_extent_close(&q->extent);
}

static void track_untagged(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s, parley_track* t) {
  parley_queue* q = &t->queues[s->qn & 3];
  const gboolean goes_on = q->extent.open && s->msn == q->msn_before;
  if (goes_on)
    check_next_segment(pdu, s, q);
  else
    check_first_segment(pdu, s, q);
  q->unknown = FALSE;
  q->msn_before = s->msn;
  if (!goes_on && !s->last && s->mo == 0 && parley_opcode_is_send(s->opcode)) begin_message(pdu, q);
  place_untagged(pdu, s, q);
  if (!s->last && !parley_opcode_is_send(s->opcode)) {
    parley_find(pdu, PARLEY_FINDING_segmented, PARLEY_AT_DDP_CONTROL,
                "%s is cut in several segments, it has one [RFC 5040 §4.2]", parley_opcode_name(s->opcode));
    parley_extent_close(&q->extent);
  }
  put_together(pdu, tvb, s, q);
}

static gboolean place_write(parley_pdu* pdu, const parley_segment* s, parley_write* w) {
  const parley_placed placed = parley_extent_place(&w->extent, s->to, s->payload, s->last);
  if (placed == PARLEY_PLACED_AHEAD && w->extent.odd_frame == 0) w->extent.odd_frame = pdu->frame;
  if (placed == PARLEY_PLACED_UNKNOWN) parley_extent_close(&w->extent);
  return placed != PARLEY_PLACED_WRONG;
}

/* Judges a Write that has ended. Tagged segments do not identify their message: if the last segment was sent too early,
 * the remaining ones look like the beginning of another message. */
static void settle_write(parley_pdu* pdu, const parley_segment* s, parley_write* w) {
  const guint64 due = parley_extent_due(&w->extent);
  const gboolean joins =
      w->before_known && w->before_stag == w->stag && w->extent.ahead_count == 0 && due == w->before_to;
  if (w->extent.after_gap) return;
  if (w->extent.ahead_count > 0 || (!w->extent.last && !joins))
    parley_find(pdu, PARLEY_FINDING_to, PARLEY_AT_TO,
                "RDMA Write at STag 0x%08x TO 0x%" PRIx64
                " although the one before lacks octets: STag 0x%08x TO 0x%" PRIx64 " is expected [RFC 5041 §5.2]",
                s->stag, s->to, w->stag, w->extent.ahead_count > 0 ? w->extent.run.end : due);
  else if (!w->extent.last && joins && w->extent.odd_frame == 0)
    parley_find(pdu, PARLEY_FINDING_order, PARLEY_AT_TO,
                "The RDMA Write before had its last segment in front of the others (STag 0x%08x) [RFC 5041 §5.3]",
                w->stag);
}

static void write_over(parley_pdu* pdu, parley_write* w) {
  if (w->extent.odd_frame != 0 && w->extent.ahead_count == 0)
    parley_find(pdu, PARLEY_FINDING_order, PARLEY_AT_TO,
                "The segments of an RDMA Write were not sent in the order of their TO, from frame %u on (STag 0x%08x) "
                "[RFC 5041 §5.3]",
                w->extent.odd_frame, w->stag);
  w->before_known = TRUE;
  w->before_stag = w->stag;
  w->before_to = w->extent.run.begin;
  parley_extent_close(&w->extent);
}

static void track_write(parley_pdu* pdu, const parley_segment* s, parley_track* t) {
  parley_write* w = &t->write;
  if (w->extent.open && (s->stag != w->stag || !place_write(pdu, s, w))) {
    settle_write(pdu, s, w);
    write_over(pdu, w);
  } else if (w->extent.open) {
    if (parley_extent_whole(&w->extent)) write_over(pdu, w);
    if (s->payload > 0) parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 1, 0, PARLEY_BLAME_NOT);
    return;
  }
  if (s->payload > 0 && s->to + s->payload < s->to) {
    parley_find(pdu, PARLEY_FINDING_to_wrap, PARLEY_AT_TO,
                "RDMA Write of %u octets wraps TO 0x%" PRIx64 " [RFC 5041 §7.1]", s->payload, s->to);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 1, 3, PARLEY_BLAME);
    return;
  }
  /* A capture does not show whether the STag is valid. If the peer reports an invalid one, it refers to this
   * segment. */
  if (s->payload > 0) parley_blame(pdu, PARLEY_RDMAP_LAYER_DDP, 1, 0, PARLEY_BLAME_NOT);
  w->stag = s->stag;
  parley_extent_open(&w->extent, s->to, TRUE);
  w->extent.after_gap = w->unknown;
  w->unknown = w->unknown && s->last;
  if (!s->last)
    place_write(pdu, s, w);
  else
    write_over(pdu, w);
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
      if (s->payload == PARLEY_RDMAP_IMMEDIATE_LEN) return;
      parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                  "Immediate Data has %u octets, 8 are expected [RFC 7306 §6.3]", s->payload);
      parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, PARLEY_BLAME_ANY);
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
  if (pdu->after_gap || (pdu->number == 0 && t->segments == 0)) parley_forget(pdu->conn, pdu->from);
  ++t->segments;
  if (pdu->heard > t->heard) t->heard = pdu->heard;
  if (pdu->peer_behind) {
    /* The other side's octets up to here may contain the request for this, or answers to earlier requests. */
    parley_track* peer = parley_track_of(pdu->conn, 1 - pdu->from);
    peer->lossy = peer->fetches_unknown = t->fetches_unknown = TRUE;
  }
  if (!parley_segment_read(tvb, pdu->ulpdu_length, &s)) {
    parley_forget(pdu->conn, pdu->from);
    if (tvb_captured_length(tvb) < pdu->ulpdu_length) return; /* the capture truncates it */
    parley_find(pdu, PARLEY_FINDING_too_short, PARLEY_AT_SEGMENT,
                "ULPDU of %u octets is too short for a DDP header [RFC 5041 §4]", pdu->ulpdu_length);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_LLP, 0, 3, PARLEY_BLAME_ANY);
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

/* Counts the message of an FPDU that may not be one. */
void parley_rdmap_count(const parley_pdu* pdu, const guint8* ulpdu, guint32 octets) {
  if (octets > 0 && (ulpdu[0] & PARLEY_DDP_L) != 0) ++pdu->conn->side[pdu->from].messages;
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
