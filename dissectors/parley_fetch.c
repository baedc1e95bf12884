/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Read Requests and Atomic Requests with their responses: who answers whom, how long it took, and how many were
 * outstanding. RFC 5040 §4.4, §4.5, §5.2; RFC 7306 §5; RFC 6581 §9.1. */
#include "parley_rdmap.h"

enum {
  /* IRD and ORD have 14 bits (RFC 6581 §6): more cannot be agreed, so more are not kept. */
  fetches_max = 16384,
  /* Where octets are missing, a response is looked for among so many of the oldest requests. */
  search_max = 256
};

static parley_fetch* append(parley_pdu* pdu, parley_fetch*** tail) {
  parley_fetch* fetch = wmem_new0(wmem_file_scope(), parley_fetch);
  fetch->request_frame = pdu->frame;
  fetch->request_at = pdu->at;
  **tail = fetch;
  *tail = &fetch->next;
  parley_facts_of(pdu)->fetch = fetch;
  return fetch;
}

/* Takes the fetch that `link` points to out of its list; the facts of its FPDUs keep it. */
static void take_out(parley_fetch** link, parley_fetch*** tail) {
  parley_fetch* fetch = *link;
  *link = fetch->next;
  if (fetch->next == NULL) *tail = link;
  fetch->next = NULL;
}

static void pop_reads(parley_track* t, guint32 count) {
  for (; count > 0 && t->reads != NULL; --count) {
    take_out(&t->reads, &t->reads_tail);
    --t->read_count;
  }
}

static gboolean room(parley_track* t) {
  if (t->read_count + t->atomic_count < fetches_max) return TRUE;
  t->fetches_unknown = TRUE;
  return FALSE;
}

static void check_depth(parley_pdu* pdu, const parley_track* t) {
  const gint32 limit = pdu->conn->side[pdu->from].reads_max;
  const guint32 outstanding = t->read_count + t->atomic_count;
  if (t->fetches_unknown || limit < 0 || outstanding <= (guint32)limit) return;
  /* RFC 6581 §9.1: ORD is at most the peer's IRD; RFC 5040 §5.2.1: no more are outstanding. */
  parley_find(pdu, PARLEY_FINDING_reads_over, PARLEY_AT_BODY,
              "%u RDMA Reads and Atomics are outstanding, %d were agreed [RFC 5040 §5.2.1, RFC 6581 §9.1]", outstanding,
              limit);
}

static gboolean captured(tvbuff_t* tvb, const parley_segment* s) {
  return tvb_captured_length_remaining(tvb, (gint)s->head) >= (gint)s->payload;
}

void parley_fetch_read_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  if (s->payload != PARLEY_RDMAP_READ_REQUEST_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Read Request has %u octets, 28 are due [RFC 5040 §4.4]", s->payload);
    return;
  }
  if (!captured(tvb, s)) t->fetches_unknown = TRUE;
  if (!captured(tvb, s) || !room(t)) return;
  parley_fetch* fetch = append(pdu, &t->reads_tail);
  fetch->sink_stag = tvb_get_ntohl(tvb, (gint)s->head);
  fetch->sink_to = tvb_get_ntoh64(tvb, (gint)s->head + 4);
  fetch->size = tvb_get_ntohl(tvb, (gint)s->head + 12);
  ++t->read_count;
  check_depth(pdu, t);
}

static void answered(parley_pdu* pdu, parley_fetch* fetch) {
  fetch->response_frame = pdu->frame;
  fetch->response_at = pdu->at;
}

/* Some requests or responses are not known: a response belongs to the oldest request that it fits, if there is one.
 * Older ones were answered in what is missing, for responses keep the order of requests (RFC 5040 §5.2). */
static void find_read(parley_pdu* pdu, const parley_segment* s, parley_track* requester) {
  guint32 older = 0;
  for (parley_fetch* fetch = requester->reads; fetch != NULL && older < search_max; fetch = fetch->next, ++older) {
    if (fetch->sink_stag != s->stag || s->to < fetch->sink_to || s->to - fetch->sink_to + s->payload > fetch->size)
      continue;
    parley_facts_of(pdu)->fetch = fetch;
    fetch->done += s->payload;
    if (s->last) answered(pdu, fetch);
    pop_reads(requester, older + (s->last ? 1 : 0));
    return;
  }
}

static void check_sink(parley_pdu* pdu, const parley_segment* s, const parley_fetch* fetch) {
  const guint64 due = fetch->sink_to + fetch->done;
  if (s->stag == fetch->sink_stag && s->to == due) return;
  parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_STAG,
              "Response to the Read Request of frame %u is for STag 0x%08x TO 0x%" PRIx64
              ", its sink is STag 0x%08x TO 0x%" PRIx64 " [RFC 5040 §4.5]",
              fetch->request_frame, s->stag, s->to, fetch->sink_stag, due);
}

void parley_fetch_read_response(parley_pdu* pdu, const parley_segment* s) {
  parley_track* requester = parley_track_of(pdu->conn, 1 - pdu->from);
  if (requester->fetches_unknown) {
    find_read(pdu, s, requester);
    return;
  }
  parley_fetch* fetch = requester->reads;
  if (fetch == NULL) {
    parley_find(pdu, PARLEY_FINDING_unasked, PARLEY_AT_SEGMENT,
                "Read Response although no Read is outstanding [RFC 5040 §5.2]");
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 6, FALSE);
    return;
  }
  check_sink(pdu, s, fetch);
  parley_facts_of(pdu)->fetch = fetch;
  fetch->done += s->payload;
  if (fetch->done > fetch->size)
    parley_find(pdu, PARLEY_FINDING_response_length, PARLEY_AT_SEGMENT,
                "%" PRIu64 " octets for the Read Request of frame %u, which asks for %u [RFC 5040 §5.2]", fetch->done,
                fetch->request_frame, fetch->size);
  if (!s->last) return;
  if (fetch->done < fetch->size)
    parley_find(pdu, PARLEY_FINDING_response_length, PARLEY_AT_SEGMENT,
                "Read Response ends after %" PRIu64 " octets, the request of frame %u asks for %u [RFC 5040 §5.2]",
                fetch->done, fetch->request_frame, fetch->size);
  answered(pdu, fetch);
  pop_reads(requester, 1);
}

void parley_fetch_atomic_request(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* t = parley_track_of(pdu->conn, pdu->from);
  if (s->payload != PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Atomic Request has %u octets, 52 are due [RFC 7306 §5.2.1]", s->payload);
    return;
  }
  if (!captured(tvb, s)) t->fetches_unknown = TRUE;
  if (!captured(tvb, s) || !room(t)) return;
  const guint8 aop = tvb_get_guint8(tvb, (gint)s->head + 3) & 0xF;
  const guint64 to = tvb_get_ntoh64(tvb, (gint)s->head + 12);
  if (aop != PARLEY_RDMAP_ATOMIC_FETCH_ADD && aop != PARLEY_RDMAP_ATOMIC_CMP_SWAP)
    parley_find(pdu, PARLEY_FINDING_atomic, PARLEY_AT_BODY, "AOpCode %u is not assigned [RFC 7306 §5.2.1]", aop);
  if (to % 8 != 0) {
    parley_find(pdu, PARLEY_FINDING_atomic, PARLEY_AT_BODY,
                "Atomic at TO 0x%" PRIx64 ", not a multiple of 8 [RFC 7306 §5.1]", to);
    parley_blame(pdu, PARLEY_RDMAP_LAYER_RDMAP, 2, 7, FALSE);
  }
  parley_fetch* fetch = append(pdu, &t->atomics_tail);
  fetch->atomic = TRUE;
  fetch->id = tvb_get_ntohl(tvb, (gint)s->head + 4);
  ++t->atomic_count;
  check_depth(pdu, t);
}

void parley_fetch_atomic_response(parley_pdu* pdu, tvbuff_t* tvb, const parley_segment* s) {
  parley_track* requester = parley_track_of(pdu->conn, 1 - pdu->from);
  if (s->payload != PARLEY_RDMAP_ATOMIC_RESPONSE_LEN) {
    parley_find(pdu, PARLEY_FINDING_body_length, PARLEY_AT_BODY,
                "Atomic Response has %u octets, 12 are due [RFC 7306 §5.2.2]", s->payload);
    return;
  }
  if (!captured(tvb, s)) {
    requester->fetches_unknown = TRUE;
    return;
  }
  const guint32 id = tvb_get_ntohl(tvb, (gint)s->head);
  parley_fetch** link = &requester->atomics;
  guint32 older = 0;
  while (*link != NULL && (*link)->id != id && older < search_max) {
    link = &(*link)->next;
    ++older;
  }
  if (*link == NULL || (*link)->id != id) {
    if (!requester->fetches_unknown)
      parley_find(pdu, PARLEY_FINDING_unasked, PARLEY_AT_BODY,
                  "Atomic Response for request 0x%x, which is not outstanding [RFC 7306 §5.2.2]", id);
    return;
  }
  if (!requester->fetches_unknown && older > 0)
    parley_find(pdu, PARLEY_FINDING_sink, PARLEY_AT_BODY,
                "Atomic request 0x%x is answered before 0x%x [RFC 7306 §5.2.2]", id, requester->atomics->id);
  parley_facts_of(pdu)->fetch = *link;
  answered(pdu, *link);
  take_out(link, &requester->atomics_tail);
  --requester->atomic_count;
  /* Older ones were answered in what is missing (RFC 7306 §5.4). */
  for (; requester->fetches_unknown && older > 0; --older, --requester->atomic_count)
    take_out(&requester->atomics, &requester->atomics_tail);
}
