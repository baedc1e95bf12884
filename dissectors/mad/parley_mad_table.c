/* SPDX-License-Identifier: GPL-2.0-or-later */
#include <string.h>

#include "parley_mad.h"

enum {
#define PARLEY_X(name, octets, attribute, section, list) OCTETS_##name = octets,
  PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

#define PARLEY_F(name, octet, bit, width, count, kind) \
  {#name, (octet)*8 + (bit), width, count, PARLEY_MAD_KIND_##kind, 0},
#define PARLEY_S(name, octet, count, type) \
  {#name, (octet)*8, OCTETS_##type * 8, count, PARLEY_MAD_KIND_structure, PARLEY_MAD_ID_##type},
#define PARLEY_R(octet, bit, width) {"", (octet)*8 + (bit), width, 1, PARLEY_MAD_KIND_reserved, 0},
const parley_mad_field parley_mad_fields[PARLEY_MAD_FIELD_COUNT] = {
#define PARLEY_X(name, octets, attribute, section, list) list(PARLEY_F, PARLEY_S, PARLEY_R)
    PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

const parley_mad_structure parley_mad_structures[PARLEY_MAD_ID_COUNT] = {
#define PARLEY_X(name, octets, attribute, section, list) \
  {#name, octets, attribute, PARLEY_MAD_FIRST_##name, PARLEY_MAD_FIELDS_##name},
    PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

#define TEXT(name, value, text) {value, text},
#define PARLEY_X(kind, type, list) static const value_string kind##_names[] = {list(TEXT){0, NULL}};
PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) static const value_string kind##_names[] = {list(TEXT){0, NULL}};
PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X

const value_string* parley_mad_names(guint kind) {
  switch (kind) {
#define PARLEY_X(kind, type, list) \
  case PARLEY_MAD_KIND_##kind: return kind##_names;
    PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) \
  case PARLEY_MAD_KIND_##kind: return kind##_names;
    PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
    default: return NULL;
  }
}

gboolean parley_mad_is_mask(guint kind) {
  switch (kind) {
#define PARLEY_X(kind, list) case PARLEY_MAD_KIND_##kind:
    PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
    return TRUE;
    default: return FALSE;
  }
}

/* "5 s", but "5 x 4 octets" if one unit is several octets. */
const unit_name_string* parley_mad_unit(guint kind) {
#define PARLEY_X(kind, text, factor) \
  static const unit_name_string kind##_unit = {(factor) == 1 ? " " text : " x " #factor " " text, NULL};
  PARLEY_MAD_UNITS(PARLEY_X)
#undef PARLEY_X
  switch (kind) {
#define PARLEY_X(kind, text, factor) \
  case PARLEY_MAD_KIND_##kind: return &kind##_unit;
    PARLEY_MAD_UNITS(PARLEY_X)
#undef PARLEY_X
    default: return NULL;
  }
}

guint64 parley_mad_number(tvbuff_t* tvb, gint at, const parley_mad_field* field, guint index) {
  return tvb_get_bits64(tvb, (guint)at * 8 + field->bit + index * field->width, field->width, ENC_BIG_ENDIAN);
}

const parley_mad_field* parley_mad_find(parley_mad_id id, const char* name) {
  const parley_mad_structure* const s = &parley_mad_structures[id];
  for (guint i = 0; i < s->count; i++)
    if (strcmp(parley_mad_fields[s->first + i].name, name) == 0) return &parley_mad_fields[s->first + i];
  DISSECTOR_ASSERT_NOT_REACHED();
  return NULL;
}

guint64 parley_mad_member(tvbuff_t* tvb, gint at, parley_mad_id id, const char* name) {
  return parley_mad_number(tvb, at, parley_mad_find(id, name), 0);
}
