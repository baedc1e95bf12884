// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// MPA startup frame codec: RFC 5044 §7.1.1, RFC 6581 §6, OFA 2007-10 Rtr §1.
#pragma once
#include <optional>
#include <string_view>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/mpa.h"

namespace parley::wire {

/// Octets of the stream from one marker's start to the next. RFC 5044 §4.3.
inline constexpr std::uint32_t marker_interval = PARLEY_MPA_MARKER_INTERVAL;

enum class MpaKey : std::uint8_t { req, rep, rtr, rtr_hex, unknown };
std::string_view to_string(MpaKey key);
/// `key` is 16 octets; any other size gives MpaKey::unknown.
MpaKey classify_mpa_key(ConstBytes key);
/// True while `head` (0..16 octets) can still become one of the known keys.
bool may_become_mpa_key(ConstBytes head);

/// A view of a startup frame. Its fields may have any values; printing it is always safe.
struct MpaFrameView {
  MpaKey key = MpaKey::unknown;
  std::uint8_t flags = 0;
  std::uint8_t revision = 0;
  std::uint16_t pd_length = 0;
  ConstBytes private_data;  ///< as much of pd_length as the input holds

  bool m() const { return flags & PARLEY_MPA_FLAG_M; }
  bool c() const { return flags & PARLEY_MPA_FLAG_C; }
  bool r() const { return flags & PARLEY_MPA_FLAG_R; }
  bool s() const { return flags & PARLEY_MPA_FLAG_S; }
  /// Bits that the revision reserves: 0x1F under 1, 0x0F under 2.
  std::uint8_t reserved() const { return flags & (revision >= 2 ? PARLEY_MPA_RES_V2 : PARLEY_MPA_RES_V1); }
  std::size_t frame_size() const { return PARLEY_MPA_HEADER_LEN + std::size_t{pd_length}; }
  bool complete() const { return private_data.size() == pd_length; }

  /// Needs the 20 header octets (else Errc::truncated); any key, any length.
  static Result<MpaFrameView> parse(ConstBytes in);
};

/// The first four octets of the private data when S is set under revision 2: RFC 6581 §6.
struct MpaEnhanced {
  bool a = false, b = false, c = false, d = false;
  std::uint16_t ird = 0, ord = 0;  ///< 14 bits
  bool operator==(const MpaEnhanced&) const = default;
  /// Errors: truncated below 4 octets.
  static Result<MpaEnhanced> parse(ConstBytes private_data);
  void emit(MutBytes out) const;  ///< 4 octets
};

/// A well-formed frame to send.
struct MpaFrame {
  MpaKey key = MpaKey::req;
  std::uint8_t flags = 0;
  std::uint8_t revision = 1;
  std::optional<MpaEnhanced> enhanced;
  ConstBytes private_data;
  /// Errors: bad_private_data when enhanced data and private data exceed 512 octets.
  Result<Bytes> emit() const;
};

}  // namespace parley::wire
