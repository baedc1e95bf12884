// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// "Retry later" between two Agents (wire/ib/cm_marker.hpp, kinds 1 and 2).
//
//   REQ     octet 6..7  0: the sender supports a retry-after
//   REJ 28  octet 6..7  there was no room; send the same REQ again after this many milliseconds, big-endian
//
// An Agent writes it into a REQ only if ConnectParameters::offer_retry_after is set, and into a REJ only as an answer to such a REQ,
// if ListenOptions::when_full is OverloadAction::reject. In all other cases it is ignored.
#pragma once
#include <optional>

#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/ib/cm_marker.hpp"

namespace parley::cm::ibcm::busy {

namespace marker = wire::ib::marker;

inline constexpr std::size_t marker_len = marker::length;
inline constexpr Duration retry_after_min = std::chrono::milliseconds(1);
inline constexpr Duration retry_after_max = std::chrono::milliseconds(65535);

/// Writes into the last octets of `private_data`, the whole field of the message.
void put_offer(MutBytes private_data);
void put_retry_after(MutBytes private_data, Duration after);

bool has_offer(ConstBytes private_data);
/// None: not such a REJ. Otherwise at least 1 ms.
std::optional<Duration> retry_after_of(ConstBytes private_data);
/// Replaces it by zeros.
void strip(MutBytes private_data);

}  // namespace parley::cm::ibcm::busy
