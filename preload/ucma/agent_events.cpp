// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Turns events of the CM into events of rdma_user_cm.h.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "preload/ucma/core.hpp"
#include "wire/ib/cma.hpp"

namespace parley::preload::ucma {

namespace {

using wire::ib::CmReject;

constexpr std::uint32_t number(What what) { return static_cast<std::uint32_t>(what); }

void put(rdma_ucm_conn_param& to, ConstBytes private_data) {
  std::memcpy(to.private_data, private_data.data(), private_data.size());
  to.private_data_len = static_cast<std::uint8_t>(private_data.size());
}

// Some programs connect when the peer is only about to listen. They depend on a NIC's set-up time. So a rejected
// request is repeated up to five times, over 310 ms in total.
constexpr Duration first_pause = std::chrono::milliseconds(10);
constexpr std::uint8_t refusals_max = 5;

bool serves(const Id& listener, cm::ibcm::QpType type) {
  switch (type) {
    case cm::ibcm::QpType::rc: return listener.qp_type == IBV_QPT_RC;
    case cm::ibcm::QpType::uc: return listener.qp_type == IBV_QPT_UC;
    default: return listener.qp_type == IBV_QPT_XRC_RECV;
  }
}

}  // namespace

void Core::handle_events(Instant now) {
  while (auto event = agent_.poll_event()) std::visit([&](const auto& it) { on(now, it); }, *event);
}

Id* Core::by_cm(cm::ibcm::ConnectionId cm) {
  const auto at = by_cm_.find(cm);
  return at == by_cm_.end() ? nullptr : ids_.at(at->second).get();
}

/// The listener at the address `local`, or else one at a wildcard address. Null: there is none.
Id* Core::listener_for(std::uint64_t service, const Address& local) {
  const auto at = services_.find(service);
  if (at == services_.end()) return nullptr;
  Id* found = nullptr;
  for (const std::uint32_t number : at->second) {
    Id& id = *ids_.at(number);
    if (id.local->octets == local.octets && id.local->family == local.family) return &id;
    if (id.local->is_any() && (!id.af_only || id.local->family == local.family)) found = &id;
  }
  return found;
}

/// Makes an id for a request. Null: the request was rejected, or turned away because the
/// listener's backlog is full or there are ids_max ids.
Id* Core::admit(Instant now, std::uint64_t service, const cm::ibcm::MadFrom& from, cm::ibcm::ConnectionId cm,
                ConstBytes private_data, Id*& listener) {
  const Address& local = options_.addresses.at(from.sgid_index);
  const auto header = wire::ib::CmaHeader::parse(private_data);
  listener = listener_for(service, local);
  if (listener == nullptr || !header) {
    const CmReject reason = listener == nullptr ? CmReject::invalid_service_id : CmReject::consumer;
    (void)agent_.reject(now, cm, {.reason = reason});
    agent_.destroy(now, cm);
    return nullptr;
  }
  if (listener->backlog == 0 || ids_.size() >= options_.ids_max) {
    agent_.turn_away(now, cm);
    return nullptr;
  }
  --listener->backlog;
  Id& id = make_id(listener->file, listener->space, listener->qp_type);
  id.passive = true;
  id.state = IdState::connect;
  attach(id, local);
  id.local->port = listener->local->port;
  id.peer = address_of_gid(from.source, header->source.port);
  if (id.peer->is_link_local()) id.peer->scope_id = local.scope_id;
  id.tos = listener->tos;
  id.ack_timeout = listener->ack_timeout;
  join_agent(id, cm);
  return &id;
}

void Core::on(Instant now, const cm::ibcm::RequestReceived& event) {
  const wire::ib::CmReq& req = event.request;
  Id* listener = nullptr;
  Id* const id = admit(now, req.service_id, event.from, event.id, req.private_data, listener);
  if (id == nullptr) return;
  if (!serves(*listener, event.qp_type)) {
    (void)agent_.reject(now, event.id, {.reason = CmReject::invalid_transport_service});
    ++listener->backlog;
    return destroy(now, *id);
  }
  id->mtu = std::clamp<std::uint8_t>(req.path_mtu, IBV_MTU_256, IBV_MTU_4096);
  id->remote_psn = req.starting_psn;
  id->remote_qpn = req.local_qpn;
  // The peer's initiator depth is this side's responder resources, and vice versa (IBA §12.7.29, §12.7.30).
  id->responder_resources = req.initiator_depth;
  id->initiator_depth = req.responder_resources;
  id->retry_count = req.retry_count;
  id->rnr_retry = req.rnr_retry_count;
  id->path_ack_timeout = req.primary.local_ack_timeout;
  id->answerable = true;
  Event& out = push(*listener, number(What::connect_request));
  out.child = out.told.id = id->number;
  out.told.ece = {.vendor_id = req.ece_vendor, .attr_mod = event.ece_options};
  rdma_ucm_conn_param& conn = out.told.param.conn;
  put(conn, ConstBytes(req.private_data).subspan(PARLEY_CMA_HEADER_LEN));
  conn.responder_resources = id->responder_resources;
  conn.initiator_depth = id->initiator_depth;
  conn.flow_control = req.flow_control;
  conn.retry_count = req.retry_count;
  conn.rnr_retry_count = req.rnr_retry_count;
  conn.srq = req.srq;
  conn.qp_num = req.local_qpn;
}

void Core::on(Instant now, const cm::ibcm::SidrRequested& event) {
  const wire::ib::CmSidrReq& req = event.request;
  Id* listener = nullptr;
  Id* const id = admit(now, req.service_id, event.from, event.id, req.private_data, listener);
  if (id == nullptr) return;
  Event& out = push(*listener, number(What::connect_request));
  out.child = out.told.id = id->number;
  rdma_ucm_ud_param& ud = out.told.param.ud;
  const ConstBytes data = ConstBytes(req.private_data).subspan(PARLEY_CMA_HEADER_LEN);
  std::memcpy(ud.private_data, data.data(), data.size());
  ud.private_data_len = static_cast<std::uint8_t>(data.size());
}

void Core::on(Instant, const cm::ibcm::ReplyReceived& event) {
  Id* const id = by_cm(event.id);
  if (id == nullptr) return;
  const wire::ib::CmRep& rep = event.reply;
  id->remote_qpn = event.remote_qpn;
  id->remote_psn = rep.starting_psn;
  id->responder_resources = rep.initiator_depth;
  id->initiator_depth = rep.responder_resources;
  id->rnr_retry = rep.rnr_retry_count;
  id->answerable = true;
  Event& out = push(*id, number(What::connect_response));
  out.told.ece = {.vendor_id = rep.ece_vendor, .attr_mod = event.ece_options};
  rdma_ucm_conn_param& conn = out.told.param.conn;
  put(conn, rep.private_data);
  conn.responder_resources = id->responder_resources;
  conn.initiator_depth = id->initiator_depth;
  conn.flow_control = rep.flow_control;
  conn.rnr_retry_count = rep.rnr_retry_count;
  conn.srq = rep.srq;
  conn.qp_num = event.remote_qpn;
}

void Core::on(Instant, const cm::ibcm::Ready& event) {
  if (const Id* const id = by_cm(event.id); id != nullptr && id->uid != 0) push(*id, number(What::established));
}

/// Schedules a repetition of a request that was rejected because nothing listens at the peer. False: the attempts are
/// used up, or the id is passive.
bool Core::try_again(Instant now, Id& id) {
  if (id.passive || id.refusals == refusals_max) return false;
  by_cm_.erase(id.cm);
  agent_.destroy(now, std::exchange(id.cm, 0));
  again_.emplace(now + first_pause * (1 << id.refusals++), id.number);
  return true;
}

void Core::on(Instant now, const cm::ibcm::Rejected& event) {
  Id* const id = by_cm(event.id);
  if (id == nullptr) return;
  // IBA §12.6.7.2 reason 26: the additional information names the largest MTU that the peer can use, in the bit
  // positions of the REQ's field. Repeat the request with that MTU, but only once.
  const auto named = static_cast<std::uint8_t>(event.reject.info[0] >> 4);
  if (event.reject.reason == CmReject::invalid_path_mtu && event.reject.info_length > 0 && !id->passive &&
      !id->mtu_named && named >= IBV_MTU_256 && named < id->mtu) {
    id->mtu_named = true;
    id->mtu = named;
    if (request(now, *id) == 0) return agent_.destroy(now, event.id);
  }
  if (event.reject.reason == CmReject::invalid_service_id && try_again(now, *id)) return;
  if (id->uid == 0) return;  // the program has not accepted the request yet; its accept will fail
  Event& out = push(*id, number(What::rejected), static_cast<int>(event.reject.reason));
  put(out.told.param.conn, event.reject.private_data);
}

void Core::on(Instant, const cm::ibcm::Failed& event) {
  if (const Id* const id = by_cm(event.id); id != nullptr && id->uid != 0)
    push(*id, number(What::unreachable), -ETIMEDOUT);
}

void Core::disconnected(Id& id, int status) {
  if (id.ended || id.uid == 0) return;
  id.ended = true;
  id.state = IdState::disconnect;
  push(id, number(What::disconnected), status);
}

void Core::on(Instant, const cm::ibcm::DisconnectRequested& event) {
  if (Id* const id = by_cm(event.id)) disconnected(*id, 0);
}

void Core::on(Instant, const cm::ibcm::Disconnected& event) {
  if (Id* const id = by_cm(event.id)) disconnected(*id, event.graceful ? 0 : -ETIMEDOUT);
}

void Core::on(Instant, const cm::ibcm::TimewaitExit& event) {
  if (const Id* const id = by_cm(event.id); id != nullptr && id->uid != 0) push(*id, number(What::timewait_exit));
}

void Core::on(Instant now, const cm::ibcm::SidrReplied& event) {
  Id* const id = by_cm(event.id);
  if (id == nullptr) return;
  if (event.reply.status == wire::ib::SidrStatus::unsupported_service_id && try_again(now, *id)) return;
  if (event.reply.status != wire::ib::SidrStatus::valid) {
    push(*id, number(What::unreachable), static_cast<int>(event.reply.status));
    return;
  }
  Event& out = push(*id, number(What::established));
  rdma_ucm_ud_param& ud = out.told.param.ud;
  ud.qp_num = event.reply.qpn;
  ud.qkey = event.reply.q_key;
  ud.ah_attr = way_to(*id, *id->peer);
  std::memcpy(ud.private_data, event.reply.private_data.data(), event.reply.private_data.size());
  ud.private_data_len = static_cast<std::uint8_t>(event.reply.private_data.size());
}

}  // namespace parley::preload::ucma
