// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings of the iWARP provider. What each one is for: docs/cm.md.
#pragma once
#include <chrono>
#include <cstdint>

#include "parley/time.hpp"

namespace parley::cm {

inline constexpr std::uint32_t endpoints_default = 131072;
inline constexpr std::uint32_t endpoints_limit = 1U << 24;

struct IwarpProviderOptions {
  /// Ids alive at once, at most endpoints_limit. 0: what the driver has use for (TcpHost: twice streams_max and 1024,
  /// because an id outlives its stream), else endpoints_default.
  std::uint32_t endpoints_max = 0;
  /// If not 0: the tagged offset of the first registered region. Regions follow one another from there, so that what
  /// goes over the wire does not depend on where memory lies. 0: tagged offsets are addresses, as in verbs.
  std::uint64_t tagged_offset_base = 0;

  /// Closing: how long our octets may wait to be sent without progress, and then how long the peer's FIN may take.
  /// After that the stream is reset. More than 0.
  Duration linger = std::chrono::seconds(5);
  /// After the peer's FIN our half is closed as soon as everything posted is done, but not before this has passed and
  /// the driver has had one more turn, so that the user can still answer what came before the FIN (RFC 5044 §7.2).
  Duration half_close_grace{};
  /// How long an initiator that sent an Rtr frame to an unknown peer watches for a Terminate before it believes that S
  /// was confirmed and not merely echoed. 0: believes it at once.
  Duration echo_watch = std::chrono::milliseconds(20);
};

}  // namespace parley::cm
