/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the CM's messages say, as far as others need it: IBA §12.6 to §12.11. */
#include "parley_ib.h"

gboolean parley_ibcm_is(const parley_ib_packet* p) {
  enum { UD_SEND_ONLY = 0x64 };
  if (p->opcode != UD_SEND_ONLY || p->qpn != PARLEY_IB_GSI_QPN) return FALSE;
  return parley_ib_carries(p, 0, 4) && tvb_get_guint8(p->tvb, p->payload + 1) == PARLEY_IB_CLASS_CM;
}

/* FNV-1a. */
static guint64 digest_of(tvbuff_t* tvb, gint at) {
  guint64 digest = G_GUINT64_CONSTANT(0xCBF29CE484222325);
  const guint8* const octets = tvb_get_ptr(tvb, at, PARLEY_IBCM_LEN);
  for (gint i = 0; i < PARLEY_IBCM_LEN; i++) digest = (digest ^ octets[i]) * G_GUINT64_CONSTANT(0x100000001B3);
  return digest;
}

/* IBA §12.6.5: XRC is the extended transport service type 1. */
static guint8 transport_of(guint8 service, guint8 extended) {
  switch (service) {
    case PARLEY_IBCM_SERVICE_rc: return PARLEY_IB_SERVICE_rc;
    case PARLEY_IBCM_SERVICE_uc: return PARLEY_IB_SERVICE_uc;
    case PARLEY_IBCM_SERVICE_rd: return PARLEY_IB_SERVICE_rd;
    default: return extended == PARLEY_IBCM_EXTENDED_XRC ? PARLEY_IB_SERVICE_xrc : PARLEY_IB_SERVICE_manufacturer;
  }
}

/* IBA §12.6.5: 1 to 5 are 256 to 4096 octets. */
static guint16 octets_of_mtu(guint8 code) { return code >= 1 && code <= 5 ? (guint16)(128U << code) : 0; }

gboolean parley_ibcm_parse(const parley_ib_packet* p, parley_ibcm_message* out) {
  tvbuff_t* const tvb = p->tvb;
  const gint at = p->payload + PARLEY_IB_MAD_HEADER_LEN;
  if (!parley_ib_carries(p, 0, PARLEY_IB_MAD_LEN)) return FALSE;
  if (tvb_get_guint8(tvb, p->payload) != PARLEY_IB_MAD_BASE_VERSION) return FALSE;
  if (tvb_get_guint8(tvb, p->payload + 2) != PARLEY_IB_CLASS_CM_VERSION) return FALSE;
  if (tvb_get_guint8(tvb, p->payload + 3) != PARLEY_IB_MAD_METHOD_SEND) return FALSE;
  const parley_ibcm_message empty = {.attribute = tvb_get_ntohs(tvb, p->payload + 16)};
  *out = empty;
  out->local_id = tvb_get_ntohl(tvb, at);
  out->remote_id = tvb_get_ntohl(tvb, at + 4);
  out->digest = digest_of(tvb, at);
  switch (out->attribute) {
    case PARLEY_IBCM_req:
      out->remote_id = 0;
      out->service_id = tvb_get_ntoh64(tvb, at + 8);
      out->qpn = tvb_get_ntoh24(tvb, at + 32);
      out->transport = transport_of(tvb_get_guint8(tvb, at + 43) >> 1 & 3, tvb_get_guint8(tvb, at + 51) & 7);
      out->flow_control = tvb_get_guint8(tvb, at + 43) & 1;
      out->shared_receives = (tvb_get_guint8(tvb, at + 51) & 0x08) != 0;
      out->p_key = tvb_get_ntohs(tvb, at + 48);
      out->response_timeout = tvb_get_guint8(tvb, at + 43) >> 3;
      out->path_mtu_code = tvb_get_guint8(tvb, at + 50) >> 4;
      out->path_mtu = octets_of_mtu(out->path_mtu_code);
      return TRUE;
    case PARLEY_IBCM_rep:
      /* XRC: the queue pair stands where an EE context does, and there is no other. */
      out->qpn = tvb_get_ntoh24(tvb, at + 12);
      if (out->qpn == 0) out->qpn = tvb_get_ntoh24(tvb, at + 16);
      out->flow_control = tvb_get_guint8(tvb, at + 26) & 1;
      out->shared_receives = (tvb_get_guint8(tvb, at + 27) & 0x10) != 0;
      return TRUE;
    case PARLEY_IBCM_mra: out->about = tvb_get_guint8(tvb, at + 8) >> 6; return TRUE;
    case PARLEY_IBCM_rej:
      out->about = tvb_get_guint8(tvb, at + 8) >> 6;
      out->reason = tvb_get_ntohs(tvb, at + 10);
      return TRUE;
    case PARLEY_IBCM_sidr_req:
      out->remote_id = 0;
      out->service_id = tvb_get_ntoh64(tvb, at + 8);
      out->transport = PARLEY_IB_SERVICE_ud;
      return TRUE;
    case PARLEY_IBCM_sidr_rep:
      out->remote_id = 0;
      if (tvb_get_guint8(tvb, at + 4) != 0) return TRUE;
      out->qpn = tvb_get_ntoh24(tvb, at + 8);
      out->q_key = tvb_get_ntohl(tvb, at + 20);
      return TRUE;
    case PARLEY_IBCM_rtu:
    case PARLEY_IBCM_dreq:
    case PARLEY_IBCM_drep:
    case PARLEY_IBCM_lap:
    case PARLEY_IBCM_apr: return TRUE;
    default: return FALSE;
  }
}
