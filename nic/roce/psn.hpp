// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Packet sequence numbers, IBA §9.2: 24 bits that wrap. Internally they are extended to 64 bits that do not wrap, so
// that they compare as numbers; the low 24 bits are those on the wire.
#pragma once
#include <cstdint>

namespace parley::nic::roce {

using Psn = std::uint64_t;

inline constexpr std::uint32_t psn_mask = 0xFFFFFF;
inline constexpr std::uint32_t psn_half = 1U << 23;

/// A first PSN; slightly earlier ones are still above 0.
constexpr Psn first_psn(std::uint32_t wire) { return Psn{psn_mask} + 1 + (wire & psn_mask); }
constexpr std::uint32_t wire_psn(Psn psn) { return static_cast<std::uint32_t>(psn) & psn_mask; }

/// The number nearest to `around` whose low 24 bits are `wire`. IBA §9.7.1: of the 2^24 half are ahead, half behind.
constexpr Psn nearest_psn(Psn around, std::uint32_t wire) {
  const std::uint32_t ahead = (wire - static_cast<std::uint32_t>(around)) & psn_mask;
  return ahead < psn_half ? around + ahead : around + ahead - (Psn{psn_mask} + 1);
}

/// Packets of a message: one even if it has no octets.
constexpr std::uint32_t packets_of(std::uint64_t length, std::uint32_t mtu) {
  return length == 0 ? 1 : static_cast<std::uint32_t>((length + mtu - 1) / mtu);
}

}  // namespace parley::nic::roce
