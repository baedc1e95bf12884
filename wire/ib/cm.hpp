// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages of the InfiniBand Communication Manager: IBA vol. 1 §12.6 to §12.11. A number's comment gives the width
// of its field; emit() cuts off higher bits. Reserved bits are sent as zeros and ignored on receipt.
//
// A message does not carry the length of its private data: the receiver gets the whole field.
#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <variant>

#include "base/gid.hpp"
#include "parley/wire/ibcm.h"
#include "wire/ib/mad.hpp"

namespace parley::wire::ib {

enum class CmMessageType : std::uint16_t {
#define PARLEY_X(name, attribute, structure, fields, text) name = attribute,
  PARLEY_IBCM_MESSAGES(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(CmMessageType type);  ///< "REQ"; "unknown message" for others

enum class CmService : std::uint8_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_IBCM_SERVICES(PARLEY_X)
#undef PARLEY_X
};

/// Which message an MRA or a REJ is about.
enum class CmSubject : std::uint8_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_IBCM_ABOUT(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(CmSubject about);

enum class CmReject : std::uint16_t {
#define PARLEY_X(name, code, text) name = code,
  PARLEY_IBCM_REJECTS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(CmReject reason);  ///< a sentence; "unassigned reason" for others

enum class SidrStatus : std::uint8_t {
#define PARLEY_X(name, code, text) name = code,
  PARLEY_IBCM_SIDR_STATUS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(SidrStatus status);

enum class ApStatus : std::uint8_t {
#define PARLEY_X(name, code, text) name = code,
  PARLEY_IBCM_AP_STATUS(PARLEY_X)
#undef PARLEY_X
};
std::string_view to_string(ApStatus status);

using CmInfo = std::array<std::uint8_t, PARLEY_IBCM_INFO_LEN>;
template <std::size_t N>
using PrivateData = std::array<std::uint8_t, N>;

/// A path as the sender of a REQ or LAP sees it: "local" is its own port.
struct CmPath {
  std::uint16_t local_lid = 0, remote_lid = 0;
  Gid local_gid{}, remote_gid{};
  std::uint32_t flow_label = 0;  ///< 20 bits
  std::uint8_t packet_rate = 0;  ///< 6 bits; 0: the port's own
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t sl = 0;  ///< 4 bits
  bool subnet_local = false;
  std::uint8_t local_ack_timeout = 0;  ///< 5 bits; timeout_of()
  bool operator==(const CmPath&) const = default;
};

/// IBA §12.6.5.
struct CmReq {
  std::uint32_t local_comm_id = 0;
  std::uint32_t ece_vendor = 0;  ///< 24 bits; 0: no enhanced connection establishment
  std::uint64_t service_id = 0;
  std::uint64_t local_ca_guid = 0;
  std::uint32_t local_q_key = 0;  ///< RD
  std::uint32_t local_qpn = 0;    ///< 24 bits
  std::uint8_t responder_resources = 0;
  std::uint32_t local_eecn = 0;  ///< 24 bits; RD
  std::uint8_t initiator_depth = 0;
  std::uint32_t remote_eecn = 0;                ///< 24 bits; RD
  std::uint8_t remote_cm_response_timeout = 0;  ///< 5 bits; timeout_of()
  CmService service = CmService::rc;
  bool flow_control = false;                   ///< end-to-end
  std::uint32_t starting_psn = 0;              ///< 24 bits; the first PSN that the REQ's receiver sends
  std::uint8_t local_cm_response_timeout = 0;  ///< 5 bits; timeout_of()
  std::uint8_t retry_count = 0;                ///< 3 bits
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint8_t path_mtu = 0;  ///< 4 bits; 1 to 5: 256 to 4096 octets
  bool rdc_exists = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  std::uint8_t max_cm_retries = 0;   ///< 4 bits
  bool srq = false;
  std::uint8_t extended_service = 0;  ///< 3 bits; PARLEY_IBCM_EXTENDED_XRC
  CmPath primary, alternate;
  PrivateData<92> private_data{};

  bool is_xrc() const { return service == CmService::extended && extended_service == PARLEY_IBCM_EXTENDED_XRC; }
  bool has_alternate() const { return alternate.local_lid != 0; }
  bool operator==(const CmReq&) const = default;
};

/// IBA §12.6.6.
struct CmMra {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmSubject about = CmSubject::req;
  std::uint8_t service_timeout = 0;  ///< 5 bits; timeout_of()
  PrivateData<222> private_data{};
  bool operator==(const CmMra&) const = default;
};

/// IBA §12.6.7.
struct CmRej {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmSubject about = CmSubject::req;
  std::uint8_t info_length = 0;  ///< 7 bits; valid octets of `info`
  CmReject reason{};
  CmInfo info{};
  PrivateData<148> private_data{};
  bool operator==(const CmRej&) const = default;
};

/// IBA §12.6.8.
struct CmRep {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint32_t local_q_key = 0;
  std::uint32_t local_qpn = 0;     ///< 24 bits; XRC: 0
  std::uint32_t local_eecn = 0;    ///< 24 bits; XRC: the TGT queue pair
  std::uint32_t starting_psn = 0;  ///< 24 bits
  std::uint32_t ece_vendor = 0;    ///< 24 bits, in three reserved octets
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;   ///< 5 bits; timeout_of()
  std::uint8_t failover_accepted = 0;  ///< 2 bits; 0: accepted
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;  ///< 3 bits
  bool srq = false;
  std::uint64_t local_ca_guid = 0;
  PrivateData<196> private_data{};
  /// The responder's QPN: local_qpn, or local_eecn if local_qpn is 0 (XRC).
  std::uint32_t qpn() const { return local_qpn != 0 ? local_qpn : local_eecn; }
  bool operator==(const CmRep&) const = default;
};

/// IBA §12.6.9.
struct CmRtu {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  PrivateData<224> private_data{};
  bool operator==(const CmRtu&) const = default;
};

/// IBA §12.6.10.
struct CmDreq {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint32_t remote_qpn = 0;  ///< 24 bits; the receiver's
  PrivateData<220> private_data{};
  bool operator==(const CmDreq&) const = default;
};

/// IBA §12.6.11.
struct CmDrep {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  PrivateData<224> private_data{};
  bool operator==(const CmDrep&) const = default;
};

/// IBA §12.8.1.
struct CmLap {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint32_t remote_qpn = 0;                 ///< 24 bits
  std::uint8_t remote_cm_response_timeout = 0;  ///< 5 bits; timeout_of()
  CmPath alternate;
  PrivateData<168> private_data{};
  bool operator==(const CmLap&) const = default;
};

/// IBA §12.8.2.
struct CmApr {
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint8_t info_length = 0;
  ApStatus status{};
  CmInfo info{};
  PrivateData<148> private_data{};
  bool operator==(const CmApr&) const = default;
};

/// IBA §12.11.1.
struct CmSidrReq {
  std::uint32_t request_id = 0;
  std::uint16_t p_key = PARLEY_IB_P_KEY_DEFAULT;
  std::uint64_t service_id = 0;
  PrivateData<216> private_data{};
  bool operator==(const CmSidrReq&) const = default;
};

/// IBA §12.11.2.
struct CmSidrRep {
  std::uint32_t request_id = 0;
  SidrStatus status{};
  std::uint8_t info_length = 0;
  std::uint32_t ece_vendor = 0;  ///< 24 bits
  std::uint32_t qpn = 0;         ///< 24 bits
  std::uint64_t service_id = 0;
  std::uint32_t q_key = 0;
  CmInfo info{};
  PrivateData<136> private_data{};
  bool operator==(const CmSidrRep&) const = default;
};

using CmBody = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep, CmLap, CmApr>;

/// A whole MAD of the class Communication Management.
struct CmMessage {
  std::uint64_t transaction_id = 0;
  std::uint32_t attribute_modifier = 0;  ///< ECE in a REQ, REP or SIDR_REP
  CmBody body;

  CmMessageType type() const;
  /// Errors: truncated below 256 octets; unsupported: another class, version, method or attribute. A receiver drops
  /// such a MAD silently, except a REQ or SIDR_REQ of another class version, which it rejects (IBA §12.6.7.2).
  static Result<CmMessage> parse(ConstBytes mad);
  void emit(MutBytes out) const;  ///< 256 octets
  bool operator==(const CmMessage&) const = default;
};

/// As CmMessage::emit(), for one of CmBody's types.
template <class M>
void emit_cm(const M& body, std::uint64_t transaction_id, std::uint32_t attribute_modifier, MutBytes out);

}  // namespace parley::wire::ib
