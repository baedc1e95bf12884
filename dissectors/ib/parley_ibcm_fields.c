/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The fields of the CM's messages, from parley/wire/ibcm_fields.h and mad_cm.h. */
#include <string.h>

#include "parley/wire/ibcm_fields.h"
#include "parley_ib.h"
#include "parley_mad.h"
#include "parley_text.h"

typedef enum { ROW_FIELD, ROW_PART, ROW_PATH, ROW_PATH_OF_LAP, ROW_OCTETS } row_kind;

typedef struct row {
  guint16 attribute;
  row_kind kind;
  const parley_mad_field* field; /* NULL: a LAP's path */
  const char *filter, *label;    /* NULL: shown elsewhere */
  guint8 shift;                  /* of a part in its number */
} row;

enum {
#define PARLEY_X(name, attribute, structure, fields, text) structure##_ATTRIBUTE = attribute,
  PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
};
static const row rows[] = {
#define PARLEY_F(S, member, name, filter, label, role) \
  {S##_ATTRIBUTE, ROW_FIELD, PARLEY_MAD_FIELD(S, member), #filter, label, 0},
#define PARLEY_E(S, member, name, label, shift) \
  {S##_ATTRIBUTE, ROW_PART, PARLEY_MAD_FIELD(S, member), #name, label, shift},
#define PARLEY_P(S, member, name, label) {S##_ATTRIBUTE, ROW_PATH, PARLEY_MAD_FIELD(S, member), #name, label, 0},
#define PARLEY_L(S, name, label) {S##_ATTRIBUTE, ROW_PATH_OF_LAP, NULL, #name, label, 0},
#define PARLEY_D(S, member) {S##_ATTRIBUTE, ROW_OCTETS, PARLEY_MAD_FIELD(S, member), NULL, NULL, 0},
#define PARLEY_X(name, attribute, structure, fields, text) \
  fields(structure, PARLEY_F, PARLEY_E, PARLEY_P, PARLEY_L, PARLEY_D)
    PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_F
#undef PARLEY_E
#undef PARLEY_P
#undef PARLEY_L
#undef PARLEY_D
};

/* The fields of a path: their places in a CmPath and in a LAP. */
enum { PRIMARY, ALTERNATE, PATHS };
static const struct {
  const parley_mad_field *field, *of_lap;
  const char *filter[PATHS], *label;
} path_rows[] = {
#define PARLEY_X(member, name, label, role)                        \
  {PARLEY_MAD_FIELD(CmPath, member),                               \
   PARLEY_MAD_FIELD(CmLap, alternate_##member),                    \
   {"parley.ibcm.primary." #name, "parley.ibcm.alternate." #name}, \
   label},
    PARLEY_IBCM_PATH(PARLEY_X)
#undef PARLEY_X
};

static const char* const path_names[PATHS] = {"primary", "alternate"};

/* If several rows show the same field, the first row registers it. */
static int hf_rows[G_N_ELEMENTS(rows)], *hf_of[G_N_ELEMENTS(rows)], hf_paths[PATHS],
    hf_path_fields[PATHS][G_N_ELEMENTS(path_rows)];
static gint ett_path = -1;

/* ------------------------------------------------------------------ places */

static guint octet_of(const parley_mad_field* field) { return field->bit / 8; }
static guint octets_of(const parley_mad_field* field) {
  return (field->bit % 8 + (guint)field->width * field->count + 7) / 8;
}

guint64 parley_ibcm_number(const parley_ib_packet* p, const parley_mad_field* field) {
  return parley_mad_number(p->tvb, p->payload + PARLEY_IB_MAD_HEADER_LEN, field, 0);
}

gint parley_ibcm_at(const parley_ib_packet* p, const parley_mad_field* field) {
  return p->payload + PARLEY_IB_MAD_HEADER_LEN + (gint)octet_of(field);
}

/* Whether these octets of the body were captured. */
static gboolean has(const parley_ib_packet* p, guint at, guint octets) {
  return at + octets <= PARLEY_IBCM_LEN && parley_ib_carries(p, PARLEY_IB_MAD_HEADER_LEN + (gint)at, (gint)octets);
}

/* ------------------------------------------------------------------ show */

static void show_path(const parley_ib_packet* p, proto_tree* top, const row* r) {
  const gboolean lap = r->kind == ROW_PATH_OF_LAP;
  const guint which = strcmp(r->filter, path_names[PRIMARY]) == 0 ? PRIMARY : ALTERNATE;
  const guint length = octets_of(PARLEY_MAD_FIELD(CmReq, primary_path));
  const guint in_body = octet_of(lap ? path_rows[0].of_lap : r->field);
  const gint body = p->payload + PARLEY_IB_MAD_HEADER_LEN, at = body + (gint)in_body;
  if (!has(p, in_body, length)) return;
  const guint8* const octets = tvb_get_ptr(p->tvb, at, (gint)length);
  guint8 any = 0;
  for (guint i = 0; i < length; i++) any |= octets[i];
  if (which == ALTERNATE && !any) return; /* there is no alternate path */
  proto_tree* const tree =
      proto_item_add_subtree(proto_tree_add_item(top, hf_paths[which], p->tvb, at, (gint)length, ENC_NA), ett_path);
  for (guint i = 0; i < G_N_ELEMENTS(path_rows); i++) {
    const parley_mad_field* const field = lap ? path_rows[i].of_lap : path_rows[i].field;
    const guint size = octets_of(field);
    proto_tree_add_item(tree, hf_path_fields[which][i], p->tvb, (lap ? body : at) + (gint)octet_of(field), (gint)size,
                        size > 4 ? ENC_NA : ENC_BIG_ENDIAN);
  }
}

/* Shows a number that is split over several places. */
static void show_parts(const parley_ib_packet* p, proto_tree* tree, guint16 attribute) {
  guint begin = 0, end = 0, value = 0;
  int* hf = NULL;
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    if (rows[i].attribute != attribute || rows[i].kind != ROW_PART) continue;
    if (hf == NULL) begin = octet_of(rows[i].field);
    hf = hf_of[i];
    end = octet_of(rows[i].field) + octets_of(rows[i].field);
    if (!has(p, 0, end)) return;
    value |= (guint)parley_ibcm_number(p, rows[i].field) << rows[i].shift;
  }
  if (hf == NULL) return;
  proto_tree_add_uint(tree, *hf, p->tvb, p->payload + PARLEY_IB_MAD_HEADER_LEN + (gint)begin, (gint)(end - begin),
                      value);
}

void parley_ibcm_show_fields(const parley_ib_packet* p, proto_tree* tree, guint16 attribute) {
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) {
    const row* const r = &rows[i];
    if (r->attribute != attribute || r->kind != ROW_FIELD) continue;
    if (has(p, octet_of(r->field), octets_of(r->field)))
      proto_tree_add_item(tree, *hf_of[i], p->tvb, parley_ibcm_at(p, r->field), (gint)octets_of(r->field),
                          ENC_BIG_ENDIAN);
  }
  show_parts(p, tree, attribute);
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++)
    if (rows[i].attribute == attribute && (rows[i].kind == ROW_PATH || rows[i].kind == ROW_PATH_OF_LAP))
      show_path(p, tree, &rows[i]);
}

/* ------------------------------------------------------------------ registration */

static hf_register_info hf[G_N_ELEMENTS(rows) + PATHS * (1 + G_N_ELEMENTS(path_rows))];
static guint hf_count;

static header_field_info* add(int* id, const char* filter, const char* label) {
  static const hf_register_info none = {NULL, {NULL, NULL, FT_NONE, BASE_NONE, NULL, 0, NULL, HFILL}};
  hf_register_info* const one = &hf[hf_count++];
  *id = -1;
  *one = none;
  one->p_id = id;
  one->hfinfo.name = label;
  one->hfinfo.abbrev = filter;
  return &one->hfinfo;
}

/* Sets the type as for a MAD's field, but with bits shown within their octets, and MTUs with their unit. */
static void set_type(header_field_info* info, const parley_mad_field* field) {
#define OCTETS(name, value, text) {value, text " octets"},
  static const value_string mtus[] = {PARLEY_IB_MTUS(OCTETS){0, NULL}};
  const guint octets = octets_of(field), bits = field->width;
  parley_mad_set_type(info, field);
  if (field->kind == PARLEY_MAD_KIND_mtu) info->strings = VALS(mtus);
  if (bits % 8 == 0) return;
  info->bitmask = ((G_GUINT64_CONSTANT(1) << bits) - 1) << (8 * octets - field->bit % 8 - bits);
  if (field->kind == PARLEY_MAD_KIND_flag) {
    info->display = 8;
    info->strings = NULL;
  } else {
    info->type = parley_mad_type_of(8 * octets);
  }
}

static gboolean is_same(const header_field_info* a, const header_field_info* b) {
  return strcmp(a->abbrev, b->abbrev) == 0 && a->type == b->type && a->display == b->display &&
         a->bitmask == b->bitmask && a->strings == b->strings;
}

static void add_row(guint i) {
  const row* const r = &rows[i];
  hf_of[i] = &hf_rows[i];
  if (r->kind != ROW_FIELD && r->kind != ROW_PART) return;
  header_field_info* const info =
      add(&hf_rows[i], wmem_strdup_printf(wmem_epan_scope(), "parley.ibcm.%s", r->filter), r->label);
  if (r->kind == ROW_PART)
    parley_mad_set_type(info, PARLEY_MAD_FIELD(CmReq, ece_vendor)); /* for the whole number */
  else
    set_type(info, r->field);
  for (guint j = 0; j + 1 < hf_count; j++)
    if (is_same(&hf[j].hfinfo, info)) {
      hf_of[i] = hf[j].p_id;
      hf_count--;
      return;
    }
}

void parley_ibcm_fields_register(void) {
  static gint* ett[] = {&ett_path};
  hf_count = 0;
  for (guint i = 0; i < G_N_ELEMENTS(rows); i++) add_row(i);
  for (guint which = 0; which < PATHS; which++) {
    add(&hf_paths[which], which == PRIMARY ? "parley.ibcm.primary" : "parley.ibcm.alternate",
        which == PRIMARY ? "Primary path" : "Alternate path");
    for (guint i = 0; i < G_N_ELEMENTS(path_rows); i++)
      set_type(add(&hf_path_fields[which][i], path_rows[i].filter[which], path_rows[i].label), path_rows[i].field);
  }
  proto_register_field_array(proto_parley_ibcm, hf, (int)hf_count);
  proto_register_subtree_array(ett, array_length(ett));
}
