// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "mpa/startup_text.hpp"

#include <fmt/format.h>

namespace parley::mpa::words {

std::string printable(ConstBytes octets) {
  std::string out = "\"";
  for (std::uint8_t o : octets) {
    if (o >= 0x20 && o < 0x7F && o != '"' && o != '\\')
      out += static_cast<char>(o);
    else
      out += fmt::format("\\x{:02x}", o);
  }
  return out + '"';
}

std::string octets(std::size_t n) { return n == 1 ? "1 octet" : std::to_string(n) + " octets"; }

std::string seconds(Duration d) {
  const std::int64_t us = std::chrono::duration_cast<std::chrono::microseconds>(d).count();
  if (us % 1'000'000 == 0) return std::to_string(us / 1'000'000) + " s";
  if (us % 1'000 == 0) return std::to_string(us / 1'000) + " ms";
  return std::to_string(us) + " us";
}

}  // namespace parley::mpa::words
