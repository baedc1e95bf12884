// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What is specific to connections through the InfiniBand CM (IBA 1.x §12, Annex A17 for RoCEv2). On a real NIC the kernel
// implements it (parley/rdma_host.hpp). The iWARP provider refuses these options with Errc::unsupported.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/failure.hpp"
#include "parley/qp.hpp"
#include "parley/time.hpp"

namespace parley::ib {

/// Set-up options of this side: the fields of rdma_conn_param that iWARP lacks.
struct Options {
  std::uint8_t retry_count = 7;      ///< retransmissions after a timeout or sequence error, 0..7
  std::uint8_t rnr_retry_count = 7;  ///< retries after receiver-not-ready, 0..7; 7 is unlimited
  Duration reply_timeout{};          ///< longest wait for the reply; 0: RdmaHostOptions::reply_timeout
  /// rc, uc, ud, or xrc_ini at the initiator and xrc_tgt at the listener (docs/xrc.md). UC has no acknowledgements and no
  /// retransmissions: IRD and ORD are 0. UD makes no connection: a SIDR request to a service of the port space UDP returns
  /// the queue pair that receives its datagrams (docs/roce.md). QpInit::type must be the same. Errc::unsupported for any
  /// other type, and for a type that the host does not support.
  QpType qp_type = QpType::rc;
};

/// The negotiated parameters, as set in the queue pair.
struct Parameters {
  QpType qp_type = QpType::rc;
  std::uint32_t qp_num = 0, remote_qp_num = 0;  ///< UD: the responder learns its peer from the first datagram
  std::uint8_t port_num = 0;
  std::uint8_t sgid_index = 0;                  ///< in the port's GID table
  std::array<std::uint8_t, 16> sgid{}, dgid{};  ///< this side's and the peer's
  std::uint64_t remote_ca_guid = 0;             ///< identifies the peer's NIC; 0: unknown, as on real NICs
  Mtu path_mtu = Mtu::octets_1024;
  std::uint8_t retry_count = 0, rnr_retry_count = 0;
  std::uint8_t timeout = 0;       ///< local ACK timeout: 4.096 us * 2^n; 0: none
  std::uint32_t remote_qkey = 0;  ///< UD: the peer's Q_Key
  std::optional<AhAttr> ah{};     ///< UD: the path to the peer, for Device::create_ah
};

/// Steps of a set-up through librdmacm, for RoCE and iWARP: the kernel implements the protocol.
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
