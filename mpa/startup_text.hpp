// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts of the startup machine's failures. Private to mpa/.
#pragma once
#include <string>
#include <string_view>

#include "base/bytes_io.hpp"

namespace parley::mpa {

/// Index of the first octet of `head` that differs from `text`; head.size() if none does.
inline std::size_t first_difference(ConstBytes head, std::string_view text) {
  Reader r(head);
  for (std::size_t i = 0; i < head.size(); ++i)
    if (i >= text.size() || r.u8() != static_cast<std::uint8_t>(text[i])) return i;
  return head.size();
}

/// The octets in quotes; octets other than printable ASCII, and quotes and backslashes, as \xNN.
std::string quoted_octets(ConstBytes octets);

}  // namespace parley::mpa
