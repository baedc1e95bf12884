// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What two of Parley's connection managers say to each other in private data, without their users: the last 8 octets of a message's field.
//
//   octet 0..3  50 59 B5 1E
//   octet 4     version, 1; a receiver takes no notice of others
//   octet 5     kind:  1  REQ        offer: the sender understands a retry-after (cm/ibcm/busy.hpp)
//                      2  REJ 28     retry-after (cm/ibcm/busy.hpp)
//                      3  DREQ       how the connection ends for the sender (cm/ibcm/end_note.hpp)
//   octet 6..7  of that kind
//
// Nobody else looks at them: other connection managers, and users of a DREQ, pass over private data that they do not know.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"

namespace parley::wire::ib::marker {

inline constexpr std::size_t length = 8;
enum class Kind : std::uint8_t { offer = 1, retry_after = 2, end = 3 };
using Value = std::array<std::uint8_t, 2>;

/// Into the last octets of `private_data`, the whole field of the message.
void put(MutBytes private_data, Kind kind, const Value& value);
/// None: there is none of that kind and version.
std::optional<Value> get(ConstBytes private_data, Kind kind);
/// Zeros in its place, if there is one of that kind.
void strip(MutBytes private_data, Kind kind);

}  // namespace parley::wire::ib::marker
