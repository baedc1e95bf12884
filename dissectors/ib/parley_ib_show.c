/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shows the BTH, the headers behind it, and the ICRC. */
#include <epan/expert.h>
#include <stdarg.h>

#include "parley_ib.h"
#include "parley_text.h"

static int hf_opcode = -1, hf_name = -1, hf_service = -1, hf_se = -1, hf_m = -1, hf_pad = -1, hf_tver = -1,
           hf_p_key = -1, hf_fecn = -1, hf_becn = -1, hf_qpn = -1, hf_ack_req = -1, hf_psn = -1, hf_q_key = -1,
           hf_source_qpn = -1, hf_srqn = -1, hf_va = -1, hf_r_key = -1, hf_length = -1, hf_atomic_va = -1,
           hf_atomic_r_key = -1, hf_swap = -1, hf_compare = -1, hf_add = -1, hf_syndrome = -1, hf_meaning = -1,
           hf_credits = -1, hf_rnr_timer = -1, hf_nak = -1, hf_msn = -1, hf_original = -1, hf_immediate = -1,
           hf_invalidated = -1, hf_payload_length = -1, hf_data = -1, hf_icrc = -1, hf_icrc_status = -1,
           hf_connection = -1, hf_from = -1, hf_conn_service = -1, hf_setup_req = -1, hf_setup_rep = -1;
static gint ett_ib = -1, ett_header = -1, ett_syndrome = -1, ett_setup = -1;

static expert_field remarks[PARLEY_IB_REMARK_COUNT];

static const value_string service_texts[] = {
#define PARLEY_X(name, value, text) {(value) >> 5, text},
    PARLEY_IB_SERVICES(PARLEY_X)
#undef PARLEY_X
        {0, NULL}};

static const value_string side_texts[] = {{PARLEY_INITIATOR, "initiator"}, {PARLEY_RESPONDER, "responder"}, {0, NULL}};

void parley_ib_remark_on(packet_info* pinfo, proto_item* item, parley_ib_remark remark, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const char* const text = wmem_strdup_vprintf(pinfo->pool, format, arguments);
  va_end(arguments);
  expert_add_info_format(pinfo, item, &remarks[remark], "%s", text);
}

/* ------------------------------------------------------------------ headers */

static proto_tree* header(proto_tree* tree, const parley_ib_packet* p, gint at, gint length, const char* name) {
  return proto_tree_add_subtree(tree, p->tvb, at, length, ett_header, NULL, name);
}

static void show_bth(const parley_ib_packet* p, packet_info* pinfo, proto_tree* top) {
  const gint at = p->bth;
  proto_tree* const tree = header(top, p, at, PARLEY_IB_BTH_LEN, "BTH");
  proto_item* const opcode = proto_tree_add_item(tree, hf_opcode, p->tvb, at, 1, ENC_NA);
  proto_item_set_generated(proto_tree_add_string(tree, hf_name, p->tvb, at, 1, parley_ib_opcode_words(p->opcode)));
  proto_tree_add_item(tree, hf_service, p->tvb, at, 1, ENC_NA);
  if (p->opcode == PARLEY_IB_OPCODE_CNP)
    parley_ib_remark_on(pinfo, opcode, PARLEY_IB_REMARK_CNP, "Congestion notification to queue pair 0x%06x", p->qpn);
  proto_tree_add_item(tree, hf_se, p->tvb, at + 1, 1, ENC_NA);
  proto_tree_add_item(tree, hf_m, p->tvb, at + 1, 1, ENC_NA);
  proto_tree_add_item(tree, hf_pad, p->tvb, at + 1, 1, ENC_NA);
  proto_tree_add_item(tree, hf_tver, p->tvb, at + 1, 1, ENC_NA);
  proto_tree_add_item(tree, hf_p_key, p->tvb, at + 2, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_fecn, p->tvb, at + 4, 1, ENC_NA);
  proto_tree_add_item(tree, hf_becn, p->tvb, at + 4, 1, ENC_NA);
  proto_tree_add_item(tree, hf_qpn, p->tvb, at + 5, 3, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_ack_req, p->tvb, at + 8, 1, ENC_NA);
  proto_tree_add_item(tree, hf_psn, p->tvb, at + 9, 3, ENC_BIG_ENDIAN);
}

static void show_aeth(parley_ib_packet* p, packet_info* pinfo, proto_tree* top, gint at) {
  proto_tree* const tree = header(top, p, at, 4, "AETH");
  const guint8 syndrome = tvb_get_guint8(p->tvb, at), value = syndrome & PARLEY_IB_SYNDROME_VALUE;
  const char* const words = parley_ib_syndrome_words(syndrome);
  proto_item* const item = proto_tree_add_item(tree, hf_syndrome, p->tvb, at, 1, ENC_NA);
  p->syndrome = item;
  proto_item_append_text(item, " (%s)", words);
  proto_tree* const sub = proto_item_add_subtree(item, ett_syndrome);
  proto_item_set_generated(proto_tree_add_string(sub, hf_meaning, p->tvb, at, 1, words));
  switch (syndrome & ~PARLEY_IB_SYNDROME_VALUE) {
    case PARLEY_IB_SYNDROME_ACK:
      if (parley_ib_credits(value) >= 0)
        proto_item_set_generated(
            proto_tree_add_uint(sub, hf_credits, p->tvb, at, 1, (guint32)parley_ib_credits(value)));
      break;
    case PARLEY_IB_SYNDROME_RNR_NAK: {
      const guint32 units = parley_ib_rnr_timer(value); /* of 10 us */
      const nstime_t timer = {.secs = units / 100000, .nsecs = (int)(units % 100000) * 10000};
      proto_item_set_generated(proto_tree_add_time(sub, hf_rnr_timer, p->tvb, at, 1, &timer));
      parley_ib_remark_on(pinfo, item, PARLEY_IB_REMARK_RNR, "Receiver not ready: the sender has to wait %u.%02u ms",
                          units / 100, units % 100);
      break;
    }
    case PARLEY_IB_SYNDROME_NAK: proto_tree_add_item(sub, hf_nak, p->tvb, at, 1, ENC_NA); break;
    default: break;
  }
  proto_tree_add_item(tree, hf_msn, p->tvb, at + 1, 3, ENC_BIG_ENDIAN);
}

static void show_atomic(const parley_ib_packet* p, proto_tree* top, gint at) {
  const gboolean adds = p->operation->value == PARLEY_IB_OPERATION_fetch_add;
  proto_tree* const tree = header(top, p, at, 28, "AtomicETH");
  proto_tree_add_item(tree, hf_atomic_va, p->tvb, at, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_r_key, p->tvb, at + 8, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, adds ? hf_add : hf_swap, p->tvb, at + 12, 8, ENC_BIG_ENDIAN);
  if (!adds) proto_tree_add_item(tree, hf_compare, p->tvb, at + 20, 8, ENC_BIG_ENDIAN);
}

/* Shows one header; their order is that of IBA §9.3. */
static void show_header(parley_ib_packet* p, packet_info* pinfo, proto_tree* top, guint16 mask, gint at) {
  proto_tree* tree = NULL;
  switch (mask) {
    case PARLEY_IB_DETH:
      tree = header(top, p, at, 8, "DETH");
      proto_tree_add_item(tree, hf_q_key, p->tvb, at, 4, ENC_BIG_ENDIAN);
      proto_tree_add_item(tree, hf_source_qpn, p->tvb, at + 5, 3, ENC_BIG_ENDIAN);
      break;
    case PARLEY_IB_XRCETH:
      tree = header(top, p, at, 4, "XRCETH");
      proto_tree_add_item(tree, hf_srqn, p->tvb, at + 1, 3, ENC_BIG_ENDIAN);
      break;
    case PARLEY_IB_RETH:
      tree = header(top, p, at, 16, "RETH");
      proto_tree_add_item(tree, hf_va, p->tvb, at, 8, ENC_BIG_ENDIAN);
      proto_tree_add_item(tree, hf_r_key, p->tvb, at + 8, 4, ENC_BIG_ENDIAN);
      proto_tree_add_item(tree, hf_length, p->tvb, at + 12, 4, ENC_BIG_ENDIAN);
      break;
    case PARLEY_IB_ATOMIC_ETH: show_atomic(p, top, at); break;
    case PARLEY_IB_AETH: show_aeth(p, pinfo, top, at); break;
    case PARLEY_IB_ATOMIC_ACK_ETH:
      tree = header(top, p, at, 8, "AtomicAckETH");
      proto_tree_add_item(tree, hf_original, p->tvb, at, 8, ENC_BIG_ENDIAN);
      break;
    case PARLEY_IB_IMM: proto_tree_add_item(top, hf_immediate, p->tvb, at, 4, ENC_NA); break;
    case PARLEY_IB_IETH: proto_tree_add_item(top, hf_invalidated, p->tvb, at, 4, ENC_BIG_ENDIAN); break;
    default: break;
  }
}

/* Whether the packet's content gets an expert item, which Wireshark counts even without a tree. */
static gboolean says_something(const parley_ib_packet* p) {
  const gint aeth = parley_ib_header_at(p, PARLEY_IB_AETH);
  if (p->opcode == PARLEY_IB_OPCODE_CNP) return TRUE;
  return (p->headers & PARLEY_IB_AETH) != 0 && parley_ib_has(p, aeth, 4) &&
         (tvb_get_guint8(p->tvb, aeth) & ~PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_SYNDROME_ACK;
}

proto_tree* parley_ib_show(parley_ib_packet* p, packet_info* pinfo, proto_tree* top) {
  static const struct {
    guint16 mask;
    gint length;
  } all[] = {
#define PARLEY_X(name, mask, length) {mask, length},
      PARLEY_IB_HEADERS(PARLEY_X)
#undef PARLEY_X
  };
  if (top == NULL && !says_something(p)) return NULL;
  const gint captured = MIN(p->end, (gint)tvb_captured_length(p->tvb)) - p->bth;
  proto_item* const item =
      proto_tree_add_protocol_format(top, proto_parley_ib, p->tvb, p->bth, captured,
                                     "InfiniBand transport: %s, QP 0x%06x", parley_ib_opcode_words(p->opcode), p->qpn);
  proto_tree* const tree = proto_item_add_subtree(item, ett_ib);
  show_bth(p, pinfo, tree);
  for (guint i = 0; i < G_N_ELEMENTS(all); i++) {
    if ((p->headers & all[i].mask) == 0) continue;
    const gint at = parley_ib_header_at(p, all[i].mask);
    if (!parley_ib_has(p, at, all[i].length)) break;
    show_header(p, pinfo, tree, all[i].mask, at);
  }
  if (p->payload_length < 0) return tree;
  proto_item_set_generated(proto_tree_add_uint(tree, hf_payload_length, p->tvb, p->bth, 0, (guint32)p->payload_length));
  const gint have = MIN(p->payload_length, (gint)tvb_captured_length(p->tvb) - p->payload);
  if (have > 0 && p->opcode != PARLEY_IB_OPCODE_CNP && !parley_ibcm_is(p))
    proto_tree_add_item(tree, hf_data, p->tvb, p->payload, have, ENC_NA);
  return tree;
}

void parley_ib_show_nak(const parley_ib_packet* p, packet_info* pinfo) {
  const gint at = parley_ib_header_at(p, PARLEY_IB_AETH);
  if ((p->headers & PARLEY_IB_AETH) == 0 || !parley_ib_has(p, at, 4)) return;
  const guint8 syndrome = tvb_get_guint8(p->tvb, at);
  if ((syndrome & ~PARLEY_IB_SYNDROME_VALUE) != PARLEY_IB_SYNDROME_NAK) return;
  parley_ib_remark_on(pinfo, p->syndrome, PARLEY_IB_REMARK_NAK, "%s", parley_ib_syndrome_words(syndrome));
}

static gboolean has_icrc(const parley_ib_packet* p) {
  const gint at = p->end - PARLEY_IB_ICRC_LEN;
  return at >= p->bth + PARLEY_IB_BTH_LEN && parley_ib_has(p, at, PARLEY_IB_ICRC_LEN);
}

gboolean parley_ib_icrc_is(const parley_ib_packet* p, guint32 icrc) {
  return !has_icrc(p) || tvb_get_letohl(p->tvb, p->end - PARLEY_IB_ICRC_LEN) == icrc;
}

gboolean parley_ib_show_icrc(const parley_ib_packet* p, packet_info* pinfo, proto_tree* tree,
                             const parley_ib_view* view) {
  if (!has_icrc(p)) return TRUE;
  const gboolean good = !view->icrc_known || parley_ib_icrc_is(p, view->icrc);
  if (good && tree == NULL) return TRUE;
  proto_tree_add_checksum(tree, p->tvb, (guint)(p->end - PARLEY_IB_ICRC_LEN), hf_icrc, hf_icrc_status,
                          &remarks[PARLEY_IB_REMARK_ICRC], pinfo, GUINT32_SWAP_LE_BE(view->icrc), ENC_BIG_ENDIAN,
                          view->icrc_known ? PROTO_CHECKSUM_VERIFY : PROTO_CHECKSUM_NO_FLAGS);
  return good;
}

/* ------------------------------------------------------------------ the connection */

proto_tree* parley_ib_show_conn(tvbuff_t* tvb, proto_tree* top, const parley_ib_view* view) {
  const parley_engine_connection* const c = view->connection;
  proto_item* item = NULL;
  proto_tree* const tree = proto_tree_add_subtree_format(top, tvb, 0, 0, ett_setup, &item, "Connection %u, from the %s",
                                                         c->number, parley_side_name(view->from));
  proto_item_set_generated(item);
  proto_item_set_generated(proto_tree_add_uint(tree, hf_connection, tvb, 0, 0, c->number));
  proto_item_set_generated(proto_tree_add_uint(tree, hf_from, tvb, 0, 0, view->from));
  if (view->named) proto_item_set_generated(proto_tree_add_string(tree, hf_conn_service, tvb, 0, 0, c->service_name));
  return tree;
}

/* Shows a set-up frame only if it precedes this packet, because the connection may have later ones. */
static void before(const packet_info* pinfo, proto_tree* tree, tvbuff_t* tvb, int field, guint64 frame) {
  if (frame != 0 && frame < pinfo->num)
    proto_item_set_generated(proto_tree_add_uint(tree, field, tvb, 0, 0, (guint32)frame));
}

void parley_ib_show_end(packet_info* pinfo, tvbuff_t* tvb, proto_tree* top, const parley_ib_view* view) {
  const parley_engine_connection* const c = view->connection;
  const guint ask = (c->sidr ? PARLEY_IBCM_sidr_req : PARLEY_IBCM_req) - PARLEY_IBCM_FIRST;
  const guint reply = (c->sidr ? PARLEY_IBCM_sidr_rep : PARLEY_IBCM_rep) - PARLEY_IBCM_FIRST;
  proto_tree* const tree = parley_ib_show_conn(tvb, top, view);
  before(pinfo, tree, tvb, hf_setup_req, c->sent[PARLEY_INITIATOR][ask].frame);
  before(pinfo, tree, tvb, hf_setup_rep, c->sent[PARLEY_RESPONDER][reply].frame);
}

void parley_ib_info(const parley_ib_packet* p, packet_info* pinfo, const parley_ib_view* view) {
  parley_text line = {0};
  parley_text_add(&line, parley_ib_opcode_words(p->opcode));
  parley_text_hex(&line, " QP=", p->qpn, 6);
  if (p->opcode != PARLEY_IB_OPCODE_CNP) parley_text_number(&line, " PSN=", p->psn);
  const gint xrceth = parley_ib_header_at(p, PARLEY_IB_XRCETH), aeth = parley_ib_header_at(p, PARLEY_IB_AETH);
  if ((p->headers & PARLEY_IB_XRCETH) != 0 && parley_ib_has(p, xrceth, 4))
    parley_text_hex(&line, " SRQ=", tvb_get_ntoh24(p->tvb, xrceth + 1), 6);
  if ((p->headers & PARLEY_IB_AETH) != 0 && parley_ib_has(p, aeth, 4)) {
    parley_text_add(&line, ", ");
    parley_text_add(&line, parley_ib_syndrome_words(tvb_get_guint8(p->tvb, aeth)));
  }
  if (p->payload_length > 0 && p->opcode != PARLEY_IB_OPCODE_CNP)
    parley_text_number(&line, " Len=", (guint64)p->payload_length);
  if (view->connection != NULL) {
    parley_text_add(&line, " (");
    if (view->named) parley_text_add(&line, view->connection->service_name);
    parley_text_add(&line, view->named ? ", from the " : "from the ");
    parley_text_add(&line, view->from == PARLEY_INITIATOR ? "initiator)" : "responder)");
  }
  parley_info_add(pinfo->cinfo, line.text);
}

/* ------------------------------------------------------------------ registration */

static void register_fields(void) {
#define FIELD(var, name, filter, type, base, strings, mask)                     \
  {                                                                             \
    &var, { name, "parley.ib." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      FIELD(hf_opcode, "Opcode", "opcode", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_name, "Operation", "operation", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_service, "Transport", "transport", FT_UINT8, BASE_DEC, VALS(service_texts), PARLEY_IB_SERVICE_MASK),
      FIELD(hf_se, "Solicited event", "se", FT_BOOLEAN, 8, NULL, PARLEY_IB_BTH_SE),
      FIELD(hf_m, "Migration request", "m", FT_BOOLEAN, 8, NULL, PARLEY_IB_BTH_M),
      FIELD(hf_pad, "Pad count", "pad", FT_UINT8, BASE_DEC, NULL, PARLEY_IB_BTH_PAD),
      FIELD(hf_tver, "Transport header version", "tver", FT_UINT8, BASE_DEC, NULL, PARLEY_IB_BTH_TVER),
      FIELD(hf_p_key, "P_Key", "p_key", FT_UINT16, BASE_HEX, NULL, 0),
      FIELD(hf_fecn, "FECN", "fecn", FT_BOOLEAN, 8, NULL, PARLEY_IB_BTH_FECN),
      FIELD(hf_becn, "BECN", "becn", FT_BOOLEAN, 8, NULL, PARLEY_IB_BTH_BECN),
      FIELD(hf_qpn, "Destination queue pair", "qpn", FT_UINT24, BASE_HEX, NULL, 0),
      FIELD(hf_ack_req, "Acknowledgment requested", "ack_req", FT_BOOLEAN, 8, NULL, PARLEY_IB_BTH_ACK_REQ),
      FIELD(hf_psn, "PSN", "psn", FT_UINT24, BASE_DEC, NULL, 0),
      FIELD(hf_q_key, "Q_Key", "deth.q_key", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_source_qpn, "Source queue pair", "deth.source_qpn", FT_UINT24, BASE_HEX, NULL, 0),
      FIELD(hf_srqn, "XRC shared receive queue", "xrceth.srqn", FT_UINT24, BASE_HEX, NULL, 0),
      FIELD(hf_va, "Virtual address", "reth.va", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_r_key, "R_Key", "reth.r_key", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_length, "DMA length", "reth.length", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_atomic_va, "Virtual address", "atomic.va", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_atomic_r_key, "R_Key", "atomic.r_key", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_swap, "Swap", "atomic.swap", FT_UINT64, BASE_DEC_HEX, NULL, 0),
      FIELD(hf_compare, "Compare", "atomic.compare", FT_UINT64, BASE_DEC_HEX, NULL, 0),
      FIELD(hf_add, "Add", "atomic.add", FT_UINT64, BASE_DEC_HEX, NULL, 0),
      FIELD(hf_original, "Original value", "atomic.original", FT_UINT64, BASE_DEC_HEX, NULL, 0),
      FIELD(hf_syndrome, "Syndrome", "aeth.syndrome", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_meaning, "Meaning", "aeth.meaning", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_credits, "Credits", "aeth.credits", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_rnr_timer, "RNR timer", "aeth.rnr_timer", FT_RELATIVE_TIME, BASE_NONE, NULL, 0),
      FIELD(hf_nak, "NAK code", "aeth.nak", FT_UINT8, BASE_DEC, VALS(parley_ib_naks), PARLEY_IB_SYNDROME_VALUE),
      FIELD(hf_msn, "MSN", "aeth.msn", FT_UINT24, BASE_DEC, NULL, 0),
      FIELD(hf_immediate, "Immediate", "immediate", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_invalidated, "R_Key to invalidate", "ieth.r_key", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_payload_length, "Payload length", "payload_length", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_data, "Payload", "data", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_icrc, "ICRC", "icrc", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_icrc_status, "ICRC status", "icrc.status", FT_UINT8, BASE_NONE, VALS(proto_checksum_vals), 0),
      FIELD(hf_connection, "Connection", "connection", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_from, "From", "from", FT_UINT8, BASE_DEC, VALS(side_texts), 0),
      FIELD(hf_conn_service, "Service", "service", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_setup_req, "Set up by the request in", "setup.req", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_NONE), 0),
      FIELD(hf_setup_rep, "Set up by the reply in", "setup.rep", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_NONE), 0),
  };
#undef FIELD
  static gint* ett[] = {&ett_ib, &ett_header, &ett_syndrome, &ett_setup};
  proto_register_field_array(proto_parley_ib, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
}

void parley_ib_show_register(void) {
  static ei_register_info infos[] = {
#define PARLEY_X(name, filter, group, severity) \
  {&remarks[PARLEY_IB_REMARK_##name], {"parley." filter, group, severity, "InfiniBand: " filter, EXPFILL}},
      PARLEY_IB_REMARKS(PARLEY_X)
#undef PARLEY_X
  };
  static const expert_field none = EI_INIT;
  infos[PARLEY_IB_REMARK_ICRC].eiinfo.summary = "Wrong ICRC (IBA §7.8.1)"; /* only its summary is shown */
  for (guint i = 0; i < PARLEY_IB_REMARK_COUNT; i++) remarks[i] = none;
  register_fields();
  expert_module_t* const module = expert_register_protocol(proto_parley_ib);
  expert_register_field_array(module, infos, array_length(infos));
  parley_ib_judge_register(module);
}
