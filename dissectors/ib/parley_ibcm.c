/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Parses the parts of CM messages that other files need: IBA §12.6 to §12.11. */
#include "parley_ib.h"

gboolean parley_ibcm_is(const parley_ib_packet* p) {
  if (p->opcode != PARLEY_IB_OPCODE_UD_SEND_ONLY || p->qpn != PARLEY_IB_GSI_QPN) return FALSE;
  return parley_ib_carries(p, 0, 4) && tvb_get_guint8(p->tvb, p->payload + 1) == PARLEY_IB_CLASS_CM;
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

static void read_req(const parley_ib_packet* p, parley_ibcm_message* out) {
  out->remote_id = 0;
  out->service_id = CM_NUMBER(p, CmReq, service_id);
  out->qpn = (guint32)CM_NUMBER(p, CmReq, local_qpn);
  out->transport =
      transport_of((guint8)CM_NUMBER(p, CmReq, transport_service), (guint8)CM_NUMBER(p, CmReq, extended_transport));
}

gboolean parley_ibcm_parse(const parley_ib_packet* p, parley_ibcm_message* out) {
  tvbuff_t* const tvb = p->tvb;
  if (!parley_ib_carries(p, 0, PARLEY_IB_MAD_LEN)) return FALSE;
  if (tvb_get_guint8(tvb, p->payload) != PARLEY_IB_MAD_BASE_VERSION) return FALSE;
  if (tvb_get_guint8(tvb, p->payload + 2) != PARLEY_IB_CLASS_CM_VERSION) return FALSE;
  if (tvb_get_guint8(tvb, p->payload + 3) != PARLEY_IB_MAD_METHOD_SEND) return FALSE;
  const parley_ibcm_message empty = {.attribute = tvb_get_ntohs(tvb, p->payload + 16)};
  *out = empty;
  out->local_id = (guint32)CM_NUMBER(p, CmRtu, local_comm_id); /* all messages have their IDs in the same place */
  out->remote_id = (guint32)CM_NUMBER(p, CmRtu, remote_comm_id);
  switch (out->attribute) {
    case PARLEY_IBCM_req: read_req(p, out); return TRUE;
    case PARLEY_IBCM_rep:
      /* XRC: the queue pair is in the field of the EE context, and the other field is 0. */
      out->qpn = (guint32)CM_NUMBER(p, CmRep, local_qpn);
      if (out->qpn == 0) out->qpn = (guint32)CM_NUMBER(p, CmRep, local_eecn);
      return TRUE;
    case PARLEY_IBCM_mra: out->about = (guint8)CM_NUMBER(p, CmMra, message); return TRUE;
    case PARLEY_IBCM_rej: out->about = (guint8)CM_NUMBER(p, CmRej, message); return TRUE;
    case PARLEY_IBCM_sidr_req:
      out->remote_id = 0;
      out->service_id = CM_NUMBER(p, CmSidrReq, service_id);
      out->transport = PARLEY_IB_SERVICE_ud;
      return TRUE;
    case PARLEY_IBCM_sidr_rep:
      out->remote_id = 0;
      if (CM_NUMBER(p, CmSidrRep, status) != 0) return TRUE;
      out->qpn = (guint32)CM_NUMBER(p, CmSidrRep, qpn);
      return TRUE;
    case PARLEY_IBCM_rtu:
    case PARLEY_IBCM_dreq:
    case PARLEY_IBCM_drep:
    case PARLEY_IBCM_lap:
    case PARLEY_IBCM_apr: return TRUE;
    default: return FALSE;
  }
}
