// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Rates of links. Their codes (IBA §15.2.5.16) are not in the order of the rates, so the least of two is taken by rank.
#pragma once
#include <cstdint>

namespace parley::ssa {

/// What PortInfo says of a link's width and speed: bits as in LinkWidthActive, LinkSpeedActive, LinkSpeedExtActive (IBA
/// §14.2.5.6) and LinkSpeedExtActive2.
struct LinkSpeeds {
  std::uint8_t width = 0, speed = 0, ext = 0, ext2 = 0;
};

/// The code of a link's rate: 2 (2.5 Gb/s) if the width or the speed is unknown, or no code has the rate (8 and 12 lanes
/// of 200 Gb/s).
std::uint8_t rate_code(const LinkSpeeds& link);
/// The position of a code in the order of the rates, from 1; 0: no such code.
std::uint8_t rate_rank(std::uint8_t code);
/// The code at a rank; 0 for rank 0 and beyond the last one.
std::uint8_t code_of_rank(std::uint8_t rank);

}  // namespace parley::ssa
