// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The options of one side of an MPA set-up: MPA's own, and IRD and ORD, which every transport negotiates.
#pragma once
#include <cstdint>

#include "parley/mpa.hpp"

namespace parley::mpa {

struct StartupOptions : Options {
  std::uint16_t ird = 32;  ///< inbound RDMA Reads that this side accepts; 0 to depth_max, or depth_not_negotiated
  std::uint16_t ord = 32;  ///< outbound RDMA Reads that this side wants; same range
};

}  // namespace parley::mpa
