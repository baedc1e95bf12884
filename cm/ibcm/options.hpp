// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Input of an ibcm::Agent: its limits, its timers, and the parameters of each command. docs/ibcm.md explains the timers.
#pragma once
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::cm::ibcm {

/// Never 0, never reused; 0 is not a connection.
using ConnectionId = std::uint64_t;

enum class QpType : std::uint8_t { rc, uc, xrc };
std::string_view to_string(QpType type);  ///< "RC"

/// When an unanswered message is retransmitted, and when the retransmissions end.
struct Timers {
  enum class Kind : std::uint8_t {
    spec,      ///< always after the response timeouts in the REQ, as Linux does
    back_off,  ///< after `first`, then doubled each time up to `cap`; each wait is shortened by a random part of up to half
  };
  Kind kind = Kind::spec;
  std::uint8_t retries = 15;                       ///< retransmissions; Max CM Retries of the REQ; 0 to 15
  Duration first = std::chrono::milliseconds(10);  ///< at least 1 us
  Duration cap = std::chrono::seconds(1);          ///< at least `first`
  /// With `back_off`: when to give up. 0: when `spec` would.
  Duration total{};
  /// With `back_off`: give up after this silence of the peer, even if its MRA requested more time. 0: MRAs decide.
  Duration silence{};
};

struct AgentOptions {
  std::uint64_t ca_guid = 0;
  std::uint16_t p_key =
      PARLEY_IB_P_KEY_DEFAULT;  ///< the only one in the port's table; requests with another one are rejected
  std::uint64_t seed = 0;       ///< for communication IDs, transaction IDs and the random part of back-offs
  /// If not 0: the top octet of the communication IDs and request IDs of this side, so that a port that several agents
  /// share is divided by it.
  std::uint8_t id_prefix = 0;
  Timers timers{};
  /// 0 to 31, timeout_of(): service timeout of MRAs that the Agent sends by itself, when a duplicate arrives while the user has not
  /// decided. None: it sends no MRAs.
  std::optional<std::uint8_t> mra_timeout = 24;
  /// Minimum and maximum time for which ended connections are remembered (IBA §12.9); in between it is the local ACK timeout of the
  /// REQ.
  Duration timewait_min = std::chrono::milliseconds(100);
  Duration timewait_max = std::chrono::seconds(60);
  /// Upper bound of any wait that a peer's timeouts can request.
  Duration peer_timeout_max = std::chrono::seconds(69);
  /// Accept a message for a connection only from the GID to which this side sends.
  bool check_source_gid = true;
  /// Deviations of another CM that this one imitates; for tests.
  wire::ib::DepartureSet play{};

  // Bounds. Anything beyond is refused with no_space, or counted and dropped.
  std::uint32_t connections_max = 65536;  ///< ids alive: set-ups, connections, and ended ones that are remembered
  std::uint32_t remembered_max =
      16384;  ///< ended ones; half for those that were established, half for others. The oldest are dropped first
  std::uint32_t listeners_max = 1024;
  std::uint32_t transmit_max = 4096;         ///< MADs that wait for poll_transmit(); further ones are lost as on a wire
  std::uint32_t outstanding_max = 1024;      ///< unanswered requests of this side, in total; others are queued
  std::uint32_t outstanding_per_peer = 128;  ///< of these, to one GID
  std::uint32_t waiting_max = 65536;         ///< queued requests
};

/// How a listener answers requests that exceed `pending_max`.
enum class OverloadAction : std::uint8_t {
  drop,    ///< no answer, as Linux does
  mra,     ///< an MRA: the peer retransmits its REQ after the service timeout
  reject,  ///< REJ 28 with a retry-after for peers that announced support for it (busy.hpp), an MRA for others
};

struct ListenOptions {
  bool connected = true;  ///< accepts REQs
  bool sidr = true;       ///< accepts SIDR_REQs
  /// Set-ups that wait for the user or for the peer's RTU, plus an eighth for networks that have none. Beyond this, one of the
  /// busiest address is ended for a newcomer from elsewhere (cm/admission.hpp).
  std::uint32_t pending_max = 1024;
  OverloadAction when_full = OverloadAction::mra;
  std::uint8_t busy_timeout = 17;                         ///< 0 to 31, timeout_of(): for that MRA
  Duration retry_after = std::chrono::milliseconds(250);  ///< for that REJ; 1 ms to 65 s
};

/// The path of a request. Both GIDs are from this side's view.
struct Path {
  wire::ib::CmPath primary{};
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t sgid_index = 0;  ///< of the local GID in the port's table
  /// As Linux sends it over RoCEv2: permissive LIDs, hop limit 64, ACK timeout 19.
  static Path roce(const Gid& local, const Gid& remote);
};

struct ConnectParameters {
  std::uint64_t service_id = 0;
  Path path{};
  std::optional<wire::ib::CmPath> alternate{};
  QpType qp_type = QpType::rc;
  std::uint32_t qpn = 0;           ///< 24 bits; XRC: the INI queue pair
  std::uint32_t starting_psn = 0;  ///< 24 bits: the peer's first PSN
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;                       ///< 0 to 7; for the peer's queue pair
  std::uint8_t path_mtu = 3;                                               ///< 1 to 5: 256 to 4096 octets
  std::uint8_t local_response_timeout = 20, remote_response_timeout = 20;  ///< 0 to 31, timeout_of()
  bool flow_control = false, srq = false;
  std::uint32_t ece_vendor = 0, ece_options = 0;
  ConstBytes private_data{};       ///< copied; at most 92 octets
  std::optional<Timers> timers{};  ///< none: the Agent's
  /// Announce in the last 8 octets of the private data, which must be free, that this side supports a retry-after (busy.hpp).
  bool offer_retry_after = false;
};

struct AcceptParameters {
  std::uint32_t qpn = 0;           ///< 24 bits; XRC: the TGT queue pair
  std::uint32_t starting_psn = 0;  ///< 24 bits
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t rnr_retry_count = 7;    ///< 0 to 7
  std::uint8_t target_ack_delay = 15;  ///< 0 to 31, timeout_of()
  bool flow_control = false, srq = false;
  /// 0: accepted, 1: failover not supported, 2: alternate path rejected; only used if the REQ has an alternate path.
  std::uint8_t failover = 1;
  std::uint32_t ece_vendor = 0, ece_options = 0;
  ConstBytes private_data{};       ///< copied; at most 196 octets
  std::optional<Timers> timers{};  ///< none: the Agent's
};

struct RejectParameters {
  wire::ib::CmReject reason = wire::ib::CmReject::consumer;
  ConstBytes info{};          ///< additional information; at most 72 octets
  ConstBytes private_data{};  ///< at most 148 octets
};

struct SidrParameters {
  std::uint64_t service_id = 0;
  Path path{};
  ConstBytes private_data{};  ///< at most 216 octets
  std::uint8_t response_timeout = 20;
  std::optional<Timers> timers{};
};

struct SidrAnswer {
  wire::ib::SidrStatus status = wire::ib::SidrStatus::valid;
  std::uint32_t qpn = 0;  ///< 24 bits
  std::uint32_t q_key = 0;
  ConstBytes info{};          ///< at most 72 octets
  ConstBytes private_data{};  ///< at most 136 octets
};

struct AlternateAnswer {
  wire::ib::ApStatus status = wire::ib::ApStatus::accepted;
  ConstBytes info{};          ///< at most 72 octets
  ConstBytes private_data{};  ///< at most 148 octets
};

}  // namespace parley::cm::ibcm
