// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Attributes of subnet management, read from the records of subnet administration. This needs no M_Key, and works for
// nodes that do not answer. The call is like Port::subn_get; the answer is taken from a record.
//
//   const Reply<PortInfo> info = co_await sa_subn_get<PortInfo>(port, path, 1);
#pragma once
#include "mad/port.hpp"
#include "wire/mad/smp.hpp"

namespace parley::mad {

/// The path by LID to the same port. Follows a directed route link by link, with one query for a LinkRecord each.
/// Errors: of those queries.
Task<Reply<Path>> lid_path_of(Port& port, Path path);

namespace detail {

/// X(attribute, its record, the record's member for it, whether it is empty if there is no record, query). The LID is
/// already set in `query`.
#define PARLEY_SA_VIEW(X)                                                                                     \
  X(GuidInfo, GuidInfoRecord, guid_info, false, query.set(R::block_num, static_cast<std::uint8_t>(modifier))) \
  X(LinearForwardingTable, LinearForwardingTableRecord, linear_forwarding_table, true,                        \
    query.set(R::block_num, static_cast<std::uint16_t>(modifier)))                                            \
  X(MulticastForwardingTable, MulticastForwardingTableRecord, multicast_forwarding_table, true,               \
    query.set(R::block_num, static_cast<std::uint16_t>(modifier & 0x1FF))                                     \
        .set(R::position, static_cast<std::uint8_t>(modifier >> 28)))                                         \
  X(NodeDescription, NodeRecord, node_description, false, query)                                              \
  X(NodeInfo, NodeRecord, node_info, false, query)                                                            \
  X(SlToVlMappingTable, SlToVlMappingTableRecord, sl_to_vl_mapping_table, true,                               \
    query.set(R::input_port_num, static_cast<std::uint8_t>(modifier >> 8))                                    \
        .set(R::output_port_num, static_cast<std::uint8_t>(modifier)))                                        \
  X(SmInfo, SmInfoRecord, sm_info, false, query)                                                              \
  X(SwitchInfo, SwitchInfoRecord, switch_info, false, query)                                                  \
  X(VlArbitrationTable, VlArbitrationTableRecord, vl_arbitration_table, true,                                 \
    query.set(R::output_port_num, static_cast<std::uint8_t>(modifier))                                        \
        .set(R::block_num, static_cast<std::uint8_t>(modifier >> 16)))

template <class A>
struct SaForm;
// IBA §14.2.5: the meaning of the attribute modifier of each.
#define PARLEY_X(attribute_, record_, member, empty_if_none_, query_)                 \
  template <>                                                                         \
  struct SaForm<wire::mad::attribute_> {                                              \
    using R = wire::mad::record_;                                                     \
    static constexpr auto part = R::member;                                           \
    static constexpr bool empty_if_none = empty_if_none_;                             \
    static Query<R> ask(std::uint16_t lid, [[maybe_unused]] std::uint32_t modifier) { \
      Query<R> query;                                                                 \
      query.set(R::lid, lid);                                                         \
      return query_;                                                                  \
    }                                                                                 \
  };
PARLEY_SA_VIEW(PARLEY_X)
#undef PARLEY_X

Task<Reply<wire::mad::PortInfo>> sa_port_info(Port& port, Path path, std::uint32_t modifier, bool is_switch);
Task<Reply<wire::mad::PKeyTable>> sa_pkey_table(Port& port, Path path, std::uint32_t modifier, bool is_adapter);

}  // namespace detail

/// `type`: the node's, if it is known. PortInfo with modifier 0 is port 0 of a switch, and the port itself of a channel
/// adapter. Tables without a record are empty. Errors: of the queries.
template <LegalFor<MgmtClass::subn, Method::get> A>
Task<Reply<A>> sa_subn_get(Port& port, Path path, std::uint32_t modifier = 0,
                           std::optional<wire::mad::NodeType> type = std::nullopt) {
  if constexpr (std::same_as<A, wire::mad::PortInfo>) {
    co_return co_await detail::sa_port_info(port, path, modifier, type == wire::mad::NodeType::switch_);
  } else if constexpr (std::same_as<A, wire::mad::PKeyTable>) {
    co_return co_await detail::sa_pkey_table(port, path, modifier, type == wire::mad::NodeType::channel_adapter);
  } else {
    using Form = detail::SaForm<A>;
    const Reply<Path> by_lid = co_await lid_path_of(port, path);
    if (!by_lid) co_return tl::unexpected(by_lid.error());
    const auto record = co_await port.sa_get(Form::ask(by_lid->address.lid, modifier));
    if (record) co_return record->get(Form::part);
    if (Form::empty_if_none && record.error().is_no_records()) co_return A{};
    co_return tl::unexpected(record.error());
  }
}

}  // namespace parley::mad
