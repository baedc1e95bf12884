// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Structures that begin with `size`: programs and library may have been compiled with different versions of them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "capi/error.hpp"

namespace parley::capi {

inline constexpr std::uint32_t structure_max = 4096;  // octets; nothing sensible is larger

/// `first` is what version 1.0 had of the structure: no program knows less. 0, or a code that has been noted.
inline int check_size(std::uint32_t size, std::size_t first) noexcept {
  if (size >= first && size <= structure_max) return 0;
  return fail(PARLEY_E_INVALID_ARGUMENT,
              "the structure's size is {a}; it is at least {b}: set it to sizeof, as its _INIT macro does", size,
              static_cast<std::int64_t>(first));
}

/// Copies what a program gives. A null pointer leaves the defaults. What only a newer library knows must be 0.
template <class Options>
int read_options(const Options* given, Options& out) noexcept {
  if (given == nullptr) return 0;
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (const int rc = check_size(size, sizeof(Options)); rc != 0) return rc;
  const auto* octets = reinterpret_cast<const unsigned char*>(given);
  if (std::any_of(octets + sizeof(Options), octets + size, [](unsigned char octet) { return octet != 0; }))
    return fail(PARLEY_E_INVALID_ARGUMENT,
                "an option is set that this version of Parley does not know: octets beyond {a} are not 0",
                sizeof(Options));
  std::memcpy(&out, given, sizeof(Options));
  return 0;
}

/// Fills what a program asks for; what it knows of beyond that becomes 0.
template <class Attributes>
int write_attributes(Attributes* to, Attributes from) noexcept {
  const std::uint32_t size = to->size;
  if (const int rc = check_size(size, sizeof(Attributes)); rc != 0) return rc;
  from.size = size;
  auto* octets = reinterpret_cast<unsigned char*>(to);
  std::memcpy(octets, &from, sizeof(Attributes));
  std::fill(octets + sizeof(Attributes), octets + size, static_cast<unsigned char>(0));
  return 0;
}

/// Text into a fixed array, always ended.
template <std::size_t n>
void write_text(char (&to)[n], std::string_view text) noexcept {
  const std::size_t length = std::min(text.size(), n - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

}  // namespace parley::capi
