// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The shape of an FPDU, shared by both halves of the framing: RFC 5044 §4.1 to §4.3, §4.5.
//
//   ULPDU_Length(2) ULPDU(n) PAD(0..3, zeros) CRC(4), a multiple of four octets
//
// With markers, four octets (reserved(2) FPDUPTR(2)) are at every stream position divisible by 512; position 0 is the
// first octet after the startup frame. FPDUPTR counts from ULPDU_Length to the marker; 0 means the marker comes before
// it. FPDUs and markers are four-aligned, so a marker cannot split ULPDU_Length's word or the CRC.
#pragma once
#include <cstddef>
#include <cstdint>

#include "parley/wire/mpa.h"

namespace parley::mpa {

struct FramerOptions {
  bool crc = true;
  bool markers = false;
  std::uint16_t emss = 1460;
};

namespace fpdu {

constexpr std::size_t interval = PARLEY_MPA_MARKER_INTERVAL;
constexpr std::size_t marker_size = PARLEY_MPA_MARKER_LEN;
constexpr std::size_t length_size = PARLEY_MPA_LEN_LEN;
constexpr std::size_t crc_size = PARLEY_MPA_CRC_LEN;

// RFC 5044 §3: a ULPDU has 1 to 64768 octets.
constexpr bool length_allowed(std::size_t ulpdu_length) { return ulpdu_length - 1 < PARLEY_MPA_ULPDU_MAX; }

/// Octets of PAD. RFC 5044 §4.1
constexpr std::size_t pad(std::size_t ulpdu_length) { return (0 - (length_size + ulpdu_length)) & 3; }

/// Octets of an FPDU without its markers. RFC 5044 §4.1
constexpr std::size_t bare_size(std::size_t ulpdu_length) {
  return ((length_size + ulpdu_length + 3) & ~std::size_t{3}) + crc_size;
}

/// Markers in an FPDU of `bare` octets that begins at `position`, a leading one included. RFC 5044 §4.3
constexpr std::size_t markers(std::uint64_t position, std::size_t bare) {
  const auto ahead = static_cast<std::size_t>((0 - position) & (interval - 1));
  return ahead >= bare ? 0 : 1 + (bare - ahead - 1) / (interval - marker_size);
}

constexpr std::size_t wire_size(std::uint64_t position, std::size_t ulpdu_length, bool marked) {
  const std::size_t bare = bare_size(ulpdu_length);
  return marked ? bare + marker_size * markers(position, bare) : bare;
}

/// The bounds of every buffer: the longest FPDU, the most markers in it, the most pieces of its ULPDU.
constexpr std::size_t markers_max = markers(0, bare_size(PARLEY_MPA_ULPDU_MAX));
constexpr std::size_t wire_max = wire_size(0, PARLEY_MPA_ULPDU_MAX, true);
constexpr std::size_t pieces_max = markers_max + 1;
static_assert(markers_max == 128 && wire_max == 65288);

}  // namespace fpdu
}  // namespace parley::mpa
