// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// SipHash-2-4: a pseudo-random function of short inputs. Its value cannot be guessed without the key.
#pragma once
#include <bit>
#include <cstdint>

#include "base/bytes_io.hpp"

namespace parley {

struct SipKey {
  std::uint64_t a = 0, b = 0;
};

/// SipHash-2-4 of whole 64-bit words; the caller adds the last word, which contains the length.
class SipHash {
 public:
  explicit SipHash(const SipKey& k)
      : v0_(k.a ^ 0x736F6D6570736575),
        v1_(k.b ^ 0x646F72616E646F6D),
        v2_(k.a ^ 0x6C7967656E657261),
        v3_(k.b ^ 0x7465646279746573) {}
  void word(std::uint64_t m) {
    v3_ ^= m;
    round();
    round();
    v0_ ^= m;
  }
  std::uint64_t end() {
    v2_ ^= 0xFF;
    for (int i = 0; i < 4; ++i) round();
    return v0_ ^ v1_ ^ v2_ ^ v3_;
  }

 private:
  void round() {
    v0_ += v1_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v3_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ += v3_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ += v1_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v2_ = std::rotl(v2_, 32);
  }
  std::uint64_t v0_, v1_, v2_, v3_;
};

/// SipHash-2-4 of arbitrary octets.
inline std::uint64_t siphash(const SipKey& key, ConstBytes in) {
  SipHash sip(key);
  Reader r(in);
  while (r.left() >= 8) sip.word(r.le64());
  std::uint64_t last = std::uint64_t{in.size() & 0xFF} << 56;
  for (unsigned shift = 0; r.left() > 0; shift += 8) last |= std::uint64_t{r.u8()} << shift;
  sip.word(last);
  return sip.end();
}

}  // namespace parley
