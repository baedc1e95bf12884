// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Small helpers of the startup machine: texts of failures, and deadlines that do not overflow. Private to mpa/.
#pragma once
#include <string>
#include <string_view>

#include "base/bytes_io.hpp"
#include "parley/time.hpp"

namespace parley::mpa {

/// now + wait; a wait of zero or less, or one beyond the clock's end, is for ever.
inline Instant after(Instant now, Duration wait) {
  if (wait <= Duration::zero() || wait > never - now) return never;
  return now + wait;
}

/// Index of the first octet of `head` that differs from `text`; head.size() if none does.
inline std::size_t first_difference(ConstBytes head, std::string_view text) {
  Reader r(head);
  for (std::size_t i = 0; i < head.size(); ++i)
    if (i >= text.size() || r.u8() != static_cast<std::uint8_t>(text[i])) return i;
  return head.size();
}

/// Quoted; anything but printable ASCII as \xNN.
std::string quoted_octets(ConstBytes octets);

}  // namespace parley::mpa
