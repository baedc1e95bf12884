// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Kinds of members of management datagrams: the C++ type, the printed form, the unit and the value names of each.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/gid.hpp"
#include "parley/wire/mad.h"

namespace parley::wire::mad {

enum class Kind : std::uint8_t {
  reserved,
  structure,
  number,
  hex,
  flag,
  lid,
  guid,
  gid,
  text,  ///< octets up to the first zero
  octets,
  exponent,         ///< a time of 4.096 us * 2^value
  service_data,     ///< hexadecimal; each element of the array has a bit in a component mask
  path_service_id,  ///< hexadecimal; it has two bits in a component mask
#define PARLEY_X(kind, text, factor) kind,
  PARLEY_MAD_UNITS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, type, list) kind,
      PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) kind,
          PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
};

#define PARLEY_NAMED(name, value, text) name = value,
#define PARLEY_X(kind, type, list) enum class type : std::uint32_t { list(PARLEY_NAMED) };
PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_NAMED

/// The bits of masks: `port_capability::is_sm`.
#define PARLEY_NAMED(name, value, text) inline constexpr std::uint32_t name = value;
#define PARLEY_X(kind, list) \
  namespace kind {           \
  list(PARLEY_NAMED)         \
  }
PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_NAMED

struct Name {
  std::uint32_t value;
  std::string_view text;
};

struct KindFacts {
  std::string_view name;
  std::span<const Name> names;  ///< of values; of bits if `mask`
  bool mask = false;
  std::string_view unit = {};
  std::uint32_t factor = 1;  ///< units per 1 of the value
};
const KindFacts& facts_of(Kind kind);
/// The name of a value of that kind; empty if it has none.
std::string_view name_of(Kind kind, std::uint64_t value);

/// Types of members that are not numbers.
struct Text {};
struct Octets {};

template <unsigned Width>
using Number = std::conditional_t<
    (Width <= 8), std::uint8_t,
    std::conditional_t<(Width <= 16), std::uint16_t, std::conditional_t<(Width <= 32), std::uint32_t, std::uint64_t>>>;

template <Kind K, unsigned Width>
struct TypeOf {
  using type = Number<Width>;
};
template <unsigned Width>
struct TypeOf<Kind::flag, Width> {
  using type = bool;
};
template <unsigned Width>
struct TypeOf<Kind::gid, Width> {
  using type = Gid;
};
template <unsigned Width>
struct TypeOf<Kind::text, Width> {
  using type = Text;
};
template <unsigned Width>
struct TypeOf<Kind::octets, Width> {
  using type = Octets;
};
#define PARLEY_X(kind, type_, list)  \
  template <unsigned Width>          \
  struct TypeOf<Kind::kind, Width> { \
    using type = type_;              \
  };
PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X

}  // namespace parley::wire::mad
