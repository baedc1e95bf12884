// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Frames written field by field, beside what an anonymized capture has in place of each.
#pragma once
#include <algorithm>
#include <initializer_list>
#include <optional>
#include <vector>

#include "tests/unit/capture/anonymize_kit.hpp"

namespace parley::capture::test::fields {

inline const wire::Mac mac_a{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}, mac_b{0x00, 0x1B, 0x21, 0xAA, 0xBB, 0xCC};
inline const wire::Ip4 ip_a{192, 0, 2, 1}, ip_b{198, 51, 100, 7};
inline const wire::Ip6 ip6_a{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0x5A, 0, 0, 1};
inline const wire::Ip6 ip6_b{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 9, 0, 0, 0, 0, 0x5A, 0, 0, 2};

inline Pseudonyms& names() {
  static Pseudonyms all(AnonymizeKey::from_text("a key"));
  return all;
}

using Numbers = std::initializer_list<std::uint16_t>;

/// Octets, and what they become.
struct FramePart {
  Bytes before, after;

  FramePart& put(ConstBytes was, ConstBytes becomes) {
    before.insert(before.end(), was.begin(), was.end());
    after.insert(after.end(), becomes.begin(), becomes.end());
    return *this;
  }
  FramePart& keep(const Bytes& octets) { return put(octets, octets); }
  FramePart& keep16(std::size_t v) { return keep({static_cast<std::uint8_t>(v >> 8), static_cast<std::uint8_t>(v)}); }
  FramePart& zero(const Bytes& octets) { return put(octets, Bytes(octets.size())); }
  FramePart& mac(const wire::Mac& m) { return put(m, names().mac(m)); }
  FramePart& v4(const wire::Ip4& a) { return put(a, names().v4(a)); }
  FramePart& v6(const wire::Ip6& a) { return put(a, names().v6(a)); }
  FramePart& port(std::uint16_t p) { return number16(p, names().port(p)); }
  FramePart& number16(std::uint16_t was, std::uint16_t becomes) {
    Bytes a(2), b(2);
    Writer(a).be16(was);
    Writer(b).be16(becomes);
    return put(a, b);
  }
  FramePart& number32(std::uint32_t was, std::uint32_t becomes) {
    Bytes a(4), b(4);
    Writer(a).be32(was);
    Writer(b).be32(becomes);
    return put(a, b);
  }
  FramePart& operator+=(const FramePart& f) { return put(f.before, f.after); }
};

inline void write_sum(Bytes& octets, std::size_t at, const Bytes& pseudo) {
  const ConstBytes pieces[] = {pseudo, octets};
  Writer(MutBytes(octets).subspan(at, 2)).be16(wire::internet_checksum(pieces));
}

/// The checksum at `at`, which was 0 in both, is right in both.
inline FramePart summed(FramePart f, std::size_t at, const FramePart& pseudo = {}) {
  write_sum(f.before, at, pseudo.before);
  write_sum(f.after, at, pseudo.after);
  return f;
}

inline std::optional<std::size_t> checksum_at(std::uint8_t protocol) {
  switch (protocol) {
    case 6: return 16;
    case 17: return 6;
    case 1:
    case 58: return 2;
    default: return std::nullopt;
  }
}

struct Ip4 {
  std::uint8_t protocol = 17;
  Bytes options = {};
  std::uint16_t fragment = 0;
  bool sums = true;  ///< the transport's checksum is right, and not 0
};

inline FramePart ip4(const Ip4& ip, FramePart payload) {
  if (const auto at = checksum_at(ip.protocol); at && ip.sums && ip.fragment == 0) {
    const FramePart pseudo = FramePart().v4(ip_a).v4(ip_b).keep({0, ip.protocol}).keep16(payload.before.size());
    payload = summed(payload, *at, ip.protocol == 1 ? FramePart() : pseudo);
  }
  FramePart f;
  f.keep({static_cast<std::uint8_t>(0x45 + ip.options.size() / 4), 0xB9})
      .keep16(20 + ip.options.size() + payload.before.size())
      .keep({0xBE, 0xEF})
      .keep16(ip.fragment)
      .keep({63, ip.protocol})
      .zero({0, 0})
      .v4(ip_a)
      .v4(ip_b)
      .zero(ip.options);
  f = summed(f, 10);
  return f += payload;
}

struct Ip6 {
  std::uint8_t protocol = 17;
  std::uint8_t first = protocol;  ///< next header of the fixed one
  std::uint32_t label = 0;
  FramePart extensions = {};
  bool sums = true;
};

inline FramePart ip6(const Ip6& ip, FramePart payload) {
  if (const auto at = checksum_at(ip.protocol); at && ip.sums)
    payload =
        summed(payload, *at,
               FramePart().v6(ip6_a).v6(ip6_b).keep16(0).keep16(payload.before.size()).keep({0, 0, 0, ip.protocol}));
  FramePart f;
  const auto label = static_cast<std::uint32_t>(ip.label == 0 ? 0 : names().identifier(ip.label) & 0xFFFFF);
  f.number32(0x6AB00000 | ip.label, 0x6AB00000 | label)
      .keep16(ip.extensions.before.size() + payload.before.size())
      .keep({ip.first, 61})
      .v6(ip6_a)
      .v6(ip6_b);
  return (f += ip.extensions) += payload;
}

inline FramePart ethernet(std::uint16_t type, const FramePart& payload, const std::vector<std::uint16_t>& tags = {}) {
  FramePart f;
  f.mac(mac_b).mac(mac_a);
  for (const std::uint16_t tci : tags)
    f.keep16(&tci == tags.data()       ? 0x88A8
             : &tci == tags.data() + 1 ? 0x9100
                                       : 0x8100)
        .number16(tci, static_cast<std::uint16_t>((tci & 0xF000) | names().vlan(tci & 0xFFF)));
  return f.keep16(type) += payload;
}

inline FramePart udp() { return FramePart().port(4791).port(53).keep16(12).keep16(0).zero({0xDE, 0xAD, 0xBE, 0xEF}); }

inline FramePart tcp(const FramePart& options = {}, std::uint8_t flags = 0x18, std::size_t payload = 3) {
  FramePart f;
  f.port(40000)
      .port(9001)
      .keep({0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88})
      .keep({static_cast<std::uint8_t>(0x50 + options.before.size() / 4 * 16), flags, 0x12, 0x34})
      .keep16(0);
  (flags & 0x20) != 0 ? f.keep({0, 2}) : f.zero({0xAA, 0x55});
  return (f += options).zero(Bytes(payload, 0x5A));
}

inline FramePart timestamps(std::uint32_t value, std::uint32_t echo) {
  Address a, b;
  std::copy(ip_a.begin(), ip_a.end(), a.octets.begin());
  std::copy(ip_b.begin(), ip_b.end(), b.octets.begin());
  return FramePart()
      .keep({8, 10})
      .number32(value, value == 0 ? 0 : value + names().clock_shift(a))
      .number32(echo, echo == 0 ? 0 : echo + names().clock_shift(b));
}

/// An extension header of IPv6 of one more unit than the shortest.
inline FramePart extension(std::uint8_t kind, std::uint8_t next) {
  const std::uint8_t units = kind == 51 ? 4 : 1;  // AH counts four octets, two of them before it begins (RFC 4302 §2.2)
  FramePart f = FramePart().keep({next, units});
  if (kind == 43) return f.keep({2, 1}).zero(Bytes(12, 0x33));  // routing: its type and how many segments are left
  const std::size_t size = kind == 51 ? 24 : 16;
  return f.zero(Bytes(size - 2, 0x33));
}

}  // namespace parley::capture::test::fields
