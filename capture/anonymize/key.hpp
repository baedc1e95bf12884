// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names that stand for others: what an address, a port, an STag or an octet of payload becomes under a key. The same
// key gives the same names in every file; without the key nobody finds the way back.
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
  /// Any words; as hard to guess as they are.
  static AnonymizeKey from_text(std::string_view text);
};

/// Octets that depend on key and position only. XOR with them hides what was there, and octets that were equal at the
/// same position (a retransmission) stay equal.
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

  /// IPv4 becomes 10.0.0.0/8. Kept: 0.0.0.0, broadcast, 127.0.0.1 and the groups of 224.0.0.0/24.
  wire::Ip4 v4(const wire::Ip4& in);
  /// IPv6 becomes fd00::/8, link-local stays link-local, and a solicited-node group stays that of its address
  /// (RFC 4291 §2.7.1). Kept: ::, ::1 and the groups of all nodes, all routers and listener reports.
  wire::Ip6 v6(const wire::Ip6& in);
  Address address(const Address& in);
  /// Unicast becomes locally administered. Kept: broadcast, all zero, and groups that everybody has.
  wire::Mac mac(const wire::Mac& in) const;
  std::uint16_t port(std::uint16_t in) const;  ///< a permutation; 0 stays
  std::uint16_t vlan(std::uint16_t in) const;  ///< a permutation of 1..4094
  std::uint32_t stag(std::uint32_t in) const;  ///< a permutation; 0, which stands for none, stays
  /// Tagged offsets of one STag move together, by pages, so that what follows on stays so. The last 2 TiB, where
  /// offsets wrap, stay where they are.
  std::uint64_t tagged_offset(std::uint32_t stag, std::uint64_t in) const;
  /// A number that names something: 0..65535 stays, others change.
  std::uint32_t number(std::uint32_t in) const;
  std::uint64_t identifier(std::uint64_t in) const;
  /// How far the clock of TCP timestamps (RFC 7323 §3.2) of a host is moved.
  std::uint32_t clock_shift(const Address& host) const;
  /// 1..65535, for a checksum that has to stay wrong.
  std::uint16_t error16(std::uint64_t seed) const;
  std::uint32_t error32(std::uint64_t seed) const;
  Keystream stream(const Address& source, const Address& destination, std::uint32_t first_seq) const;

  std::size_t addresses() const { return v4_.size(); }
  /// More IPv4 addresses than the table holds: later ones were given no name of their own.
  bool full() const { return full_; }
  static constexpr std::size_t v4_max = 1 << 18;

 private:
  std::uint64_t hash(std::uint8_t what, ConstBytes in) const;
  std::uint64_t hash(std::uint8_t what, std::uint64_t a, std::uint64_t b = 0) const;
  std::uint32_t permute(std::uint8_t what, std::uint32_t in, unsigned bits) const;

  AnonymizeKey key_;
  std::unordered_map<std::uint32_t, std::uint32_t> v4_;
  std::unordered_set<std::uint32_t> v4_taken_;  // two addresses with one name would make two hosts one
  bool full_ = false;
};

}  // namespace parley::capture
