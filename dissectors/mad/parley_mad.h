/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Management datagrams, member by member. Structures, members and values are from parley/wire/mad.h, which the codecs
 * and `parley mad decode` also use. So both show the same for the same octets. */
#ifndef PARLEY_MAD_DISSECTOR_H
#define PARLEY_MAD_DISSECTOR_H

#include <stddef.h>

#include "parley/wire/ib.h"
#include "parley/wire/mad.h"
#include "parley_compat.h"

typedef enum {
#define PARLEY_X(name, octets, attribute, section, list) PARLEY_MAD_ID_##name,
  PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
      PARLEY_MAD_ID_COUNT
} parley_mad_id;
G_STATIC_ASSERT(PARLEY_MAD_ID_COUNT <= G_MAXUINT8); /* parley_mad_field.nested */

typedef enum {
  PARLEY_MAD_KIND_reserved,
  PARLEY_MAD_KIND_structure,
  PARLEY_MAD_KIND_number,
  PARLEY_MAD_KIND_hex,
  PARLEY_MAD_KIND_flag,
  PARLEY_MAD_KIND_lid,
  PARLEY_MAD_KIND_guid,
  PARLEY_MAD_KIND_gid,
  PARLEY_MAD_KIND_text,
  PARLEY_MAD_KIND_octets,
  PARLEY_MAD_KIND_exponent,
  PARLEY_MAD_KIND_service_data,
  PARLEY_MAD_KIND_path_service_id,
#define PARLEY_X(kind, text, factor) PARLEY_MAD_KIND_##kind,
  PARLEY_MAD_UNITS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, type, list) PARLEY_MAD_KIND_##kind,
      PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) PARLEY_MAD_KIND_##kind,
          PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
} parley_mad_kind;

typedef struct parley_mad_field {
  const char* name;          /* "" for reserved bits */
  guint16 bit, width, count; /* bit 0 is the most significant of the structure's first octet */
  guint8 kind;               /* PARLEY_MAD_KIND_* */
  guint8 nested;             /* PARLEY_MAD_ID_*, if it is a structure */
} parley_mad_field;

typedef struct parley_mad_structure {
  const char* name;
  guint16 octets, attribute; /* attribute 0: it is not an attribute */
  guint16 first, count;      /* of its fields among parley_mad_fields */
} parley_mad_structure;

/* ------------------------------------------------------------------ parley_mad_table.c: the table as data */

enum {
#define PARLEY_ONE_F(name, octet, bit, width, count, kind) +1
#define PARLEY_ONE_S(name, octet, count, structure) +1
#define PARLEY_ONE_R(octet, bit, width) +1
#define PARLEY_X(name, octets, attribute, section, list) list(PARLEY_ONE_F, PARLEY_ONE_S, PARLEY_ONE_R)
  PARLEY_MAD_FIELD_COUNT = 0 PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

/* The fields of structure x are PARLEY_MAD_FIRST_x up to, but not including, PARLEY_MAD_FIRST_x + PARLEY_MAD_FIELDS_x,
 * where the next structure begins. */
enum {
#define PARLEY_X(name, octets, attribute, section, list) \
  PARLEY_MAD_FIELDS_##name = 0 list(PARLEY_ONE_F, PARLEY_ONE_S, PARLEY_ONE_R),
  PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};
enum {
#define PARLEY_X(name, octets, attribute, section, list) \
  PARLEY_MAD_FIRST_##name, PARLEY_MAD_LAST_##name = PARLEY_MAD_FIRST_##name + PARLEY_MAD_FIELDS_##name - 1,
  PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
};

/* One octet for each member, so that a member's offset is its number. */
#define PARLEY_NAMED_F(name, octet, bit, width, count, kind) gchar name;
#define PARLEY_NAMED_S(name, octet, count, structure) gchar name;
#define PARLEY_NAMED_R(octet, bit, width) gchar reserved_##octet##_##bit;
#define PARLEY_X(name, octets, attribute, section, list) \
  struct parley_mad_##name {                             \
    list(PARLEY_NAMED_F, PARLEY_NAMED_S, PARLEY_NAMED_R) \
  };
PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
/* A member by its name, at compile time: PARLEY_MAD_FIELD(CmReq, local_qpn). */
#define PARLEY_MAD_FIELD(structure, member) \
  (&parley_mad_fields[PARLEY_MAD_FIRST_##structure + offsetof(struct parley_mad_##structure, member)])

extern const parley_mad_field parley_mad_fields[PARLEY_MAD_FIELD_COUNT];
extern const parley_mad_structure parley_mad_structures[PARLEY_MAD_ID_COUNT];

/* The names of a kind's values or bits; NULL: it has none. */
const value_string* parley_mad_names(guint kind);
gboolean parley_mad_is_mask(guint kind);
/* The unit to show behind a number, for example " octets"; NULL: none. */
const struct unit_name_string* parley_mad_unit(guint kind);
/* A member of at most 64 bits of the structure at `at`, which must have been captured. */
guint64 parley_mad_number(tvbuff_t* tvb, gint at, const parley_mad_field* field, guint index);
/* A member by its name, which must exist. */
const parley_mad_field* parley_mad_find(parley_mad_id id, const char* name);
/* The same as parley_mad_number by name. */
guint64 parley_mad_member(tvbuff_t* tvb, gint at, parley_mad_id id, const char* name);

/* ------------------------------------------------------------------ parley_mad_fields.c */

extern int proto_parley_mad;
/* `shown`: whether a structure gets fields, by PARLEY_MAD_ID_*. */
void parley_mad_fields_register(const gboolean* shown);
/* Sets a field's type, display and strings. */
void parley_mad_set_type(header_field_info* info, const parley_mad_field* field);
/* The type of a number of `width` bits. */
enum ftenum parley_mad_type_of(guint width);
/* Shows a structure, of which `have` octets were captured, in a subtree with that text. */
void parley_mad_show_structure(proto_tree* top, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id id, gint at, gint have,
                               const char* text);
/* Shows the headers of a class's format at the beginning of the datagram, without its data. */
void parley_mad_show_headers(proto_tree* top, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id format, gint have);

/* ------------------------------------------------------------------ parley_mad_components.c */

void parley_mad_components_register(void);
/* `tvb`: a datagram of subnet administration with its whole header and the attribute `record`. */
void parley_mad_show_components(proto_tree* tree, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id record);

/* ------------------------------------------------------------------ parley_mad.c */

void parley_mad_register(void);
/* `tvb` is the captured part of the datagram; its reported length is the length on the wire. */
void parley_mad_show(tvbuff_t* tvb, packet_info* pinfo, proto_tree* top);

#endif
