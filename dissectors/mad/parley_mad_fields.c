/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A Wireshark field for each structure and for each member that a datagram may show:
 * parley.mad.<structure>.<member>. */
#include <epan/proto.h>
#include <epan/to_str.h>
#include <string.h>

#include "parley_mad.h"
#include "parley_text.h"

int proto_parley_mad = -1;
static int hf_members[PARLEY_MAD_FIELD_COUNT], hf_bits[PARLEY_MAD_FIELD_COUNT], hf_structures[PARLEY_MAD_ID_COUNT],
    hf_reserved = -1;
static gint ett_structure = -1;

static gboolean is_string(const parley_mad_field* field) {
  return field->kind == PARLEY_MAD_KIND_text || field->kind == PARLEY_MAD_KIND_octets;
}

/* True: a structure's beginning was not captured; or the end of any other member was not. */
static gboolean is_cut(const parley_mad_field* field, gint have) {
  if (field->kind == PARLEY_MAD_KIND_structure && field->count == 1) return field->bit / 8 >= have;
  return (field->bit + field->width * field->count + 7) / 8 > have;
}

/* ------------------------------------------------------------------ show */

/* Shows reserved bits that are not zero, in octets from the first bit on; the last octet has only its own bits. */
static void show_reserved(proto_tree* tree, packet_info* pinfo, tvbuff_t* tvb, gint at, const parley_mad_field* field) {
  const guint count = (field->width + 7U) / 8;
  guint8* const octets = (guint8*)wmem_alloc(pinfo->pool, count);
  guint8 any = 0;
  for (guint i = 0; i < count; i++) {
    const gint width = (gint)MIN(8U, field->width - i * 8);
    octets[i] = tvb_get_bits8(tvb, (guint)at * 8 + field->bit + i * 8, width);
    any |= octets[i];
  }
  if (!any) return;
  const gint first = at + field->bit / 8, end = at + (field->bit + field->width + 7) / 8;
  proto_tree_add_bytes_format(tree, hf_reserved, tvb, first, end - first, octets, "reserved_%u: %s", field->bit,
                              bytes_to_str(pinfo->pool, octets, count));
}

/* Shows the names of the set bits: each on its own line, and behind the number, with the unnamed bits, as far as there
 * is room. */
static void show_bits(proto_item* item, tvbuff_t* tvb, gint at, const parley_mad_field* field, guint64 value) {
  proto_tree* const tree = proto_item_add_subtree(item, ett_structure);
  parley_text line = {0};
  guint64 left = value;
  for (const value_string* name = parley_mad_names(field->kind); name->strptr != NULL; name++) {
    if ((left & name->value) == 0) continue;
    proto_item_set_generated(proto_tree_add_string(tree, hf_bits[field - parley_mad_fields], tvb, at + field->bit / 8,
                                                   (field->width + 7) / 8, name->strptr));
    parley_text_add(&line, line.length == 0 ? " (" : ", ");
    parley_text_add(&line, name->strptr);
    left &= ~(guint64)name->value;
  }
  if (line.length == 0) return;
  if (left != 0) parley_text_hex(&line, ", ", left, (field->width + 3) / 4);
  parley_text_add(&line, ")");
  proto_item_append_text(item, "%s", line.text);
}

static void show_number(proto_tree* tree, tvbuff_t* tvb, gint at, const parley_mad_field* field, guint index) {
  const int hf = hf_members[field - parley_mad_fields];
  const guint bit = field->bit + index * field->width;
  proto_item* item;
  if (field->kind == PARLEY_MAD_KIND_gid)
    item = proto_tree_add_item(tree, hf, tvb, at + (gint)bit / 8, field->width / 8, ENC_NA);
  else if (bit % 8 == 0 && field->width % 8 == 0)
    item = proto_tree_add_item(tree, hf, tvb, at + (gint)bit / 8, field->width / 8, ENC_BIG_ENDIAN);
  else
    item = proto_tree_add_bits_item(tree, hf, tvb, (guint)at * 8 + bit, field->width, ENC_BIG_ENDIAN);
  if (parley_mad_is_mask(field->kind)) show_bits(item, tvb, at, field, parley_mad_number(tvb, at, field, index));
  if (field->count > 1) proto_item_prepend_text(item, "[%u] ", index);
}

static void show_nested(proto_tree* tree, packet_info* pinfo, tvbuff_t* tvb, gint at, gint have,
                        const parley_mad_field* field, guint index) {
  const gint begin = (field->bit + (gint)index * field->width) / 8;
  const char* const type = parley_mad_structures[field->nested].name;
  const char* const text = field->count == 1 ? wmem_strdup_printf(pinfo->pool, "%s: %s", field->name, type)
                                             : wmem_strdup_printf(pinfo->pool, "%s[%u]: %s", field->name, index, type);
  parley_mad_show_structure(tree, pinfo, tvb, (parley_mad_id)field->nested, at + begin,
                            MIN(field->width / 8, have - begin), text);
}

/* `headers`: leave out the data of a class's format. */
static void show_members(proto_tree* tree, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id id, gint at, gint have,
                         gboolean headers) {
  const parley_mad_structure* const s = &parley_mad_structures[id];
  for (guint i = 0; i < s->count; i++) {
    const parley_mad_field* const field = &parley_mad_fields[s->first + i];
    if (headers && strcmp(field->name, "data") == 0) continue;
    if (is_cut(field, have)) return;
    if (field->kind == PARLEY_MAD_KIND_reserved) {
      show_reserved(tree, pinfo, tvb, at, field);
    } else if (is_string(field)) {
      proto_tree_add_item(tree, hf_members[s->first + i], tvb, at + field->bit / 8, field->count,
                          field->kind == PARLEY_MAD_KIND_text ? ENC_UTF_8 : ENC_NA);
    } else {
      for (guint index = 0; index < field->count; index++)
        if (field->kind == PARLEY_MAD_KIND_structure)
          show_nested(tree, pinfo, tvb, at, have, field, index);
        else
          show_number(tree, tvb, at, field, index);
    }
  }
}

void parley_mad_show_structure(proto_tree* top, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id id, gint at, gint have,
                               const char* text) {
  proto_item* const item = proto_tree_add_none_format(top, hf_structures[id], tvb, at, have, "%s", text);
  show_members(proto_item_add_subtree(item, ett_structure), pinfo, tvb, id, at, have, FALSE);
}

void parley_mad_show_headers(proto_tree* top, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id format, gint have) {
  const char* const name = parley_mad_structures[format].name;
  proto_item* const item = proto_tree_add_none_format(top, hf_structures[format], tvb, 0, have, "%s", name);
  show_members(proto_item_add_subtree(item, ett_structure), pinfo, tvb, format, 0, have, TRUE);
}

/* ------------------------------------------------------------------ registration */

enum ftenum parley_mad_type_of(guint width) {
  static const enum ftenum types[] = {FT_UINT8,  FT_UINT16, FT_UINT24, FT_UINT32,
                                      FT_UINT40, FT_UINT48, FT_UINT56, FT_UINT64};
  return types[(width - 1) / 8];
}

void parley_mad_set_type(header_field_info* info, const parley_mad_field* field) {
  static const true_false_string yes_no = {"yes", "no"};
  info->type = parley_mad_type_of(field->kind == PARLEY_MAD_KIND_gid ? 64 : field->width);
  info->display = BASE_DEC;
  switch (field->kind) {
    case PARLEY_MAD_KIND_flag:
      info->type = FT_BOOLEAN;
      info->display = BASE_NONE;
      info->strings = TFS(&yes_no);
      return;
    case PARLEY_MAD_KIND_gid: info->type = FT_IPv6; break;
    case PARLEY_MAD_KIND_text: info->type = FT_STRINGZTRUNC; break;
    case PARLEY_MAD_KIND_octets: info->type = FT_BYTES; break;
    case PARLEY_MAD_KIND_hex:
    case PARLEY_MAD_KIND_guid:
    case PARLEY_MAD_KIND_service_data:
    case PARLEY_MAD_KIND_path_service_id: info->display = BASE_HEX; return;
    case PARLEY_MAD_KIND_exponent:
      info->display = BASE_CUSTOM;
      info->strings = CF_FUNC(parley_timeout_label);
      return;
    default:
      if (parley_mad_is_mask(field->kind)) {
        info->display = BASE_HEX;
      } else if (parley_mad_unit(field->kind) != NULL) {
        info->display = BASE_DEC | BASE_UNIT_STRING;
        info->strings = parley_mad_unit(field->kind);
      } else if (parley_mad_names(field->kind) != NULL) {
        info->strings = VALS(parley_mad_names(field->kind));
      }
      return;
  }
  info->display = BASE_NONE;
}

static hf_register_info hf[2 * PARLEY_MAD_FIELD_COUNT + PARLEY_MAD_ID_COUNT + 1];
static int hf_count;

static header_field_info* add_field(int* id, const char* name, enum ftenum type, const char* filter) {
  static const hf_register_info none = {NULL, {NULL, NULL, FT_NONE, BASE_NONE, NULL, 0, NULL, HFILL}};
  hf_register_info* const one = &hf[hf_count++];
  *id = -1;
  *one = none;
  one->p_id = id;
  one->hfinfo.name = name;
  one->hfinfo.abbrev = filter;
  one->hfinfo.type = type;
  return &one->hfinfo;
}

static void add_structure(guint id) {
  const parley_mad_structure* const s = &parley_mad_structures[id];
  wmem_allocator_t* const scope = wmem_epan_scope();
  add_field(&hf_structures[id], s->name, FT_NONE, wmem_strdup_printf(scope, "parley.mad.%s", s->name));
  for (guint i = s->first; i < s->first + (guint)s->count; i++) {
    const parley_mad_field* const field = &parley_mad_fields[i];
    if (field->kind == PARLEY_MAD_KIND_reserved || field->kind == PARLEY_MAD_KIND_structure) continue;
    const char* const filter = wmem_strdup_printf(scope, "parley.mad.%s.%s", s->name, field->name);
    parley_mad_set_type(add_field(&hf_members[i], field->name, FT_NONE, filter), field);
    if (parley_mad_is_mask(field->kind))
      add_field(&hf_bits[i], "bit", FT_STRING, wmem_strdup_printf(scope, "%s.bit", filter));
  }
}

void parley_mad_fields_register(const gboolean* shown) {
  static gint* ett[] = {&ett_structure};
  hf_count = 0;
  for (guint id = 0; id < PARLEY_MAD_ID_COUNT; id++)
    if (shown[id]) add_structure(id);
  add_field(&hf_reserved, "Reserved bits that are not zero", FT_BYTES, "parley.mad.reserved");
  proto_register_field_array(proto_parley_mad, hf, hf_count);
  proto_register_subtree_array(ett, array_length(ett));
}
