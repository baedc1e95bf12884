// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Visits the fields of a CM message and their positions, from parley/wire/ibcm_fields.h and mad_cm.h. The code that
// reads, writes or changes messages is a visitor.
#pragma once
#include <concepts>
#include <type_traits>

#include "parley/wire/ibcm_fields.h"
#include "wire/ib/cm.hpp"
#include "wire/mad/cm.hpp"

namespace parley::wire::ib {

/// The kind of identifier that a field holds, for anonymization; `kept`: none.
enum class CmRole : std::uint8_t { kept, gid, guid, flow_label, service, q_key };

/// The position of a field: bit 0 is the most significant bit of the first octet after the MAD header.
template <std::size_t Bit, std::size_t Width, CmRole Role = CmRole::kept>
struct CmFieldPosition {
  static constexpr std::size_t octet = Bit / 8;
  static constexpr unsigned bit = Bit % 8, width = Width;
  static constexpr CmRole role = Role;
};

namespace detail {

#define PARLEY_F(member, name, label, role) \
  v.field(CmFieldPosition<Base + mad::CmPath::member.bit, mad::CmPath::member.width, CmRole::role>{}, path.name);
template <std::size_t Base, class V, class P>
void visit_path(V& v, P& path) {
  PARLEY_IBCM_PATH(PARLEY_F)
}
#undef PARLEY_F

#define PARLEY_F(member, name, label, role)                                                                          \
  v.field(CmFieldPosition<mad::CmLap::alternate_##member.bit, mad::CmLap::alternate_##member.width, CmRole::role>{}, \
          path.name);
template <class V, class P>
void visit_path_of_lap(V& v, P& path) {
  PARLEY_IBCM_PATH(PARLEY_F)
}
#undef PARLEY_F

}  // namespace detail

/// Calls, in message order: v.field(CmFieldPosition, value); v.part(CmFieldPosition, value, shift) for each part of a
/// number that is split over several places; v.octets(CmFieldPosition, array) for additional information and private data.
#define PARLEY_F(S, member, name, filter, label, role) \
  v.field(CmFieldPosition<mad::S::member.bit, mad::S::member.width, CmRole::role>{}, m.name);
#define PARLEY_E(S, member, name, label, shift) \
  v.part(CmFieldPosition<mad::S::member.bit, mad::S::member.width>{}, m.name, shift);
#define PARLEY_P(S, member, name, label) detail::visit_path<mad::S::member.bit>(v, m.name);
#define PARLEY_L(S, name, label) detail::visit_path_of_lap(v, m.name);
#define PARLEY_D(S, member) v.octets(CmFieldPosition<mad::S::member.bit, 8>{}, m.member);
#define PARLEY_X(name, attribute, structure, list, text)   \
  template <class V, class M>                              \
  requires std::same_as<std::remove_const_t<M>, structure> \
  void visit_fields(V& v, M& m) { list(structure, PARLEY_F, PARLEY_E, PARLEY_P, PARLEY_L, PARLEY_D) }
PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
#undef PARLEY_F
#undef PARLEY_E
#undef PARLEY_P
#undef PARLEY_L
#undef PARLEY_D

}  // namespace parley::wire::ib
