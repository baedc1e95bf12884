/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Shows the search criteria of a request to subnet administration: the members that its component mask names (IBA
 * §15.2.1.1). */
#include "parley_mad.h"

static int hf_component = -1;

/* How many mask bits a member has that is not a structure, counted as in wire/mad/layout.cpp (IBA C15-0.1.27). */
static guint own_components(const parley_mad_field* field) {
  switch (field->kind) {
    case PARLEY_MAD_KIND_service_data: return field->count;
    case PARLEY_MAD_KIND_path_service_id: return 2;
    case PARLEY_MAD_KIND_link_speed_ext2: return 0;
    default: return 1;
  }
}

typedef struct naming {
  proto_tree* tree;
  packet_info* pinfo;
  tvbuff_t* tvb;
  guint64 mask;
  guint next; /* the bit of the next component */
} naming;

/* The next `count` bits. */
static guint64 next_bits(const naming* to, guint count) {
  return to->next >= 64 ? 0 : to->mask >> to->next & ((G_GUINT64_CONSTANT(1) << count) - 1);
}

static void add_name(const naming* to, const char* name) {
  const parley_mad_field* const mask = parley_mad_find(PARLEY_MAD_ID_SaHeader, "component_mask");
  proto_item_set_generated(
      proto_tree_add_string(to->tree, hf_component, to->tvb, mask->bit / 8, mask->width / 8, name));
}

static void show_member(naming* to, const parley_mad_field* field, const char* name) {
  const guint count = own_components(field);
  const guint64 bits = next_bits(to, count);
  to->next += count;
  if (bits == 0 || field->kind == PARLEY_MAD_KIND_reserved) return;
  if (field->kind != PARLEY_MAD_KIND_service_data || field->count == 1) {
    add_name(to, name);
    return;
  }
  for (guint i = 0; i < count; i++)
    if ((bits >> i & 1) != 0) add_name(to, wmem_strdup_printf(to->pinfo->pool, "%s[%u]", name, i));
}

void parley_mad_show_components(proto_tree* tree, packet_info* pinfo, tvbuff_t* tvb, parley_mad_id record) {
  naming to = {tree, pinfo, tvb, parley_mad_member(tvb, 0, PARLEY_MAD_ID_SaHeader, "component_mask"), 0};
  const parley_mad_structure* const s = &parley_mad_structures[record];
  for (guint i = s->first; i < (guint)s->first + s->count; i++) {
    const parley_mad_field* const field = &parley_mad_fields[i];
    if (field->kind != PARLEY_MAD_KIND_structure || field->count > 1) {
      show_member(&to, field, field->name);
      continue;
    }
    const parley_mad_structure* const inner = &parley_mad_structures[field->nested];
    for (guint k = inner->first; k < (guint)inner->first + inner->count; k++) {
      const parley_mad_field* const part = &parley_mad_fields[k];
      show_member(&to, part, wmem_strdup_printf(pinfo->pool, "%s.%s", field->name, part->name));
    }
  }
}

void parley_mad_components_register(void) {
  static hf_register_info hf[] = {
      {&hf_component,
       {"Asked by", "parley.mad.component", FT_STRING, BASE_NONE, NULL, 0, "A member that the component mask names",
        HFILL}},
  };
  proto_register_field_array(proto_parley_mad, hf, array_length(hf));
}
