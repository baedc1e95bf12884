// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Arithmetic of TCP sequence numbers: modulo 2^32, so that "before" has a meaning within 2^31 (RFC 9293 §3.4).
#pragma once
#include <cstdint>

namespace parley::sim {

constexpr bool seq_lt(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) < 0; }
constexpr bool seq_le(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) <= 0; }
constexpr std::uint32_t seq_max(std::uint32_t a, std::uint32_t b) { return seq_lt(a, b) ? b : a; }

}  // namespace parley::sim
