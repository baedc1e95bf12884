// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mad/layout.hpp"

#include <algorithm>

#include "wire/mad/cc.hpp"
#include "wire/mad/cm.hpp"
#include "wire/mad/gs.hpp"
#include "wire/mad/pm.hpp"
#include "wire/mad/sa.hpp"
#include "wire/mad/ssa.hpp"
#include "wire/mad/transport.hpp"

namespace parley::wire::mad {

namespace {

// The last row of each table is a placeholder, so that a structure without members has a table too.
#define PARLEY_F(name, octet, bit, width, count, kind) {#name, octet * 8 + bit, width, count, Kind::kind, nullptr},
#define PARLEY_S(name, octet, count, type) {#name, octet * 8, type::size * 8, count, Kind::structure, &type::layout},
#define PARLEY_R(octet, bit, width) {"", octet * 8 + bit, width, 1, Kind::reserved, nullptr},
#define PARLEY_X(name, octets, attribute, section, list)                                                        \
  constexpr Field name##_fields[] = {list(PARLEY_F, PARLEY_S, PARLEY_R){"", 0, 0, 0, Kind::reserved, nullptr}}; \
  static_assert(is_whole(std::span(name##_fields).first(std::size(name##_fields) - 1), octets), #name);
PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_F
#undef PARLEY_S
#undef PARLEY_R

}  // namespace

#define PARLEY_X(name_, octets, attribute, section, list)                  \
  constinit const Layout name_::layout{#name_, section, octets, attribute, \
                                       std::span(name_##_fields).first(std::size(name_##_fields) - 1)};
PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X

std::span<const Layout* const> all_layouts() {
  static constexpr const Layout* all[] = {
#define PARLEY_X(name, octets, attribute, section, list) &name::layout,
      PARLEY_MAD_STRUCTURES(PARLEY_X)
#undef PARLEY_X
  };
  return all;
}

const Layout* find_layout(std::string_view name) {
  for (const Layout* layout : all_layouts())
    if (layout->name == name) return layout;
  return nullptr;
}

const Field* find_field(const Layout& layout, std::string_view name) {
  for (const Field& field : layout.fields)
    if (!field.reserved() && name == field.name) return &field;
  return nullptr;
}

std::uint64_t number_at(ConstBytes octets, const Field& field, std::size_t index) {
  return read_bits(octets, field.bit + index * field.width, field.width);
}

void put_number(MutBytes octets, const Field& field, std::size_t index, std::uint64_t value) {
  write_bits(octets, field.bit + index * field.width, field.width, value);
}

ConstBytes octets_at(ConstBytes octets, const Field& field, std::size_t index) {
  return octets.subspan((field.bit + index * field.width) / 8U, field.width / 8U);
}

namespace {

/// Components of a member that is not a structure.
std::size_t own_components(const Field& field) {
  switch (field.kind) {
    case Kind::service_data: return field.count;
    case Kind::path_service_id: return 2;
    case Kind::link_speed_ext2: return 0;  // made of formerly reserved bits, which share one component
    default: return 1;
  }
}

std::size_t components_in(const Field& field) {
  if (field.nested == nullptr || field.count > 1) return own_components(field);
  std::size_t sum = 0;
  for (const Field& inner : field.nested->fields) sum += own_components(inner);
  return sum;
}

}  // namespace

// IBA §15.4.4, C15-0.1.27.
Components components_of(const Layout& record, std::size_t bit, const std::size_t* inner) {
  std::size_t first = 0;
  for (const Field& field : record.fields) {
    const std::size_t count = components_in(field);
    if (field.bit != bit) {
      first += count;
      continue;
    }
    if (inner == nullptr || field.nested == nullptr || field.count > 1)
      return {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(count)};
    for (const Field& part : field.nested->fields) {
      if (part.bit == *inner)
        return {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(own_components(part))};
      first += own_components(part);
    }
    return {};
  }
  return {};
}

namespace {

void add_names(const Components& bits, const Field& field, const std::string& name, std::uint64_t mask,
               std::vector<std::string>& out) {
  if (field.reserved() || (bits.mask() & mask) == 0) return;
  if (field.kind != Kind::service_data || field.count == 1) return out.push_back(name);
  for (unsigned i = 0; i < bits.count; ++i)
    if ((mask >> (bits.first + i) & 1) != 0) out.push_back(name + "[" + std::to_string(i) + "]");
}

}  // namespace

std::vector<std::string> component_names(const Layout& record, std::uint64_t mask) {
  std::vector<std::string> out;
  for (const Field& field : record.fields) {
    if (field.nested == nullptr || field.count > 1) {
      add_names(components_of(record, field.bit), field, field.name, mask, out);
      continue;
    }
    for (const Field& inner : field.nested->fields) {
      const std::size_t bit = inner.bit;
      add_names(components_of(record, field.bit, &bit), inner, std::string(field.name) + "." + inner.name, mask, out);
    }
  }
  return out;
}

}  // namespace parley::wire::mad
