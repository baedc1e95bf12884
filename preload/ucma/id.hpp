// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The ids, groups and events of the files of /dev/infiniband/rdma_cm.
#pragma once
#include <cstdint>
#include <optional>

#include <infiniband/verbs.h>
#include <rdma/rdma_user_cm.h>

#include "cm/ibcm/options.hpp"
#include "parley/address.hpp"

namespace parley::preload::ucma {

/// The program's descriptor.
using File = int;

// Values of rdma_ucm_event_resp::event (Linux's include/rdma/rdma_cm.h).
enum class What : std::uint32_t {
  addr_resolved = 0,
  addr_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  multicast_join = 12,
  multicast_error = 13,
  timewait_exit = 15,
};

/// State of an rdma_cm_id, in Linux's order. `connect` lasts from the request, sent or received, until the disconnect.
enum class IdState : std::uint8_t { idle, bound, listening, resolved, routed, connect, disconnect };

/// Packet lifetime of a path: 4.096 us * 2^n. A connection's ACK timeout exponent is one more.
inline constexpr std::uint8_t packet_life_time = 16;

struct Id {
  std::uint32_t number = 0;
  File file = -1;
  std::uint64_t uid = 0;  ///< chosen by the program; 0: a peer's request that the program has not accepted
  std::uint16_t space = RDMA_PS_TCP;
  std::uint8_t qp_type = IBV_QPT_RC;
  IdState state = IdState::idle;
  bool passive = false;
  bool ib_addressed = false;  ///< bound with a sockaddr_ib, whose GID must be the wildcard
  std::optional<Address> local{}, peer{};
  std::optional<std::uint8_t> gid_index{};  ///< none: the id has no device yet
  std::uint32_t reported = 0;               ///< events that the program has read
  std::uint32_t backlog = 0;                ///< listening: how many more requests fit
  bool reuse = false, af_only = false;
  std::uint8_t tos = 0;
  std::optional<std::uint8_t> ack_timeout{};

  cm::ibcm::ConnectionId cm = 0;
  rdma_ucm_conn_param asked_for{};  ///< connect: the parameters
  rdma_ucm_ece ece{};
  std::uint8_t mtu = 3;
  std::uint8_t refusals = 0;  ///< rejections because nothing listens at the peer, after which the request was repeated
  bool mtu_named = false;     ///< `mtu` is from a peer's REJ
  std::uint32_t psn = 0;      ///< 24 bits: the first PSN that the peer sends
  std::uint32_t remote_psn = 0, remote_qpn = 0;  // the first PSN that this side sends, and the peer's queue pair
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 7, rnr_retry = 7;
  std::uint8_t path_ack_timeout = packet_life_time + 1;
  bool answerable = false;  ///< the peer's REQ or REP has arrived, so that the queue pair can go to RTR
  bool ended = false;       ///< DISCONNECTED has been queued

  bool datagrams() const { return qp_type == IBV_QPT_UD; }
  /// A request was sent or received. Between a rejection and its repetition the CM has no connection for it.
  bool has_connection() const { return cm != 0 || state == IdState::connect; }
};

/// The service ID of a port number of the id's port space (IBA Annex A11).
inline std::uint64_t service_of(const Id& id, std::uint16_t port) { return (std::uint64_t{id.space} << 16) | port; }

/// The address vector with which the id's queue pair reaches `peer`.
ib_uverbs_ah_attr way_to(const Id& id, const Address& peer);

/// A joined multicast group.
struct Group {
  std::uint32_t id = 0;  ///< number of its Id
  std::uint64_t uid = 0;
  std::uint32_t reported = 0;
};

struct Event {
  std::uint32_t id = 0;     ///< number of the id whose `reported` counts the event
  std::uint32_t child = 0;  ///< CONNECT_REQUEST: number of the new id
  std::uint32_t group = 0;
  rdma_ucm_event_resp told{};
};

}  // namespace parley::preload::ucma
