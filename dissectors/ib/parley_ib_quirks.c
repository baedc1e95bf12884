/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where the answer of a known peer departs from the specification as that peer is known to: what `parley pcap check` has as a
 * note (docs/pcap-check.md), by the packets before it. */
#include "parley_ib.h"

enum {
  FIRST = PARLEY_IB_OPERATION_send_first,
  MIDDLE = PARLEY_IB_OPERATION_send_middle,
  READ = PARLEY_IB_OPERATION_read_request,
  ACKNOWLEDGE = PARLEY_IB_OPERATION_acknowledge
};

static const parley_ib_departure* departs(parley_ib_end* from, parley_ib_quirk quirk, const char* text,
                                          const parley_ib_departure* next) {
  parley_ib_departure* const out = wmem_new0(wmem_file_scope(), parley_ib_departure);
  const guint32 bit = 1U << quirk;
  out->next = next;
  out->quirk = quirk;
  out->from = from->side;
  out->text = (from->conn->told & bit) == 0 ? text : NULL;
  from->conn->told |= bit;
  return out;
}

static const parley_ib_sent* sent_of(const parley_ib_conn* c, guint8 side, guint16 attribute) {
  return c->sent[side][attribute - PARLEY_IBCM_FIRST];
}

/* ------------------------------------------------------------------ the CM */

/* Before it, nobody has waited as long as the timeout says. Linux counts 4,096 ms where 4,295 ms are meant. */
static gint64 least_wait(guint8 timeout) { return ((gint64)4096 << (timeout & 0x1F)) / 16 * 15; }

static gint64 nanoseconds_since(const packet_info* pinfo, const nstime_t* then) {
  nstime_t since;
  nstime_delta(&since, &pinfo->abs_ts, then);
  return (gint64)since.secs * 1000000000 + since.nsecs;
}

/* A repeated REQ can be between the responder's last message and this one; it need not be in the capture. */
static gboolean asked_again(const packet_info* pinfo, const parley_ib_conn* c) {
  const parley_ib_sent* const req = sent_of(c, PARLEY_INITIATOR, PARLEY_IBCM_req);
  if (c->answered == 0 || req == NULL) return c->answered == 0;
  if (req->sendings > 1 && req->last > c->answered) return TRUE;
  /* Answers are not remembered for ever, and those to several REQs may come together, the first ones held up. */
  return c->lives < req->sendings || nanoseconds_since(pinfo, &c->answered_at) >= least_wait(c->response_timeout);
}

gboolean parley_ibcm_forgot(const packet_info* pinfo, const parley_ib_conn* c, const parley_ibcm_message* m) {
  return parley_ibcm_sender_of(m->attribute, m->about) == PARLEY_RESPONDER && m->local_id != 0 && asked_again(pinfo, c);
}

/* IBA §12.9: a DREQ or DREP was seen, so that the connection had been established. */
static gboolean has_ended(const parley_ib_conn* c) {
  for (guint8 side = 0; side < 2; side++)
    if (sent_of(c, side, PARLEY_IBCM_dreq) != NULL || sent_of(c, side, PARLEY_IBCM_drep) != NULL) return TRUE;
  return FALSE;
}

/* IBA §12.6.5: all but RC, UC and XRC. */
static gboolean is_unknown(guint8 transport) {
  return transport == PARLEY_IB_SERVICE_rd || transport == PARLEY_IB_SERVICE_manufacturer;
}

const parley_ib_departure* parley_ibcm_departure(const parley_ibcm_message* m, parley_ib_end* from, gboolean forgot) {
  const parley_ib_conn* const c = from->conn;
  const parley_ib_departure* out = NULL;
  if (from->side != PARLEY_RESPONDER || sent_of(c, PARLEY_INITIATOR, PARLEY_IBCM_req) == NULL) return NULL;
  if (forgot && c->answered != 0 && has_ended(c))
    out = departs(from, PARLEY_IB_QUIRK_FORGETS_IN_TIMEWAIT,
                  " takes the REQ of a connection that is over for a new one", out);
  if (m->attribute == PARLEY_IBCM_rep && c->path_mtu == 0)
    out = departs(from, PARLEY_IB_QUIRK_TAKES_PATH_MTU,
                  wmem_strdup_printf(wmem_file_scope(), " accepted a REQ with path MTU %u", c->path_mtu_code), out);
  if (m->attribute == PARLEY_IBCM_rej && m->about == PARLEY_IBCM_ABOUT_req && is_unknown(c->transport) &&
      m->reason == PARLEY_IBCM_REJECT_consumer)
    out = departs(from, PARLEY_IB_QUIRK_REJECTS_SERVICE_TYPE,
                  " rejected a transport service type as its program (28), not as what it is (9)", out);
  return out;
}

/* ------------------------------------------------------------------ data */

/* `pcap check` remembers as many requests. */
static gboolean is_remembered(const parley_ib_odds* odds, const parley_ib_odd* one) {
  enum { REQUESTS = 2048 };
  return one->frame != 0 && odds->requests - one->at < REQUESTS;
}

static parley_ib_odd* find(parley_ib_odds* odds, guint32 psn) {
  for (guint i = 0; i < G_N_ELEMENTS(odds->last); i++)
    if (odds->last[i].psn == psn && is_remembered(odds, &odds->last[i])) return &odds->last[i];
  return NULL;
}

static gboolean is_odd(const parley_ib_packet* p, const parley_ib_conn* c) {
  const gint reth = parley_ib_header_at(p, PARLEY_IB_RETH);
  switch (p->operation->value) {
    case FIRST:
    case MIDDLE: return p->payload_length < c->path_mtu;
    case READ: return parley_ib_has(p, reth, 16) && tvb_get_ntohl(p->tvb, reth + 12) == 0;
    default: return FALSE;
  }
}

static void remember(const packet_info* pinfo, const parley_ib_packet* p, const parley_ib_end* from) {
  parley_ib_odds** const odds = &from->conn->odds[from->side];
  const gboolean odd = is_odd(p, from->conn);
  if (*odds == NULL) {
    if (!odd) return;
    *odds = wmem_new0(wmem_file_scope(), parley_ib_odds);
  }
  (*odds)->requests++;
  parley_ib_odd* const before = find(*odds, p->psn);
  if (before != NULL) {
    before->again = TRUE;
  } else if (odd) {
    const parley_ib_odd one = {p->psn, pinfo->num, (*odds)->requests, p->operation->value, FALSE};
    (*odds)->last[(*odds)->count++ % G_N_ELEMENTS((*odds)->last)] = one;
  }
}

/* IBA §9.7.5.1. */
static const parley_ib_departure* answer(const parley_ib_packet* p, parley_ib_end* from) {
  enum { ACCESS_ERROR = PARLEY_IB_SYNDROME_NAK | PARLEY_IB_NAK_remote_access_error };
  parley_ib_odds* const odds = from->conn->odds[1 - from->side];
  const gint aeth = parley_ib_header_at(p, PARLEY_IB_AETH);
  if (odds == NULL || p->operation->value != ACKNOWLEDGE || !parley_ib_has(p, aeth, 4)) return NULL;
  const parley_ib_odd* const request = find(odds, p->psn);
  if (request == NULL) return NULL;
  const guint8 syndrome = tvb_get_guint8(p->tvb, aeth);
  if (request->operation != READ && (syndrome & ~PARLEY_IB_SYNDROME_VALUE) == PARLEY_IB_SYNDROME_ACK)
    return departs(from, PARLEY_IB_QUIRK_TAKES_SHORT_FIRST,
                   wmem_strdup_printf(wmem_file_scope(), " took the %s of frame %u, which is shorter than the path MTU",
                                      parley_ib_operation_of(request->operation)->text, request->frame),
                   NULL);
  if (request->operation == READ && request->again && syndrome == ACCESS_ERROR)
    return departs(from, PARLEY_IB_QUIRK_LOOKS_READ_UP_AGAIN,
                   wmem_strdup_printf(wmem_file_scope(),
                                      " refused the Read of no octets of frame %u when it came again", request->frame),
                   NULL);
  return NULL;
}

const parley_ib_departure* parley_ib_departure_of(const packet_info* pinfo, const parley_ib_packet* p,
                                                  const parley_ib_end* from) {
  parley_ib_conn* const c = from->conn;
  if (p->operation == NULL || p->payload_length < 0) return NULL;
  if (sent_of(c, PARLEY_INITIATOR, PARLEY_IBCM_req) == NULL) return NULL;
  if (p->operation->response) {
    /* Answers are those of these requests only if the CM named both queue pairs. */
    return sent_of(c, PARLEY_RESPONDER, PARLEY_IBCM_rep) == NULL ? NULL : answer(p, &c->end[from->side]);
  }
  remember(pinfo, p, from);
  return NULL;
}
