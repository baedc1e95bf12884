// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Data that two Parley connection managers exchange without their users, in the last 8 octets of a message's private
// data field.
//
//   octet 0..3  50 59 B5 1E
//   octet 4     version, 1; a receiver ignores others
//   octet 5     kind:  1  REQ        offer: the sender understands a retry-after (cm/ibcm/busy.hpp)
//                      2  REJ 28     retry-after (cm/ibcm/busy.hpp)
//                      3  DREQ       how the connection ends for the sender (cm/ibcm/end_note.hpp)
//   octet 6..7  value, defined by the kind
//
// Other connection managers, and users that get a DREQ, ignore private data that they do not know.
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"

namespace parley::wire::ib::marker {

inline constexpr std::size_t length = 8;
enum class Kind : std::uint8_t { offer = 1, retry_after = 2, end = 3 };
using Value = std::array<std::uint8_t, 2>;

/// Writes the last `length` octets of `private_data`, which is the whole field of the message.
void put(MutBytes private_data, Kind kind, const Value& value);
/// nullopt: no marker of that kind and version.
std::optional<Value> get(ConstBytes private_data, Kind kind);
/// Overwrites a marker of that kind with zeros.
void strip(MutBytes private_data, Kind kind);

}  // namespace parley::wire::ib::marker
