// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The messages between the processes that share UDP port 4791 of an address, its members, and the process that opens
// the sockets, the keeper. Each message is one record of a Unix socket; descriptors travel next to it (SCM_RIGHTS).
//
//   Join (will)       ->            <- Sockets (its own), Joined, Sockets (copies of all) ...    or <- Refused
//   Claim             ->            <- Answer
//   Leave             ->            <- Left
//   Join with a prefix (will), Offer (descriptors) ..., Offered, Claim ...  -> a new keeper, of a member of the last one
//
// An address is named by its position in Join::addresses. place.hpp and channel.hpp have the Unix socket; the rest of this
// folder is pure.
#pragma once
#include <cstdint>
#include <variant>
#include <vector>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/result.hpp"

namespace parley::preload::port {

/// Different numbers cannot work with each other; it is in the name of the keeper's socket. All builds of a user share one
/// keeper, so a change of what either side does needs a new number.
inline constexpr std::uint8_t protocol_version = 1;
inline constexpr std::size_t addresses_max = 256;   ///< of a member: a port has at most 256 GIDs
inline constexpr std::size_t sockets_at_once = 64;  ///< descriptors in a message
inline constexpr std::size_t message_max = 8192;    ///< octets
inline constexpr std::uint8_t prefix_max = 254;     ///< 255 is the top octet of QPN 0xFFFFFF, multicast

using Positions = std::vector<std::uint8_t>;  ///< of addresses, in Join::addresses

struct Join {
  std::uint8_t prefix = 0;  ///< not 0: the prefix that the last keeper gave
  std::vector<Address> addresses{};
  bool operator==(const Join&) const = default;
};
/// Sockets `first`, `first` + 1, ... of the group at the address.
struct Offer {
  std::uint8_t position = 0, first = 0;
  bool operator==(const Offer&) const = default;
};
struct Offered {
  bool operator==(const Offered&) const = default;
};
/// Requests for the service arrive at the member.
struct Claim {
  std::uint32_t request = 0;  ///< repeated in the Answer
  std::uint64_t service = 0;
  Positions positions{};
  bool operator==(const Claim&) const = default;
};
/// Ends a Claim with the same fields.
struct Release {
  std::uint64_t service = 0;
  Positions positions{};
  bool operator==(const Release&) const = default;
};
struct Leave {
  bool operator==(const Leave&) const = default;
};
using FromMember = std::variant<Join, Offer, Offered, Claim, Release, Leave>;

struct Sockets {
  std::uint8_t position = 0, first = 0;
  bool operator==(const Sockets&) const = default;
};
struct Joined {
  std::uint8_t prefix = 0;
  bool operator==(const Joined&) const = default;
};
enum class Refusal : std::uint8_t {
  system = 1,  ///< the keeper cannot open the sockets, by Refused::error
  full,        ///< prefix_max members are there
  taken,       ///< the prefix of a rejoining member belongs to another one
};
struct Refused {
  Refusal why{};
  std::uint8_t position = 0;
  std::uint16_t error = 0;  ///< errno; EADDRINUSE: a process that does not share the port has it at the address
  bool operator==(const Refused&) const = default;
};
enum class ClaimResult : std::uint8_t {
  yours,
  taken,  ///< another member has the service at one of the addresses
  full,   ///< services_max at one of the addresses
};
struct Answer {
  std::uint32_t request = 0;
  ClaimResult result{};
  bool operator==(const Answer&) const = default;
};
struct Left {
  bool operator==(const Left&) const = default;
};
using FromKeeper = std::variant<Sockets, Joined, Refused, Answer, Left>;

Bytes encode(const FromMember& message);
Bytes encode(const FromKeeper& message);
/// Errors: malformed, unsupported (another protocol_version).
Result<FromMember> decode_from_member(ConstBytes octets);
Result<FromKeeper> decode_from_keeper(ConstBytes octets);

}  // namespace parley::preload::port
