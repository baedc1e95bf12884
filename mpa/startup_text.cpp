// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/startup_text.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

namespace parley::mpa {

std::string quoted_octets(ConstBytes octets) {
  std::string out = "\"";
  for (std::uint8_t o : octets) {
    if (is_printable(o) && o != '"' && o != '\\')
      out += static_cast<char>(o);
    else
      out += fmt::format("\\x{:02x}", o);
  }
  return out + '"';
}

}  // namespace parley::mpa
