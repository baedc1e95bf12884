// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ibcm/busy.hpp"

#include <algorithm>

namespace parley::cm::ibcm::busy {

using marker::Kind;

void put_offer(MutBytes private_data) { marker::put(private_data, Kind::offer, {}); }

void put_retry_after(MutBytes private_data, Duration after) {
  const auto ms = static_cast<std::uint16_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(std::min(after, retry_after_max)).count());
  marker::put(private_data, Kind::retry_after, {static_cast<std::uint8_t>(ms >> 8), static_cast<std::uint8_t>(ms)});
}

bool has_offer(ConstBytes private_data) { return marker::get(private_data, Kind::offer).has_value(); }

std::optional<Duration> retry_after_of(ConstBytes private_data) {
  const auto value = marker::get(private_data, Kind::retry_after);
  if (!value) return std::nullopt;
  return std::chrono::milliseconds(std::max((*value)[0] << 8 | (*value)[1], 1));
}

void strip(MutBytes private_data) {
  for (const Kind kind : {Kind::offer, Kind::retry_after}) marker::strip(private_data, kind);
}

}  // namespace parley::cm::ibcm::busy
