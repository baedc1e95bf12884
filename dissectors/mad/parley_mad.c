/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Selects the structures of a datagram by class, method and attribute, as wire/mad/decode.cpp does. */
#include <epan/expert.h>

#include "parley_mad.h"
#include "parley_text.h"

static int hf_title = -1, hf_status = -1, hf_data = -1;
static gint ett_mad = -1;
static expert_field remark_short = EI_INIT, remark_cut = EI_INIT;

/* Structures that a datagram may show, by PARLEY_MAD_ID_*. */
static gboolean shown[PARLEY_MAD_ID_COUNT];

enum { PARLEY_MAD_NONE = PARLEY_MAD_ID_COUNT };

enum {
#define PARLEY_X(name, value, text) CLASS_##name = value,
  PARLEY_MAD_CLASS_NAMES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) METHOD_##name = value,
      PARLEY_MAD_METHODS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) RMPP_##name = value,
          PARLEY_MAD_RMPP_TYPES(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(name, value, text) RMPP_FLAG_##name = value,
              PARLEY_MAD_RMPP_FLAGS(PARLEY_X)
#undef PARLEY_X
};

typedef struct class_facts {
  guint8 first, last, version, data; /* version 0: any; data: offset of the attribute */
  parley_mad_id format;
  const char* prefix; /* "SubnAdm" of SubnAdmGet */
} class_facts;

static const class_facts classes[] = {
#define PARLEY_X(name, first, last, version, format, data, rmpp, prefix) \
  {first, last, version, data, PARLEY_MAD_ID_##format, prefix},
    PARLEY_MAD_CLASSES(PARLEY_X)
#undef PARLEY_X
};

static const struct {
  guint8 structure, mgmt_class;
} attributes[] = {
#define PARLEY_X(structure, mgmt_class, methods) {PARLEY_MAD_ID_##structure, CLASS_##mgmt_class},
    PARLEY_MAD_LEGAL(PARLEY_X)
#undef PARLEY_X
};

typedef struct datagram {
  tvbuff_t* tvb;
  gint have; /* captured octets */
  guint8 mgmt_class, method;
  guint16 status, attribute;
  const class_facts* facts; /* NULL: unknown class */
  parley_mad_id format;
  gint data;  /* offset of the body; 0: unknown */
  guint body; /* PARLEY_MAD_ID_* of the attribute, or PARLEY_MAD_NONE */
  gboolean table;
} datagram;

/* Classes of vendors and of applications have one row for each range. */
static const class_facts* facts_of(guint8 mgmt_class) {
  for (guint i = 0; i < G_N_ELEMENTS(classes); i++)
    if (classes[i].first <= mgmt_class && mgmt_class <= classes[i].last) return &classes[i];
  return NULL;
}

/* `first`: the body's first octet, which distinguishes a switch's congestion log from a channel adapter's (Annex
 * A10). */
static guint structure_of(guint8 mgmt_class, guint16 attribute, guint8 first) {
  enum { CHANNEL_ADAPTER = 2 };
  const class_facts* const facts = facts_of(mgmt_class);
  if (attribute == 0 || facts == NULL) return PARLEY_MAD_NONE;
  const guint8 wanted = facts->first == CLASS_subn_directed ? CLASS_subn
                        : facts->first == CLASS_vendor_oui  ? CLASS_vendor
                                                            : facts->first;
  if (wanted == CLASS_vendor && attribute > PARLEY_MAD_COMMON_ATTRIBUTE_LAST)
    return PARLEY_MAD_NONE; /* the vendor is unknown */
  for (guint i = 0; i < G_N_ELEMENTS(attributes); i++) {
    const guint8 id = attributes[i].structure;
    if (attributes[i].mgmt_class != wanted || parley_mad_structures[id].attribute != attribute) continue;
    return id == PARLEY_MAD_ID_SwitchCongestionLog && first == CHANNEL_ADAPTER ? PARLEY_MAD_ID_CaCongestionLog : id;
  }
  return PARLEY_MAD_NONE;
}

static gint octets_of(guint id) { return parley_mad_structures[id].octets; }

/* The common header must have been captured. */
static datagram read_header(tvbuff_t* tvb, gint have) {
  datagram d = {.tvb = tvb, .have = have, .format = PARLEY_MAD_ID_MadHeader, .body = PARLEY_MAD_NONE};
  d.mgmt_class = tvb_get_guint8(tvb, 1);
  d.method = tvb_get_guint8(tvb, 3);
  d.status = tvb_get_ntohs(tvb, 4);
  d.attribute = tvb_get_ntohs(tvb, 16);
  d.facts = facts_of(d.mgmt_class);
  /* Another version may have other structures. */
  if (d.facts != NULL && (d.facts->version == 0 || d.facts->version == tvb_get_guint8(tvb, 2)) &&
      tvb_get_guint8(tvb, 0) == PARLEY_IB_MAD_BASE_VERSION) {
    d.data = d.facts->data;
    d.format = d.facts->format;
  }
  d.table = d.mgmt_class == CLASS_subn_adm && (d.method == METHOD_get_table_resp || d.method == METHOD_get_trace_resp ||
                                               d.method == METHOD_get_multi_resp);
  if (d.data == 0 || have <= d.data) return d;
  d.body = structure_of(d.mgmt_class, d.attribute, tvb_get_guint8(tvb, d.data));
  if (d.body != PARLEY_MAD_NONE && (octets_of(d.body) == 0 || !shown[d.body])) d.body = PARLEY_MAD_NONE;
  return d;
}

/* ------------------------------------------------------------------ texts */

/* Writes numbers as `parley mad decode` does. */
static void add_hex(parley_text* line, const char* before, guint number, int digits) {
  char text[32];
  g_snprintf(text, sizeof text, "%s0x%0*X", before, digits, number);
  parley_text_add(line, text);
}

static void add_status(parley_text* line, guint16* left, guint16 mask, guint16 value, const char* text) {
  if (value == 0 || (*left & mask) != value) return;
  if (line->length != 0) parley_text_add(line, ", ");
  parley_text_add(line, text);
  *left = (guint16)(*left & ~mask);
}

/* IBA §13.4.7; the upper octet is class-specific. */
static void status_words(const datagram* d, parley_text* line) {
  guint16 left =
      d->mgmt_class == CLASS_subn_directed ? d->status & 0x7FFF : d->status; /* IBA §14.2.1.2: the other bit is D */
  add_status(line, &left, PARLEY_MAD_STATUS_BUSY, PARLEY_MAD_STATUS_BUSY, "busy");
  add_status(line, &left, PARLEY_MAD_STATUS_REDIRECT, PARLEY_MAD_STATUS_REDIRECT, "redirection required");
#define PARLEY_X(name, value, text) add_status(line, &left, PARLEY_MAD_STATUS_CODE, value, text);
  PARLEY_MAD_STATUSES(PARLEY_X)
#undef PARLEY_X
  if (d->mgmt_class == CLASS_subn_adm) {
#define PARLEY_X(name, value, text) add_status(line, &left, 0xFF00, (value) << 8, text);
    PARLEY_MAD_SA_STATUSES(PARLEY_X)
#undef PARLEY_X
  }
  if (left != 0) add_hex(line, line->length != 0 ? ", " : "", left, 4);
}

/* "SubnGetResp(PortInfo)", "class 0x51 Get(attribute 0x0002)". */
static void title_words(const datagram* d, gboolean body, parley_text* line) {
  const value_string* const methods = parley_mad_names(PARLEY_MAD_KIND_method);
  const char* const method = try_val_to_str(d->method, methods);
  const gboolean range = d->facts != NULL && d->facts->first != d->facts->last;
  if (d->facts != NULL) parley_text_add(line, d->facts->prefix);
  if (d->facts == NULL || range) {
    add_hex(line, range ? " " : "class ", d->mgmt_class, 2);
    parley_text_add(line, " ");
  } else if (method == NULL) {
    parley_text_add(line, " ");
  }
  if (method != NULL)
    parley_text_add(line, method);
  else
    add_hex(line, "method ", d->method, 2);
  const guint id = body ? d->body : structure_of(d->mgmt_class, d->attribute, 0);
  if (id == PARLEY_MAD_NONE) {
    add_hex(line, "(attribute ", d->attribute, 4);
  } else {
    parley_text_add(line, "(");
    parley_text_add(line, parley_mad_structures[id].name);
  }
  parley_text_add(line, ")");
}

/* ------------------------------------------------------------------ bodies */

/* Octets of records. In a last segment, RMPP gives their number including the 20 octets of the class's header (IBA
 * §13.6.2.1). Later segments begin in the middle of a record. */
static gint table_octets(const datagram* d) {
  const gint there = d->have - d->data;
  const guint64 header_part = (guint64)(octets_of(PARLEY_MAD_ID_SaHeader) - octets_of(PARLEY_MAD_ID_RmppHeader));
  const guint64 flags = parley_mad_member(d->tvb, 0, PARLEY_MAD_ID_RmppHeader, "rmpp_flags");
  if ((flags & RMPP_FLAG_active) == 0) return there;
  if (parley_mad_member(d->tvb, 0, PARLEY_MAD_ID_RmppHeader, "rmpp_type") != RMPP_data) return 0;
  if (parley_mad_member(d->tvb, 0, PARLEY_MAD_ID_RmppHeader, "data1") > 1) return 0;
  const guint64 payload = parley_mad_member(d->tvb, 0, PARLEY_MAD_ID_RmppHeader, "data2");
  if ((flags & RMPP_FLAG_last) == 0) return there;
  return payload < header_part ? 0 : (gint)MIN((guint64)there, payload - header_part);
}

static guint details_of(guint64 trap) {
#define PARLEY_X(first, last, structure) \
  if (trap >= (first) && trap <= (last)) return PARLEY_MAD_ID_##structure;
  PARLEY_MAD_TRAP_DETAILS(PARLEY_X)
#undef PARLEY_X
  return PARLEY_MAD_NONE;
}

/* IBA §14.2.5.1: shows the details of a trap of subnet management. */
static void show_details(const datagram* d, packet_info* pinfo, proto_tree* tree, gint at) {
  if (d->body != PARLEY_MAD_ID_Notice) return;
  if (d->mgmt_class != CLASS_subn && d->mgmt_class != CLASS_subn_directed && d->mgmt_class != CLASS_subn_adm) return;
  if (!parley_mad_member(d->tvb, at, PARLEY_MAD_ID_Notice, "is_generic")) return;
  const guint id = details_of(parley_mad_member(d->tvb, at, PARLEY_MAD_ID_Notice, "trap_number"));
  if (id == PARLEY_MAD_NONE) return;
  parley_mad_show_structure(tree, pinfo, d->tvb, (parley_mad_id)id,
                            at + parley_mad_find(PARLEY_MAD_ID_Notice, "data_details")->bit / 8, octets_of(id),
                            parley_mad_structures[id].name);
}

static void show_body(const datagram* d, packet_info* pinfo, proto_tree* tree, gint at, const char* text) {
  parley_mad_show_structure(tree, pinfo, d->tvb, (parley_mad_id)d->body, at, octets_of(d->body), text);
  show_details(d, pinfo, tree, at);
}

/* Distance between the records of a table, in octets (IBA §15.2.1.1); 0: there are none. */
static gint stride_of(const datagram* d) {
  const gint stride = (gint)parley_mad_member(d->tvb, 0, PARLEY_MAD_ID_SaHeader, "attribute_offset") * 8;
  return stride >= octets_of(d->body) && octets_of(d->body) <= table_octets(d) ? stride : 0;
}

/* Whether a whole body was captured. */
static gboolean has_body(const datagram* d) {
  if (d->body == PARLEY_MAD_NONE) return FALSE;
  return d->table ? stride_of(d) != 0 : d->have - d->data >= octets_of(d->body);
}

static void show_bodies(const datagram* d, packet_info* pinfo, proto_tree* tree) {
  const char* const name = parley_mad_structures[d->body].name;
  if (!d->table) {
    show_body(d, pinfo, tree, d->data, name);
    return;
  }
  const gint stride = stride_of(d), octets = table_octets(d);
  for (gint at = 0, i = 0; at + octets_of(d->body) <= octets; at += stride, i++)
    show_body(d, pinfo, tree, d->data + at, wmem_strdup_printf(pinfo->pool, "%s[%d]", name, i));
}

/* ------------------------------------------------------------------ a datagram */

/* Reports missing octets, which either the sender or the capture left out. */
static void tell_lengths(tvbuff_t* tvb, packet_info* pinfo, proto_item* item, gint have) {
  const gint sent = (gint)tvb_reported_length(tvb);
  if (sent < PARLEY_IB_MAD_LEN)
    expert_add_info_format(pinfo, item, &remark_short, "A MAD of %d octets; it has to have %d", sent,
                           PARLEY_IB_MAD_LEN);
  else if (have < sent)
    expert_add_info_format(pinfo, item, &remark_cut, "The capture has %d of the %d octets of this MAD", have, sent);
}

void parley_mad_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* top) {
  const gint have = (gint)tvb_captured_length(tvb);
  if (!proto_is_protocol_enabled(find_protocol_by_id(proto_parley_mad))) return;
  proto_item* const item = proto_tree_add_protocol_format(top, proto_parley_mad, tvb, 0, have, "Parley MAD");
  tell_lengths(tvb, pinfo, item, have);
  if (top == NULL) return;
  proto_tree* const tree = proto_item_add_subtree(item, ett_mad);
  if (have < PARLEY_IB_MAD_HEADER_LEN) {
    if (have > 0) proto_tree_add_item(tree, hf_data, tvb, 0, have, ENC_NA);
    return;
  }
  const datagram d = read_header(tvb, have);
  const gboolean body = has_body(&d);
  parley_text title = {0}, status = {0};
  title_words(&d, body, &title);
  status_words(&d, &status);
  proto_item_append_text(item, ": %s%s%s", title.text, status.length == 0 ? "" : ", ", status.text);
  proto_item_set_generated(proto_tree_add_string(tree, hf_title, tvb, 0, PARLEY_IB_MAD_HEADER_LEN, title.text));
  if (status.length != 0) proto_item_set_generated(proto_tree_add_string(tree, hf_status, tvb, 4, 2, status.text));
  const guint record = structure_of(d.mgmt_class, d.attribute, 0);
  if (d.format == PARLEY_MAD_ID_SaFormat && have >= octets_of(PARLEY_MAD_ID_SaHeader) && record != PARLEY_MAD_NONE)
    parley_mad_show_components(tree, pinfo, tvb, (parley_mad_id)record);
  parley_mad_show_headers(tree, pinfo, tvb, d.format, MIN(have, octets_of(d.format)));
  if (body) {
    show_bodies(&d, pinfo, tree);
    return;
  }
  const gint rest = d.data != 0 ? d.data : octets_of(d.format);
  if (rest < have) proto_tree_add_item(tree, hf_data, tvb, rest, have - rest, ENC_NA);
}

static void mark(guint id) {
  const parley_mad_structure* const s = &parley_mad_structures[id];
  if (shown[id]) return;
  shown[id] = TRUE;
  for (guint i = s->first; i < s->first + (guint)s->count; i++)
    if (parley_mad_fields[i].kind == PARLEY_MAD_KIND_structure) mark(parley_mad_fields[i].nested);
}

/* Marks the structures to register. Left out are packet headers and CM messages, which other files show, and vendor
 * attributes, which cannot be distinguished. */
static void mark_all(void) {
  mark(PARLEY_MAD_ID_MadHeader);
  for (guint i = 0; i < G_N_ELEMENTS(classes); i++) mark(classes[i].format);
  for (guint i = 0; i < G_N_ELEMENTS(attributes); i++)
    if (attributes[i].mgmt_class != CLASS_comm_mgt &&
        (attributes[i].mgmt_class != CLASS_vendor ||
         parley_mad_structures[attributes[i].structure].attribute <= PARLEY_MAD_COMMON_ATTRIBUTE_LAST))
      mark(attributes[i].structure);
  mark(PARLEY_MAD_ID_CaCongestionLog);
#define PARLEY_X(first, last, structure) mark(PARLEY_MAD_ID_##structure);
  PARLEY_MAD_TRAP_DETAILS(PARLEY_X)
#undef PARLEY_X
}

void parley_mad_register(void) {
  static hf_register_info hf[] = {
      {&hf_title, {"Request or answer", "parley.mad.title", FT_STRING, BASE_NONE, NULL, 0, NULL, HFILL}},
      {&hf_status, {"Status", "parley.mad.status", FT_STRING, BASE_NONE, NULL, 0, NULL, HFILL}},
      {&hf_data, {"Not decoded", "parley.mad.data", FT_BYTES, BASE_NONE, NULL, 0, NULL, HFILL}},
  };
  static ei_register_info infos[] = {
      {&remark_short, {"parley.mad.short", PI_MALFORMED, PI_ERROR, "MAD of less than 256 octets", EXPFILL}},
      {&remark_cut, {"parley.mad.cut", PI_UNDECODED, PI_NOTE, "MAD that was not captured whole", EXPFILL}},
  };
  static gint* ett[] = {&ett_mad};
  static const expert_field none = EI_INIT;
  remark_short = remark_cut = none;
  proto_parley_mad = proto_register_protocol("InfiniBand management datagrams (Parley)", "ParleyMAD", "parley.mad");
  proto_register_field_array(proto_parley_mad, hf, array_length(hf));
  proto_register_subtree_array(ett, array_length(ett));
  expert_register_field_array(expert_register_protocol(proto_parley_mad), infos, array_length(infos));
  mark_all();
  parley_mad_fields_register(shown);
  parley_mad_components_register();
}
