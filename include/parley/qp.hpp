// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Types, states and attributes of queue pairs: ibv_qp_type, ibv_qp_state, ibv_qp_attr. A field of QpAttr that has a value
// corresponds to its bit in verbs' mask. docs/verbs.md lists the transitions, and what each transport can change.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace parley {

enum class Access : std::uint32_t {
  none = 0,
  local_write = 1,
  remote_write = 2,
  remote_read = 4,
  remote_atomic = 8,
  mw_bind = 16,  ///< of a region: memory windows may be bound to it
};
constexpr Access operator|(Access a, Access b) {
  return static_cast<Access>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool has(Access set, Access bit) {
  return (static_cast<std::uint32_t>(set) & static_cast<std::uint32_t>(bit)) != 0;
}

/// ibv_qp_type, with the same values. An iWARP device supports rc only; create_qp refuses the others.
enum class QpType : std::uint8_t {
  rc = 2,       ///< reliable connected; the only type of iWARP
  uc,           ///< unreliable connected
  ud,           ///< unreliable datagram: each request names an AddressHandle
  xrc_ini = 9,  ///< extended reliable connected, the sending end (IBV_QPT_XRC_SEND)
  xrc_tgt,      ///< the receiving end, which belongs to an XrcDomain (IBV_QPT_XRC_RECV)
};
std::string_view to_string(QpType type);  ///< "RC", "UC", "UD", "XRC_INI", "XRC_TGT"

/// ibv_qp_state, with the same values.
enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, err };
std::string_view to_string(QpState state);  ///< "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"

/// ibv_mtu: the path MTU in octets is 128 shifted left by the value.
enum class Mtu : std::uint8_t { octets_256 = 1, octets_512, octets_1024, octets_2048, octets_4096 };

/// ibv_mig_state.
enum class MigState : std::uint8_t { migrated, rearm, armed };

/// The global route header of a path: ibv_global_route. RoCE needs it, with IP addresses as GIDs.
struct GlobalRoute {
  std::array<std::uint8_t, 16> dgid{};  ///< the destination; an IPv4 address as ::ffff:a.b.c.d
  std::uint32_t flow_label = 0;         ///< 20 bits
  std::uint8_t sgid_index = 0;          ///< the source, as an index into the port's GID table
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;
};

/// A path to another port: ibv_ah_attr.
struct AhAttr {
  std::optional<GlobalRoute> grh{};
  std::uint16_t dlid = 0;          ///< InfiniBand: the destination's local identifier
  std::uint8_t sl = 0;             ///< service level, 4 bits
  std::uint8_t src_path_bits = 0;  ///< 7 bits
  std::uint8_t static_rate = 0;    ///< 0: the port's rate
  std::uint8_t port_num = 1;
};

/// The alternate path of automatic path migration: ibv_qp_attr's alt_ fields.
struct AltPath {
  AhAttr ah{};
  std::uint16_t pkey_index = 0;
  std::uint8_t port_num = 1;
  std::uint8_t timeout = 0;  ///< as QpAttr::timeout
};

/// ibv_qp_attr. To modify: fields with a value are changed. From query: the attributes of the transport have values.
struct QpAttr {
  std::optional<QpState> state{};             ///< the target state; none: no transition
  std::optional<QpState> cur_state{};         ///< refused unless this is the current state
  std::optional<bool> en_sqd_async_notify{};  ///< report when a queue pair in SQD has drained
  std::optional<Access> access{};             ///< remote rights; a peer needs them here and in the region
  std::optional<std::uint16_t> pkey_index{};  ///< in the port's P_Key table
  std::optional<std::uint8_t> port_num{};     ///< 1 and up
  std::optional<std::uint32_t> qkey{};        ///< datagrams with another Q_Key are dropped
  std::optional<AhAttr> ah{};                 ///< the path to the peer
  std::optional<Mtu> path_mtu{};
  std::optional<std::uint8_t> timeout{};         ///< 0: none; n: 4.096 us * 2^n, n up to 31
  std::optional<std::uint8_t> retry_cnt{};       ///< after timeouts and sequence errors; 0 to 7
  std::optional<std::uint8_t> rnr_retry{};       ///< after RNR NAKs; 0 to 6, 7: unlimited
  std::optional<std::uint32_t> rq_psn{};         ///< 24 bits
  std::optional<std::uint16_t> max_rd_atomic{};  ///< most outstanding Reads and Atomics; iWARP: ORD
  std::optional<AltPath> alt_path{};
  std::optional<std::uint8_t> min_rnr_timer{};        ///< IBA's code of the delay that an RNR NAK requests, 5 bits
  std::optional<std::uint32_t> sq_psn{};              ///< 24 bits
  std::optional<std::uint16_t> max_dest_rd_atomic{};  ///< most Reads and Atomics of the peer at once; iWARP: IRD
  std::optional<MigState> path_mig_state{};
  std::optional<std::uint32_t> dest_qp_num{};  ///< the peer's, 24 bits
  bool sq_draining = false;                    ///< query: SQD, and a request that was started is not complete yet
};

}  // namespace parley
