// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "wire/ib/cm_marker.hpp"

#include "base/assert.hpp"
#include "base/bytes_io.hpp"

namespace parley::wire::ib::marker {
namespace {

constexpr std::uint32_t magic = 0x5059B51E;
constexpr std::uint8_t version = 1;

}  // namespace

void put(MutBytes private_data, Kind kind, const Value& value) {
  PARLEY_ASSERT(private_data.size() >= length);
  Writer w(private_data.last(length));
  w.be32(magic);
  w.u8(version);
  w.u8(static_cast<std::uint8_t>(kind));
  for (const std::uint8_t octet : value) w.u8(octet);
}

std::optional<Value> get(ConstBytes private_data, Kind kind) {
  if (private_data.size() < length) return std::nullopt;
  Reader r(private_data.last(length));
  if (r.be32() != magic || r.u8() != version || r.u8() != static_cast<std::uint8_t>(kind)) return std::nullopt;
  Value value{};
  for (std::uint8_t& octet : value) octet = r.u8();
  return value;
}

void strip(MutBytes private_data, Kind kind) {
  if (!get(private_data, kind)) return;
  for (std::uint8_t& octet : private_data.last(length)) octet = 0;
}

}  // namespace parley::wire::ib::marker
