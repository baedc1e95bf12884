// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// What the framing tests compare with: an FPDU maker that goes word by word as RFC 5044 §4 tells it, a bitwise CRC32c,
// and the octets of ULPDUs. It shares no code with mpa/.
#pragma once
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>

#include "mpa/framer.hpp"

namespace parley::mpa::reference {

inline std::uint32_t crc_bitwise(ConstBytes in) {
  std::uint32_t state = 0xFFFFFFFF;
  for (const std::uint8_t octet : in) {
    state ^= octet;
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0x82F63B78U : 0U);
  }
  return ~state;
}

/// One FPDU at `position`: RFC 5044 §4.1 to §4.4.
inline Bytes fpdu(std::uint64_t position, ConstBytes ulpdu, bool markers, bool crc = true) {
  Bytes body = {static_cast<std::uint8_t>(ulpdu.size() >> 8), static_cast<std::uint8_t>(ulpdu.size())};
  body.insert(body.end(), ulpdu.begin(), ulpdu.end());
  while (body.size() % 4 != 0) body.push_back(0);
  Bytes out;
  std::uint64_t begin = 0;
  bool begun = false;
  const auto marker = [&] {
    const std::uint64_t at = position + out.size();
    if (!markers || at % 512 != 0) return;
    const std::uint64_t pointer = begun ? at - begin : 0;
    for (const std::uint64_t v : {std::uint64_t{0}, std::uint64_t{0}, pointer >> 8, pointer})
      out.push_back(static_cast<std::uint8_t>(v));
  };
  for (std::size_t i = 0; i < body.size(); i += 4) {
    marker();
    if (!begun) begin = position + out.size();
    begun = true;
    for (std::size_t k = 0; k < 4; ++k) out.push_back(body[i + k]);
  }
  marker();
  const std::uint32_t value = crc ? crc_bitwise(out) : 0;
  for (int shift = 0; shift < 32; shift += 8) out.push_back(static_cast<std::uint8_t>(value >> shift));
  return out;
}

/// The CRC of an FPDU altered by hand, put in its place.
inline void seal(Bytes& one) {
  const std::uint32_t value = crc_bitwise(ConstBytes(one).first(one.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) one[one.size() - 4 + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

inline Bytes octets(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes out(size);
  for (auto& v : out) v = static_cast<std::uint8_t>(random());
  return out;
}

inline Bytes from_hex(const std::string& hex) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

inline std::string to_hex(ConstBytes in) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t v : in) out += {digits[v >> 4], digits[v & 15]};
  return out;
}

/// The ULPDU of an FPDU put together from a view's pieces.
inline Bytes joined(const FpduView& view) {
  Bytes out;
  for (const ConstBytes piece : view.pieces) out.insert(out.end(), piece.begin(), piece.end());
  return out;
}

struct Received {
  std::vector<Bytes> ulpdus;
  std::vector<std::uint64_t> positions;
  DeframeStatus status = DeframeStatus::need_more;
  bool operator==(const Received&) const = default;
};

inline void drain(Deframer& deframer, ConstBytes in, Received& to) {
  deframer.feed(in);
  FpduView view;
  while ((to.status = deframer.next(view)) == DeframeStatus::fpdu) {
    to.ulpdus.push_back(joined(view));
    to.positions.push_back(view.position);
  }
}

/// Everything a deframer finds in `stream` fed in chunks; `next_size` says how long each is (at least 1).
template <class Size>
Received deframe(Deframer deframer, ConstBytes stream, Size next_size) {
  Received out;
  while (!stream.empty()) {
    const std::size_t n = std::min<std::size_t>(stream.size(), next_size());
    const Bytes copy(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(n));  // gone after the call
    drain(deframer, copy, out);
    stream = stream.subspan(n);
  }
  return out;
}

inline Received deframe_whole(const FramerOptions& options, ConstBytes stream) {
  return deframe(Deframer(options), stream, [&] { return stream.size(); });
}

/// An entry of tests/vectors/mpa_markers_crc.txt.
struct Vector {
  std::string title;
  std::uint64_t offset = 0;
  Bytes octets;
};

inline std::vector<Vector> read_vectors() {
  std::ifstream file(PARLEY_SOURCE_DIR "/tests/vectors/mpa_markers_crc.txt");
  std::vector<Vector> out;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(" stream offset ", 0) == 0)
      out.back().offset = std::stoull(line.substr(15));
    else if (line.rfind(" hex ", 0) == 0)
      out.back().octets = from_hex(line.substr(5));
    else if (!line.empty())
      out.push_back({line, 0, {}});
  }
  return out;
}

}  // namespace parley::mpa::reference
