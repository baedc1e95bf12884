/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shows the CM's messages: MAD header, fields, additional information, private data (with the header of the RDMA IP CM
 * service, Annex A11), and the connection that each message belongs to. */
#include <epan/expert.h>

#include "parley_ib.h"
#include "parley_text.h"

static int hf_base_version = -1, hf_class = -1, hf_class_version = -1, hf_method = -1, hf_status = -1,
           hf_transaction_id = -1, hf_attribute = -1, hf_modifier = -1, hf_service = -1, hf_port = -1, hf_info = -1,
           hf_info_meaning = -1, hf_private_data = -1, hf_cma = -1, hf_cma_version = -1, hf_cma_ip_version = -1,
           hf_cma_source_port = -1, hf_cma_source_ip4 = -1, hf_cma_destination_ip4 = -1, hf_cma_source_ip6 = -1,
           hf_cma_destination_ip6 = -1, hf_body = -1, hf_request_in = -1, hf_response_in = -1, hf_time = -1,
           hf_retransmission_of = -1, hf_copy = -1, hf_frames[PARLEY_IBCM_KINDS];
static gint ett_cm = -1, ett_mad = -1, ett_cma = -1;

static const struct {
  guint16 attribute;
  const parley_mad_field* private_data;
} messages[] = {
#define PARLEY_X(name, attribute, structure, fields, text) {attribute, PARLEY_MAD_FIELD(structure, private_data)},
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
};
static const value_string attribute_texts[] = {
#define PARLEY_X(name, attribute, structure, fields, text) {attribute, text},
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
        {0x0001, "ClassPortInfo"},
    {0, NULL}};

static gint body_of(const parley_ib_packet* p) { return p->payload + PARLEY_IB_MAD_HEADER_LEN; }

/* ------------------------------------------------------------------ private data and additional information */

/* The length without trailing zeros: no field gives the real length. */
static gint without_zeros(tvbuff_t* tvb, gint at, gint length) {
  while (length > 0 && tvb_get_guint8(tvb, at + length - 1) == 0) length--;
  return length;
}

/* Annex A11: version(1) IP version(half of 1) source port(2) source(16) destination(16). Connections by InfiniBand
 * addresses use the same service IDs and have no such header. */
static gboolean is_cma(tvbuff_t* tvb, gint at, guint64 service_id) {
  if ((service_id & PARLEY_CMA_SERVICE_MASK) != PARLEY_CMA_SERVICE_PREFIX && service_id >> 16 != PARLEY_CMA_SPACE_ipoib)
    return FALSE;
  const guint8 ip = tvb_get_guint8(tvb, at + 1);
  return tvb_get_guint8(tvb, at) == PARLEY_CMA_VERSION && (ip == 0x40 || ip == 0x60);
}

static void show_cma(proto_tree* top, tvbuff_t* tvb, gint at) {
  const gboolean ip6 = tvb_get_guint8(tvb, at + 1) == 0x60;
  proto_tree* const tree =
      proto_item_add_subtree(proto_tree_add_item(top, hf_cma, tvb, at, PARLEY_CMA_HEADER_LEN, ENC_NA), ett_cma);
  proto_tree_add_item(tree, hf_cma_version, tvb, at, 1, ENC_NA);
  proto_tree_add_item(tree, hf_cma_ip_version, tvb, at + 1, 1, ENC_NA);
  proto_tree_add_item(tree, hf_cma_source_port, tvb, at + 2, 2, ENC_BIG_ENDIAN);
  if (ip6) {
    proto_tree_add_item(tree, hf_cma_source_ip6, tvb, at + 4, 16, ENC_NA);
    proto_tree_add_item(tree, hf_cma_destination_ip6, tvb, at + 20, 16, ENC_NA);
  } else {
    proto_tree_add_item(tree, hf_cma_source_ip4, tvb, at + 16, 4, ENC_BIG_ENDIAN);
    proto_tree_add_item(tree, hf_cma_destination_ip4, tvb, at + 32, 4, ENC_BIG_ENDIAN);
  }
}

static void show_private_data(const parley_ib_packet* p, proto_tree* tree, guint16 attribute) {
  for (guint i = 0; i < G_N_ELEMENTS(messages); i++) {
    if (messages[i].attribute != attribute) continue;
    gint at = parley_ibcm_at(p, messages[i].private_data), length = messages[i].private_data->count;
    if (!parley_ib_has(p, at, length)) return;
    if ((attribute == PARLEY_IBCM_req || attribute == PARLEY_IBCM_sidr_req) &&
        is_cma(p->tvb, at, CM_NUMBER(p, CmReq, service_id))) {
      show_cma(tree, p->tvb, at);
      at += PARLEY_CMA_HEADER_LEN;
      length -= PARLEY_CMA_HEADER_LEN;
    }
    length = without_zeros(p->tvb, at, length);
    if (length > 0) proto_tree_add_item(tree, hf_private_data, p->tvb, at, length, ENC_NA);
  }
}

static void show_info(const parley_ib_packet* p, packet_info* pinfo, proto_tree* tree, guint16 attribute) {
  gint at = CM_AT(p, CmRej, info), length = 0;
  if (!parley_ib_carries(p, 0, PARLEY_IB_MAD_LEN)) return;
  switch (attribute) {
    case PARLEY_IBCM_rej: length = (gint)CM_NUMBER(p, CmRej, info_length); break;
    case PARLEY_IBCM_apr: length = (gint)CM_NUMBER(p, CmApr, info_length); break;
    case PARLEY_IBCM_sidr_rep:
      at = CM_AT(p, CmSidrRep, info);
      length = (gint)CM_NUMBER(p, CmSidrRep, info_length);
      break;
    default: return;
  }
  length = MIN(length, PARLEY_IBCM_INFO_LEN);
  if (length == 0) return;
  proto_tree_add_item(tree, hf_info, p->tvb, at, length, ENC_NA);
  const char* const words = attribute != PARLEY_IBCM_rej
                                ? NULL
                                : parley_ibcm_ari_words(pinfo->pool, (guint16)CM_NUMBER(p, CmRej, reason),
                                                        tvb_get_ptr(p->tvb, at, length), (guint)length);
  if (words != NULL) proto_item_set_generated(proto_tree_add_string(tree, hf_info_meaning, p->tvb, at, length, words));
}

static void show_service(const parley_ib_packet* p, packet_info* pinfo, proto_tree* tree, guint16 attribute) {
  const gint at = attribute == PARLEY_IBCM_sidr_rep ? CM_AT(p, CmSidrRep, service_id) : CM_AT(p, CmReq, service_id);
  if (attribute != PARLEY_IBCM_req && attribute != PARLEY_IBCM_sidr_req && attribute != PARLEY_IBCM_sidr_rep) return;
  const guint64 id = tvb_get_ntoh64(p->tvb, at);
  const char* const words = parley_ib_service_words(pinfo->pool, id);
  proto_item_set_generated(proto_tree_add_string(tree, hf_service, p->tvb, at, 8, words));
  /* The text of an ID without a name is a number, and such an ID has no port. */
  if (words[0] != '0') proto_tree_add_item(tree, hf_port, p->tvb, at + 6, 2, ENC_BIG_ENDIAN);
}

/* ------------------------------------------------------------------ the connection */

static void frame_of(proto_tree* tree, tvbuff_t* tvb, int field, guint64 frame) {
  if (frame != 0) proto_item_set_generated(proto_tree_add_uint(tree, field, tvb, 0, 0, (guint32)frame));
}

static void show_links(const parley_ib_packet* p, packet_info* pinfo, proto_item* message, proto_tree* top,
                       guint16 attribute, const parley_ib_view* view) {
  enum { SECOND = 1000000000 };
  const parley_engine_connection* const c = view->connection;
  const parley_engine_place* const m = view->message;
  proto_tree* const tree = parley_ib_show_conn(p->tvb, top, view);
  if (m->first != 0) {
    frame_of(tree, p->tvb, hf_retransmission_of, m->first);
    proto_item_set_generated(proto_tree_add_uint(tree, hf_copy, p->tvb, 0, 0, (guint32)m->copy));
    parley_ib_remark_on(pinfo, message, PARLEY_IB_REMARK_RETRANSMISSION,
                        "The same message as in frame %" G_GUINT64_FORMAT ", sent %" G_GUINT64_FORMAT " times so far",
                        m->first, m->copy);
  }
  if (m->request != 0) {
    frame_of(tree, p->tvb, hf_request_in, m->request);
    const nstime_t asked = {.secs = (time_t)(m->request_at / SECOND), .nsecs = (int)(m->request_at % SECOND)};
    nstime_t time;
    nstime_delta(&time, &pinfo->abs_ts, &asked);
    proto_item_set_generated(proto_tree_add_time(tree, hf_time, p->tvb, 0, 0, &time));
  }
  frame_of(tree, p->tvb, hf_response_in, c->sent[view->from][attribute - PARLEY_IBCM_FIRST].answer);
  for (guint kind = 0; kind < PARLEY_IBCM_KINDS; kind++)
    for (guint side = 0; side < 2; side++)
      if (c->sent[side][kind].frame != pinfo->num) frame_of(tree, p->tvb, hf_frames[kind], c->sent[side][kind].frame);
}

/* ------------------------------------------------------------------ the info column */

static guint32 ap_status(const parley_ib_packet* p) { return (guint32)CM_NUMBER(p, CmApr, status); }
static guint32 sidr_status(const parley_ib_packet* p) { return (guint32)CM_NUMBER(p, CmSidrRep, status); }

static const char* ap_words(guint32 status) {
  return val_to_str_const(status, parley_mad_names(PARLEY_MAD_KIND_cm_ap_status), "unassigned status");
}
static const char* sidr_words(guint32 status) {
  return val_to_str_const(status, parley_mad_names(PARLEY_MAD_KIND_cm_sidr_status), "unassigned status");
}
static const char* reject_words(guint32 reason) {
  return val_to_str_const(reason, parley_mad_names(PARLEY_MAD_KIND_cm_reject), "unassigned reason");
}

static void add_ids(parley_text* line, const parley_ibcm_message* m) {
  const gboolean sidr = m->attribute == PARLEY_IBCM_sidr_req || m->attribute == PARLEY_IBCM_sidr_rep;
  if (sidr) parley_text_hex(line, ", request=", m->local_id, 8);
  if (!sidr && m->local_id != 0) parley_text_hex(line, ", ID=", m->local_id, 8);
  if (m->remote_id != 0) parley_text_hex(line, m->local_id != 0 ? " for " : ", for ID=", m->remote_id, 8);
}

static void summary(const parley_ib_packet* p, packet_info* pinfo, const parley_ibcm_message* m,
                    const parley_ib_view* view, parley_text* line) {
  const char* const about = val_to_str_const(m->about, parley_mad_names(PARLEY_MAD_KIND_cm_about), "unassigned");
  gchar timeout[ITEM_LABEL_LENGTH];
  parley_text_add(line, val_to_str_const(m->attribute, attribute_texts, "unknown message"));
  switch (m->attribute) {
    case PARLEY_IBCM_req:
    case PARLEY_IBCM_sidr_req:
      parley_text_add(line, " ");
      parley_text_add(line, parley_ib_service_words(pinfo->pool, m->service_id));
      if (m->attribute == PARLEY_IBCM_sidr_req) break;
      parley_text_add(line, " ");
      parley_text_add(line, m->transport == PARLEY_IB_SERVICE_manufacturer ? "reserved transport"
                                                                           : parley_ib_transport_words(m->transport));
      parley_text_hex(line, " QP=", m->qpn, 6);
      break;
    case PARLEY_IBCM_rep: parley_text_hex(line, " QP=", m->qpn, 6); break;
    case PARLEY_IBCM_dreq: parley_text_hex(line, " QP=", CM_NUMBER(p, CmDreq, remote_qpn), 6); break;
    case PARLEY_IBCM_lap: parley_text_hex(line, " QP=", CM_NUMBER(p, CmLap, remote_qpn), 6); break;
    case PARLEY_IBCM_mra:
      parley_timeout_label(timeout, (guint32)CM_NUMBER(p, CmMra, service_timeout));
      parley_text_add(line, " of ");
      parley_text_add(line, about);
      parley_text_add(line, ", service timeout ");
      parley_text_add(line, timeout);
      break;
    case PARLEY_IBCM_rej:
      parley_text_add(line, m->about == PARLEY_IBCM_ABOUT_other ? "" : " of ");
      parley_text_add(line, m->about == PARLEY_IBCM_ABOUT_other ? "" : about);
      parley_text_add(line, ": ");
      parley_text_add(line, reject_words((guint32)CM_NUMBER(p, CmRej, reason)));
      break;
    case PARLEY_IBCM_apr:
      parley_text_add(line, ": ");
      parley_text_add(line, ap_words(ap_status(p)));
      break;
    case PARLEY_IBCM_sidr_rep:
      parley_text_add(line, ": ");
      parley_text_add(line, sidr_words(sidr_status(p)));
      if (m->qpn != 0) parley_text_hex(line, ", QP=", m->qpn, 6);
      if (m->qpn != 0) parley_text_hex(line, " Q_Key=", CM_NUMBER(p, CmSidrRep, q_key), 8);
      break;
    default: break;
  }
  add_ids(line, m);
  if (view->message == NULL) return;
  if (m->service_id == 0 && view->named) {
    parley_text_add(line, " (");
    parley_text_add(line, view->connection->service_name);
    parley_text_add(line, ")");
  }
  if (view->message->first != 0) {
    parley_text_number(line, " [retransmission of ", view->message->first);
    parley_text_add(line, "]");
  }
}

/* ------------------------------------------------------------------ a message */

static proto_item* show_mad(const parley_ib_packet* p, proto_tree* top) {
  static const struct {
    int* field;
    gint at, octets;
  } fields[] = {{&hf_base_version, 0, 1}, {&hf_class, 1, 1},          {&hf_class_version, 2, 1}, {&hf_method, 3, 1},
                {&hf_status, 4, 2},       {&hf_transaction_id, 8, 8}, {&hf_attribute, 16, 2},    {&hf_modifier, 20, 4}};
  if (!parley_ib_carries(p, 0, PARLEY_IB_MAD_HEADER_LEN)) return NULL;
  proto_item* attribute = NULL;
  proto_tree* const tree =
      proto_tree_add_subtree(top, p->tvb, p->payload, PARLEY_IB_MAD_HEADER_LEN, ett_mad, NULL, "MAD header");
  for (guint i = 0; i < G_N_ELEMENTS(fields); i++) {
    proto_item* const item = proto_tree_add_item(tree, *fields[i].field, p->tvb, p->payload + fields[i].at,
                                                 fields[i].octets, ENC_BIG_ENDIAN);
    if (fields[i].field == &hf_attribute) attribute = item;
  }
  return attribute;
}

static void remark(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, const parley_ibcm_message* m) {
  const guint16 reason = m->attribute == PARLEY_IBCM_rej ? (guint16)CM_NUMBER(p, CmRej, reason) : 0;
  if (m->attribute == PARLEY_IBCM_rej)
    parley_ib_remark_on(pinfo, item, PARLEY_IB_REMARK_REJECTED, "Rejected, reason %u: %s", reason,
                        reject_words(reason));
  if (m->attribute == PARLEY_IBCM_sidr_rep && sidr_status(p) != 0)
    parley_ib_remark_on(pinfo, item, PARLEY_IB_REMARK_REJECTED, "Refused, status %u: %s", sidr_status(p),
                        sidr_words(sidr_status(p)));
  if (m->attribute == PARLEY_IBCM_apr && ap_status(p) != 0)
    parley_ib_remark_on(pinfo, item, PARLEY_IB_REMARK_REJECTED, "Alternate path refused, status %u: %s", ap_status(p),
                        ap_words(ap_status(p)));
}

/* Shows why a message is not decoded completely. */
static void show_stranger(const parley_ib_packet* p, packet_info* pinfo, proto_item* item, proto_item* attribute) {
  tvbuff_t* const tvb = p->tvb;
  parley_info_add(pinfo->cinfo, "CM datagram");
  if (p->payload_length < PARLEY_IB_MAD_LEN) {
    parley_ib_remark_on(pinfo, item, PARLEY_IB_REMARK_CUT, "A MAD of %d octets; it has to have %d",
                        MAX(p->payload_length, 0), PARLEY_IB_MAD_LEN);
    return;
  }
  if (attribute == NULL && !parley_ib_carries(p, 0, PARLEY_IB_MAD_HEADER_LEN)) return; /* not captured */
  if (try_val_to_str(tvb_get_ntohs(tvb, p->payload + 16), attribute_texts) == NULL)
    parley_ib_remark_on(pinfo, attribute, PARLEY_IB_REMARK_ATTRIBUTE, "Attribute 0x%04x is not a message of the CM",
                        tvb_get_ntohs(tvb, p->payload + 16));
}

void parley_ibcm_show(const parley_ib_packet* p, packet_info* pinfo, proto_tree* top, const parley_ib_view* view) {
  parley_ibcm_message m;
  parley_text line = {{0}, 0};
  const gint captured = MIN(p->end - PARLEY_IB_ICRC_LEN, (gint)tvb_captured_length(p->tvb)) - p->payload;
  const gboolean whole = parley_ibcm_parse(p, &m);
  if (whole) summary(p, pinfo, &m, view, &line);
  proto_item* const item = proto_tree_add_protocol_format(top, proto_parley_ibcm, p->tvb, p->payload, MAX(captured, 0),
                                                          "InfiniBand CM%s%s", whole ? ": " : "", line.text);
  proto_tree* const tree = proto_item_add_subtree(item, ett_cm);
  proto_item* const attribute = show_mad(p, tree);
  if (whole) {
    parley_info_add(pinfo->cinfo, line.text);
    remark(p, pinfo, item, &m);
  } else {
    show_stranger(p, pinfo, item, attribute);
  }
  const gboolean known = parley_ib_carries(p, 0, PARLEY_IB_MAD_HEADER_LEN) &&
                         tvb_get_guint8(p->tvb, p->payload + 2) == PARLEY_IB_CLASS_CM_VERSION &&
                         tvb_get_guint8(p->tvb, p->payload + 3) == PARLEY_IB_MAD_METHOD_SEND;
  if (known) parley_ibcm_show_fields(p, tree, tvb_get_ntohs(p->tvb, p->payload + 16));
  if (whole) {
    show_service(p, pinfo, tree, m.attribute);
    show_info(p, pinfo, tree, m.attribute);
    show_private_data(p, tree, m.attribute);
    if (view->message != NULL) show_links(p, pinfo, item, tree, m.attribute, view);
  } else if (!known && parley_ib_carries(p, 0, PARLEY_IB_MAD_LEN)) {
    proto_tree_add_item(tree, hf_body, p->tvb, body_of(p), PARLEY_IBCM_LEN, ENC_NA);
  }
}

/* ------------------------------------------------------------------ registration */

void parley_ibcm_show_register(void) {
#define FIELD(var, label, filter, type, base, strings, mask)                       \
  {                                                                                \
    &var, { label, "parley.ibcm." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      FIELD(hf_base_version, "Base version", "base_version", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_class, "Management class", "class", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_class_version, "Class version", "class_version", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_method, "Method", "method", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_status, "Status", "mad_status", FT_UINT16, BASE_HEX, NULL, 0),
      FIELD(hf_transaction_id, "Transaction ID", "transaction_id", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_attribute, "Message", "message", FT_UINT16, BASE_HEX, VALS(attribute_texts), 0),
      FIELD(hf_modifier, "Attribute modifier", "attribute_modifier", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_service, "Service", "service", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_port, "Port", "service.port", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_info, "Additional information", "info", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_info_meaning, "It says", "info.meaning", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_private_data, "Private data, without zeros at its end", "private_data", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_cma, "Addresses of the RDMA IP CM service", "cma", FT_NONE, BASE_NONE, NULL, 0),
      FIELD(hf_cma_version, "Version", "cma.version", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_cma_ip_version, "IP version", "cma.ip_version", FT_UINT8, BASE_DEC, NULL, 0xF0),
      FIELD(hf_cma_source_port, "Source port", "cma.source_port", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_cma_source_ip4, "Source", "cma.source", FT_IPv4, BASE_NONE, NULL, 0),
      FIELD(hf_cma_destination_ip4, "Destination", "cma.destination", FT_IPv4, BASE_NONE, NULL, 0),
      FIELD(hf_cma_source_ip6, "Source", "cma.source_ip6", FT_IPv6, BASE_NONE, NULL, 0),
      FIELD(hf_cma_destination_ip6, "Destination", "cma.destination_ip6", FT_IPv6, BASE_NONE, NULL, 0),
      FIELD(hf_body, "Not decoded", "body", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_request_in, "It answers the message in", "request_in", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_REQUEST), 0),
      FIELD(hf_response_in, "Answered in", "response_in", FT_FRAMENUM, BASE_NONE, FRAMENUM_TYPE(FT_FRAMENUM_RESPONSE),
            0),
      FIELD(hf_time, "Time since that message was first sent", "time", FT_RELATIVE_TIME, BASE_NONE, NULL, 0),
      FIELD(hf_retransmission_of, "Retransmission of the message in", "retransmission_of", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_RETRANS_PREV), 0),
      FIELD(hf_copy, "Sent so many times so far", "copy", FT_UINT32, BASE_DEC, NULL, 0),
#define PARLEY_X(name, attribute, structure, fields, text)                                         \
  FIELD(hf_frames[attribute - PARLEY_IBCM_FIRST], text " in", #name "_in", FT_FRAMENUM, BASE_NONE, \
        FRAMENUM_TYPE(FT_FRAMENUM_NONE), 0),
      PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
  };
#undef FIELD
  static gint* ett[] = {&ett_cm, &ett_mad, &ett_cma};
  for (guint i = 0; i < PARLEY_IBCM_KINDS; i++) hf_frames[i] = -1;
  proto_register_field_array(proto_parley_ibcm, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
  parley_ibcm_fields_register();
}
