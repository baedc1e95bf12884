// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ssa/acm/kernel.hpp"

#include <algorithm>

namespace parley::ssa::acm {

namespace {

std::optional<KernelPath> path_for(const KernelMessage& asked, const Data& data) {
  if (data.map == nullptr || !asked.dgid || (!asked.sgid && data.endpoints.empty())) return std::nullopt;
  const auto record = data.map->find({.sgid = asked.sgid ? *asked.sgid : data.endpoints.front().gid,
                                      .dgid = *asked.dgid,
                                      .p_key = asked.p_key.value_or(0)});
  if (!record) return std::nullopt;
  constexpr std::uint32_t one_way = path_flag::primary | path_flag::outbound;
  if (asked.use == PathUse::unidirectional) return KernelPath{one_way, *record};
  if (!record->get(wire::mad::PathRecord::reversible)) return std::nullopt;
  return KernelPath{one_way | path_flag::gmp | path_flag::inbound_reverse, *record};
}

std::optional<Gid> gid_for(const KernelMessage& asked, const Data& data) {
  const auto find = [&](std::uint16_t type, const auto& octets) -> std::optional<Gid> {
    const Gid* const found = data.addresses->find({type, std::string(octets.begin(), octets.end())});
    return found == nullptr ? std::nullopt : std::optional(*found);
  };
  if (asked.ipv4) return find(record_type::ipv4, *asked.ipv4);
  return asked.ipv6 ? find(record_type::ipv6, *asked.ipv6) : std::nullopt;
}

KernelMessage answer_to(const KernelMessage& asked, const Data& data, std::uint32_t port_id) {
  KernelMessage out{.operation = asked.operation, .flags = 0, .sequence = asked.sequence, .port_id = port_id};
  if (asked.operation == KernelOperation::resolve)
    if (auto path = path_for(asked, data)) out.paths.push_back(*path);
  if (asked.operation == KernelOperation::ip_resolve) out.dgid = gid_for(asked, data);
  if (out.paths.empty() && !out.dgid) out.flags = netlink_refusal;
  return out;
}

}  // namespace

Result<void> answer_kernel(ConstBytes datagram, const Data& data, std::uint32_t port_id, Bytes& out) {
  while (!datagram.empty()) {
    const auto header = parse_netlink_header(datagram);
    if (!header) return tl::unexpected(header.error());
    if (header->is_local_service() && (header->flags & netlink_request) != 0) {
      const auto asked = parse_netlink(datagram);
      if (asked)
        append_netlink(out, answer_to(*asked, data, port_id));
      else
        append_netlink_header(out, {netlink_header_octets, header->type, netlink_refusal, header->sequence, port_id});
    }
    const std::size_t padded = (std::size_t{header->length} + 3) & ~std::size_t{3};
    datagram = datagram.subspan(std::min(padded, datagram.size()));
  }
  return {};
}

}  // namespace parley::ssa::acm
