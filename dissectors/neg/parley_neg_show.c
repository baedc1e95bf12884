/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Trees, columns and expert items of a negotiation: shows what the first pass stored with the frame. The peer's text is
 * shown with Wireshark's labels, which escape it, or with format_text(). */
#include <epan/expert.h>
#include <epan/strutil.h>

#include "parley_neg.h"
#include "parley_text.h"

static int hf_magic, hf_version, hf_type, hf_stage, hf_flags, hf_last, hf_flags_reserved, hf_round, hf_reserved,
    hf_length, hf_from, hf_first_frame, hf_part, hf_whole_in, hf_strange, hf_data;
static int hf_item, hf_item_type, hf_item_length, hf_item_critical, hf_item_unknown, hf_plugin, hf_variant,
    hf_done_stage, hf_label, hf_error, hf_text, hf_advice, hf_value;
static int hf_qp_version, hf_qp_transport, hf_qp_reserved, hf_qp_type, hf_qpn, hf_psn, hf_lid, hf_gid, hf_mtu, hf_ird,
    hf_ord, hf_qkey, hf_srqn, hf_ini_qpn, hf_memory, hf_rkey, hf_vaddr, hf_memory_length, hf_tests, hf_ready;
static gint ett_neg = -1, ett_flags = -1, ett_item = -1, ett_item_type = -1, ett_memory = -1;
static expert_field ei[PARLEY_NEG_REMARK_COUNT];

#define VALUE(name, value, text) {value, text},
static const value_string type_texts[] = {PARLEY_NEG_TYPES(VALUE){0, NULL}};
static const value_string stage_texts[] = {PARLEY_NEG_STAGES(VALUE){0, NULL}};
static const value_string item_texts[] = {PARLEY_NEG_ITEMS(VALUE){0, NULL}};
static const value_string transport_texts[] = {PARLEY_NEG_TRANSPORTS(VALUE){0, NULL}};
static const value_string ready_texts[] = {PARLEY_NEG_READY(VALUE){0, NULL}};
#undef VALUE
#define VALUE(name, type, octets, text) {type, text},
static const value_string qp_item_texts[] = {PARLEY_NEG_QP_ITEMS(VALUE){0, NULL}};
#undef VALUE
#define VALUE(name, value, layer, text) {value, #name ": " text},
static const value_string error_texts[] = {PARLEY_NEG_ERRORS(VALUE){0, NULL}};
#undef VALUE
#define VALUE(name, value, layer, text) {value, #name},
static const value_string error_names[] = {PARLEY_NEG_ERRORS(VALUE){0, NULL}};
#undef VALUE
static const value_string from_texts[] = {
    {PARLEY_NEG_FROM_INITIATOR, "initiator"}, {PARLEY_NEG_FROM_RESPONDER, "responder"}, {0, NULL}};

typedef struct field_of {
  guint16 type;
  int* field;
} field_of;

static const field_of item_fields[] = {
    {PARLEY_NEG_ITEM_plugin, &hf_plugin},         {PARLEY_NEG_ITEM_variant, &hf_variant},
    {PARLEY_NEG_ITEM_done_stage, &hf_done_stage}, {PARLEY_NEG_ITEM_label, &hf_label},
    {PARLEY_NEG_ITEM_error, &hf_error},           {PARLEY_NEG_ITEM_text, &hf_text},
    {PARLEY_NEG_ITEM_advice, &hf_advice}};
static const field_of qp_fields[] = {{PARLEY_NEG_QP_ITEM_qpn, &hf_qpn},       {PARLEY_NEG_QP_ITEM_psn, &hf_psn},
                                     {PARLEY_NEG_QP_ITEM_lid, &hf_lid},       {PARLEY_NEG_QP_ITEM_gid, &hf_gid},
                                     {PARLEY_NEG_QP_ITEM_mtu, &hf_mtu},       {PARLEY_NEG_QP_ITEM_ird, &hf_ird},
                                     {PARLEY_NEG_QP_ITEM_ord, &hf_ord},       {PARLEY_NEG_QP_ITEM_qkey, &hf_qkey},
                                     {PARLEY_NEG_QP_ITEM_srqn, &hf_srqn},     {PARLEY_NEG_QP_ITEM_ini_qpn, &hf_ini_qpn},
                                     {PARLEY_NEG_QP_ITEM_memory, &hf_memory}, {PARLEY_NEG_QP_ITEM_tests, &hf_tests}};

static int* field_for(const field_of* fields, guint count, guint16 type) {
  for (guint i = 0; i < count; i++)
    if (fields[i].type == type) return fields[i].field;
  return NULL;
}

/* ------------------------------------------------------------------ items */

/* Shows the value of an item of a known type; its length is the one that a queue pair's item must have. */
static void show_value(proto_tree* tree, tvbuff_t* tvb, gint at, gint length, int field) {
  if (field == hf_memory) {
    proto_tree* const sub =
        proto_item_add_subtree(proto_tree_add_item(tree, field, tvb, at, length, ENC_NA), ett_memory);
    proto_tree_add_item(sub, hf_rkey, tvb, at, 4, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_vaddr, tvb, at + 4, 8, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_memory_length, tvb, at + 12, 8, ENC_BIG_ENDIAN);
  } else if (field == hf_tests || field == hf_done_stage) {
    proto_tree_add_boolean(tree, field, tvb, at, length, 1);
  } else if (field == hf_plugin || field == hf_variant || field == hf_label || field == hf_text || field == hf_advice) {
    proto_tree_add_item(tree, field, tvb, at, length, ENC_UTF_8);
  } else {
    proto_tree_add_item(tree, field, tvb, at, length, field == hf_gid ? ENC_NA : ENC_BIG_ENDIAN);
  }
}

static gboolean has_due_octets(gboolean of_qp, guint16 type, guint16 length) {
  if (!of_qp) return type != PARLEY_NEG_ITEM_error || length == 2;
  switch (type) {
#define PARLEY_X(name, value, octets, text) \
  case value: return length == (octets);
    PARLEY_NEG_QP_ITEMS(PARLEY_X)
#undef PARLEY_X
    default: return FALSE;
  }
}

static void show_items(proto_tree* tree, tvbuff_t* tvb, gint at, gint end, gboolean of_qp) {
  while (end - at >= PARLEY_NEG_ITEM_LEN) {
    const guint16 type = tvb_get_ntohs(tvb, at), length = tvb_get_ntohs(tvb, at + 2);
    const gint room = end - at - PARLEY_NEG_ITEM_LEN, have = MIN((gint)length, room);
    const value_string* const texts = of_qp ? qp_item_texts : item_texts;
    proto_item* const item = proto_tree_add_item(tree, hf_item, tvb, at, PARLEY_NEG_ITEM_LEN + have, ENC_NA);
    const char* const text = try_val_to_str(type, texts);
    const gboolean critical = (type & PARLEY_NEG_ITEM_CRITICAL) != 0;
    if (text != NULL)
      proto_item_set_text(item, "Item: %s", text);
    else
      proto_item_set_text(item, "Item of unknown type 0x%04x%s", type, critical ? ", which may not be skipped" : "");
    proto_tree* const sub = proto_item_add_subtree(item, ett_item);
    proto_tree* const types = proto_item_add_subtree(
        proto_tree_add_item(sub, of_qp ? hf_qp_type : hf_item_type, tvb, at, 2, ENC_BIG_ENDIAN), ett_item_type);
    proto_tree_add_item(types, hf_item_critical, tvb, at, 2, ENC_BIG_ENDIAN);
    proto_tree_add_item(sub, hf_item_length, tvb, at + 2, 2, ENC_BIG_ENDIAN);
    if (text == NULL) proto_item_set_generated(proto_tree_add_boolean(sub, hf_item_unknown, tvb, at, 2, 1));
    int* const field = of_qp ? field_for(qp_fields, G_N_ELEMENTS(qp_fields), type)
                             : field_for(item_fields, G_N_ELEMENTS(item_fields), type);
    if (field != NULL && have == length && has_due_octets(of_qp, type, length))
      show_value(sub, tvb, at + PARLEY_NEG_ITEM_LEN, have, *field);
    else if (have > 0)
      proto_tree_add_item(sub, hf_value, tvb, at + PARLEY_NEG_ITEM_LEN, have, ENC_NA);
    if (have < length) {
      proto_item_append_text(item, " (%u octets, cut off after %d)", length, have);
      return;
    }
    at += PARLEY_NEG_ITEM_LEN + have;
  }
  if (at < end) proto_tree_add_item(tree, hf_value, tvb, at, end - at, ENC_NA);
}

/* ------------------------------------------------------------------ messages */

static void show_turn(proto_tree* tree, tvbuff_t* tvb, gint at, const parley_neg_header* h, guint8 qp) {
  const gint length = (gint)h->length, end = at + length;
  if (length == 0) return;
  const gboolean ours = qp == PARLEY_NEG_QP_YES ||
                        (qp == PARLEY_NEG_QP_LIKELY && (h->stage != PARLEY_NEG_STAGE_info ||
                                                        parley_neg_like_qp(tvb_get_ptr(tvb, at, length), h->length)));
  if (ours && h->stage == PARLEY_NEG_STAGE_ready && length == 1) {
    proto_tree_add_item(tree, hf_ready, tvb, at, 1, ENC_NA);
  } else if (ours && h->stage == PARLEY_NEG_STAGE_info && length >= PARLEY_NEG_QP_HEADER_LEN) {
    proto_tree_add_item(tree, hf_qp_version, tvb, at, 1, ENC_NA);
    proto_tree_add_item(tree, hf_qp_transport, tvb, at + 1, 1, ENC_NA);
    proto_tree_add_item(tree, hf_qp_reserved, tvb, at + 2, 2, ENC_BIG_ENDIAN);
    show_items(tree, tvb, at + PARLEY_NEG_QP_HEADER_LEN, end, TRUE);
  } else {
    proto_tree_add_item(tree, hf_data, tvb, at, length, ENC_NA);
  }
}

static const char* text_of_item(wmem_allocator_t* scope, const guint8* body, guint32 length, guint16 type) {
  guint16 octets = 0;
  const guint8* const value = parley_neg_find_item(body, length, type, &octets);
  return value == NULL || octets == 0 ? NULL : format_text(scope, (const parley_char*)value, octets);
}

/* The error text of an Abort. */
static const char* error_of(wmem_allocator_t* scope, const guint8* body, guint32 length) {
  guint16 octets = 0;
  const guint8* const value = parley_neg_find_item(body, length, PARLEY_NEG_ITEM_error, &octets);
  if (value == NULL || octets != 2) return NULL;
  const guint32 code = (guint32)(value[0] << 8 | value[1]);
  const char* const name = try_val_to_str(code, error_names);
  return name != NULL ? name : wmem_strdup_printf(scope, "error 0x%04x", code);
}

/* "Hello verbs-rc", "Welcome", "info round 1, last", "Abort: reason". `body`: NULL if it is missing. */
static const char* summary(wmem_allocator_t* scope, const parley_neg_header* h, const guint8* body) {
  const guint32 length = body == NULL ? 0 : h->length;
  switch (h->type) {
    case PARLEY_NEG_TYPE_hello: {
      const char* const plugin = text_of_item(scope, body, length, PARLEY_NEG_ITEM_plugin);
      const char* const variant = text_of_item(scope, body, length, PARLEY_NEG_ITEM_variant);
      const char* const label = text_of_item(scope, body, length, PARLEY_NEG_ITEM_label);
      const gboolean ours = plugin == NULL || g_strcmp0(plugin, "parley") == 0;
      return wmem_strdup_printf(scope, "Hello%s%s%s%s%s%s%s", variant || !ours ? " " : "", ours ? "" : plugin,
                                ours ? "" : "/", variant ? variant : "", label ? " (" : "", label ? label : "",
                                label ? ")" : "");
    }
    case PARLEY_NEG_TYPE_welcome: return "Welcome";
    case PARLEY_NEG_TYPE_turn:
      return wmem_strdup_printf(scope, "%s round %u%s", val_to_str_const(h->stage, stage_texts, "unknown stage"),
                                h->round, (h->flags & PARLEY_NEG_FLAG_LAST) != 0 ? ", last" : "");
    case PARLEY_NEG_TYPE_abort: {
      const char* const text = text_of_item(scope, body, length, PARLEY_NEG_ITEM_text);
      const char* const error = text != NULL ? text : error_of(scope, body, length);
      return wmem_strdup_printf(scope, "Abort%s%s", error ? ": " : "", error ? error : "");
    }
    default: return wmem_strdup_printf(scope, "message of unknown type %u", h->type);
  }
}

static void show_remarks(packet_info* pinfo, proto_item* item, const parley_neg_remark* remark) {
  for (; remark != NULL; remark = remark->next)
    expert_add_info_format(pinfo, item, &ei[remark->kind], "%s", remark->text);
}

static void show_header(proto_tree* tree, tvbuff_t* tvb) {
  static int* const flags[] = {&hf_last, &hf_flags_reserved, NULL};
  proto_tree_add_item(tree, hf_magic, tvb, 0, PARLEY_NEG_MAGIC_LEN, ENC_ASCII);
  proto_tree_add_item(tree, hf_version, tvb, 4, 1, ENC_NA);
  proto_tree_add_item(tree, hf_type, tvb, 5, 1, ENC_NA);
  proto_tree_add_item(tree, hf_stage, tvb, 6, 1, ENC_NA);
  proto_tree_add_bitmask(tree, tvb, 7, hf_flags, ett_flags, flags, ENC_NA);
  proto_tree_add_item(tree, hf_round, tvb, 8, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_reserved, tvb, 10, 2, ENC_BIG_ENDIAN);
  proto_tree_add_item(tree, hf_length, tvb, 12, 4, ENC_BIG_ENDIAN);
}

/* Shows the message that fills `tvb`. */
static const char* show_message(tvbuff_t* tvb, packet_info* pinfo, proto_tree* top, guint8 from, guint8 qp,
                                guint32 first_frame, const parley_neg_remark* remarks) {
  const gint octets = (gint)tvb_captured_length(tvb);
  const guint8* const data = tvb_get_ptr(tvb, 0, octets);
  const parley_neg_header h = parley_neg_header_of(data);
  const gboolean whole = (guint32)octets - PARLEY_NEG_HEADER_LEN == h.length && h.version == PARLEY_NEG_VERSION;
  const guint8* const body = whole ? data + PARLEY_NEG_HEADER_LEN : NULL;
  const char* const said = summary(pinfo->pool, &h, body);
  proto_item* const item =
      proto_tree_add_protocol_format(top, proto_parley_neg, tvb, 0, octets, "Staged QP negotiation: %s", said);
  proto_tree* const tree = proto_item_add_subtree(item, ett_neg);
  show_remarks(pinfo, item, remarks);
  if (from != PARLEY_NEG_FROM_UNKNOWN) proto_item_set_generated(proto_tree_add_uint(tree, hf_from, tvb, 0, 0, from));
  if (first_frame != 0 && first_frame != pinfo->num)
    proto_item_set_generated(proto_tree_add_uint(tree, hf_first_frame, tvb, 0, 0, first_frame));
  show_header(tree, tvb);
  if (!whole) {
    if (octets > PARLEY_NEG_HEADER_LEN)
      proto_tree_add_item(tree, hf_data, tvb, PARLEY_NEG_HEADER_LEN, octets - PARLEY_NEG_HEADER_LEN, ENC_NA);
  } else if (h.type == PARLEY_NEG_TYPE_turn) {
    show_turn(tree, tvb, PARLEY_NEG_HEADER_LEN, &h, qp);
  } else {
    show_items(tree, tvb, PARLEY_NEG_HEADER_LEN, octets, FALSE);
  }
  if (h.type == PARLEY_NEG_TYPE_abort && whole) {
    const char* const error = error_of(pinfo->pool, body, h.length);
    const char* const text = text_of_item(pinfo->pool, body, h.length, PARLEY_NEG_ITEM_text);
    expert_add_info_format(pinfo, item, &ei[PARLEY_NEG_REMARK_GAVE_UP], "the %s gave up: %s%s%s",
                           val_to_str_const(from, from_texts, "sender"), error ? error : "without a reason",
                           text ? ": " : "", text ? text : "");
  }
  return said;
}

/* ------------------------------------------------------------------ a frame */

static tvbuff_t* octets_of(tvbuff_t* payload, guint32 seq, packet_info* pinfo, const parley_neg_item* item) {
  if (item->copy != NULL) {
    tvbuff_t* const tvb = tvb_new_child_real_data(payload, item->copy, item->octets, (gint)item->octets);
    add_new_data_source(pinfo, tvb, "Negotiation message");
    return tvb;
  }
  const guint32 at = item->seq - seq, captured = tvb_captured_length(payload);
  if (at > captured || item->octets > captured - at) return NULL;
  return tvb_new_subset_length(payload, (gint)at, (gint)item->octets);
}

static void show_item(tvbuff_t* payload, guint32 seq, packet_info* pinfo, proto_tree* top,
                      const parley_neg_item* item) {
  tvbuff_t* const tvb = octets_of(payload, seq, pinfo, item);
  if (item->kind != PARLEY_NEG_NOTE && (tvb == NULL || item->octets == 0)) return;
  switch ((parley_neg_kind)item->kind) {
    case PARLEY_NEG_MESSAGE:
      parley_info_add(pinfo->cinfo,
                      show_message(tvb, pinfo, top, item->from, item->qp, item->first_frame, item->remarks.first));
      return;
    case PARLEY_NEG_STRANGE: {
      proto_item* const at =
          proto_tree_add_protocol_format(top, proto_parley_neg, tvb, 0, -1, "Staged QP negotiation: no message");
      proto_tree_add_item(proto_item_add_subtree(at, ett_neg), hf_strange, tvb, 0, -1, ENC_NA);
      show_remarks(pinfo, at, item->remarks.first);
      parley_info_add(pinfo->cinfo, "no message of a negotiation");
      return;
    }
    case PARLEY_NEG_PART: {
      if (item->whole_in == pinfo->num) return; /* the rest arrived before this part */
      proto_item* const at =
          proto_tree_add_protocol_format(top, proto_parley_neg, tvb, 0, -1, "Staged QP negotiation: part of a message");
      proto_tree* const tree = proto_item_add_subtree(at, ett_neg);
      proto_tree_add_item(tree, hf_part, tvb, 0, -1, ENC_NA);
      if (item->whole_in != 0)
        proto_item_set_generated(proto_tree_add_uint(tree, hf_whole_in, tvb, 0, 0, item->whole_in));
      parley_info_add(pinfo->cinfo, "part of a message");
      return;
    }
    case PARLEY_NEG_NOTE: {
      proto_item* const at =
          proto_tree_add_protocol_format(top, proto_parley_neg, payload, 0, 0, "Staged QP negotiation");
      show_remarks(pinfo, at, item->remarks.first);
      return;
    }
  }
}

void parley_neg_show(tvbuff_t* payload, guint32 seq, packet_info* pinfo, proto_tree* top) {
  const parley_neg_frame* const frame = parley_neg_frame_of(pinfo);
  gboolean columns = FALSE;
  for (const parley_neg_item* item = frame->first; item != NULL; item = item->next)
    columns = columns || item->kind != PARLEY_NEG_NOTE;
  if (columns) {
    col_set_str(pinfo->cinfo, COL_PROTOCOL, "QPng");
    col_clear(pinfo->cinfo, COL_INFO); /* keeps the fenced text of TCP's analysis of the segment */
  }
  for (const parley_neg_item* item = frame->first; item != NULL; item = item->next)
    show_item(payload, seq, pinfo, top, item);
}

/* ------------------------------------------------------------------ private data */

gboolean parley_neg_in_private_data(tvbuff_t* tvb, gint at, gint length) {
  gint left = length;
  while (left >= PARLEY_NEG_HEADER_LEN) {
    const guint8* const octets = tvb_get_ptr(tvb, at + length - left, left);
    const parley_neg_header h = parley_neg_header_of(octets);
    if (!parley_neg_sane(octets, TRUE) || h.length > (guint32)left - PARLEY_NEG_HEADER_LEN) break;
    left -= PARLEY_NEG_HEADER_LEN + (gint)h.length;
  }
  if (left == length) return FALSE;
  for (; left > 0; left--)
    if (tvb_get_guint8(tvb, at + length - left) != 0) return FALSE;
  return TRUE;
}

void parley_neg_show_private_data(tvbuff_t* tvb, packet_info* pinfo, proto_tree* tree, gint at, gint length) {
  const gint end = at + length;
  while (end - at >= PARLEY_NEG_HEADER_LEN && parley_neg_sane(tvb_get_ptr(tvb, at, PARLEY_NEG_HEADER_LEN), TRUE)) {
    const guint8* const octets = tvb_get_ptr(tvb, at, end - at);
    const parley_neg_header h = parley_neg_header_of(octets);
    const guint8* const body = octets + PARLEY_NEG_HEADER_LEN;
    const gint whole = PARLEY_NEG_HEADER_LEN + (gint)h.length;
    const guint8 qp = parley_neg_like_qp(body, h.length) ? PARLEY_NEG_QP_YES : PARLEY_NEG_QP_UNKNOWN;
    parley_neg_remarks remarks = {.scope = pinfo->pool};
    parley_neg_check_body(&h, body, (parley_neg_qp)qp, &remarks);
    parley_info_add(pinfo->cinfo, show_message(tvb_new_subset_length(tvb, at, whole), pinfo, tree,
                                               PARLEY_NEG_FROM_UNKNOWN, qp, 0, remarks.first));
    at += whole;
  }
}

/* ------------------------------------------------------------------ registration */

static void register_fields(void) {
#define FIELD(var, name, filter, type, base, strings, mask)                      \
  {                                                                              \
    &var, { name, "parley_neg." filter, type, base, strings, mask, NULL, HFILL } \
  }
  static hf_register_info hf[] = {
      FIELD(hf_magic, "Magic", "magic", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_version, "Version", "version", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_type, "Type", "type", FT_UINT8, BASE_DEC, VALS(type_texts), 0),
      FIELD(hf_stage, "Stage", "stage", FT_UINT8, BASE_DEC, VALS(stage_texts), 0),
      FIELD(hf_flags, "Flags", "flags", FT_UINT8, BASE_HEX, NULL, 0),
      FIELD(hf_last, "Last: the sender's part of the stage is over", "flags.last", FT_BOOLEAN, 8, NULL,
            PARLEY_NEG_FLAG_LAST),
      FIELD(hf_flags_reserved, "Reserved", "flags.reserved", FT_UINT8, BASE_HEX, NULL, 0x7F),
      FIELD(hf_round, "Round", "round", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_reserved, "Reserved", "reserved", FT_UINT16, BASE_HEX, NULL, 0),
      FIELD(hf_length, "Length", "length", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_from, "From", "from", FT_UINT8, BASE_DEC, VALS(from_texts), 0),
      FIELD(hf_first_frame, "Begins in frame", "first_frame", FT_FRAMENUM, BASE_NONE, NULL, 0),
      FIELD(hf_part, "Part of a message", "part", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_whole_in, "Whole in frame", "whole_in", FT_FRAMENUM, BASE_NONE, NULL, 0),
      FIELD(hf_strange, "Octets", "other_protocol", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_data, "What the variant says", "data", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_item, "Item", "item", FT_NONE, BASE_NONE, NULL, 0),
      FIELD(hf_item_type, "Type", "item.type", FT_UINT16, BASE_HEX, VALS(item_texts), 0),
      FIELD(hf_qp_type, "Type", "qp.item.type", FT_UINT16, BASE_HEX, VALS(qp_item_texts), 0),
      FIELD(hf_item_critical, "May not be skipped", "item.critical", FT_BOOLEAN, 16, NULL, PARLEY_NEG_ITEM_CRITICAL),
      FIELD(hf_item_length, "Length", "item.length", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_item_unknown, "Of unknown type", "item.unknown", FT_BOOLEAN, BASE_NONE, NULL, 0),
      FIELD(hf_value, "Value", "item.value", FT_BYTES, BASE_NONE, NULL, 0),
      FIELD(hf_plugin, "Plug-in", "plugin", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_variant, "Variant", "variant", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_done_stage, "The stage done follows", "done_stage", FT_BOOLEAN, BASE_NONE, NULL, 0),
      FIELD(hf_label, "Label", "label", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_error, "Error", "error", FT_UINT16, BASE_HEX, VALS(error_texts), 0),
      FIELD(hf_text, "What happened", "text", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_advice, "What to try", "advice", FT_STRING, BASE_NONE, NULL, 0),
      FIELD(hf_qp_version, "Version of the attributes", "qp.version", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_qp_transport, "Transport", "qp.transport", FT_UINT8, BASE_DEC, VALS(transport_texts), 0),
      FIELD(hf_qp_reserved, "Reserved", "qp.reserved", FT_UINT16, BASE_HEX, NULL, 0),
      FIELD(hf_qpn, "Queue pair number", "qp.qpn", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_psn, "First PSN", "qp.psn", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_lid, "LID", "qp.lid", FT_UINT16, BASE_DEC, NULL, 0),
      FIELD(hf_gid, "GID", "qp.gid", FT_IPv6, BASE_NONE, NULL, 0),
      FIELD(hf_mtu, "Path MTU", "qp.mtu", FT_UINT32, BASE_DEC, NULL, 0),
      FIELD(hf_ird, "IRD", "qp.ird", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_ord, "ORD", "qp.ord", FT_UINT8, BASE_DEC, NULL, 0),
      FIELD(hf_qkey, "Q_Key", "qp.qkey", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_srqn, "Shared receive queue", "qp.srqn", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_ini_qpn, "Queue pair number of the sending end", "qp.ini_qpn", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_memory, "Memory", "qp.memory", FT_NONE, BASE_NONE, NULL, 0),
      FIELD(hf_rkey, "R_Key", "qp.memory.rkey", FT_UINT32, BASE_HEX, NULL, 0),
      FIELD(hf_vaddr, "Virtual address", "qp.memory.vaddr", FT_UINT64, BASE_HEX, NULL, 0),
      FIELD(hf_memory_length, "Length", "qp.memory.length", FT_UINT64, BASE_DEC, NULL, 0),
      FIELD(hf_tests, "It can send and receive a test message", "qp.tests", FT_BOOLEAN, BASE_NONE, NULL, 0),
      FIELD(hf_ready, "Ready", "ready", FT_UINT8, BASE_DEC, VALS(ready_texts), 0),
  };
#undef FIELD
  static gint* ett[] = {&ett_neg, &ett_flags, &ett_item, &ett_item_type, &ett_memory};
  proto_register_field_array(proto_parley_neg, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
}

void parley_neg_show_register(void) {
  static ei_register_info infos[] = {
#define PARLEY_X(name, filter, severity) \
  {&ei[PARLEY_NEG_REMARK_##name], {"parley_neg.expert." filter, PI_PROTOCOL, severity, "a remark: " filter, EXPFILL}},
      PARLEY_NEG_REMARKS(PARLEY_X)
#undef PARLEY_X
  };
  for (guint i = 0; i < PARLEY_NEG_REMARK_COUNT; i++) {
    static const expert_field none = EI_INIT;
    ei[i] = none;
  }
  register_fields();
  expert_register_field_array(expert_register_protocol(proto_parley_neg), infos, array_length(infos));
}
