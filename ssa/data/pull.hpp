// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What a child sends on its data connection, and how a parent refuses it. Both have the form of a stream's messages
// (ssa/stream.hpp): header of a management datagram, length, number, epoch, payload, CRC32C.
//
//   pull     child to parent   GetTable, attribute 0x1025; the epoch of the child's version, {0, 0} for none; payload: 64 SSA_Key,
//                              128 the child's GID
//   refusal  parent to child   GetTableResp, attribute 0x1026, the status; no payload
//
// The answer to a pull is a stream or a refusal. The child may then pull again by the same connection.
#pragma once
#include "base/gid.hpp"
#include "ssa/node/output.hpp"
#include "ssa/stream.hpp"

namespace parley::ssa {

inline constexpr std::uint16_t pull_attribute = 0x1025, refusal_attribute = 0x1026;
inline constexpr std::size_t refusal_octets = stream_header_octets + stream_crc_octets;
inline constexpr std::size_t pull_octets = refusal_octets + 24;

struct Pull {
  std::uint64_t key = 0;  ///< SSA_Key
  Gid child{};
  Epoch epoch;  ///< of the version that the child has
  bool operator==(const Pull&) const = default;
};

Bytes emit(const Pull& pull);
/// `octets`: pull_octets of them. Errors: malformed, crc_mismatch.
Result<Pull> parse_pull(ConstBytes octets);

Bytes emit_refusal(AnswerStatus status, Epoch epoch);
/// The first message of an answer, of which `octets` has at least the header of a management datagram (24): the status
/// if it is a refusal.
std::optional<std::uint16_t> refusal_in(ConstBytes octets);
/// "no room for a further member or child"
std::string_view status_text(std::uint16_t status);

}  // namespace parley::ssa
