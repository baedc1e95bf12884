// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// For tables with a lookup by GID per packet.
#pragma once
#include <cstdint>

#include "base/bytes_io.hpp"
#include "base/gid.hpp"

namespace parley {

/// `hash` with the GID's octets mixed in.
inline std::uint64_t mix_gid(std::uint64_t hash, const Gid& gid) {
  Reader r(gid);
  for (int word = 0; word < 2; ++word) {
    hash = (hash ^ r.be64()) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace parley
