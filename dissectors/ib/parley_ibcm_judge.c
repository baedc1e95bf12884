/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a message of the CM shows of itself, and against the REQ and REP of its connection (IBA §12.6 to §12.11). */
#include <string.h>
#include <wsutil/inet_addr.h>

#include "parley_ib.h"

/* What judges a message: its packet, and where its body is. */
typedef struct subject {
  const parley_ib_packet* p;
  packet_info* pinfo;
  proto_item* item;
  const parley_ibcm_mark* mark; /* NULL: of no connection */
  gint who, body;
  const char* name;
  guint16 attribute;
} subject;

static const struct {
  guint16 attribute;
  const char* name;
} names[] = {
#define PARLEY_X(name, attribute, structure, fields, text) {attribute, text},
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
};

static guint8 octet(const subject* s, gint at) { return tvb_get_guint8(s->p->tvb, s->body + at); }
#define NUMBER(structure, member) ((guint32)CM_NUMBER(s->p, structure, member))

#define SAY(rule, ...) parley_ib_tell(s->pinfo, s->item, PARLEY_IB_RULE_##rule, s->who, __VA_ARGS__)

/* ------------------------------------------------------------------ below the body */

static void judge_carriage(const subject* s) {
  const parley_ib_packet* const p = s->p;
  const gint deth = parley_ib_header_at(p, PARLEY_IB_DETH);
  const guint32 q_key = tvb_get_ntohl(p->tvb, deth);
  const guint16 p_key = tvb_get_ntohs(p->tvb, p->bth + 2), status = tvb_get_ntohs(p->tvb, p->payload + 4);
  guint8 header[4];
  tvb_memcpy(p->tvb, header, p->payload, sizeof header);
  if (header[0] != PARLEY_IB_MAD_BASE_VERSION || header[2] != PARLEY_IB_CLASS_CM_VERSION ||
      header[3] != PARLEY_IB_MAD_METHOD_SEND || status != 0)
    SAY(MAD_HEADER,
        "'s %s is in a MAD of base version %u, class version %u, method %u and status %u; 1, 2, 3 and 0 are due",
        s->name, header[0], header[2], header[3], status);
  if (q_key != PARLEY_IB_GSI_Q_KEY)
    SAY(CM_Q_KEY, "'s %s has Q_Key 0x%08x; that of the GSI is 0x%08x", s->name, q_key, PARLEY_IB_GSI_Q_KEY);
  if ((p_key & 0x7FFF) == 0) SAY(CM_P_KEY, "'s %s has P_Key 0x%04x, which is none", s->name, p_key);
}

/* ------------------------------------------------------------------ reserved bits */

/* IBA §12.6 to §12.11: what no field of the message has. */
static void judge_reserved(const subject* s) {
  const guint8* const reserved = parley_ibcm_reserved(s->attribute);
  for (gint at = 0; at < PARLEY_IBCM_LEN; at++) {
    if ((octet(s, at) & reserved[at]) == 0) continue;
    SAY(CM_RESERVED, "'s %s has reserved bits set in octet %d of its MAD (0x%02x)", s->name,
        PARLEY_IB_MAD_HEADER_LEN + at, octet(s, at));
    return;
  }
}

/* ------------------------------------------------------------------ REQ, REP, SIDR */

static gboolean is_usable(guint32 qpn) { return qpn > PARLEY_IB_GSI_QPN && qpn != PARLEY_IB_QPN_MULTICAST; }

static const char* gid_words(const subject* s, const guint8* octets) {
  char text[WS_INET6_ADDRSTRLEN];
  ws_inet_ntop6(octets, text, sizeof text);
  return wmem_strdup(s->pinfo->pool, text);
}

/* RFC 4291 §2.5.6; of IPv4 RFC 3927 §1. */
static gboolean is_link_local(const guint8* gid) { return gid[0] == 0xFE && (gid[1] & 0xC0) == 0x80; }
static gboolean is_link_local_ipv4(const guint8* told) { return told[12] == 169 && told[13] == 254; }

static void judge_address(const subject* s, gint at, gboolean ipv4, const parley_ib_gid* gid, gboolean source) {
  guint8 told[PARLEY_GID_LEN];
  tvb_memcpy(s->p->tvb, told, at, PARLEY_GID_LEN);
  if (ipv4) {
    memset(told, 0, 10);
    told[10] = told[11] = 0xFF;
  }
  if (memcmp(told, gid->octets, PARLEY_GID_LEN) == 0) return;
  if (is_link_local(gid->octets) != (ipv4 ? is_link_local_ipv4(told) : is_link_local(told))) return;
  SAY(CMA_ADDRESS, "'s %s has %s as its %s address, and %s %s", s->name, gid_words(s, told),
      source ? "source" : "destination", source ? "comes from" : "goes to", gid_words(s, gid->octets));
}

/* IBA Annex A11: `header` is where the private data begins. */
static void judge_cma(const subject* s, gint header) {
  const guint64 space = CM_NUMBER(s->p, CmReq, service_id) >> 16;
  if (space != PARLEY_CMA_SPACE_tcp && space != PARLEY_CMA_SPACE_udp) return;
  const guint8 version = tvb_get_guint8(s->p->tvb, header), ip = tvb_get_guint8(s->p->tvb, header + 1) >> 4;
  static const char* const what = "the header of the RDMA IP CM service has";
  if (version != PARLEY_CMA_VERSION)
    SAY(CMA_HEADER, "'s %s for a service of RDMA IP CM: %s version %u, not 0", s->name, what, version);
  else if (ip != 4 && ip != 6)
    SAY(CMA_HEADER, "'s %s for a service of RDMA IP CM: %s IP version %u, not 4 or 6", s->name, what, ip);
  if (version != PARLEY_CMA_VERSION || (ip != 4 && ip != 6)) return;
  judge_address(s, header + 4, ip == 4, &s->p->source, TRUE);
  judge_address(s, header + 20, ip == 4, &s->p->destination, FALSE);
}

static void judge_req(const subject* s) {
  const guint32 mtu = NUMBER(CmReq, path_packet_mtu), service = NUMBER(CmReq, transport_service);
  const guint32 extended = NUMBER(CmReq, extended_transport), qpn = NUMBER(CmReq, local_qpn);
  const gint path = CM_AT(s->p, CmReq, primary_path);
  guint8 gid[PARLEY_GID_LEN];
  if (mtu < 1 || mtu > 5) SAY(PATH_MTU, "'s REQ has path MTU %u; 1 to 5 are 256 to 4096 octets", mtu);
  if (service == PARLEY_IBCM_SERVICE_extended && extended != PARLEY_IBCM_EXTENDED_XRC)
    SAY(CM_SERVICE, "'s REQ asks for the extended transport type %u; there is only 1 (XRC)", extended);
  if (!is_usable(qpn)) SAY(REQ_QPN, "'s REQ names QPN 0x%06x, which no connection can have", qpn);
  /* IBA Annex A17: a RoCE GID is the address that the packets come from. */
  tvb_memcpy(s->p->tvb, gid, path + PARLEY_MAD_FIELD(CmPath, sgid)->bit / 8, sizeof gid);
  if (s->p->carriage != PARLEY_IB_NATIVE && memcmp(gid, s->p->source.octets, sizeof gid) != 0)
    SAY(CM_GID, "'s REQ has %s as its GID, and comes from %s", gid_words(s, gid), gid_words(s, s->p->source.octets));
  judge_cma(s, CM_AT(s->p, CmReq, private_data));
}

static void judge_rep(const subject* s) {
  const gboolean xrc = s->mark->conn->transport == PARLEY_IB_SERVICE_xrc;
  const guint32 qpn = xrc ? NUMBER(CmRep, local_eecn) : NUMBER(CmRep, local_qpn);
  if (!is_usable(qpn))
    SAY(REP_QPN, "'s REP names %s 0x%06x, which no connection can have", xrc ? "TGT QPN" : "QPN", qpn);
}

static void judge_sidr_rep(const subject* s) {
  const parley_ib_conn* const c = s->mark == NULL ? NULL : s->mark->conn;
  const guint64 id = CM_NUMBER(s->p, CmSidrRep, service_id);
  const gboolean valid = NUMBER(CmSidrRep, status) == 0;
  if (c != NULL && c->service_id != id && (valid || id != 0))
    SAY(SIDR_SERVICE,
        "'s SIDR_REP is about the service 0x%016" G_GINT64_MODIFIER "x; the SIDR_REQ asked for 0x%016" G_GINT64_MODIFIER
        "x",
        id, c->service_id);
  if (valid && !is_usable(NUMBER(CmSidrRep, qpn)))
    SAY(SIDR_QPN, "'s SIDR_REP names QPN 0x%06x, which no service can have", NUMBER(CmSidrRep, qpn));
}

/* ------------------------------------------------------------------ the others */

gint parley_ibcm_sender_of(guint16 attribute, guint8 about) {
  switch (attribute) {
    case PARLEY_IBCM_req:
    case PARLEY_IBCM_rtu:
    case PARLEY_IBCM_sidr_req:
    case PARLEY_IBCM_lap: return PARLEY_INITIATOR;
    case PARLEY_IBCM_rep:
    case PARLEY_IBCM_sidr_rep:
    case PARLEY_IBCM_apr: return PARLEY_RESPONDER;
    case PARLEY_IBCM_mra:
    case PARLEY_IBCM_rej:
      if (about == PARLEY_IBCM_ABOUT_req) return PARLEY_RESPONDER;
      return about == PARLEY_IBCM_ABOUT_rep ? PARLEY_INITIATOR : -1;
    default: return -1;
  }
}

/* Reasons that say what is wrong with a REQ: nothing else has a service ID, a path or an MTU. */
static gboolean is_only_of_req(guint16 reason) {
  switch (reason) {
    case PARLEY_IBCM_REJECT_invalid_service_id:
    case PARLEY_IBCM_REJECT_invalid_transport_service:
    case PARLEY_IBCM_REJECT_invalid_path_mtu:
    case PARLEY_IBCM_REJECT_primary_flow_label:
    case PARLEY_IBCM_REJECT_alternate_flow_label: return TRUE;
    default: return reason >= PARLEY_IBCM_REJECT_primary_gid && reason <= PARLEY_IBCM_REJECT_alternate_packet_rate;
  }
}

static void judge_rej(const subject* s, guint8 about, gboolean own) {
  const guint16 reason = (guint16)NUMBER(CmRej, reason);
  const guint32 length = NUMBER(CmRej, info_length);
  const char* const what = val_to_str_const(about, parley_mad_names(PARLEY_MAD_KIND_cm_about), "an unassigned message");
  const char* const words = try_val_to_str(reason, parley_mad_names(PARLEY_MAD_KIND_cm_reject));
  if (own) SAY(REJ_ABOUT, " sent a REJ of its own %s", what);
  if (words == NULL)
    SAY(REJ_UNASSIGNED, "'s REJ has the reason %u, which is not assigned", reason);
  else if (is_only_of_req(reason) && about != PARLEY_IBCM_ABOUT_req)
    SAY(REJ_REASON, "'s REJ of %s has a reason that only a REQ can give: %s", what, words);
  if (length > PARLEY_IBCM_INFO_LEN)
    SAY(REJ_INFO, "'s REJ announces %u octets of additional information; it has room for %d", length,
        PARLEY_IBCM_INFO_LEN);
}

static void judge_dreq(const subject* s) {
  const guint32 told = NUMBER(CmDreq, remote_qpn), known = s->mark->peer_qpn;
  if (known != 0 && told != known) SAY(DREQ_QPN, "'s DREQ has 0x%06x as its peer's QPN; it is 0x%06x", told, known);
}

static void judge_message(const subject* s) {
  const guint8 about = (guint8)NUMBER(CmRej, message); /* an MRA has it there, too */
  const gint due = parley_ibcm_sender_of(s->attribute, about);
  const gboolean foreign = s->mark != NULL && due >= 0 && due != s->mark->from;
  const gboolean fresh = s->mark != NULL && s->mark->copy == 1;
  judge_reserved(s);
  switch (s->attribute) {
    case PARLEY_IBCM_rej: judge_rej(s, about, foreign); return;
    case PARLEY_IBCM_mra:
      if (foreign)
        SAY(MRA_ABOUT, " sent an MRA about its own %s",
            val_to_str_const(about, parley_mad_names(PARLEY_MAD_KIND_cm_about), "message"));
      return;
    default: break;
  }
  if (foreign) {
    SAY(CM_ROLE, " sent %s %s, which only the %s sends", s->attribute == PARLEY_IBCM_rtu ? "an" : "a", s->name,
        parley_side_name((guint8)due));
    return;
  }
  if (s->attribute == PARLEY_IBCM_sidr_rep) judge_sidr_rep(s);
  if (s->attribute == PARLEY_IBCM_dreq && s->mark != NULL) judge_dreq(s);
  if (!fresh) return;
  if (s->attribute == PARLEY_IBCM_req) judge_req(s);
  if (s->attribute == PARLEY_IBCM_rep) judge_rep(s);
  if (s->attribute == PARLEY_IBCM_sidr_req) judge_cma(s, CM_AT(s->p, CmSidrReq, private_data));
}

void parley_ibcm_judge(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ibcm_mark* mark) {
  if (!parley_ib_carries(p, 0, PARLEY_IB_MAD_LEN)) return;
  const gint who = mark == NULL ? -1 : mark->from;
  subject s = {
      p, pinfo, item, mark, who, p->payload + PARLEY_IB_MAD_HEADER_LEN, NULL, tvb_get_ntohs(p->tvb, p->payload + 16)};
  for (guint i = 0; i < G_N_ELEMENTS(names); i++)
    if (names[i].attribute == s.attribute) s.name = names[i].name;
  if (s.name == NULL || (tvb_get_guint8(p->tvb, p->payload + 3) & PARLEY_IB_MAD_RESPONSE) != 0) return;
  parley_ibcm_message m;
  judge_carriage(&s);
  if (parley_ibcm_parse(p, &m)) judge_message(&s);
}
