// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Messages of ibacm (infiniband/acm.h): what `ib_acme` and librdmacm ask a local service on a stream socket.
//
//   octet  member
//   0      version, 1
//   1      operation; 0x80 in an answer
//   2      status, of an answer
//   3      three octets of the operation
//   6      length of the message, 16 to 592; in the byte order of the host for `resolve`, else big-endian
//   8      transaction, copied to the answer
//   16     resolve: up to 8 records of 72 octets. Else see server.hpp
//
// A record has flags (32 bits) and a type (16 bits) in the byte order of the host, 16 reserved bits, and 64 octets of
// information in network order: a name that ends with a 0, an address, or a PathRecord (IBA §15.2.5.16).
#pragma once
#include <array>

#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::ssa::acm {

inline constexpr std::uint8_t version = 1, answer_bit = 0x80;
inline constexpr std::size_t header_octets = 16, record_octets = 72, info_octets = 64, records_max = 8;
inline constexpr std::size_t request_octets_max = header_octets + records_max * record_octets;

enum class Operation : std::uint8_t { resolve = 1, perf_query = 2, ep_query = 3 };

enum class Status : std::uint8_t {
  success = 0,
  no_memory = 1,
  invalid = 2,
  no_data = 3,  ///< there is no such path
  not_connected = 5,
  timed_out = 6,
  source_address = 7,  ///< the source is unknown
  source_type = 8,
  destination_address = 9,  ///< the destination is unknown
  destination_type = 10
};

struct Header {
  Operation operation = Operation::resolve;
  bool is_answer = false;
  Status status = Status::success;
  std::array<std::uint8_t, 3> data{};
  std::uint16_t length = header_octets;
  std::array<std::uint8_t, 8> transaction{};
  bool operator==(const Header&) const = default;
};

/// Types of records.
namespace record_type {
inline constexpr std::uint16_t name = 1, ipv4 = 2, ipv6 = 3, path = 0x10;
}
/// Flags of records: of an address in a request or answer, and of a request.
namespace flag {
inline constexpr std::uint32_t source = 1, destination = 2, no_delay = 1U << 30, query_sa = 1U << 31;
}
/// Flags of a path in an answer.
namespace path_flag {
inline constexpr std::uint32_t gmp = 1, primary = 2, outbound = 8, inbound_reverse = 32;
}

struct Record {
  std::uint32_t flags = 0;
  std::uint16_t type = 0;
  std::array<std::uint8_t, info_octets> info{};
  bool operator==(const Record&) const = default;
};

/// The header of a request or answer; `in` has at least its octets. Errors: malformed (another version, an unknown operation, a
/// length out of range). After an error the next message cannot be found.
Result<Header> parse_header(ConstBytes in);
/// `in` has at least 72 octets.
Record parse_record(ConstBytes in);

void append(Bytes& out, const Header& header);
void append(Bytes& out, const Record& record);

}  // namespace parley::ssa::acm
