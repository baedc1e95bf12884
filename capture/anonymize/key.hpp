// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Pseudonyms for addresses, ports, STags and payload, derived from a key. The same key gives the same pseudonyms in
// every file. Without the key they cannot be reversed.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/siphash.hpp"
#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "wire/neighbour.hpp"

namespace parley::capture {

struct AnonymizeKey {
  std::uint64_t a = 0, b = 0;
  /// Derives a key from any text. The key is as hard to guess as the text.
  static AnonymizeKey from_text(std::string_view text);
};

/// Octets that depend only on key and position, to be XORed with the stream. Equal octets at the same position (a
/// retransmission) stay equal.
class Keystream {
 public:
  Keystream() = default;
  explicit Keystream(const AnonymizeKey& key) : key_(key) {}
  void fill(std::uint64_t at, MutBytes out) const;

 private:
  AnonymizeKey key_;
};

class Pseudonyms {
 public:
  explicit Pseudonyms(const AnonymizeKey& key) : key_(key) {}

  /// Unicast becomes an address of 10.0.0.0/8, multicast one of 239.0.0.0/8, and loopback stays in 127.0.0.0/8. Kept:
  /// 0.0.0.0, broadcast, 127.0.0.1 and the groups of 224.0.0.0/24. 0.0.0.0 if full().
  wire::Ip4 v4(const wire::Ip4& in);
  /// Unicast becomes an address of fd00::/8; link-local stays link-local; IPv4-mapped becomes v4() mapped. A
  /// solicited-node group stays the group of its address (RFC 4291 §2.7.1); other groups keep flags and scope. Kept:
  /// ::, ::1 and the groups of all nodes, all routers and listener reports.
  wire::Ip6 v6(const wire::Ip6& in);
  Address address(const Address& in);
  /// Unicast becomes a locally administered address. Kept: broadcast, zero, and well-known groups (224.0.0.0/24, IEEE
  /// 802.1, and IPv6 all nodes, all routers and listener reports).
  wire::Mac mac(const wire::Mac& in) const;
  std::uint16_t port(std::uint16_t in) const;  ///< a permutation; 0 stays
  std::uint16_t vlan(std::uint16_t in) const;  ///< a permutation of 1..4094
  std::uint32_t stag(std::uint32_t in) const;  ///< a permutation; 0 (no STag) stays
  /// Shifts the tagged offsets of one STag by the same number of pages, so that contiguous ranges stay contiguous. The
  /// last 2 TiB stay unchanged, because they would wrap.
  std::uint64_t tagged_offset(std::uint32_t stag, std::uint64_t in) const;
  /// A permutation of the numbers from 65536 on; 0..65535 stay.
  std::uint32_t number(std::uint32_t in) const;
  std::uint64_t identifier(std::uint64_t in) const;
  /// The shift of a host's TCP timestamp clock (RFC 7323 §3.2).
  std::uint32_t clock_shift(const Address& host) const;
  /// 1..65534, an offset for a checksum that must stay wrong.
  std::uint16_t error16(std::uint64_t seed) const;
  std::uint32_t error32(std::uint64_t seed) const;
  Keystream stream(const Address& source, const Address& destination, std::uint32_t first_seq) const;

  std::size_t addresses() const { return v4_.size(); }
  /// There were more IPv4 addresses than v4_max: v4() returned 0.0.0.0 for some.
  bool full() const { return full_; }
  static constexpr std::size_t v4_max = 1 << 18;

 private:
  std::uint64_t hash(std::uint8_t what, ConstBytes in) const;
  std::uint64_t hash(std::uint8_t what, std::uint64_t a, std::uint64_t b = 0) const;
  std::uint32_t permute(std::uint8_t what, std::uint32_t in, unsigned bits) const;

  AnonymizeKey key_;
  std::unordered_map<std::uint32_t, std::uint32_t> v4_;
  std::unordered_set<std::uint32_t> v4_taken_;  // pseudonyms in use: each replaces one address only
  bool full_ = false;
};

}  // namespace parley::capture
