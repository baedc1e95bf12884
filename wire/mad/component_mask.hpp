// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Component masks of subnet administration (IBA §15.2.1.1), built from members. A member of another record does not
// compile.
//
//   ComponentMask<PathRecord> mask(PathRecord::sgid, PathRecord::dgid, PathRecord::reversible);
//   mask.add(...); mask.bits()
//   Query<NodeRecord> query;                        // a record and the mask of what was set in it
//   query.set(NodeRecord::lid, 5).set(NodeRecord::node_info, NodeInfo::node_type, NodeType::switch_);
#pragma once
#include "wire/mad/rpc.hpp"

namespace parley::wire::mad {

/// An attribute that subnet administration has a query for.
template <class A>
concept SaRecord = LegalFor<A, MgmtClass::subn_adm, Method::get> ||
    LegalFor<A, MgmtClass::subn_adm, Method::get_multi> || LegalFor<A, MgmtClass::subn_adm, Method::get_trace_table>;

template <SaRecord Record>
class ComponentMask {
 public:
  ComponentMask() = default;
  template <class... Values>
  explicit ComponentMask(Member<Record, Values>... members) {
    (add(members), ...);
  }

  /// Adds the whole member: every member of a structure, every element of an array.
  template <class Value>
  ComponentMask& add(Member<Record, Value> member) {
    bits_ |= components_of(Record::layout, member.bit).mask();
    return *this;
  }
  template <Structured Inner, class Value>
  ComponentMask& add(Member<Record, Inner> member, Member<Inner, Value> inner) {
    const std::size_t bit = inner.bit;
    bits_ |= components_of(Record::layout, member.bit, &bit).mask();
    return *this;
  }
  /// Adds one element of an array; if the array has a single component, adds that component.
  template <class Value>
  ComponentMask& add_element(Member<Record, Value> member, std::size_t index) {
    const Components all = components_of(Record::layout, member.bit);
    PARLEY_ASSERT(index < member.count);
    const auto first = static_cast<std::uint8_t>(all.count == member.count ? all.first + index : all.first);
    bits_ |= Components{first, 1}.mask();
    return *this;
  }
  std::uint64_t bits() const { return bits_; }

 private:
  std::uint64_t bits_ = 0;
};

template <SaRecord Record>
class Query {
 public:
  template <class Value>
  Query& set(Member<Record, Value> member, std::type_identity_t<Argument<Value>> value) {
    record_.set(member, value);
    mask_.add(member);
    return *this;
  }
  template <Structured Inner, class Value>
  Query& set(Member<Record, Inner> member, Member<Inner, Value> inner, std::type_identity_t<Argument<Value>> value) {
    Inner part = record_.get(member);
    record_.set(member, part.set(inner, value));
    mask_.add(member, inner);
    return *this;
  }
  const Record& record() const { return record_; }
  std::uint64_t component_mask() const { return mask_.bits(); }

 private:
  Record record_;
  ComponentMask<Record> mask_;
};

}  // namespace parley::wire::mad
