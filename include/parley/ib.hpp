// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What only connections through the InfiniBand CM have (IBA 1.x §12, Annex A17 for RoCEv2). On a real NIC the kernel
// speaks it (parley/rdma_host.hpp); the iWARP provider refuses these options with Errc::unsupported.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/failure.hpp"
#include "parley/qp.hpp"
#include "parley/time.hpp"

namespace parley::ib {

/// How this side sets up connections; the fields of rdma_conn_param that iWARP lacks.
struct Options {
  std::uint8_t retry_count = 7;      ///< retransmissions after a transport error, 0..7
  std::uint8_t rnr_retry_count = 7;  ///< attempts after receiver-not-ready, 0..7; 7 never gives up
  Duration reply_timeout{};          ///< longest wait for the answer; 0: RdmaHostOptions::reply_timeout
  /// RC; or UC, which acknowledges and repeats nothing, so that IRD and ORD are 0; or UD: no connection is made, but a service of the
  /// port space UDP is asked for the queue pair that takes its datagrams (SIDR, docs/roce.md). XRC: who connects has xrc_ini, who listens xrc_tgt (docs/xrc.md). QpInit::type must be the same.
  /// Another type, and one that a host has not, is Errc::unsupported.
  QpType qp_type = QpType::rc;
};

/// What became of it, as the queue pair has it.
struct Parameters {
  QpType qp_type = QpType::rc;
  std::uint32_t qp_num = 0, remote_qp_num = 0;  ///< UD: a responder's peer is not known before its first datagram
  std::uint8_t port_num = 0;
  std::uint8_t sgid_index = 0;                  ///< in the port's table of GIDs
  std::array<std::uint8_t, 16> sgid{}, dgid{};  ///< of this side and of the peer
  std::uint64_t remote_ca_guid = 0;             ///< names the peer's NIC; 0: not known, as on real NICs
  Mtu path_mtu = Mtu::octets_1024;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;
  std::uint8_t timeout = 0;       ///< local ACK timeout: 4.096 us times 2^n; 0: none
  std::uint32_t remote_qkey = 0;  ///< UD: of the peer's queue pair
  std::optional<AhAttr> ah{};     ///< UD: the way to the peer, for Device::create_ah
};

/// Steps of a set-up through librdmacm, of RoCE and of iWARP alike: the kernel speaks the protocol.
namespace step {
using cm::Stage;
using cm::Step;
inline constexpr Step resolve_addr{Stage::resolve, "resolve_addr", "resolve the address", "of"};
inline constexpr Step resolve_route{Stage::route, "resolve_route", "resolve the route", "to"};
inline constexpr Step send_request{Stage::request, "send_request", "send the connection request", "to"};
inline constexpr Step ulp_decision{Stage::decision, "ulp_decision", "decide on the connection request", "from"};
inline constexpr Step wait_reply{Stage::reply, "wait_reply", "wait for the answer to the connection request", "from"};
inline constexpr Step wait_ready{Stage::ready, "wait_ready", "wait for the confirmation (RTU)", "from"};
}  // namespace step

}  // namespace parley::ib
