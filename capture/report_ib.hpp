// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Part of capture/report.hpp: the data of connections of InfiniBand's transport (RoCE).
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/ib/cm.hpp"
#include "wire/ib/packet.hpp"

namespace parley::capture {

enum class Side : std::uint8_t { initiator, responder };
constexpr Side other(Side s) { return s == Side::initiator ? Side::responder : Side::initiator; }
std::string_view to_string(Side side);
constexpr std::size_t index_of(Side side) { return static_cast<std::size_t>(side); }

enum class IbQp : std::uint8_t { rc, uc, ud, xrc, unknown };
std::string_view to_string(IbQp qp);  ///< "rc"; "unknown" if no packet shows it

/// The REJ, or the SIDR_REP that rejects.
struct IbReject {
  Side from = Side::responder;
  std::uint64_t frame = 0;
  bool sidr = false;
  wire::ib::CmSubject about{};
  std::uint16_t code = 0;    ///< reason of the REJ, or status of the SIDR_REP
  Bytes private_data{};      ///< of a REJ with reason 28, without trailing zero octets
  std::string ulp_status{};  ///< the private data decoded, for known ULPs: "NVMe: status 6, no resources"
  std::string text() const;
  /// text(); for a consumer reject (28) also the number, `ulp_status` and the private data.
  std::string details() const;
};

/// A NAK that moves the queue pair to ERR.
struct IbNak {
  Side from = Side::responder;
  std::uint64_t frame = 0;
  std::uint8_t code = 0;
};

/// What one side sent, in addition to DirectionCounts.
struct IbDirection {
  std::optional<std::uint32_t> qpn;           ///< the side's own
  std::optional<std::uint32_t> starting_psn;  ///< of the packets that it sends; requested by its peer
  std::uint64_t packets = 0;                  ///< of the queue pair, with retransmissions
  std::uint64_t missing_packets = 0;          ///< PSNs that the side used and the capture lacks
  std::uint64_t rnr_naks = 0, sequence_naks = 0;
};

/// Arrays of two are indexed by Side.
struct IbSeen {
  bool v2 = true;
  IbQp qp = IbQp::unknown;
  bool sidr = false;
  bool depths_known = false;  ///< a REQ or REP was seen; SIDR has no depths
  std::optional<std::uint64_t> service_id;
  std::uint16_t source_port = 0;  ///< from the RDMA IP CM service's header; 0: no such header
  std::uint16_t path_mtu = 0;     ///< octets; 0: not known
  std::uint64_t req_frame = 0, rep_frame = 0, rtu_frame = 0, dreq_frame = 0, drep_frame = 0;  ///< 0: not in the capture
  std::uint64_t retries = 0;  ///< CM messages that were retransmitted
  std::optional<IbReject> reject;
  std::optional<IbNak> nak;
  std::string gave_up;                   ///< why the set-up failed if it was not rejected: "no answer to 16 REQs"
  std::optional<Duration> reply, ready;  ///< REQ to REP, REJ or SIDR_REP; REP to RTU
  bool reply_rejects = false;            ///< `reply` is the time to the REJ
  std::array<IbDirection, 2> ends{};

  /// "tcp:7174", "udp:7174", or the ID in hexadecimal digits; empty if it is not known.
  std::string service() const;
  /// Why it was rejected or given up; empty if it was neither.
  std::string reason() const;
};

}  // namespace parley::capture
