// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// All that one side brings to an MPA set-up: MPA's own options, and what every transport negotiates.
#pragma once
#include <cstdint>

#include "parley/mpa.hpp"

namespace parley::mpa {

struct StartupOptions : Options {
  std::uint16_t ird = 32;  ///< inbound RDMA Reads this side can hold; 0 to depth_max, or depth_not_negotiated
  std::uint16_t ord = 32;  ///< outbound RDMA Reads this side wants; as ird
};

}  // namespace parley::mpa
