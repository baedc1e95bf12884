// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Multicast groups. On RoCE the address alone identifies a group: attaching a queue pair joins it (IBA Annex A17).
#include <algorithm>
#include <cerrno>

#include "preload/ucma/core.hpp"
#include "preload/ucma/sockaddrs.hpp"
#include "wire/ib/cma.hpp"

namespace parley::preload::ucma {

namespace {

constexpr std::uint32_t multicast_qpn = 0xFFFFFF;  // IBA §9.6.1.3

}  // namespace

int Core::join(const Call& call, const rdma_ucm_join_mcast& asked, const Address& group) {
  Id* id = nullptr;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  const bool ready = id->state == IdState::bound || id->state == IdState::resolved;
  if (!ready || !id->datagrams() || !id->gid_index || !is_multicast(gid_of(group))) return EINVAL;
  if (groups_.size() >= options_.groups_max) return ENOMEM;
  do ++last_group_;
  while (last_group_ == 0 || groups_.contains(last_group_));
  const std::uint32_t number = last_group_;
  if (const int wrong = give(call, asked.response, rdma_ucm_create_id_resp{.id = number})) return wrong;
  groups_.emplace(number, Group{.id = id->number, .uid = asked.uid});
  Event& event = push(*id, static_cast<std::uint32_t>(What::multicast_join));
  event.group = number;
  event.told.uid = asked.uid;
  event.told.id = number;
  event.told.param.ud.qp_num = multicast_qpn;
  event.told.param.ud.qkey = wire::ib::udp_q_key;
  event.told.param.ud.ah_attr = way_to(*id, group);
  return 0;
}

int Core::join_ip_mcast(const Call& call) {
  rdma_ucm_join_ip_mcast asked{};
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  const auto group = parse_sockaddr(octets_of(asked.addr));
  if (!group || !group->address) return EINVAL;
  rdma_ucm_join_mcast same{};
  same.response = asked.response;
  same.uid = asked.uid;
  same.id = asked.id;
  return join(call, same, *group->address);
}

int Core::join_mcast(const Call& call) {
  rdma_ucm_join_mcast asked{};
  if (call.room < sizeof(rdma_ucm_create_id_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  const auto group = parse_sockaddr(octets_of(asked.addr));
  if (!group || group->size != asked.addr_size || asked.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED || !group->address)
    return EINVAL;
  return join(call, asked, *group->address);
}

int Core::leave_mcast(const Call& call) {
  rdma_ucm_destroy_id asked{};
  if (call.room < sizeof(rdma_ucm_destroy_id_resp)) return ENOSPC;
  if (!parse(call.in, asked)) return EINVAL;
  const auto at = groups_.find(asked.id);
  if (at == groups_.end()) return ENOENT;
  Id* id = nullptr;
  if (const int wrong = find(call.file, at->second.id, id)) return wrong;
  const rdma_ucm_destroy_id_resp out{.events_reported = at->second.reported};
  std::erase_if(change(call.file), [&](const Event& event) { return event.group == asked.id; });
  groups_.erase(at);
  return give(call, asked.response, out);
}

}  // namespace parley::preload::ucma
