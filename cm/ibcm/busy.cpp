// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ibcm/busy.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes_io.hpp"

namespace parley::cm::ibcm::busy {
namespace {

constexpr std::uint32_t magic = 0x5059B51E;
constexpr std::uint8_t version = 1;
enum class Kind : std::uint8_t { offer = 1, retry_after = 2 };

void put(MutBytes private_data, Kind kind, std::uint16_t value) {
  PARLEY_ASSERT(private_data.size() >= marker_len);
  Writer w(private_data.last(marker_len));
  w.be32(magic);
  w.u8(version);
  w.u8(static_cast<std::uint8_t>(kind));
  w.be16(value);
}

std::optional<std::uint16_t> value_of(ConstBytes private_data, Kind kind) {
  if (private_data.size() < marker_len) return std::nullopt;
  Reader r(private_data.last(marker_len));
  if (r.be32() != magic || r.u8() != version || r.u8() != static_cast<std::uint8_t>(kind)) return std::nullopt;
  return r.be16();
}

}  // namespace

void put_offer(MutBytes private_data) { put(private_data, Kind::offer, 0); }

void put_retry_after(MutBytes private_data, Duration after) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(std::min(after, retry_after_max)).count();
  put(private_data, Kind::retry_after, static_cast<std::uint16_t>(ms));
}

bool has_offer(ConstBytes private_data) { return value_of(private_data, Kind::offer).has_value(); }

std::optional<Duration> retry_after_of(ConstBytes private_data) {
  const auto ms = value_of(private_data, Kind::retry_after);
  if (!ms) return std::nullopt;
  return std::chrono::milliseconds(std::max<std::uint16_t>(*ms, 1));
}

void strip(MutBytes private_data) {
  const MutBytes marker = private_data.last(std::min(marker_len, private_data.size()));
  std::fill(marker.begin(), marker.end(), std::uint8_t{0});
}

}  // namespace parley::cm::ibcm::busy
