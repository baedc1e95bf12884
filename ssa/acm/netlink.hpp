// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages of RDMA_NL_LS (Linux, rdma/rdma_netlink.h): on a NETLINK_RDMA socket in the group RDMA_NL_GROUP_LS (3), the kernel asks a
// local service for paths and for GIDs of IP addresses before it asks subnet administration. Numbers are in the byte order of the host, unless said otherwise.
//
//   octet  member
//   0      length of the message in octets, without padding (32 bits)
//   4      type (16 bits): client 4 in the upper 6 bits, operation in the lower 10
//   6      flags (16 bits): 0x0001 in a request; 0x0100 in an answer that is a refusal
//   8      sequence number, copied to the answer (32 bits); 12: port ID of the sender (32 bits)
//   16     request to resolve: 64 octets of device name, port number, use of the path, 2 octets of padding
//          request to resolve an IP address: interface index (32 bits). Else nothing
//          attributes: length without padding (16 bits), type (16 bits), value, padding to 4 octets
//
//   type  value                                                     in
//   1     32 bits of flags, 32 reserved bits, a PathRecord          answers: resolve
//   2     milliseconds (32 bits)                                    set_timeout
//   3     ServiceID (64 bits)                                       requests: resolve
//   4, 5  DGID, SGID                                                requests: resolve; DGID also answers: ip_resolve
//   6     TClass (8 bits); 7: P_Key (16 bits); 8: QoS class (16)    requests: resolve
//   9, 10 IPv4 address, IPv6 address, big-endian                    requests: ip_resolve
//
// Type bit 0x2000: a service that does not know the attribute must refuse the message. Bits 0x8000 and 0x4000 are those of netlink.
#pragma once
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "wire/mad/sa.hpp"

namespace parley::ssa::acm {

enum class KernelOperation : std::uint16_t { resolve = 0, set_timeout = 1, ip_resolve = 2 };

/// What a path is for.
enum class PathUse : std::uint8_t {
  all = 0,             ///< a connection: up to 6 paths, and each way back
  unidirectional = 1,  ///< one way
  gmp = 2              ///< there is a way back
};

inline constexpr std::uint16_t netlink_request = 0x0001, netlink_refusal = 0x0100;
inline constexpr std::size_t netlink_header_octets = 16, netlink_paths_max = 6;

struct KernelPath {
  std::uint32_t flags = 0;  ///< path_flag of message.hpp
  wire::mad::PathRecord record;
  bool operator==(const KernelPath&) const = default;
};

/// Any message of the client: a request or an answer, with the members that its operation has.
struct KernelMessage {
  KernelOperation operation = KernelOperation::resolve;
  std::uint16_t flags = netlink_request;
  std::uint32_t sequence = 0, port_id = 0;
  // resolve, requests only
  std::string device{};  ///< at most 63 octets
  std::uint8_t port = 0;
  PathUse use = PathUse::all;
  // ip_resolve, requests only
  std::uint32_t interface_index = 0;
  // attributes
  std::vector<KernelPath> paths{};  ///< at most netlink_paths_max
  std::optional<std::uint32_t> timeout_ms{};
  std::optional<std::uint64_t> service_id{};
  std::optional<Gid> dgid{}, sgid{};
  std::optional<std::uint8_t> traffic_class{};
  std::optional<std::uint16_t> p_key{}, qos_class{};
  std::optional<std::array<std::uint8_t, 4>> ipv4{};
  std::optional<std::array<std::uint8_t, 16>> ipv6{};

  bool is_request() const { return (flags & netlink_request) != 0; }
  bool is_refusal() const { return (flags & netlink_refusal) != 0; }
  bool operator==(const KernelMessage&) const = default;
};

struct NetlinkHeader {
  std::uint32_t length = 0;  ///< at least netlink_header_octets
  std::uint16_t type = 0, flags = 0;
  std::uint32_t sequence = 0, port_id = 0;
  /// Of RDMA_NL_LS, with an operation that is known or not.
  bool is_local_service() const;
};

/// The header of the first message of a datagram. Errors: truncated (`in` ends in it, or before `length`), malformed (`length` is less
/// than the header's).
Result<NetlinkHeader> parse_netlink_header(ConstBytes in, std::endian order = std::endian::native);

void append_netlink_header(Bytes& out, const NetlinkHeader& header, std::endian order = std::endian::native);

/// The first message of a datagram. Errors: those of parse_netlink_header(); malformed (another client, an unknown operation, an
/// attribute that ends beyond the message, has another length than its type, comes twice, or is unknown and must be known; an unknown
/// use of the path; too many paths); truncated (the message ends in the header of its operation). Attributes that are unknown and need not be known are
/// left out.
Result<KernelMessage> parse_netlink(ConstBytes in, std::endian order = std::endian::native);

/// Appends the message, with padding. Attributes of a request have the bit 0x2000, as those of the kernel; answers have none.
void append_netlink(Bytes& out, const KernelMessage& message, std::endian order = std::endian::native);

}  // namespace parley::ssa::acm
