// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Commands that connect, accept, reject and disconnect, and the queue pair attributes for them.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "preload/ucma/core.hpp"
#include "wire/ib/cma.hpp"

namespace parley::preload::ucma {

namespace {

using wire::ib::CmReject;
using wire::ib::SidrStatus;

constexpr std::uint8_t min_rnr_timer = 12;  // 0.64 ms; Linux uses 0, which is 655 ms
constexpr std::uint8_t most_retries = 7;    // 3 bits

int number_of(const Result<void>& result) {
  if (result) return 0;
  return result.error() == Errc::no_space ? ENOMEM : EINVAL;
}

cm::ibcm::QpType service_type_of(const Id& id) {
  switch (id.qp_type) {
    case IBV_QPT_UC: return cm::ibcm::QpType::uc;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: return cm::ibcm::QpType::xrc;
    default: return cm::ibcm::QpType::rc;
  }
}

/// Private data of a REQ or SIDR_REQ: the header of IBA Annex A11, then the program's data. Empty: the data does not
/// fit.
ConstBytes private_data_of(const Id& id, MutBytes room) {
  const std::size_t size = id.asked_for.private_data_len;
  if (PARLEY_CMA_HEADER_LEN + size > room.size()) return {};
  Address destination = *id.peer;
  destination.port = 0;
  wire::ib::CmaHeader{.source = *id.local, .destination = destination}.emit(room);
  std::memcpy(room.data() + PARLEY_CMA_HEADER_LEN, id.asked_for.private_data, size);
  return room.first(PARLEY_CMA_HEADER_LEN + size);
}

std::uint64_t service_of(const Id& id) { return (std::uint64_t{id.space} << 16) | id.peer->port; }

void to_init(const Id& id, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  out.port_num = 1;
  if (id.datagrams()) {
    out.qp_attr_mask |= IBV_QP_QKEY;
    out.qkey = wire::ib::udp_q_key;
    return;
  }
  out.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
  if (!id.has_connection()) return;
  out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (id.responder_resources > 0) out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
}

void to_rtr(const Id& id, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  out.ah_attr = way_to(id, *id.peer);
  out.path_mtu = id.mtu;
  out.dest_qp_num = id.remote_qpn;
  out.rq_psn = id.psn;
  if (id.qp_type != IBV_QPT_RC && id.qp_type != IBV_QPT_XRC_RECV) return;
  out.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  out.max_dest_rd_atomic = id.responder_resources;
  out.min_rnr_timer = min_rnr_timer;
}

void to_rts(const Id& id, ib_uverbs_qp_attr& out) {
  out.qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  out.sq_psn = id.remote_psn;
  if (id.qp_type == IBV_QPT_UC) return;
  out.qp_attr_mask |= IBV_QP_TIMEOUT;
  out.timeout = id.ack_timeout.value_or(id.path_ack_timeout);
  if (id.qp_type == IBV_QPT_XRC_RECV) return;
  out.qp_attr_mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  out.retry_cnt = id.retry_count;
  out.rnr_retry = id.rnr_retry;
  out.max_rd_atomic = id.initiator_depth;
}

}  // namespace

ib_uverbs_ah_attr way_to(const Id& id, const Address& peer) {
  ib_uverbs_ah_attr out{};
  const Gid gid = gid_of(peer);
  std::memcpy(out.grh.dgid, gid.data(), gid.size());
  out.grh.sgid_index = id.gid_index.value_or(0);
  out.grh.hop_limit = 64;
  out.grh.traffic_class = id.tos;
  out.is_global = 1;
  out.port_num = 1;
  return out;
}

cm::ibcm::Path Core::path_of(const Id& id) const {
  auto path = cm::ibcm::Path::roce(gid_of(*id.local), gid_of(*id.peer));
  path.primary.flow_label = (id.local->port * 31U + id.peer->port) & 0xFFFFF;  // as Linux
  path.primary.traffic_class = id.tos;
  path.primary.local_ack_timeout = id.ack_timeout.value_or(id.path_ack_timeout);
  path.sgid_index = *id.gid_index;
  return path;
}

void Core::join_agent(Id& id, cm::ibcm::ConnectionId cm) {
  if (id.cm != 0) by_cm_.erase(id.cm);
  id.cm = cm;
  by_cm_.emplace(cm, id.number);
}

int Core::request(Instant now, Id& id) {
  std::array<std::uint8_t, 92> room;
  const rdma_ucm_conn_param& asked = id.asked_for;
  cm::ibcm::ConnectParameters p;
  p.private_data = private_data_of(id, room);
  if (p.private_data.empty()) return EINVAL;
  p.service_id = service_of(id);
  p.path = path_of(id);
  p.qp_type = service_type_of(id);
  p.qpn = asked.qp_num;
  p.starting_psn = id.psn;
  p.responder_resources = id.responder_resources = asked.responder_resources;
  p.initiator_depth = id.initiator_depth = asked.initiator_depth;
  p.retry_count = id.retry_count = std::min(asked.retry_count, most_retries);
  p.rnr_retry_count = std::min(asked.rnr_retry_count, most_retries);
  p.path_mtu = id.mtu;
  p.flow_control = asked.flow_control != 0;
  p.srq = asked.srq != 0;
  p.ece_vendor = id.ece.vendor_id;
  p.ece_options = id.ece.attr_mod;
  const auto cm = agent_.connect(now, p);
  if (!cm) return cm.error() == Errc::no_space ? ENOMEM : EINVAL;
  join_agent(id, *cm);
  return 0;
}

int Core::request_service(Instant now, Id& id) {
  std::array<std::uint8_t, 216> room;
  const ConstBytes data = private_data_of(id, room);
  if (data.empty()) return EINVAL;
  const auto cm = agent_.sidr_request(now, {.service_id = service_of(id), .path = path_of(id), .private_data = data});
  if (!cm) return cm.error() == Errc::no_space ? ENOMEM : EINVAL;
  join_agent(id, *cm);
  return 0;
}

int Core::connect(const Call& call) {
  rdma_ucm_connect asked{};
  Id* id = nullptr;
  if (call.in.size() < offsetof(rdma_ucm_connect, ece)) return EINVAL;
  std::memcpy(&asked, call.in.data(), std::min(sizeof asked, call.in.size()));
  if (asked.conn_param.valid == 0) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->state != IdState::routed) return EINVAL;
  id->asked_for = asked.conn_param;
  id->ece = asked.ece;
  const int wrong = id->datagrams() ? request_service(call.now, *id) : request(call.now, *id);
  if (wrong == 0) id->state = IdState::connect;
  return wrong;
}

int Core::accept(const Call& call) {
  rdma_ucm_accept asked{};
  Id* id = nullptr;
  if (call.in.size() < offsetof(rdma_ucm_accept, ece)) return EINVAL;
  std::memcpy(&asked, call.in.data(), std::min(sizeof asked, call.in.size()));
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->state != IdState::connect) return EINVAL;
  const rdma_ucm_conn_param& with = asked.conn_param;
  const ConstBytes data(with.private_data, with.valid != 0 ? with.private_data_len : std::uint8_t{0});
  int wrong = 0;
  if (id->datagrams()) {
    wrong = number_of(agent_.sidr_reply(
        call.now, id->cm,
        {.qpn = with.qp_num, .q_key = with.qkey != 0 ? with.qkey : wire::ib::udp_q_key, .private_data = data}));
  } else if (with.valid == 0) {
    return number_of(agent_.ready(call.now, id->cm, {}));
  } else {
    cm::ibcm::AcceptParameters p;
    p.qpn = with.qp_num;
    p.starting_psn = id->psn;
    p.responder_resources = id->responder_resources = with.responder_resources;
    p.initiator_depth = id->initiator_depth = with.initiator_depth;
    p.rnr_retry_count = std::min(with.rnr_retry_count, most_retries);
    p.flow_control = with.flow_control != 0;
    p.srq = with.srq != 0;
    p.ece_vendor = asked.ece.vendor_id;
    p.ece_options = asked.ece.attr_mod;
    p.private_data = data;
    wrong = number_of(agent_.accept(call.now, id->cm, p));
  }
  if (wrong == 0)
    id->uid = asked.uid;
  else if (id->passive)  // as on Linux: the peer does not wait for an answer that does not come
    (void)send_reject(call.now, *id, static_cast<std::uint8_t>(CmReject::consumer), {});
  return wrong;
}

int Core::reject(const Call& call) {
  rdma_ucm_reject asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (asked.reason == 0) asked.reason = static_cast<std::uint8_t>(CmReject::consumer);
  constexpr std::uint8_t vendor_option = 35;
  if (asked.reason != static_cast<std::uint8_t>(CmReject::consumer) && asked.reason != vendor_option) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->cm == 0) return EINVAL;
  return send_reject(call.now, *id, asked.reason, ConstBytes(asked.private_data, asked.private_data_len));
}

int Core::send_reject(Instant now, const Id& id, std::uint8_t reason, ConstBytes data) {
  if (id.datagrams())
    return number_of(agent_.sidr_reply(now, id.cm, {.status = SidrStatus::rejected, .private_data = data}));
  return number_of(agent_.reject(now, id.cm, {.reason = static_cast<CmReject>(reason), .private_data = data}));
}

int Core::disconnect(const Call& call) {
  rdma_ucm_disconnect asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (!id->has_connection()) return EINVAL;
  if (!id->datagrams() && id->cm != 0)
    (void)agent_.disconnect(call.now, id->cm);  // as on Linux, no error after a disconnect
  return 0;
}

int Core::notify(const Call& call) {
  rdma_ucm_notify asked{};
  Id* id = nullptr;
  if (!parse(call.in, asked)) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (id->cm == 0 || asked.event != IBV_EVENT_COMM_EST) return EINVAL;
  if (agent_.state(id->cm) == cm::ibcm::State::established) return 0;
  return number_of(agent_.communication_established(call.now, id->cm));
}

int Core::init_qp_attr(const Call& call) {
  rdma_ucm_init_qp_attr asked{};
  Id* id = nullptr;
  if (call.room < sizeof(ib_uverbs_qp_attr)) return ENOSPC;
  if (!parse(call.in, asked) || asked.qp_state > IBV_QPS_ERR) return EINVAL;
  if (const int wrong = find(call.file, asked.id, id)) return wrong;
  if (!id->gid_index) return EINVAL;
  ib_uverbs_qp_attr out{};
  if (!id->has_connection() || id->datagrams() || asked.qp_state == IBV_QPS_INIT)
    to_init(*id, out);
  else if (!id->answerable)
    return EINVAL;
  else if (asked.qp_state == IBV_QPS_RTR)
    to_rtr(*id, out);
  else if (asked.qp_state == IBV_QPS_RTS)
    to_rts(*id, out);
  else
    return EINVAL;
  out.qp_state = asked.qp_state;
  return give(call, asked.response, out);
}

}  // namespace parley::preload::ucma
