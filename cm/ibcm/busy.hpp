// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// "Come again later", between two Agents: the last 8 octets of the private data of a REQ and of a REJ.
//
//   octet 0..3  50 59 B5 1E
//   octet 4     version, 1; a receiver takes no notice of others
//   octet 5     1 in a REQ: its sender understands a retry-after
//               2 in a REJ with reason 28: there was no room; send the same REQ again after the time below
//   octet 6..7  the time in milliseconds, big-endian; 0 in a REQ
//
// An Agent writes it into a REQ only if ConnectParameters::offer_retry_after is set, and into a REJ only as an answer to that, where
// ListenOptions::when_full is WhenFull::reject. Nobody else looks at it.
#pragma once
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"

namespace parley::cm::ibcm::busy {

inline constexpr std::size_t marker_len = 8;
inline constexpr Duration retry_after_min = std::chrono::milliseconds(1);
inline constexpr Duration retry_after_max = std::chrono::milliseconds(65535);

/// Into the last octets of `private_data`, the whole field of the message.
void put_offer(MutBytes private_data);
void put_retry_after(MutBytes private_data, Duration after);

bool has_offer(ConstBytes private_data);
/// None: not such a REJ. At least 1 ms.
std::optional<Duration> retry_after_of(ConstBytes private_data);
/// Zeros in its place.
void strip(MutBytes private_data);

}  // namespace parley::cm::ibcm::busy
