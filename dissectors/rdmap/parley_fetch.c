/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Read Requests and Atomic Requests with their responses: which response answers which request, the time that it took,
 * and how many were outstanding. RFC 5040 §4.4, §4.5, §5.2; RFC 7306 §5; RFC 6581 §9.1. */
#include "parley_rdmap.h"

enum {
  /* IRD and ORD have 14 bits (RFC 6581 §6). No more can be agreed, so no more are kept. */
  fetches_max = 16384,
  /* If octets are missing, a response is matched with at most this many of the oldest requests. */
  search_max = 256
};

static parley_fetch* append(parley_pdu* pdu, parley_track* t) {
  parley_fetch* fetch = wmem_new0(wmem_file_scope(), parley_fetch);
  fetch->request_frame = pdu->frame;
  fetch->request_at = pdu->at;
  *t->fetches_tail = fetch;
  t->fetches_tail = &fetch->next;
  ++t->fetch_count;
  parley_facts_of(pdu)->fetch = fetch;
  return fetch;
}

/* Removes the fetch that `link` points to from its list; the facts of its FPDUs still refer to it. */
static void take_out(parley_track* t, parley_fetch** link) {
  parley_fetch* fetch = *link;
  *link = fetch->next;
  if (fetch->next == NULL) t->fetches_tail = link;
  fetch->next = NULL;
  --t->fetch_count;
}

/* Also removes earlier requests: answers keep the order of requests (RFC 5040 §5.2, RFC 7306 §5.1). */
static void take_out_up_to(parley_track* t, const parley_fetch* fetch) {
  while (t->fetches != NULL && t->fetches != fetch) take_out(t, &t->fetches);
}

static gboolean room(parley_track* t) {
  if (t->fetch_count < fetches_max) return TRUE;
  t->fetches_unknown = TRUE;
  return FALSE;
}

static void check_depth(parley_pdu* pdu, const parley_track* t) {
  const gint32 limit = pdu->conn->side[pdu->from].reads_max;
  const guint32 outstanding = t->fetch_count;
  /* If IRD is too small for a Read as RTR, the Reply already has a remark about it. */
  if (pdu->is_rtr || t->fetches_unknown || limit < 0 || outstanding <= (guint32)limit) return;
  /* RFC 6581 §9.1: ORD is at most the peer's IRD; RFC 5040 §5.2.1: no more than ORD may be outstanding. */
  parley_find(pdu, PARLEY_FINDING_reads_over, PARLEY_AT_BODY,
              "%u RDMA Reads and Atomics are outstanding, %d were agreed [RFC 5040 §5.2.1]", outstanding, limit);
}

static gboolean captured(tvbuff_t* tvb, const parley_segment* s) {
  return tvb_captured_length_remaining(tvb, (gint)s->head) >= (gint)s->payload;
}

/* The end of `size` octets from `to` on exceeds 64 bits. */
static gboolean wraps(guint64 to, guint32 size) { return size > 0 && to + (size - 1) < to; }

static void check_wrap(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  const guint64 sink = tvb_get_ntoh64(tvb, (gint)s->head + 4), source = tvb_get_ntoh64(tvb, (gint)s->head + 20);
  const guint32 size = tvb_get_ntohl(tvb, (gint)s->head + 12);
  if (!wraps(sink, size) && !wraps(source, size)) return;
  parley_find(pdu, PARLEY_FINDING_read_wrap, PARLEY_AT_BODY,
              "Read Request of %u octets from TO 0x%" PRIx64 " to TO 0x%" PRIx64 " wraps [RFC 5040 §4.8]", size, source,
              sink);
  parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 1, 4, PARLEY_BLAME_NOT);
}

void parley_fetch_read_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  if (s->payload != PARLEY_RDMAP_READ_REQUEST_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Read Request has %u octets, 28 are expected [RFC 5040 §4.4]", s->payload);
    t->fetches_unknown = TRUE; /* its answer cannot be predicted */
    return;
  }
  if (captured(tvb, s))
    check_wrap(pdu, tvb, s);
  else
    t->fetches_unknown = TRUE;
  if (!captured(tvb, s) || !room(t)) return;
  parley_fetch* fetch = append(pdu, t);
  fetch->msn = s->msn;
  fetch->sink_stag = tvb_get_ntohl(tvb, (gint)s->head);
  fetch->sink_to = tvb_get_ntoh64(tvb, (gint)s->head + 4);
  fetch->size = tvb_get_ntohl(tvb, (gint)s->head + 12);
  check_depth(pdu, t);
}

static void answered(parley_pdu* pdu, parley_fetch* fetch) {
  fetch->response_frame = pdu->frame;
  fetch->response_at = pdu->at;
}

/* Some requests or responses are unknown: a response belongs to the oldest request that it fits, if any. */
static void find_read(parley_pdu* pdu, const parley_segment* s, parley_track* requester) {
  guint32 older = 0;
  for (parley_fetch* fetch = requester->fetches; fetch != NULL && older < search_max; fetch = fetch->next, ++older) {
    if (fetch->atomic || fetch->sink_stag != s->stag || s->to < fetch->sink_to ||
        s->to - fetch->sink_to + s->payload > fetch->size)
      continue;
    parley_facts_of(pdu)->fetch = fetch;
    if (s->last) answered(pdu, fetch);
    take_out_up_to(requester, fetch);
    if (s->last) take_out(requester, &requester->fetches);
    return;
  }
}

static parley_fetch** first_read(parley_track* t) {
  parley_fetch** link = &t->fetches;
  while (*link != NULL && (*link)->atomic) link = &(*link)->next;
  return link;
}

/* The answer to the first Read has ended. */
static void answer_over(parley_pdu* pdu, parley_track* requester) {
  parley_fetch** link = first_read(requester);
  if (!requester->answer_wrong && requester->answer.ahead_count > 0)
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_TO,
                "The answer to the Read Request of frame %u lacks octets: TO 0x%" PRIx64
                " was expected [RFC 5040 §4.5]",
                (*link)->request_frame, (*link)->sink_to + requester->answer.run.end);
  else if (!requester->answer_wrong && requester->answer.odd_frame != 0)
    parley_find(pdu, PARLEY_FINDING_order, PARLEY_AT_TO,
                "The segments of the answer to frame %u were not sent in the order of their TO, from frame %u on "
                "[RFC 5041 §5.3]",
                (*link)->request_frame, requester->answer.odd_frame);
  parley_extent_close(&requester->answer);
  requester->order_told = requester->answer_wrong = FALSE;
  answered(pdu, *link);
  take_out(requester, link);
}

static parley_fetch* answered_read(parley_pdu* pdu, parley_track* requester) {
  parley_fetch* const fetch = *first_read(requester);
  if (fetch == NULL) {
    parley_find(pdu, PARLEY_FINDING_unasked, PARLEY_AT_SEGMENT,
                "Read Response although no Read is outstanding [RFC 5040 §5.2]");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, PARLEY_BLAME_ANY);
    return NULL;
  }
  if (fetch != requester->fetches && !requester->order_told) {
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_SEGMENT,
                "The Read Request of frame %u is answered before the Atomic Request of frame %u [RFC 7306 §5.1]",
                fetch->request_frame, requester->fetches->request_frame);
    requester->order_told = TRUE;
  }
  return fetch;
}

static void place_answer(parley_pdu* pdu, const parley_segment* s, parley_track* requester, const parley_fetch* fetch) {
  parley_extent* const e = &requester->answer;
  if (!e->open) parley_extent_open(e, 0, FALSE);
  const guint64 offset = s->to - fetch->sink_to, due = parley_extent_due(e);
  const gboolean fits = s->stag == fetch->sink_stag && offset <= fetch->size && s->payload <= fetch->size - offset;
  const parley_placed placed = fits ? parley_extent_place(e, offset, s->payload, s->last) : PARLEY_PLACED_WRONG;
  if (placed == PARLEY_PLACED_AHEAD && e->odd_frame == 0) e->odd_frame = pdu->frame;
  if (placed == PARLEY_PLACED_WRONG && s->stag == fetch->sink_stag && offset == due)
    parley_find(pdu, PARLEY_FINDING_response_length, PARLEY_AT_SEGMENT,
                "%" PRIu64 " octets for the Read Request of frame %u, which asks for %u [RFC 5040 §5.2]",
                due + s->payload, fetch->request_frame, fetch->size);
  else if (placed == PARLEY_PLACED_WRONG)
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_STAG,
                "Response to the Read Request of frame %u is for STag 0x%08x TO 0x%" PRIx64
                ", its sink is STag 0x%08x TO 0x%" PRIx64 " [RFC 5040 §4.5]",
                fetch->request_frame, s->stag, s->to, fetch->sink_stag, fetch->sink_to + due);
  else if (s->last && offset + s->payload < fetch->size)
    parley_find(pdu, PARLEY_FINDING_response_length, PARLEY_AT_SEGMENT,
                "Read Response ends after %" PRIu64 " octets, the request of frame %u asks for %u [RFC 5040 §5.2]",
                offset + s->payload, fetch->request_frame, fetch->size);
  if (placed == PARLEY_PLACED_WRONG || placed == PARLEY_PLACED_UNKNOWN) requester->answer_wrong = TRUE;
}

/* True: the present answer lacks octets, and this segment belongs to the next answer. */
static gboolean next_answer(const parley_track* requester, const parley_fetch* fetch, const parley_segment* s) {
  const gboolean inside = s->stag == fetch->sink_stag && s->to - fetch->sink_to <= fetch->size;
  return requester->answer.open && requester->answer.last && !inside;
}

void parley_fetch_read_response(parley_pdu* pdu, const parley_segment* s) {
  parley_track* requester = parley_track_of(pdu->conn, 1 - pdu->from);
  if (requester->fetches_unknown) {
    find_read(pdu, s, requester);
    return;
  }
  parley_fetch* fetch = answered_read(pdu, requester);
  if (fetch != NULL && next_answer(requester, fetch, s)) {
    answer_over(pdu, requester);
    fetch = answered_read(pdu, requester);
  }
  if (fetch == NULL) return;
  parley_facts_of(pdu)->fetch = fetch;
  if (!requester->answer_wrong) place_answer(pdu, s, requester, fetch);
  if (requester->answer_wrong ? s->last : parley_extent_whole(&requester->answer)) answer_over(pdu, requester);
}

void parley_fetch_atomic_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  if (s->payload != PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Atomic Request has %u octets, 52 are expected [RFC 7306 §5.2]", s->payload);
    t->fetches_unknown = TRUE;
    return;
  }
  if (!captured(tvb, s)) t->fetches_unknown = TRUE;
  if (!captured(tvb, s) || !room(t)) return;
  const guint32 word = tvb_get_ntohl(tvb, (gint)s->head);
  const guint32 aop = word & 0xF;
  const guint64 to = tvb_get_ntoh64(tvb, (gint)s->head + 12);
  if (word >> 4 != 0) /* RFC 7306 §5.2.1: the AOpCode is in the low four bits of its word; the other bits are 0. */
    parley_find(pdu, PARLEY_FINDING_atomic, PARLEY_AT_BODY,
                "Reserved bits next to the AOpCode are set: 0x%08x [RFC 7306 §5.2.1]", word);
  if (aop != PARLEY_RDMAP_ATOMIC_FETCH_ADD && aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)
    parley_find(pdu, PARLEY_FINDING_atomic, PARLEY_AT_BODY, "AOpCode %u is not assigned [RFC 7306 §5.2.1]", aop);
  if (to % 8 != 0) {
    parley_find(pdu, PARLEY_FINDING_atomic, PARLEY_AT_BODY,
                "Atomic at TO 0x%" PRIx64 ", not a multiple of 8 [RFC 7306 §5.1]", to);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 7, PARLEY_BLAME);
  }
  parley_fetch* fetch = append(pdu, t);
  fetch->atomic = TRUE;
  fetch->id = tvb_get_ntohl(tvb, (gint)s->head + 4);
  check_depth(pdu, t);
}

void parley_fetch_atomic_response(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* requester = parley_track_of(pdu->conn, 1 - pdu->from);
  if (s->payload != PARLEY_RDMAP_ATOMIC_RESPONSE_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Atomic Response has %u octets, 12 are expected [RFC 7306 §5.2]", s->payload);
    requester->fetches_unknown = TRUE;
    return;
  }
  if (!captured(tvb, s)) {
    requester->fetches_unknown = TRUE;
    return;
  }
  const guint32 id = tvb_get_ntohl(tvb, (gint)s->head);
  parley_fetch** link = &requester->fetches;
  guint32 older = 0;
  while (*link != NULL && (!(*link)->atomic || (*link)->id != id) && older < search_max) {
    link = &(*link)->next;
    ++older;
  }
  parley_fetch* const fetch = *link;
  const parley_fetch* const first = requester->fetches;
  if (fetch == NULL || !fetch->atomic || fetch->id != id) {
    if (!requester->fetches_unknown)
      parley_find(pdu, PARLEY_FINDING_unasked, PARLEY_AT_BODY,
                  "Atomic Response for request 0x%x, which is not outstanding [RFC 7306 §5.2.2]", id);
    return;
  }
  if (!requester->fetches_unknown && fetch != first && first->atomic)
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_BODY,
                "Atomic request 0x%x is answered before 0x%x [RFC 7306 §5.2.2]", id, first->id);
  else if (!requester->fetches_unknown && fetch != first)
    /* RFC 7306 §5.1: Atomics are answered in one order with the Reads. */
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_BODY,
                "Atomic request 0x%x is answered before the Read Request of frame %u [RFC 7306 §5.1]", id,
                first->request_frame);
  parley_facts_of(pdu)->fetch = fetch;
  answered(pdu, fetch);
  if (requester->fetches_unknown) {
    take_out_up_to(requester, fetch); /* their answers are among the missing octets */
    link = &requester->fetches;
  }
  take_out(requester, link);
}
