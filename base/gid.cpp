// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "base/gid.hpp"

#include <algorithm>

namespace parley {
namespace {

constexpr std::array<std::uint8_t, 12> v4_mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

Address v6_of(const Gid& gid) { return {.family = Address::Family::v6, .octets = gid}; }

}  // namespace

bool is_v4_gid(const Gid& gid) { return std::equal(v4_mapped.begin(), v4_mapped.end(), gid.begin()); }

bool is_multicast(const Gid& gid) { return is_v4_gid(gid) ? (gid[12] & 0xF0) == 0xE0 : gid[0] == 0xFF; }

bool is_link_local_gid(const Gid& gid) { return v6_of(gid).is_link_local(); }

Gid gid_of(const Address& address) {
  if (address.family == Address::Family::v6) return address.octets;
  Gid out{};
  const auto rest = std::copy(v4_mapped.begin(), v4_mapped.end(), out.begin());
  std::copy_n(address.octets.begin(), 4, rest);
  return out;
}

Address address_of_gid(const Gid& gid, std::uint16_t port) {
  Address out = is_v4_gid(gid) ? Address::v4(gid[12], gid[13], gid[14], gid[15], 0) : v6_of(gid);
  out.port = port;
  return out;
}

std::string gid_text(const Gid& gid) {
  const std::string text = v6_of(gid).to_string();  // "[fe80::1]:0"
  return text.substr(1, text.find(']') - 1);
}

}  // namespace parley
