/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which messages and which data belong to one connection. A communication ID belongs to the host that made it, known by
 * its address; a queue pair number means something between two addresses. The newest REQ, REP or SIDR_REP with a number
 * has it: numbers are used again. All of it grows with the REQs of the file, by a fixed size for each. */
#include <string.h>

#include "parley_ib.h"

typedef enum { KEY_COMM_ID, KEY_REQUEST_ID, KEY_QPN } key_kind;

typedef struct key {
  parley_ib_gid own, other; /* `other`: of a queue pair number only */
  guint32 number, kind;
} key;

typedef struct place {
  key key;
  parley_ib_end* end; /* of the newest that has it */
} place;

static wmem_map_t* places; /* by key */
static guint32 connections;

static guint hash_of(gconstpointer k) { return wmem_strong_hash((const guint8*)k, sizeof(key)); }
static gboolean equal(gconstpointer a, gconstpointer b) { return memcmp(a, b, sizeof(key)) == 0; }

void parley_ib_conn_forget(void) {
  places = NULL;
  connections = 0;
}

static key key_of(key_kind kind, const parley_ib_gid* own, const parley_ib_gid* other, guint32 number) {
  key k;
  memset(&k, 0, sizeof k);
  k.own = *own;
  if (other != NULL) k.other = *other;
  k.number = number;
  k.kind = kind;
  return k;
}

static place* place_of(key k) { return places == NULL ? NULL : (place*)wmem_map_lookup(places, &k); }

static parley_ib_end* find(key k) {
  const place* const at = place_of(k);
  return at == NULL ? NULL : at->end;
}

static void keep(key k, parley_ib_end* end) {
  if (places == NULL) places = wmem_map_new(wmem_file_scope(), hash_of, equal);
  place* at = place_of(k);
  if (at == NULL) {
    at = wmem_new0(wmem_file_scope(), place);
    at->key = k;
    wmem_map_insert(places, &at->key, at);
  }
  at->end = end;
}

static gboolean same_gid(const parley_ib_gid* a, const parley_ib_gid* b) { return memcmp(a, b, sizeof *a) == 0; }

static key_kind kind_of(const parley_ibcm_message* m) {
  return m->attribute == PARLEY_IBCM_sidr_req || m->attribute == PARLEY_IBCM_sidr_rep ? KEY_REQUEST_ID : KEY_COMM_ID;
}

static guint slot_of(guint16 attribute) { return attribute - PARLEY_IBCM_FIRST; }

/* ------------------------------------------------------------------ whose message it is */

static void own_id(parley_ib_end* end, guint32 id, key_kind kind) {
  parley_ib_conn* const c = end->conn;
  if (id == 0 || c->id[end->side] != 0) return;
  c->id[end->side] = id;
  keep(key_of(kind, &c->address[end->side], NULL, id), end);
}

static void own_qpn(parley_ib_end* end, guint32 qpn) {
  parley_ib_conn* const c = end->conn;
  if (c->qpn[end->side] == 0) c->qpn[end->side] = qpn;
  if (qpn > PARLEY_IB_GSI_QPN) keep(key_of(KEY_QPN, &c->address[end->side], &c->address[1 - end->side], qpn), end);
}

static parley_ib_end* begin(const parley_ib_packet* p, const parley_ibcm_message* m) {
  parley_ib_conn* const c = wmem_new0(wmem_file_scope(), parley_ib_conn);
  c->number = ++connections;
  for (guint8 side = 0; side < 2; side++) {
    c->end[side].conn = c;
    c->end[side].side = side;
  }
  c->address[PARLEY_INITIATOR] = p->source;
  c->address[PARLEY_RESPONDER] = p->destination;
  c->service = parley_ib_service_words(wmem_file_scope(), m->service_id);
  c->service_id = m->service_id;
  c->transport = m->transport;
  c->path_mtu = m->path_mtu;
  c->p_key = m->p_key;
  c->path_mtu_code = m->path_mtu_code;
  c->response_timeout = m->response_timeout;
  c->lives = 1;
  c->gives_credits[PARLEY_INITIATOR] = m->flow_control;
  c->gives_credits[PARLEY_RESPONDER] = TRUE;
  c->shared_receives[PARLEY_INITIATOR] = m->shared_receives;
  own_id(&c->end[PARLEY_INITIATOR], m->local_id, kind_of(m));
  own_qpn(&c->end[PARLEY_INITIATOR], m->qpn);
  return &c->end[PARLEY_INITIATOR];
}

/* A REQ or SIDR_REQ that came before, octet by octet and so by CA GUID and ID, is the same; another one with its ID begins
 * anew. */
static parley_ib_end* asker(const parley_ib_packet* p, const parley_ibcm_message* m) {
  parley_ib_end* const end = find(key_of(kind_of(m), &p->source, NULL, m->local_id));
  if (end == NULL || end->side != PARLEY_INITIATOR) return begin(p, m);
  const parley_ib_sent* const before = end->conn->sent[PARLEY_INITIATOR][slot_of(m->attribute)];
  const gboolean same =
      before != NULL && before->digest == m->digest && same_gid(&end->conn->address[PARLEY_RESPONDER], &p->destination);
  return same ? end : begin(p, m);
}

/* The responder has forgotten its answer: its ID is the one that it gives now. */
static parley_ib_end* begin_anew(parley_ib_end* end) {
  end->conn->lives++;
  end->conn->id[end->side] = 0;
  return end;
}

/* The sender of a message that is no REQ, by the ID of the receiver and then by its own. */
static parley_ib_end* sender(const packet_info* pinfo, const parley_ib_packet* p, const parley_ibcm_message* m) {
  const gboolean sidr = kind_of(m) == KEY_REQUEST_ID;
  const guint32 theirs = sidr ? m->local_id : m->remote_id, own = sidr ? 0 : m->local_id;
  parley_ib_end* peer = theirs == 0 ? NULL : find(key_of(kind_of(m), &p->destination, NULL, theirs));
  if (peer != NULL && !same_gid(&peer->conn->address[1 - peer->side], &p->source)) peer = NULL;
  if (peer != NULL) {
    const guint32 known = peer->conn->id[1 - peer->side];
    if (own == 0 || known == 0 || known == own) return &peer->conn->end[1 - peer->side];
  }
  parley_ib_end* const end = own == 0 ? NULL : find(key_of(KEY_COMM_ID, &p->source, NULL, own));
  if (end != NULL && same_gid(&end->conn->address[1 - end->side], &p->destination)) {
    const guint32 known = end->conn->id[1 - end->side];
    return theirs == 0 || known == 0 || known == theirs ? end : NULL;
  }
  if (peer == NULL || peer->side != PARLEY_INITIATOR || !parley_ibcm_forgot(pinfo, peer->conn, m)) return NULL;
  return begin_anew(&peer->conn->end[PARLEY_RESPONDER]);
}

/* ------------------------------------------------------------------ what it means for the connection */

/* The message that this one answers; 0: none. */
static guint16 answered_by(const parley_ibcm_message* m) {
  switch (m->attribute) {
    case PARLEY_IBCM_rep: return PARLEY_IBCM_req;
    case PARLEY_IBCM_rtu: return PARLEY_IBCM_rep;
    case PARLEY_IBCM_drep: return PARLEY_IBCM_dreq;
    case PARLEY_IBCM_apr: return PARLEY_IBCM_lap;
    case PARLEY_IBCM_sidr_rep: return PARLEY_IBCM_sidr_req;
    case PARLEY_IBCM_mra:
    case PARLEY_IBCM_rej:
      if (m->about == PARLEY_IBCM_ABOUT_req) return PARLEY_IBCM_req;
      if (m->about == PARLEY_IBCM_ABOUT_rep) return PARLEY_IBCM_rep;
      return m->attribute == PARLEY_IBCM_mra ? PARLEY_IBCM_lap : 0;
    default: return 0;
  }
}

static void answer(parley_ibcm_mark* mark, parley_ib_conn* c, const parley_ibcm_message* m) {
  const guint16 asked = answered_by(m);
  if (asked == 0) return;
  parley_ib_sent* const request = c->sent[1 - mark->from][slot_of(asked)];
  if (request == NULL) return;
  mark->request = request->frame;
  mark->request_at = request->at;
  /* A MRA only announces the answer. */
  if (request->answer == 0 && m->attribute != PARLEY_IBCM_mra) request->answer = mark->first;
}

const parley_ibcm_mark* parley_ibcm_join(packet_info* pinfo, const parley_ib_packet* p, const parley_ibcm_message* m) {
  const gboolean asks = m->attribute == PARLEY_IBCM_req || m->attribute == PARLEY_IBCM_sidr_req;
  parley_ib_end* const end = asks ? asker(p, m) : sender(pinfo, p, m);
  if (end == NULL) return NULL;
  parley_ib_conn* const c = end->conn;
  const gboolean forgot = end->side == PARLEY_RESPONDER && c->id[end->side] == 0 && c->lives > 1;
  if (kind_of(m) == KEY_COMM_ID) own_id(end, m->local_id, KEY_COMM_ID);
  if (!asks) own_qpn(end, m->qpn);
  if (m->attribute == PARLEY_IBCM_rej || m->attribute == PARLEY_IBCM_drep) c->over = TRUE;

  parley_ibcm_mark* const mark = wmem_new0(wmem_file_scope(), parley_ibcm_mark);
  mark->conn = c;
  mark->from = end->side;
  mark->copy = 1;
  mark->first = pinfo->num;
  parley_ib_sent** const sent = &c->sent[end->side][slot_of(m->attribute)];
  if (*sent == NULL) {
    *sent = wmem_new0(wmem_file_scope(), parley_ib_sent);
    (*sent)->frame = pinfo->num;
    (*sent)->copies = (*sent)->sendings = 1;
    (*sent)->last = pinfo->num;
    (*sent)->psn = p->psn;
    (*sent)->digest = m->digest;
    (*sent)->at = pinfo->abs_ts;
    if (m->attribute == PARLEY_IBCM_rep) {
      c->gives_credits[end->side] = m->flow_control;
      /* IBA Annex A14: what comes for a TGT queue pair is received in shared queues. */
      c->shared_receives[end->side] = m->shared_receives || c->transport == PARLEY_IB_SERVICE_xrc;
    }
    if (m->attribute == PARLEY_IBCM_sidr_rep) c->q_key = m->q_key;
  } else if ((*sent)->digest == m->digest) {
    mark->copy = ++(*sent)->copies;
    mark->first = (*sent)->frame;
    if ((*sent)->psn != p->psn) {
      (*sent)->sendings++;
      (*sent)->last = pinfo->num;
      (*sent)->psn = p->psn;
    }
  }
  answer(mark, c, m);
  if (mark->copy == 1) mark->first = 0;
  /* Of a responder that has forgotten, the initiator may end the connection of before. */
  mark->peer_qpn = end->side == PARLEY_INITIATOR && c->lives > 1 ? 0 : c->qpn[1 - end->side];
  mark->departure = parley_ibcm_departure(m, end, forgot);
  if (end->side == PARLEY_RESPONDER) {
    c->answered = pinfo->num;
    c->answered_at = pinfo->abs_ts;
  }
  return mark;
}

/* ------------------------------------------------------------------ data */

/* Whether the PSN goes on with what that side has asked, or is of that. */
static gboolean is_near(const parley_ib_end* from, guint32 psn) {
  enum { NEXT = 128 };
  const parley_ib_conn* const c = from->conn;
  const guint32 ahead = (psn - c->psn[from->side]) & PARLEY_IB_QPN_MAX;
  return c->asked[from->side] && (ahead <= NEXT || ahead > PARLEY_IB_QPN_MAX - NEXT);
}

static const parley_ib_end* data_of(const parley_ib_end* from, const parley_ib_packet* p) {
  if (from == NULL || from->conn->over) return NULL;
  return from->conn->transport == (p->opcode & PARLEY_IB_SERVICE_MASK) || is_near(from, p->psn) ? from : NULL;
}

static const parley_ib_end* other(const parley_ib_end* end) {
  return end == NULL ? NULL : &end->conn->end[1 - end->side];
}

const parley_ib_end* parley_ib_answerer(const parley_ib_packet* p) {
  const parley_ib_end* const from = other(find(key_of(KEY_QPN, &p->destination, &p->source, p->qpn)));
  if (from == NULL || p->operation == NULL || !p->operation->response) return NULL;
  return from->conn->transport == (p->opcode & PARLEY_IB_SERVICE_MASK) ? from : NULL;
}

const parley_ib_end* parley_ib_join(const parley_ib_packet* p) {
  const parley_ib_end* from = data_of(other(find(key_of(KEY_QPN, &p->destination, &p->source, p->qpn))), p);
  /* Who answers on UD has got the number from the DETH of a datagram, not from the CM. */
  if (from == NULL && p->source_qpn != 0)
    from = data_of(find(key_of(KEY_QPN, &p->source, &p->destination, p->source_qpn)), p);
  if (from != NULL && p->operation != NULL && !p->operation->response) {
    from->conn->psn[from->side] = p->psn;
    from->conn->asked[from->side] = TRUE;
  }
  return from;
}
