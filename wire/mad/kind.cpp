// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/mad/kind.hpp"

namespace parley::wire::mad {

namespace {

#define PARLEY_NAMED(name, value, text) {value, text},
#define PARLEY_X(kind, type, list) constexpr Name kind##_names[] = {list(PARLEY_NAMED)};
PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) constexpr Name kind##_names[] = {list(PARLEY_NAMED)};
PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_NAMED

// In the order of Kind.
constexpr KindFacts kinds[] = {{"reserved", {}},
                               {"structure", {}},
                               {"number", {}},
                               {"hex", {}},
                               {"flag", {}},
                               {"lid", {}},
                               {"guid", {}},
                               {"gid", {}},
                               {"text", {}},
                               {"octets", {}},
                               {"exponent", {}},
                               {"service_data", {}},
                               {"path_service_id", {}},
#define PARLEY_X(kind, text, factor) {#kind, {}, false, text, factor},
                               PARLEY_MAD_UNITS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, type, list) {#kind, kind##_names},
                                   PARLEY_MAD_ENUMERATIONS(PARLEY_X)
#undef PARLEY_X
#define PARLEY_X(kind, list) {#kind, kind##_names, true},
                                       PARLEY_MAD_MASKS(PARLEY_X)
#undef PARLEY_X
};
static_assert(kinds[static_cast<std::size_t>(Kind::path_service_id)].name == "path_service_id");
static_assert(kinds[static_cast<std::size_t>(Kind::rmpp_flags)].name == "rmpp_flags");

}  // namespace

const KindFacts& facts_of(Kind kind) { return kinds[static_cast<std::size_t>(kind)]; }

std::string_view name_of(Kind kind, std::uint64_t value) {
  for (const Name& name : facts_of(kind).names)
    if (name.value == value) return name.text;
  return {};
}

}  // namespace parley::wire::mad
