// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The tables of parley/wire/mad.h as data, for the codec, the printers and the numbering of component-mask bits.
#pragma once
#include <string>
#include <vector>

#include "parley/bytes.hpp"
#include "wire/mad/kind.hpp"

namespace parley::wire::mad {

struct Layout;

struct Field {
  const char* name;  ///< "" for reserved bits
  std::uint16_t bit, width, count;
  Kind kind;
  const Layout* nested;  ///< null unless the field is a structure

  constexpr std::size_t bits() const { return std::size_t{width} * count; }
  constexpr std::size_t octet() const { return bit / 8U; }
  constexpr bool reserved() const { return kind == Kind::reserved; }
};

struct Layout {
  std::string_view name;     ///< "PortInfo"
  std::string_view section;  ///< of IBA vol. 1, or "vendor"
  std::uint16_t octets;
  std::uint16_t attribute;        ///< 0: none
  std::span<const Field> fields;  ///< in order, without gaps, reserved bits too
};

/// All of them, in the order of parley/wire/mad.h.
std::span<const Layout* const> all_layouts();
/// "PortInfo"; null if there is none.
const Layout* find_layout(std::string_view name);
const Field* find_field(const Layout& layout, std::string_view name);

/// An element of a field that is a number of at most 64 bits. `octets` is the whole structure.
std::uint64_t number_at(ConstBytes octets, const Field& field, std::size_t index = 0);
void put_number(MutBytes octets, const Field& field, std::size_t index, std::uint64_t value);
/// The octets of an element of a field whose width is a whole number of octets.
ConstBytes octets_at(ConstBytes octets, const Field& field, std::size_t index = 0);

/// The first component-mask bit of the member that begins at `bit` of a record, and its number of bits (IBA
/// C15-0.1.27). Each member has one bit, in record order; reserved bits and the members of a nested structure have
/// theirs too.
struct Components {
  std::uint8_t first = 0, count = 0;
  constexpr std::uint64_t mask() const {
    return count == 0 ? 0 : (count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1) << first;
  }
  bool operator==(const Components&) const = default;
};
/// `inner`: the bit of a member within the nested structure that begins at `bit`; null: all of its members.
Components components_of(const Layout& record, std::size_t bit, const std::size_t* inner = nullptr);

/// Names of the members that a component mask selects: "lid", "node_info.num_ports", "service_data8[3]". Bits without a
/// member are skipped.
std::vector<std::string> component_names(const Layout& record, std::uint64_t mask);

/// Whether the fields follow each other without gaps up to `octets`, and the codec can read each of them.
constexpr bool is_whole(std::span<const Field> fields, std::size_t octets) {
  std::size_t at = 0;
  for (const Field& field : fields) {
    const bool number = field.kind != Kind::reserved && field.kind != Kind::structure && field.kind != Kind::gid;
    if (field.bit != at || field.width == 0 || field.count == 0) return false;
    if (number && (field.width > 64 || field.bit % 8 + field.width > 64)) return false;
    if (number && field.count > 1 && 64 % field.width != 0) return false;
    if ((field.kind == Kind::text || field.kind == Kind::octets) && (field.width != 8 || at % 8 != 0)) return false;
    if (field.kind == Kind::gid && (field.width != 128 || at % 8 != 0)) return false;
    at += field.bits();
  }
  return at == octets * 8;
}

}  // namespace parley::wire::mad
