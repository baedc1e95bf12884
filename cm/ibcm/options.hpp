// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What an ibcm::Agent is told: its limits, its timers, and the parameters of each command. docs/ibcm.md explains the timers.
#pragma once
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::cm::ibcm {

/// Never 0, never reused; 0 is no connection.
using ConnectionId = std::uint64_t;

enum class QpType : std::uint8_t { rc, uc, xrc };
std::string_view to_string(QpType type);  ///< "RC"

/// When a message that stays unanswered is sent again, and when that ends.
struct Timers {
  enum class Kind : std::uint8_t {
    spec,      ///< always after the response timeouts in the REQ, as Linux does
    back_off,  ///< after `first`, then twice as long each time up to `cap`; each wait is cut by up to half at random
  };
  Kind kind = Kind::spec;
  std::uint8_t retries = 15;                       ///< how often it is sent again; Max CM Retries of the REQ; 0 to 15
  Duration first = std::chrono::milliseconds(10);  ///< at least 1 us
  Duration cap = std::chrono::seconds(1);          ///< at least `first`
  /// Under `back_off`: when to give up. 0: when `spec` would.
  Duration total{};
  /// Under `back_off`: give up if nothing comes from the peer for this time, even if its MRA asked for more. 0: MRAs decide.
  Duration silence{};
};

struct AgentOptions {
  std::uint64_t ca_guid = 0;
  std::uint16_t p_key =
      PARLEY_IB_P_KEY_DEFAULT;  ///< the only one in the port's table; requests for others are rejected
  std::uint64_t seed = 0;       ///< of communication IDs, transaction IDs and the spread of back-offs
  Timers timers{};
  /// 0 to 31, timeout_of(): put into MRAs that the Agent sends by itself when a duplicate shows that the peer grows impatient
  /// while the user has not decided. None: it sends none.
  std::optional<std::uint8_t> mra_timeout = 24;
  /// How long ended connections are remembered at least and at most (IBA §12.9); in between it is the local ACK timeout of
  /// the REQ.
  Duration timewait_min = std::chrono::milliseconds(100);
  Duration timewait_max = std::chrono::seconds(60);
  /// A longer wait than this is asked of us by no peer, whatever its timeouts say.
  Duration peer_timeout_max = std::chrono::seconds(69);
  /// A message for a connection counts only if it comes from the GID to which this side sends.
  bool check_source_gid = true;
  /// Departures of another CM that this one plays; for tests.
  wire::ib::DepartureSet play{};

  // Bounds. What is beyond is refused with no_space, or counted and dropped.
  std::uint32_t connections_max = 65536;  ///< ids alive: set-ups, connections, and the ended ones that are remembered
  std::uint32_t remembered_max =
      16384;  ///< ended ones; half for those that were established, half for others. Oldest first
  std::uint32_t listeners_max = 1024;
  std::uint32_t transmit_max = 4096;  ///< MADs that wait for poll_transmit(); what is beyond is lost as on a wire
  std::uint32_t outstanding_max =
      1024;  ///< requests of this side that are unanswered, in all; others wait for their turn
  std::uint32_t outstanding_per_peer = 128;  ///< of those, to one GID
  std::uint32_t waiting_max = 65536;         ///< requests that wait for their turn
};

/// What a listener does with requests for which `pending_max` leaves no room.
enum class WhenFull : std::uint8_t {
  drop,    ///< says nothing, as Linux does
  mra,     ///< an MRA: the peer sends its REQ again after its service timeout
  reject,  ///< REJ 28 with a retry-after for peers that said they understand it (busy.hpp), an MRA for others
};

struct ListenOptions {
  bool connected = true;  ///< REQs are taken
  bool sidr = true;       ///< SIDR_REQs are taken
  /// Set-ups that wait for the user or for the peer's RTU. One of the busiest address gives way to a newcomer from elsewhere
  /// (cm/admission.hpp); with an eighth more for networks that have none.
  std::uint32_t pending_max = 1024;
  WhenFull when_full = WhenFull::mra;
  std::uint8_t busy_timeout = 17;                         ///< 0 to 31, timeout_of(): of that MRA
  Duration retry_after = std::chrono::milliseconds(250);  ///< of that REJ; 1 ms to 65 s
};

/// Where a request goes. Both GIDs are of this side's view.
struct Path {
  wire::ib::CmPath primary{};
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t sgid_index = 0;  ///< where the local GID is in the port's table
  /// As Linux sends it over RoCEv2: permissive LIDs, hop limit 64, ACK timeout 19.
  static Path roce(const Gid& local, const Gid& remote);
};

struct ConnectParameters {
  std::uint64_t service_id = 0;
  Path path{};
  std::optional<wire::ib::CmPath> alternate{};
  QpType qp_type = QpType::rc;
  std::uint32_t qpn = 0;           ///< 24 bits; XRC: of the INI queue pair
  std::uint32_t starting_psn = 0;  ///< 24 bits: what the peer has to begin with
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t retry_count = 7, rnr_retry_count = 7;                       ///< 0 to 7; for the peer's queue pair
  std::uint8_t path_mtu = 3;                                               ///< 1 to 5: 256 to 4096 octets
  std::uint8_t local_response_timeout = 20, remote_response_timeout = 20;  ///< 0 to 31, timeout_of()
  bool flow_control = false, srq = false;
  std::uint32_t ece_vendor = 0, ece_options = 0;
  ConstBytes private_data{};       ///< copied; at most 92 octets
  std::optional<Timers> timers{};  ///< none: the Agent's
  /// Says in the last 8 octets of the private data, which must be free, that this side understands a retry-after (busy.hpp).
  bool offer_retry_after = false;
};

struct AcceptParameters {
  std::uint32_t qpn = 0;           ///< 24 bits; XRC: of the TGT queue pair
  std::uint32_t starting_psn = 0;  ///< 24 bits
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t rnr_retry_count = 7;    ///< 0 to 7
  std::uint8_t target_ack_delay = 15;  ///< 0 to 31, timeout_of()
  bool flow_control = false, srq = false;
  /// 0: accepted, 1: failover not supported, 2: alternate path rejected; looked at only if the REQ has an alternate path.
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
