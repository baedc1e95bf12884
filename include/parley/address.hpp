// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A transport address: IPv4 or IPv6, port, and the scope of a link-local address.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "parley/result.hpp"

namespace parley {

struct Address {
  enum class Family : std::uint8_t { v4 = 4, v6 = 6 };
  Family family = Family::v4;
  std::array<std::uint8_t, 16> octets{};  ///< network order; IPv4 uses the first four
  std::uint16_t port = 0;                 ///< host order
  std::uint32_t scope_id = 0;             ///< interface index; only for IPv6 link-local (RFC 4007 §6)

  auto operator<=>(const Address&) const = default;

  static Address any(Family family, std::uint16_t port);
  static Address loopback(Family family, std::uint16_t port);
  static Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d, std::uint16_t port);

  bool is_any() const;
  bool is_link_local() const;

  /// "192.0.2.1:7471", "[2001:db8::1]:7471", "[fe80::1%3]:7471" (RFC 5952 §4, §6).
  std::string to_string() const;

  /// Parses the output of to_string(), an address without a port (port is then 0), and a numeric scope. Does not resolve
  /// names: see Host::resolve(). Errors: Errc::bad_address.
  static Result<Address> parse(std::string_view text);
};

}  // namespace parley
