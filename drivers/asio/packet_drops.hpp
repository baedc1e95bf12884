// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Counters of received and dropped packets, of the sockets and of the device, for callers.
#pragma once
#include <string_view>
#include <vector>

#include "nic/roce/device.hpp"
#include "parley/roce_host.hpp"

namespace parley::asio_driver {

/// All reasons, always in the same order; the device's without its "drop" prefix.
inline std::vector<RoceDropped> dropped_packets(const RoceCounters& sockets, const nic::roce::Counters& device) {
  std::vector<RoceDropped> all{{"bad_icrc", sockets.bad_icrc}, {"too_short", sockets.too_short}};
  constexpr std::string_view drop = "dropped_";
  const auto add = [&](std::string_view name, std::uint64_t packets) {
    if (name.starts_with(drop)) all.push_back({name.substr(drop.size()), packets});
  };
#define PARLEY_X(name, text) add(#name, device.name);
  PARLEY_ROCE_COUNTERS(PARLEY_X)
#undef PARLEY_X
  return all;
}

}  // namespace parley::asio_driver
