/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shows DDP segments and the RDMAP messages in them: RFC 5041 §4, RFC 5040 §4, RFC 7306 §5, §6. It judges nothing. It
 * shows the findings of the first pass (parley_track.c) next to their octets. */
#include "parley_rdmap.h"

#include "parley_text.h"
#include "parley_ulp.h"

static int hf_ddp, hf_ddp_control, hf_tagged, hf_last, hf_ddp_reserved, hf_dv, hf_stag, hf_to, hf_qn, hf_msn, hf_mo;
static int hf_rdmap, hf_rdmap_control, hf_rv, hf_rdmap_reserved, hf_opcode, hf_inval_stag, hf_reserved_ulp, hf_length,
    hf_data, hf_rtr, hf_octets;
static int hf_sink_stag, hf_sink_to, hf_size, hf_source_stag, hf_source_to;
static int hf_atomic_reserved, hf_atomic_opcode, hf_atomic_id, hf_atomic_stag, hf_atomic_to, hf_atomic_add,
    hf_atomic_add_mask, hf_atomic_swap, hf_atomic_swap_mask, hf_atomic_compare, hf_atomic_compare_mask, hf_atomic_value,
    hf_immediate;
static int hf_request_in, hf_response_in, hf_time, hf_message_in, hf_message_from, hf_message_length, hf_message_data,
    hf_message_segments;
static gint ett_ddp = -1, ett_ddp_control = -1, ett_rdmap = -1, ett_rdmap_control = -1, ett_body = -1, ett_message = -1;

static const value_string opcodes[] = {
#define PARLEY_X(name, value, tagged, qn, text) {value, text},
    PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(value, text) {value, text},
        PARLEY_RDMAP_UNASSIGNED(PARLEY_X)
#undef PARLEY_X
            {0, NULL}};
static const value_string atomic_opcodes[] = {
    {PARLEY_RDMAP_ATOMIC_FETCH_ADD, "FetchAdd"}, {PARLEY_RDMAP_ATOMIC_CMP_SWAP, "CmpSwap"}, {0, NULL}};

const char* parley_opcode_name(guint8 opcode) { return val_to_str_const(opcode, opcodes, "unassigned opcode"); }

gboolean parley_opcode_is_send(guint8 opcode) { return opcode >= 0x3 && opcode <= 0x6; }

gboolean parley_opcode_invalidates(guint8 opcode) { return opcode == 0x4 || opcode == 0x6; }

gboolean parley_opcode_rule(guint8 opcode, gboolean* tagged, guint32* qn) {
  static const struct {
    guint8 opcode, tagged, qn;
  } rules[] = {
#define PARLEY_X(name, value, tagged, qn, text) {value, tagged, qn},
      PARLEY_RDMAP_OPCODES(PARLEY_X)
#undef PARLEY_X
  };
  for (guint i = 0; i < array_length(rules); ++i) {
    if (rules[i].opcode != opcode) continue;
    *tagged = rules[i].tagged != 0;
    *qn = rules[i].qn;
    return TRUE;
  }
  return FALSE;
}

gboolean parley_segment_read(tvbuff_t* tvb, guint length, parley_segment* s) {
  *s = (parley_segment){0};
  const guint captured = tvb_captured_length(tvb);
  if (length < 2 || captured < 2) return FALSE;
  s->ddp = tvb_get_guint8(tvb, 0);
  s->rdmap = tvb_get_guint8(tvb, 1);
  s->tagged = (s->ddp & PARLEY_DDP_T) != 0;
  s->last = (s->ddp & PARLEY_DDP_L) != 0;
  s->opcode = s->rdmap & PARLEY_RDMAP_OPCODE_MASK;
  s->head = s->tagged ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN;
  if (length < s->head || captured < s->head) return FALSE;
  s->payload = length - s->head;
  s->stag = tvb_get_ntohl(tvb, 2);
  if (s->tagged) {
    s->to = tvb_get_ntoh64(tvb, 6);
  } else {
    s->qn = tvb_get_ntohl(tvb, 6);
    s->msn = tvb_get_ntohl(tvb, 10);
    s->mo = tvb_get_ntohl(tvb, 14);
  }
  return TRUE;
}

static const char* ddp_text(const parley_segment* s, parley_text* w) {
  parley_text_add(w, s->tagged ? "DDP: tagged, " : "DDP: untagged, ");
  parley_text_add(w, s->last ? "last" : "more");
  if (s->tagged) {
    parley_text_hex(w, ", STag ", s->stag, 8);
    parley_text_hex(w, ", TO ", s->to, 1);
  } else {
    parley_text_number(w, ", queue ", s->qn);
    parley_text_number(w, ", MSN ", s->msn);
    parley_text_number(w, ", MO ", s->mo);
  }
  return w->text;
}

/* Passes values that are already known: reading them again with proto_tree_add_item takes 50 % longer. */
static void show_ddp(tvbuff_t* tvb, proto_tree* tree, const parley_segment* s, proto_item* items[PARLEY_PLACES]) {
  static int* const bits[] = {&hf_tagged, &hf_last, &hf_ddp_reserved, &hf_dv, NULL};
  proto_item* item = proto_tree_add_item(tree, hf_ddp, tvb, 0, (gint)s->head, ENC_NA);
  proto_tree* sub = proto_item_add_subtree(item, ett_ddp);
  if (PTREE_DATA(tree)->visible) proto_item_set_text(item, "%s", ddp_text(s, &(parley_text){0}));
  items[PARLEY_AT_DDP_CONTROL] = proto_tree_add_bitmask_with_flags(sub, tvb, 0, hf_ddp_control, ett_ddp_control, bits,
                                                                   ENC_BIG_ENDIAN, BMT_NO_APPEND);
  if (s->tagged) {
    items[PARLEY_AT_STAG] = proto_tree_add_uint(sub, hf_stag, tvb, 2, 4, s->stag);
    items[PARLEY_AT_TO] = proto_tree_add_uint64(sub, hf_to, tvb, 6, 8, s->to);
    return;
  }
  items[PARLEY_AT_QN] = proto_tree_add_uint(sub, hf_qn, tvb, 6, 4, s->qn);
  items[PARLEY_AT_MSN] = proto_tree_add_uint(sub, hf_msn, tvb, 10, 4, s->msn);
  items[PARLEY_AT_MO] = proto_tree_add_uint(sub, hf_mo, tvb, 14, 4, s->mo);
}

static void show_read_request(tvbuff_t* tvb, proto_tree* tree, gint at) {
  proto_tree_add_item(tree, hf_sink_stag, tvb, at, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_sink_to, tvb, at + 4, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_size, tvb, at + 12, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_source_stag, tvb, at + 16, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_source_to, tvb, at + 20, 8, ENC_BIG_ENDIAN);
}

/* RFC 7306 §5.2.1. The names of the masks and data depend on the operation. */
static void show_atomic_request(tvbuff_t* tvb, proto_tree* tree, gint at) {
  const gboolean add = (tvb_get_guint8(tvb, at + 3) & 0xF) == PARLEY_RDMAP_ATOMIC_FETCH_ADD;
  proto_tree_add_item(tree, hf_atomic_reserved, tvb, at, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_opcode, tvb, at, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_id, tvb, at + 4, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_stag, tvb, at + 8, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_to, tvb, at + 12, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, add ? hf_atomic_add : hf_atomic_swap, tvb, at + 20, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, add ? hf_atomic_add_mask : hf_atomic_swap_mask, tvb, at + 28, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_compare, tvb, at + 36, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_atomic_compare_mask, tvb, at + 44, 8, ENC_BIG_ENDIAN);
}

/* True: the message's body has a fixed form, and it is complete. */
static gboolean show_fixed_body(const parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree,
                                const parley_segment* s, proto_item** body) {
  const gint at = (gint)s->head;
  const gint captured = tvb_captured_length_remaining(tvb, at);
  parley_terminate t;
  proto_tree* sub;
  if (s->tagged) return FALSE;
  if (s->opcode == 0x1 && s->payload == PARLEY_RDMAP_READ_REQUEST_LEN && captured >= PARLEY_RDMAP_READ_REQUEST_LEN) {
    sub = proto_tree_add_subtree(tree, tvb, at, PARLEY_RDMAP_READ_REQUEST_LEN, ett_body, body,
                                 "RDMA Read Request header");
    show_read_request(tvb, sub, at);
    return TRUE;
  }
  if (s->opcode == 0x7 && parley_terminate_read(tvb, s->head, &t)) {
    const parley_facts* facts = (const parley_facts*)pdu->facts;
    if (facts != NULL && facts->terminate_judged) parley_terminate_set_swapped(&t, facts->terminate_swapped);
    sub = proto_tree_add_subtree(tree, tvb, at, -1, ett_body, NULL, "Terminate header");
    parley_terminate_show(tvb, pinfo, sub, s->head, s->payload, &t, body);
    return TRUE;
  }
  if ((s->opcode == 0x8 || s->opcode == 0x9) && s->payload == PARLEY_RDMAP_IMMEDIATE_LEN &&
      captured >= PARLEY_RDMAP_IMMEDIATE_LEN) {
    *body = proto_tree_add_item(tree, hf_immediate, tvb, at, PARLEY_RDMAP_IMMEDIATE_LEN, ENC_NA);
    return TRUE;
  }
  if (s->opcode == 0xA && s->payload == PARLEY_RDMAP_ATOMIC_REQUEST_LEN &&
      captured >= PARLEY_RDMAP_ATOMIC_REQUEST_LEN) {
    sub =
        proto_tree_add_subtree(tree, tvb, at, PARLEY_RDMAP_ATOMIC_REQUEST_LEN, ett_body, body, "Atomic Request header");
    show_atomic_request(tvb, sub, at);
    return TRUE;
  }
  if (s->opcode == 0xB && s->payload == PARLEY_RDMAP_ATOMIC_RESPONSE_LEN &&
      captured >= PARLEY_RDMAP_ATOMIC_RESPONSE_LEN) {
    sub = proto_tree_add_subtree(tree, tvb, at, PARLEY_RDMAP_ATOMIC_RESPONSE_LEN, ett_body, body,
                                 "Atomic Response header");
    proto_tree_add_item(sub, hf_atomic_id, tvb, at, 4, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_atomic_value, tvb, at + 4, 8, ENC_BIG_ENDIAN);
    return TRUE;
  }
  return FALSE;
}

static void generated(proto_item* item) { proto_item_set_generated(item); }

/* Links the request and the response of a Read or an Atomic to each other. */
static void show_fetch(const parley_pdu* pdu, tvbuff_t* tvb, proto_tree* tree, const parley_segment* s) {
  const parley_facts* facts = (const parley_facts*)pdu->facts;
  if (facts == NULL || facts->fetch == NULL) return;
  const parley_fetch* fetch = facts->fetch;
  if (s->opcode == 0x1 || s->opcode == 0xA) {
    if (fetch->response_frame != 0)
      generated(proto_tree_add_uint(tree, hf_response_in, tvb, 0, 0, fetch->response_frame));
    return;
  }
  generated(proto_tree_add_uint(tree, hf_request_in, tvb, 0, 0, fetch->request_frame));
  if (!s->last) return;
  nstime_t time;
  nstime_delta(&time, &pdu->at, &fetch->request_at);
  generated(proto_tree_add_time(tree, hf_time, tvb, 0, 0, &time));
}

/* A message of several segments: the last one shows the whole message, the others link to it. */
static tvbuff_t* show_message(const parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree,
                              const parley_segment* s) {
  const parley_facts* facts = (const parley_facts*)pdu->facts;
  if (facts == NULL || facts->message == NULL) return NULL;
  const parley_message* m = facts->message;
  if (!s->last) {
    if (m->last_frame != 0) generated(proto_tree_add_uint(tree, hf_message_in, tvb, 0, 0, m->last_frame));
    return NULL;
  }
  if (!m->whole) {
    generated(proto_tree_add_uint_format_value(tree, hf_message_segments, tvb, 0, 0, m->segments,
                                               "%u, not put together: too long, or cut by the capture", m->segments));
    return NULL;
  }
  const guint length = wmem_array_get_count(m->octets);
  const guint8* octets = (const guint8*)wmem_array_get_raw(m->octets);
  tvbuff_t* whole = tvb_new_child_real_data(tvb, octets, length, (gint)length);
  add_new_data_source(pinfo, whole, "Send of several DDP segments");
  proto_item* item = proto_tree_add_uint(tree, hf_message_segments, tvb, 0, 0, m->segments);
  proto_item_append_text(item, ", %u octets, frames %u to %u", length, m->first_frame, m->last_frame);
  generated(item);
  if (tree == NULL) return whole;
  proto_tree* sub = proto_item_add_subtree(item, ett_message);
  for (guint i = 0; i < wmem_array_get_count(m->frames); ++i)
    generated(proto_tree_add_uint(sub, hf_message_from, tvb, 0, 0, *(guint32*)wmem_array_index(m->frames, i)));
  generated(proto_tree_add_uint(sub, hf_message_length, tvb, 0, 0, length));
  if (length > 0) proto_tree_add_item(sub, hf_message_data, whole, 0, (gint)length, ENC_NA);
  return whole;
}

static void terminate_text(const parley_pdu* pdu, packet_info* pinfo, parley_terminate* t, parley_text* w) {
  const parley_facts* facts = (const parley_facts*)pdu->facts;
  if (facts != NULL && facts->terminate_judged) parley_terminate_set_swapped(t, facts->terminate_swapped);
  parley_text_add(w, ": ");
  parley_text_add(w, parley_terminate_describe(pinfo->pool, t->layer, t->etype, t->code));
  if (t->swapped) parley_text_add(w, " [siw's order]");
}

static void summary(const parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo, const parley_segment* s, parley_text* w) {
  const gint at = (gint)s->head;
  parley_terminate t;
  parley_text_add(w, parley_opcode_name(s->opcode));
  if (s->tagged) {
    parley_text_hex(w, " stag=", s->stag, 1);
    parley_text_hex(w, " to=", s->to, 1);
    parley_text_number(w, " len=", s->payload);
    if (!s->last) parley_text_add(w, " more");
  } else if (s->opcode == 0x7 && parley_terminate_read(tvb, s->head, &t)) {
    terminate_text(pdu, pinfo, &t, w);
    return;
  } else if (s->opcode == 0x1 && tvb_captured_length_remaining(tvb, at) >= PARLEY_RDMAP_READ_REQUEST_LEN) {
    parley_text_number(w, " msn=", s->msn);
    parley_text_number(w, " size=", tvb_get_ntohl(tvb, at + 12));
    parley_text_hex(w, " from ", tvb_get_ntohl(tvb, at + 16), 1);
    parley_text_hex(w, ":", tvb_get_ntoh64(tvb, at + 20), 1);
  } else {
    parley_text_number(w, " msn=", s->msn);
    if (s->mo != 0 || !s->last) parley_text_number(w, " mo=", s->mo);
    parley_text_number(w, " len=", s->payload);
    if (!s->last) parley_text_add(w, " more");
  }
  if (pdu->is_rtr) parley_text_add(w, " [RTR]");
}

static proto_tree* show_rdmap(const parley_pdu* pdu, tvbuff_t* tvb, proto_tree* tree, const parley_segment* s,
                              const char* text, proto_item* items[PARLEY_PLACES]) {
  static int* const bits[] = {&hf_rv, &hf_rdmap_reserved, &hf_opcode, NULL};
  proto_item* item = proto_tree_add_item(tree, hf_rdmap, tvb, 1, -1, ENC_NA);
  proto_tree* sub = proto_item_add_subtree(item, ett_rdmap);
  if (*text != '\0') proto_item_set_text(item, "%s", text);
  items[PARLEY_AT_RDMAP_CONTROL] = proto_tree_add_bitmask_with_flags(sub, tvb, 1, hf_rdmap_control, ett_rdmap_control,
                                                                     bits, ENC_BIG_ENDIAN, BMT_NO_APPEND);
  if (!s->tagged)
    items[PARLEY_AT_STAG] = proto_tree_add_uint(
        sub, parley_opcode_invalidates(s->opcode) ? hf_inval_stag : hf_reserved_ulp, tvb, 2, 4, s->stag);
  if (pdu->is_rtr) generated(proto_tree_add_boolean(sub, hf_rtr, tvb, 0, 0, TRUE));
  generated(proto_tree_add_uint(sub, hf_length, tvb, (gint)s->head, 0, s->payload));
  return sub;
}

void parley_rdmap_show(parley_pdu* pdu, tvbuff_t* tvb, packet_info* pinfo, proto_tree* top, proto_tree* tree) {
  proto_item* items[PARLEY_PLACES] = {NULL};
  parley_segment s;
  items[PARLEY_AT_SEGMENT] = proto_tree_get_parent(tree);
  if (!parley_segment_read(tvb, pdu->ulpdu_length, &s)) {
    if (tvb_captured_length(tvb) > 0) proto_tree_add_item(tree, hf_octets, tvb, 0, -1, ENC_NA);
    parley_info_add(pinfo->cinfo, "DDP segment cut short");
    parley_findings_show(pdu, pinfo, items);
    return;
  }
  /* The text is needed only for the column or the tree. */
  static const char protocol[] = "RDMAP: ";
  parley_text words = {0};
  const gboolean column = col_get_writable(pinfo->cinfo, COL_INFO);
  if (column || (tree != NULL && PTREE_DATA(tree)->visible)) {
    parley_text_add(&words, protocol);
    summary(pdu, tvb, pinfo, &s, &words);
    if (pdu->bad_crc) parley_text_add(&words, " [CRC wrong]");
  }
  if (column) parley_info_add(pinfo->cinfo, words.text + sizeof protocol - 1);
  proto_tree* sub = NULL;
  gboolean fixed = FALSE;
  if (tree != NULL) {
    show_ddp(tvb, tree, &s, items);
    sub = show_rdmap(pdu, tvb, tree, &s, words.text, items);
    fixed = show_fixed_body(pdu, tvb, pinfo, sub, &s, &items[PARLEY_AT_BODY]);
    if (!fixed && tvb_captured_length_remaining(tvb, (gint)s.head) > 0)
      items[PARLEY_AT_BODY] = proto_tree_add_item(sub, hf_data, tvb, (gint)s.head, -1, ENC_NA);
    show_fetch(pdu, tvb, sub, &s);
  }
  tvbuff_t* message = show_message(pdu, tvb, pinfo, sub, &s);
  parley_findings_show(pdu, pinfo, items);
  parley_ulp_try(pdu, tvb, message, pinfo, top, &s);
}

static void register_fields(void) {
#define DDP(var, name, filter, type, base, strings, mask)                       \
  {                                                                             \
    &var, { name, "parley.ddp" filter, type, base, strings, mask, NULL, HFILL } \
  }
#define RDMAP(var, name, filter, type, base, strings, mask)                       \
  {                                                                               \
    &var, { name, "parley.rdmap" filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      DDP(hf_ddp, "DDP header", "", FT_NONE, BASE_NONE, NULL, 0),
      DDP(hf_ddp_control, "DDP control", ".control", FT_UINT8, BASE_HEX, NULL, 0),
      DDP(hf_tagged, "T, tagged", ".tagged", FT_BOOLEAN, 8, NULL, PARLEY_DDP_T),
      DDP(hf_last, "L, last", ".last", FT_BOOLEAN, 8, NULL, PARLEY_DDP_L),
      DDP(hf_ddp_reserved, "Reserved", ".reserved", FT_UINT8, BASE_HEX, NULL, PARLEY_DDP_RSVD),
      DDP(hf_dv, "DDP version", ".version", FT_UINT8, BASE_DEC, NULL, PARLEY_DDP_DV_MASK),
      DDP(hf_stag, "STag", ".stag", FT_UINT32, BASE_HEX, NULL, 0),
      DDP(hf_to, "Tagged offset", ".to", FT_UINT64, BASE_HEX, NULL, 0),
      DDP(hf_qn, "Queue number", ".qn", FT_UINT32, BASE_DEC, NULL, 0),
      DDP(hf_msn, "Message sequence number", ".msn", FT_UINT32, BASE_DEC, NULL, 0),
      DDP(hf_mo, "Message offset", ".mo", FT_UINT32, BASE_DEC, NULL, 0),
      DDP(hf_octets, "DDP segment cut short", ".cut", FT_BYTES, BASE_NONE, NULL, 0),
      RDMAP(hf_rdmap, "RDMAP", "", FT_NONE, BASE_NONE, NULL, 0),
      RDMAP(hf_rdmap_control, "RDMAP control", ".control", FT_UINT8, BASE_HEX, NULL, 0),
      RDMAP(hf_rv, "RDMAP version", ".version", FT_UINT8, BASE_DEC, NULL, PARLEY_RDMAP_RV_MASK),
      RDMAP(hf_rdmap_reserved, "Reserved", ".reserved", FT_UINT8, BASE_HEX, NULL, 0x30),
      RDMAP(hf_opcode, "Opcode", ".opcode", FT_UINT8, BASE_HEX, VALS(opcodes), PARLEY_RDMAP_OPCODE_MASK),
      RDMAP(hf_inval_stag, "STag to invalidate", ".inval_stag", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_reserved_ulp, "Reserved (no STag to invalidate)", ".reserved_ulp", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_rtr, "Ready-to-receive indication", ".rtr", FT_BOOLEAN, BASE_NONE, NULL, 0),
      RDMAP(hf_length, "Payload length", ".length", FT_UINT32, BASE_DEC, NULL, 0),
      RDMAP(hf_data, "Payload", ".data", FT_BYTES, BASE_NONE, NULL, 0),
      RDMAP(hf_sink_stag, "Data sink STag", ".read.sink_stag", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_sink_to, "Data sink tagged offset", ".read.sink_to", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_size, "RDMA Read message size", ".read.size", FT_UINT32, BASE_DEC, NULL, 0),
      RDMAP(hf_source_stag, "Data source STag", ".read.source_stag", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_source_to, "Data source tagged offset", ".read.source_to", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_immediate, "Immediate Data", ".immediate", FT_BYTES, BASE_NONE, NULL, 0),
      RDMAP(hf_atomic_reserved, "Reserved", ".atomic.reserved", FT_UINT32, BASE_HEX, NULL, 0xFFFFFFF0),
      RDMAP(hf_atomic_opcode, "Atomic opcode", ".atomic.opcode", FT_UINT32, BASE_DEC, VALS(atomic_opcodes), 0xF),
      RDMAP(hf_atomic_id, "Request identifier", ".atomic.id", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_stag, "Remote STag", ".atomic.stag", FT_UINT32, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_to, "Remote tagged offset", ".atomic.to", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_add, "Add data", ".atomic.add", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_add_mask, "Add mask", ".atomic.add_mask", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_swap, "Swap data", ".atomic.swap", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_swap_mask, "Swap mask", ".atomic.swap_mask", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_compare, "Compare data", ".atomic.compare", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_compare_mask, "Compare mask", ".atomic.compare_mask", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_atomic_value, "Original remote value", ".atomic.value", FT_UINT64, BASE_HEX, NULL, 0),
      RDMAP(hf_request_in, "Request in frame", ".request_in", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_REQUEST), 0),
      RDMAP(hf_response_in, "Response complete in frame", ".response_in", FT_FRAMENUM, BASE_NONE,
            FRAMENUM_TYPE(FT_FRAMENUM_RESPONSE), 0),
      RDMAP(hf_time, "Time since the request", ".time", FT_RELATIVE_TIME, BASE_NONE, NULL, 0),
      RDMAP(hf_message_in, "Message complete in frame", ".message.in", FT_FRAMENUM, BASE_NONE, NULL, 0),
      RDMAP(hf_message_from, "Segment in frame", ".message.frame", FT_FRAMENUM, BASE_NONE, NULL, 0),
      RDMAP(hf_message_segments, "DDP segments of the message", ".message.segments", FT_UINT32, BASE_DEC, NULL, 0),
      RDMAP(hf_message_length, "Message length", ".message.length", FT_UINT32, BASE_DEC, NULL, 0),
      RDMAP(hf_message_data, "Message", ".message.data", FT_BYTES, BASE_NONE, NULL, 0),
  };
#undef DDP
#undef RDMAP
  static gint* ett[] = {&ett_ddp, &ett_ddp_control, &ett_rdmap, &ett_rdmap_control, &ett_body, &ett_message};
  proto_register_field_array(proto_parley, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
}

void parley_rdmap_register(void) {
  register_fields();
  parley_terminate_register();
  parley_ulp_register();
}
