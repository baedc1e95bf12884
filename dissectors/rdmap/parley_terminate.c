/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shows Terminate messages in all known variants: the order of RFC 5040 §4.8, that of Linux siw, error type 3 of
 * Chelsio and Intel, and all sizes by M, D and R. Error codes: RFC 5040 §4.8, RFC 5041 §7.2, RFC 5044 §8. */
#include "parley_rdmap.h"

static int hf_control, hf_layer, hf_etype, hf_code, hf_m, hf_d, hf_r, hf_reserved, hf_siw_m, hf_siw_d, hf_siw_r;
static int hf_meaning, hf_swapped, hf_other, hf_length, hf_header, hf_rest;
static int hf_ddp, hf_tagged, hf_last, hf_dv, hf_rdmap, hf_rv, hf_opcode, hf_stag, hf_to, hf_reserved_ulp, hf_qn,
    hf_msn, hf_mo;
static int hf_sink_stag, hf_sink_to, hf_size, hf_source_stag, hf_source_to;
static gint ett_control = -1, ett_bits = -1, ett_header = -1, ett_request = -1;

static const value_string layers[] = {{PARLEY_RDMAP_LAYER_RDMAP, "RDMAP"},
                                      {PARLEY_RDMAP_LAYER_DDP, "DDP"},
                                      {PARLEY_RDMAP_LAYER_LLP, "LLP (MPA)"},
                                      {0, NULL}};

typedef struct term_code {
  guint8 layer, etype, code;
  const char* text;
} term_code;

static const term_code codes[] = {
#define PARLEY_X(layer, etype, code, text) {layer, etype, code, text},
    PARLEY_RDMAP_TERM_CODES(PARLEY_X)
#undef PARLEY_X
};

const char* parley_terminate_text(guint8 layer, guint8 etype, guint8 code) {
  /* Chelsio and Intel send MPA's errors with type 3, which RFC 5041 §7.2 leaves to the LLP. */
  if (layer == PARLEY_RDMAP_LAYER_LLP && etype == 3) etype = 0;
  for (guint i = 0; i < array_length(codes); ++i)
    if (codes[i].layer == layer && codes[i].etype == etype && codes[i].code == code) return codes[i].text;
  return layer == PARLEY_RDMAP_LAYER_RDMAP && etype == 0 ? "RDMAP local catastrophic" : NULL;
}

const char* parley_terminate_describe(wmem_allocator_t* scope, guint8 layer, guint8 etype, guint8 code) {
  const char* text = parley_terminate_text(layer, etype, code);
  return wmem_strdup_printf(scope, "%s (%u/%u/%02x)", text != NULL ? text : "no registered meaning", layer, etype,
                            code);
}

static const char* etype_text(guint8 layer, guint8 etype) {
  static const char* const rdmap[] = {"local catastrophic", "remote protection", "remote operation"};
  static const char* const ddp[] = {"local catastrophic", "tagged buffer", "untagged buffer", "reserved for the LLP"};
  if (layer == PARLEY_RDMAP_LAYER_RDMAP && etype < array_length(rdmap)) return rdmap[etype];
  if (layer == PARLEY_RDMAP_LAYER_DDP && etype < array_length(ddp)) return ddp[etype];
  if (layer == PARLEY_RDMAP_LAYER_LLP && etype == 0) return "MPA";
  if (layer == PARLEY_RDMAP_LAYER_LLP && etype == 3) return "MPA, as Chelsio and Intel number it";
  return "not assigned";
}

/* Whether the control word itself shows siw's order. Earlier events may show more (parley_blame.c). */
static gboolean looks_swapped(guint8 octet0, guint8 code, guint8 bits) {
  const guint8 hi = octet0 >> 4, lo = octet0 & 0xF;
  const gboolean as_sent = parley_terminate_text(hi, lo, code) != NULL;
  const gboolean exchanged = parley_terminate_text(lo, hi, code) != NULL;
  if ((bits & (PARLEY_RDMAP_TERM_M | PARLEY_RDMAP_TERM_D | PARLEY_RDMAP_TERM_R)) != 0) return FALSE;
  if ((bits & (PARLEY_RDMAP_TERM_SIW_M | PARLEY_RDMAP_TERM_SIW_D | PARLEY_RDMAP_TERM_SIW_R)) != 0)
    return exchanged || !as_sent;
  /* Codes 5 to 7 are registered for RDMAP's remote operation errors and for MPA. The former have a DDP header (RFC 5040
   * §4.8), so without one the octet has siw's order. */
  return exchanged && (!as_sent || (hi == PARLEY_RDMAP_LAYER_RDMAP && lo == 2));
}

void parley_terminate_set_swapped(parley_terminate* t, gboolean swapped) {
  const guint8 hi = t->octet0 >> 4, lo = t->octet0 & 0xF;
  t->swapped = swapped;
  t->layer = swapped ? lo : hi;
  t->etype = swapped ? hi : lo;
  t->m = (t->bits & (swapped ? PARLEY_RDMAP_TERM_SIW_M : PARLEY_RDMAP_TERM_M)) != 0;
  t->d = (t->bits & (swapped ? PARLEY_RDMAP_TERM_SIW_D : PARLEY_RDMAP_TERM_D)) != 0;
  t->r = (t->bits & (swapped ? PARLEY_RDMAP_TERM_SIW_R : PARLEY_RDMAP_TERM_R)) != 0;
}

gboolean parley_terminate_read(tvbuff_t* tvb, guint offset, parley_terminate* t) {
  if (tvb_captured_length_remaining(tvb, (gint)offset) < PARLEY_RDMAP_TERM_CTRL_LEN) return FALSE;
  t->octet0 = tvb_get_guint8(tvb, (gint)offset);
  t->code = tvb_get_guint8(tvb, (gint)offset + 1);
  t->bits = tvb_get_guint8(tvb, (gint)offset + 2);
  parley_terminate_set_swapped(t, looks_swapped(t->octet0, t->code, t->bits));
  return TRUE;
}

static guint head_at(tvbuff_t* tvb, guint at) {
  const gboolean there = tvb_captured_length(tvb) > at;
  return there && (tvb_get_guint8(tvb, (gint)at) & PARLEY_DDP_T) != 0 ? PARLEY_DDP_TAGGED_LEN : PARLEY_DDP_UNTAGGED_LEN;
}

/* RFC 5040 §4.8: M shows that the segment length is present. With D alone, the bits do not show whether the sender left
 * the field out or left it invalid; the size of the Terminate does. */
parley_terminate_parts parley_terminate_layout(tvbuff_t* tvb, guint offset, guint length, const parley_terminate* t) {
  const guint at = offset + PARLEY_RDMAP_TERM_CTRL_LEN;
  const guint request = t->r ? PARLEY_RDMAP_READ_REQUEST_LEN : 0;
  parley_terminate_parts parts = {t->m || t->d, 0, 0};
  if (t->d && !t->m && PARLEY_RDMAP_TERM_CTRL_LEN + head_at(tvb, at) + request == length) parts.length = FALSE;
  if (t->d) parts.head = head_at(tvb, at + (parts.length ? 2 : 0));
  parts.octets = PARLEY_RDMAP_TERM_CTRL_LEN + (parts.length ? 2 : 0) + parts.head + request;
  return parts;
}

gboolean parley_terminate_quotes(tvbuff_t* tvb, guint offset, guint length, const parley_terminate* t,
                                 parley_segment* quoted) {
  const parley_terminate_parts parts = parley_terminate_layout(tvb, offset, length, t);
  const guint at = offset + PARLEY_RDMAP_TERM_CTRL_LEN + (parts.length ? 2 : 0);
  if (parts.head == 0 || tvb_captured_length(tvb) < at + parts.head) return FALSE;
  return parley_segment_read(tvb_new_subset_length(tvb, (gint)at, (gint)parts.head), parts.head, quoted);
}

static void show_control(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, gint at, const parley_terminate* t,
                         proto_item** control) {
  static int* const rfc_bits[] = {&hf_m, &hf_d, &hf_r, &hf_reserved, NULL};
  static int* const siw_bits[] = {&hf_siw_m, &hf_siw_d, &hf_siw_r, NULL};
  const char* meaning = parley_terminate_describe(pinfo->pool, t->layer, t->etype, t->code);
  proto_item* item = proto_tree_add_uint(tree, hf_control, tvb, at, PARLEY_RDMAP_TERM_CTRL_LEN, tvb_get_ntohl(tvb, at));
  proto_tree* sub = proto_item_add_subtree(item, ett_control);
  proto_item_append_text(item, ", %s", meaning);
  *control = item;
  proto_tree_add_uint(sub, hf_layer, tvb, at, 1, t->layer);
  item = proto_tree_add_uint(sub, hf_etype, tvb, at, 1, t->etype);
  proto_item_append_text(item, " (%s)", etype_text(t->layer, t->etype));
  item = proto_tree_add_uint(sub, hf_code, tvb, at + 1, 1, t->code);
  proto_tree_add_bitmask_list(sub, tvb, at + 2, 1, t->swapped ? siw_bits : rfc_bits, ENC_BIG_ENDIAN);
  proto_item_set_generated(proto_tree_add_string(sub, hf_meaning, tvb, at, 2, meaning));
  proto_item_set_generated(proto_tree_add_boolean(sub, hf_swapped, tvb, at, 3, t->swapped));
  /* If the other order of octet 0 also has a registered meaning, or was sent, show both readings. */
  const guint8 other_layer = t->etype, other_etype = t->layer;
  const gboolean low_only = (t->bits & 0xE0) == 0;
  if (t->swapped ||
      (low_only && t->layer != t->etype && parley_terminate_text(other_layer, other_etype, t->code) != NULL)) {
    const char* other = parley_terminate_describe(pinfo->pool, other_layer, other_etype, t->code);
    item =
        proto_tree_add_string_format(sub, hf_other, tvb, at, 3, other, "%s: %s",
                                     t->swapped ? "As sent, in the order of RFC 5040" : "If Linux siw sent it", other);
    proto_item_set_generated(item);
  }
}

static void show_request(tvbuff_t* tvb, proto_tree* tree, gint at) {
  proto_tree* sub = proto_tree_add_subtree(tree, tvb, at, PARLEY_RDMAP_READ_REQUEST_LEN, ett_request, NULL,
                                           "Terminated RDMA Read Request header");
  proto_tree_add_item(sub, hf_sink_stag, tvb, at, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_sink_to, tvb, at + 4, 8, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_size, tvb, at + 12, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_source_stag, tvb, at + 16, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_source_to, tvb, at + 20, 8, ENC_BIG_ENDIAN);
}

static void show_header(tvbuff_t* tvb, proto_tree* tree, gint at, gint size) {
  static int* const ddp_bits[] = {&hf_tagged, &hf_last, &hf_dv, NULL};
  static int* const rdmap_bits[] = {&hf_rv, &hf_opcode, NULL};
  const gboolean tagged = size == PARLEY_DDP_TAGGED_LEN;
  const guint8 opcode = tvb_get_guint8(tvb, at + 1) & PARLEY_RDMAP_OPCODE_MASK;
  proto_item* item = proto_tree_add_item(tree, hf_header, tvb, at, size, ENC_NA);
  proto_tree* sub = proto_item_add_subtree(item, ett_header);
  proto_item_set_text(item, "Terminated DDP header: %s, %s, %d octets", tagged ? "tagged" : "untagged",
                      parley_opcode_name(opcode), size);
  proto_tree_add_bitmask(sub, tvb, at, hf_ddp, ett_bits, ddp_bits, ENC_BIG_ENDIAN);
  proto_tree_add_bitmask(sub, tvb, at + 1, hf_rdmap, ett_bits, rdmap_bits, ENC_BIG_ENDIAN);
  if (tagged) {
    proto_tree_add_item(sub, hf_stag, tvb, at + 2, 4, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_to, tvb, at + 6, 8, ENC_BIG_ENDIAN);
    return;
  }
  proto_tree_add_item(sub, hf_reserved_ulp, tvb, at + 2, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_qn, tvb, at + 6, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_msn, tvb, at + 10, 4, ENC_BIG_ENDIAN);
  proto_tree_add_item(sub, hf_mo, tvb, at + 14, 4, ENC_BIG_ENDIAN);
}

void parley_terminate_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, guint offset, guint length,
                           const parley_terminate* t, proto_item** control) {
  const parley_terminate_parts parts = parley_terminate_layout(tvb, offset, length, t);
  gint at = (gint)offset;
  gboolean whole = TRUE; /* parts behind a truncated one have no known offset */
  show_control(tvb, pinfo, tree, at, t, control);
  at += PARLEY_RDMAP_TERM_CTRL_LEN;
  if (parts.length && (whole = tvb_captured_length_remaining(tvb, at) >= 2)) {
    proto_item* item = proto_tree_add_item(tree, hf_length, tvb, at, 2, ENC_BIG_ENDIAN);
    if (!t->m) proto_item_append_text(item, " (not valid: M is 0)");
    at += 2;
  }
  if (whole && parts.head > 0 && (whole = tvb_captured_length_remaining(tvb, at) >= (gint)parts.head)) {
    show_header(tvb, tree, at, (gint)parts.head);
    at += (gint)parts.head;
  }
  if (whole && t->r && tvb_captured_length_remaining(tvb, at) >= PARLEY_RDMAP_READ_REQUEST_LEN) {
    show_request(tvb, tree, at);
    at += PARLEY_RDMAP_READ_REQUEST_LEN;
  }
  if (tvb_captured_length_remaining(tvb, at) > 0) proto_tree_add_item(tree, hf_rest, tvb, at, -1, ENC_NA);
}

void parley_terminate_register(void) {
#define FIELD(var, name, filter, type, base, strings, mask)                                  \
  {                                                                                          \
    &var, { name, "parley.rdmap.terminate." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      FIELD(hf_control, "Terminate control", "control", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_layer, "Layer", "layer", FT_UINT8, BASE_DEC, VALS(layers), 0),
      FIELD(hf_etype, "Error type", "etype", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_code, "Error code", "code", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_m, "M, DDP segment length is valid", "m", FT_BOOLEAN, 8, NULL, PARLEY_RDMAP_TERM_M),
      FIELD(hf_d, "D, DDP header is included", "d", FT_BOOLEAN, 8, NULL, PARLEY_RDMAP_TERM_D),
      FIELD(hf_r, "R, RDMAP header is included", "r", FT_BOOLEAN, 8, NULL, PARLEY_RDMAP_TERM_R),
      FIELD(hf_reserved, "Reserved", "reserved", FT_UINT8, BASE_HEX, NULL, 0x1F),
      FIELD(hf_siw_m, "M (siw's place), DDP segment length is valid", "m", FT_BOOLEAN, 8, NULL,
            PARLEY_RDMAP_TERM_SIW_M),
      FIELD(hf_siw_d, "D (siw's place), DDP header is included", "d", FT_BOOLEAN, 8, NULL, PARLEY_RDMAP_TERM_SIW_D),
      FIELD(hf_siw_r, "R (siw's place), RDMAP header is included", "r", FT_BOOLEAN, 8, NULL, PARLEY_RDMAP_TERM_SIW_R),
      FIELD(hf_meaning, "Meaning", "meaning", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_swapped, "Control word is in Linux siw's order", "swapped", FT_BOOLEAN, BASE_NONE, NULL, 0),
      FIELD(hf_other, "Other reading", "other_reading", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_length, "DDP segment length", "ddp_length", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_header, "Terminated DDP header", "ddp_header", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_rest, "Octets behind the Terminate", "rest", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_ddp, "DDP control", "ddp.control", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_tagged, "Tagged", "ddp.tagged", FT_BOOLEAN, 8, NULL, PARLEY_DDP_T),
      FIELD(hf_last, "Last", "ddp.last", FT_BOOLEAN, 8, NULL, PARLEY_DDP_L),
      FIELD(hf_dv, "DDP version", "ddp.version", FT_UINT8, BASE_DEC, NULL, PARLEY_DDP_DV_MASK),
      FIELD(hf_rdmap, "RDMAP control", "rdmap.control", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_rv, "RDMAP version", "rdmap.version", FT_UINT8, BASE_DEC, NULL, PARLEY_RDMAP_RV_MASK),
      FIELD(hf_opcode, "Opcode", "rdmap.opcode", FT_UINT8, BASE_HEX, NULL, PARLEY_RDMAP_OPCODE_MASK),
      FIELD(hf_stag, "STag", "ddp.stag", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_to, "Tagged offset", "ddp.to", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_reserved_ulp, "Invalidate STag or reserved", "ddp.reserved_ulp", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_qn, "Queue number", "ddp.qn", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_msn, "Message sequence number", "ddp.msn", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_mo, "Message offset", "ddp.mo", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_sink_stag, "Data sink STag", "read.sink_stag", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_sink_to, "Data sink tagged offset", "read.sink_to", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_size, "RDMA Read message size", "read.size", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_source_stag, "Data source STag", "read.source_stag", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_source_to, "Data source tagged offset", "read.source_to", FT_UINT64, BASE_HEX, NULL, 0),
  };
#undef FIELD
  static gint* ett[] = {&ett_control, &ett_bits, &ett_header, &ett_request};
  proto_register_field_array(proto_parley, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
}
