// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/anonymize/key.hpp"

#include <algorithm>

#include "base/bytes_io.hpp"

namespace parley::capture {
namespace {

/// The kind of value that is hashed, so that a port and a VLAN with the same number get unrelated hashes.
enum What : std::uint8_t {
  what_v4 = 1,
  what_v4_group,
  what_loopback,
  what_v6,
  what_low24,
  what_mac,
  what_port,
  what_vlan,
  what_stag,
  what_offset,
  what_number,
  what_identifier,
  what_clock,
  what_error,
  what_stream
};

constexpr std::uint32_t octets_of(unsigned a, unsigned b, unsigned c, unsigned d) {
  return a << 24 | b << 16 | c << 8 | d;
}
std::uint32_t to_number(const wire::Ip4& ip) { return Reader(ip).be32(); }
wire::Ip4 to_ip(std::uint32_t v) {
  wire::Ip4 out{};
  Writer(out).be32(v);
  return out;
}

constexpr std::uint64_t last_offsets = 0 - (1ULL << 41);  // the last 2 TiB

}  // namespace

AnonymizeKey AnonymizeKey::from_text(std::string_view text) {
  const Bytes octets(text.begin(), text.end());
  return {siphash({0x7061726C65792D31, 1}, octets), siphash({0x7061726C65792D32, 2}, octets)};
}

void Keystream::fill(std::uint64_t at, MutBytes out) const {
  std::array<std::uint8_t, 8> block{};
  while (!out.empty()) {
    SipHash sip({key_.a, key_.b});
    sip.word(at / 8);
    Writer(block).le64(sip.end());
    const std::size_t skip = at % 8, n = std::min(out.size(), block.size() - skip);
    std::copy_n(block.begin() + static_cast<std::ptrdiff_t>(skip), n, out.begin());
    out = out.subspan(n);
    at += n;
  }
}

std::uint64_t Pseudonyms::hash(std::uint8_t what, ConstBytes in) const {
  return siphash({key_.a ^ what, key_.b ^ std::uint64_t{what} << 56}, in);
}

std::uint64_t Pseudonyms::hash(std::uint8_t what, std::uint64_t a, std::uint64_t b) const {
  std::array<std::uint8_t, 16> in{};
  Writer w(in);
  w.be64(a);
  w.be64(b);
  return hash(what, in);
}

// A balanced Feistel network. It is invertible for any round function, so it is a permutation: no two values collide.
std::uint32_t Pseudonyms::permute(std::uint8_t what, std::uint32_t in, unsigned bits) const {
  const unsigned half = bits / 2;
  const std::uint32_t mask = (1u << half) - 1;
  std::uint32_t left = in >> half & mask, right = in & mask;
  for (std::uint64_t round = 0; round < 8; ++round) {
    const std::uint32_t next = left ^ (static_cast<std::uint32_t>(hash(what, round << 8 | bits, right)) & mask);
    left = right;
    right = next;
  }
  return left << half | right;
}

wire::Ip4 Pseudonyms::v4(const wire::Ip4& in) {
  const std::uint32_t ip = to_number(in);
  if (ip == 0 || ip == ~0u || ip == octets_of(127, 0, 0, 1) || ip >> 8 == octets_of(0, 224, 0, 0)) return in;
  if (ip >> 24 == 127)
    return to_ip(octets_of(127, 0, 0, 0) | (static_cast<std::uint32_t>(hash(what_loopback, ip)) & 0xFFFFFF));
  if (ip >> 28 == 14)
    return to_ip(octets_of(239, 0, 0, 0) | (static_cast<std::uint32_t>(hash(what_v4_group, ip)) & 0xFFFFFF));
  if (const auto it = v4_.find(ip); it != v4_.end()) return to_ip(it->second);
  if (v4_.size() >= v4_max) {
    full_ = true;
    return {};
  }
  std::uint32_t out = 0;
  for (std::uint64_t attempt = 0; out == 0 || out == 0xFFFFFF || !v4_taken_.insert(out).second; ++attempt)
    out = static_cast<std::uint32_t>(hash(what_v4, ip, attempt)) & 0xFFFFFF;
  out |= octets_of(10, 0, 0, 0);
  v4_.emplace(ip, out);
  return to_ip(out);
}

wire::Ip6 Pseudonyms::v6(const wire::Ip6& in) {
  const auto last24 = [&](wire::Ip6& out) {
    Reader r(ConstBytes(in).subspan(12));
    const std::uint32_t low = permute(what_low24, r.be32() & 0xFFFFFF, 24);
    out[13] = static_cast<std::uint8_t>(low >> 16);
    out[14] = static_cast<std::uint8_t>(low >> 8);
    out[15] = static_cast<std::uint8_t>(low);
  };
  Reader r(in);
  const std::uint64_t high = r.be64(), low = r.be64();
  if (high == 0 && low <= 1) return in;
  wire::Ip6 out{};
  if (high == 0 && low >> 32 == 0xFFFF) {  // IPv4-mapped
    const wire::Ip4 mapped = v4(to_ip(static_cast<std::uint32_t>(low)));
    Writer w(out);
    w.be64(0);
    w.be32(0xFFFF);
    w.bytes(mapped);
    return out;
  }
  if (high == 0xFF02000000000000) {
    if (low == 1 || low == 2 || low == 0x16) return in;
    if (low >> 24 == 0x1FF) {  // RFC 4291 §2.7.1: a solicited-node group ends with the last 24 bits of the address
      out = in;
      last24(out);
      return out;
    }
  }
  const std::uint64_t first = hash(what_v6, high, low), second = hash(what_v6, ~high, low);
  Writer w(out);
  w.be64(first);
  w.be64(second);
  if (in[0] == 0xFF) {  // a group: flags and scope stay
    out[0] = in[0];
    out[1] = in[1];
    return out;
  }
  if (in[0] == 0xFE && (in[1] & 0xC0) == 0x80) {
    out = {0xFE, 0x80, 0, 0, 0, 0, 0, 0, out[8], out[9], out[10], out[11], out[12], 0, 0, 0};
  } else {
    out[0] = 0xFD;
  }
  last24(out);
  return out;
}

Address Pseudonyms::address(const Address& in) {
  Address out = in;
  if (in.family == Address::Family::v4) {
    const wire::Ip4 ip = v4({in.octets[0], in.octets[1], in.octets[2], in.octets[3]});
    std::copy(ip.begin(), ip.end(), out.octets.begin());
  } else {
    out.octets = v6(in.octets);
  }
  out.port = port(in.port);
  return out;
}

wire::Mac Pseudonyms::mac(const wire::Mac& in) const {
  Reader r(in);
  const std::uint64_t high = r.be16(), low = r.be32(), all = high << 32 | low;
  if (all == 0xFFFFFFFFFFFF || all == 0) return in;
  wire::Mac out{};
  Writer w(out);
  if (high == 0x3333) {
    w.be16(0x3333);
    if (low == 1 || low == 2 || low == 0x16) return in;
    w.be32(low >> 24 == 0xFF ? 0xFF000000u | permute(what_low24, static_cast<std::uint32_t>(low) & 0xFFFFFF, 24)
                             : static_cast<std::uint32_t>(hash(what_mac, all)));
    return out;
  }
  if (all >> 8 == 0x01005E0000 || all >> 8 == 0x0180C20000) return in;  // groups of 224.0.0.0/24, and of IEEE 802.1
  const std::uint64_t h = hash(what_mac, all);
  w.u8((in[0] & 1) != 0 ? 3 : 2);
  w.u8(static_cast<std::uint8_t>(h >> 32));
  w.be32(static_cast<std::uint32_t>(h));
  return out;
}

std::uint16_t Pseudonyms::port(std::uint16_t in) const {
  if (in == 0) return 0;
  std::uint32_t out = in;
  do out = permute(what_port, out, 16);
  while (out == 0);
  return static_cast<std::uint16_t>(out);
}

std::uint16_t Pseudonyms::vlan(std::uint16_t in) const {
  if (in == 0 || in >= 4095) return in;
  std::uint32_t out = in;
  do out = permute(what_vlan, out, 12);
  while (out == 0 || out == 4095);
  return static_cast<std::uint16_t>(out);
}

std::uint32_t Pseudonyms::stag(std::uint32_t in) const {
  if (in == 0) return 0;
  std::uint32_t out = in;
  do out = permute(what_stag, out, 32);
  while (out == 0);
  return out;
}

std::uint64_t Pseudonyms::tagged_offset(std::uint32_t stag, std::uint64_t in) const {
  if (stag == 0 || in >= last_offsets) return in;
  return in + ((hash(what_offset, stag) & ((1ULL << 28) - 1)) << 12);
}

std::uint32_t Pseudonyms::number(std::uint32_t in) const {
  if (in < 65536) return in;
  std::uint32_t out = in;
  do out = permute(what_number, out, 32);
  while (out < 65536);
  return out;
}

std::uint64_t Pseudonyms::identifier(std::uint64_t in) const { return hash(what_identifier, in); }

std::uint32_t Pseudonyms::clock_shift(const Address& host) const {
  return static_cast<std::uint32_t>(hash(what_clock, host.octets));
}

std::uint16_t Pseudonyms::error16(std::uint64_t seed) const {
  return static_cast<std::uint16_t>(1 + hash(what_error, seed) % 65534);
}

std::uint32_t Pseudonyms::error32(std::uint64_t seed) const {
  return static_cast<std::uint32_t>(hash(what_error, seed, 32)) | 1;
}

Keystream Pseudonyms::stream(const Address& source, const Address& destination, std::uint32_t first_seq) const {
  std::array<std::uint8_t, 40> in{};
  Writer w(in);
  w.bytes(source.octets);
  w.bytes(destination.octets);
  w.be16(source.port);
  w.be16(destination.port);
  w.be32(first_seq);
  const std::uint64_t a = hash(what_stream, in);
  return Keystream({a, hash(what_stream, a)});
}

}  // namespace parley::capture
