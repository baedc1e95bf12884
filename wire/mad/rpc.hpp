// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of legal classes, methods and attributes, and typed requests. A request that is not in the table does not
// compile.
//
//   const Datagram mad =
//       request<MgmtClass::subn, Method::get>(PortInfo{}, {.transaction_id = 7, .attribute_modifier = 1});
#pragma once
#include "parley/wire/ib.h"
#include "wire/mad/common.hpp"

namespace parley::wire::mad {

struct LegalRow {
  StructureId structure;
  MgmtClass mgmt_class;
  std::uint32_t methods;  ///< bit n: the method n

  constexpr bool has(Method method) const {
    const auto number = static_cast<std::uint32_t>(method);
    return number < 32 && (methods >> number & 1) != 0;
  }
};
inline constexpr LegalRow legal_rows[] = {
#define PARLEY_X(name, mgmt_class, methods) {StructureId::name, MgmtClass::mgmt_class, methods},
    PARLEY_MAD_LEGAL(PARLEY_X)
#undef PARLEY_X
};

/// A class, or a range of classes: those of vendors and of applications.
struct ClassFacts {
  MgmtClass mgmt_class;  ///< the first of the range
  std::uint8_t last;
  std::uint8_t version;  ///< 0: each class of the range has its own
  std::uint8_t data;     ///< the octet at which the attribute begins
  StructureId format;
  bool rmpp;                ///< its datagrams have RMPP's header (IBA §13.6.2)
  std::string_view prefix;  ///< "SubnAdm" of SubnAdmGet

  constexpr bool is_range() const { return static_cast<std::uint32_t>(mgmt_class) != last; }
  constexpr bool has_version(std::uint8_t other) const { return version == 0 || version == other; }
};
inline constexpr ClassFacts class_rows[] = {
#define PARLEY_X(name, first, last, version, format, data, rmpp, prefix) \
  {MgmtClass::name, last, version, data, StructureId::format, (rmpp) != 0, prefix},
    PARLEY_MAD_CLASSES(PARLEY_X)
#undef PARLEY_X
};

/// The entry for a MAD's class octet. Null for an unknown class.
constexpr const ClassFacts* facts_of_class(std::uint32_t mgmt_class) {
  for (const ClassFacts& row : class_rows)
    if (static_cast<std::uint32_t>(row.mgmt_class) <= mgmt_class && mgmt_class <= row.last) return &row;
  return nullptr;
}

/// The class whose table rows apply: directed-route SMPs use those of LID-routed SMPs, vendor classes with an OUI those
/// of vendor classes without one.
constexpr MgmtClass same_rpcs(MgmtClass mgmt_class) {
  if (mgmt_class == MgmtClass::subn_directed) return MgmtClass::subn;
  return mgmt_class == MgmtClass::vendor_oui ? MgmtClass::vendor : mgmt_class;
}

/// Whether it is subnet management, by LID or by directed route.
constexpr bool is_smp(std::uint8_t mgmt_class) {
  return mgmt_class == static_cast<std::uint8_t>(MgmtClass::subn) ||
         mgmt_class == static_cast<std::uint8_t>(MgmtClass::subn_directed);
}
/// Whether it is a vendor class with an OUI in its header.
constexpr bool has_oui(std::uint8_t mgmt_class) {
  const ClassFacts* facts = facts_of_class(mgmt_class);
  return facts != nullptr && facts->mgmt_class == MgmtClass::vendor_oui;
}
/// Whether a method is an answer: a response, or TrapRepress.
constexpr bool is_answer(std::uint8_t method) {
  return (method & PARLEY_IB_MAD_RESPONSE) != 0 || method == static_cast<std::uint8_t>(Method::trap_repress);
}

/// Whether the response to a method uses RMPP: it has several records, or data of any length.
constexpr bool gives_table(Method method) {
  return method == Method::get_table || method == Method::get_trace_table || method == Method::get_multi;
}

/// IBA §13.4.5, §14.2.5, §15.2.5: whether a request, trap, report or send is legal.
constexpr bool is_legal(StructureId structure, MgmtClass mgmt_class, Method method) {
  for (const LegalRow& row : legal_rows)
    if (row.structure == structure && row.mgmt_class == same_rpcs(mgmt_class)) return row.has(method);
  return false;
}

template <class A, MgmtClass C, Method M>
concept LegalFor = Structured<A> && is_legal(A::structure_id, C, M);

using Datagram = std::array<std::uint8_t, PARLEY_IB_MAD_LEN>;

struct RequestOptions {
  std::uint64_t transaction_id = 0;
  std::uint32_t attribute_modifier = 0;
  std::uint64_t key = 0;             ///< M_Key, SM_Key, B_Key or CC_Key; ignored for classes without one
  std::uint64_t component_mask = 0;  ///< subnet administration; ComponentMask
  std::uint8_t mgmt_class = 0;       ///< vendor and application classes: the class octet; 0: the first of the range
  std::uint8_t class_version = 0;    ///< 0: that of the table; 1 where the table has none
  std::uint32_t oui = 0;             ///< 24 bits; vendor classes with an OUI
};

namespace detail {
/// The caller has checked class, method and attribute against the table.
Datagram build(const ClassFacts& facts, Method method, std::uint16_t attribute, ConstBytes body,
               const RequestOptions& options);
}  // namespace detail

/// The base version is 1; fields that are not given are zero.
template <MgmtClass C, Method M, LegalFor<C, M> A>
Datagram request(const A& body, const RequestOptions& options = {}) {
  return detail::build(*facts_of_class(static_cast<std::uint32_t>(C)), M, A::attribute, body.octets(), options);
}

/// The route of a directed SMP (IBA §14.2.1.2). `path[0]` is 0; each further octet is the egress port of one hop. If a
/// LID-routed part precedes or follows the directed part, the LID of that part's end is given.
struct DirectedRoute {
  ConstBytes path;
  std::uint16_t source_lid = PARLEY_MAD_PERMISSIVE_LID;       ///< DrSLID
  std::uint16_t destination_lid = PARLEY_MAD_PERMISSIVE_LID;  ///< DrDLID
};
/// Errors: invalid_argument if `path` is empty or has more than 63 hops.
Result<void> set_route(Datagram& smp, const DirectedRoute& route);

}  // namespace parley::wire::mad
