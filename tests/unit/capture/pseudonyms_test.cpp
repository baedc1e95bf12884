// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Names that a key gives: by one key always the same ones, so that two captures stay comparable
// (tests/states/capture_pseudonyms.txt). What has to be kept is shown as kept.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/text.hpp"
#include "capture/anonymize/key.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::capture {
namespace {

std::string became(const std::string& was, const std::string& is) {
  return fmt::format("{}  {}\n", pad(was, 40), was == is ? "kept" : is);
}
template <class Octets>
std::string hex(const Octets& octets) {
  return hex_text(ConstBytes(octets.data(), octets.size()));
}

TEST(Pseudonyms, OfEveryKindOfAddress) {
  Pseudonyms names(AnonymizeKey::from_text("a key"));
  std::string out = "== IPv4 ==\n";
  const wire::Ip4 v4[] = {{0, 0, 0, 0},     {0, 0, 0, 1},   {255, 255, 255, 255}, {255, 255, 255, 254}, {127, 0, 0, 1},
                          {127, 0, 0, 2},   {127, 1, 0, 1}, {126, 0, 0, 1},       {128, 0, 0, 1},       {224, 0, 0, 0},
                          {224, 0, 0, 255}, {224, 0, 1, 0}, {223, 0, 0, 1},       {239, 1, 2, 3},       {240, 0, 0, 1},
                          {10, 0, 0, 1},    {192, 0, 2, 1}, {192, 0, 2, 2},       {192, 0, 2, 1},       {1, 0, 0, 127},
                          {0, 127, 0, 1},   {0, 224, 0, 0}, {198, 51, 100, 7},    {0, 0, 224, 0}};
  for (const wire::Ip4& a : v4) out += became(hex(a), hex(names.v4(a)));
  out += fmt::format("{} of these have a name of their own\n", names.addresses());
  EXPECT_FALSE(names.full());
  out += "== IPv6 ==\n";
  const auto ip6 = [](std::initializer_list<std::pair<std::size_t, std::uint8_t>> octets) {
    wire::Ip6 a{};
    for (const auto& [at, value] : octets) a[at] = value;
    return a;
  };
  const wire::Ip6 v6[] = {
      ip6({}), ip6({{15, 1}}), ip6({{15, 2}}), ip6({{7, 1}, {15, 1}}),
      // IPv4-mapped, and what is none
      ip6({{10, 0xFF}, {11, 0xFF}, {12, 192}, {14, 2}, {15, 1}}), ip6({{10, 0xFF}, {11, 0xFF}, {12, 127}, {15, 1}}),
      ip6({{11, 0xFF}, {12, 192}, {14, 2}, {15, 1}}),
      ip6({{0, 1}, {10, 0xFF}, {11, 0xFF}, {12, 192}, {14, 2}, {15, 1}}),
      // groups
      ip6({{0, 0xFF}, {1, 2}, {15, 1}}), ip6({{0, 0xFF}, {1, 2}, {15, 2}}), ip6({{0, 0xFF}, {1, 2}, {15, 3}}),
      ip6({{0, 0xFF}, {1, 2}, {15, 0x16}}), ip6({{0, 0xFF}, {1, 5}, {15, 1}}), ip6({{0, 0xFF}, {1, 0x1E}, {15, 1}}),
      ip6({{0, 0xFF}, {1, 2}, {11, 1}, {12, 0xFF}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      ip6({{0, 0xFF}, {1, 2}, {11, 1}, {12, 0xFE}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      ip6({{0, 0xFF}, {1, 2}, {11, 2}, {12, 0xFF}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      // link-local, and beside it
      ip6({{0, 0xFE}, {1, 0x80}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      ip6({{0, 0xFE}, {1, 0xBF}, {8, 9}, {13, 0x12}, {14, 0x34}, {15, 0x56}}), ip6({{0, 0xFE}, {1, 0xC0}, {15, 1}}),
      ip6({{0, 0xFE}, {1, 0x7F}, {15, 1}}), ip6({{0, 0xFD}, {1, 0x80}, {15, 1}}),
      // global: two with the same low 24 bits
      ip6({{0, 0x20}, {1, 1}, {2, 0x0D}, {3, 0xB8}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      ip6({{0, 0x20}, {1, 1}, {2, 0x0D}, {3, 0xB8}, {7, 1}, {13, 0x12}, {14, 0x34}, {15, 0x56}}),
      ip6({{0, 0x20}, {1, 1}, {2, 0x0D}, {3, 0xB8}, {8, 1}, {15, 1}})};
  for (const wire::Ip6& a : v6) out += became(hex(a), hex(names.v6(a)));
  out += "== MAC ==\n";
  const wire::Mac macs[] = {{0, 0, 0, 0, 0, 0},
                            {0, 0, 0, 0, 0, 1},
                            {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF},
                            {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE},
                            {0x33, 0x33, 0, 0, 0, 1},
                            {0x33, 0x33, 0, 0, 0, 2},
                            {0x33, 0x33, 0, 0, 0, 3},
                            {0x33, 0x33, 0, 0, 0, 0x16},
                            {0x33, 0x33, 0xFF, 0x12, 0x34, 0x56},
                            {0x33, 0x33, 0xFE, 0x12, 0x34, 0x56},
                            {0x33, 0x32, 0, 0, 0, 1},
                            {0x01, 0x00, 0x5E, 0, 0, 0xFB},
                            {0x01, 0x00, 0x5E, 0, 1, 0xFB},
                            {0x01, 0x80, 0xC2, 0, 0, 0x0E},
                            {0x01, 0x80, 0xC2, 0, 1, 0x0E},
                            {0x00, 0x1B, 0x21, 0xAA, 0xBB, 0xCC},
                            {0x02, 0x1B, 0x21, 0xAA, 0xBB, 0xCC},
                            {0x00, 0x1B, 0x21, 0xAA, 0xBB, 0xCD}};
  for (const wire::Mac& m : macs) out += became(hex(m), hex(names.mac(m)));
  expect_as_reviewed("capture_pseudonyms.txt", out);
}

TEST(Pseudonyms, OfEveryNumber) {
  Pseudonyms names(AnonymizeKey::from_text("a key"));
  std::string out;
  const auto number = [](std::uint64_t v) { return fmt::format("0x{:x}", v); };
  out += "== ports ==\n";
  for (const unsigned p : {0u, 1u, 22u, 4791u, 7471u, 32768u, 65534u, 65535u})
    out += became(number(p), number(names.port(static_cast<std::uint16_t>(p))));
  out += "== VLANs ==\n";
  for (const unsigned v : {0u, 1u, 2u, 100u, 2048u, 4093u, 4094u, 4095u, 4096u})
    out += became(number(v), number(names.vlan(static_cast<std::uint16_t>(v))));
  out += "== STags ==\n";
  for (const std::uint32_t s : {0u, 1u, 2u, 0x100u, 0x10000u, 0x7FFFFFFFu, 0xFFFFFFFFu})
    out += became(number(s), number(names.stag(s)));
  out += "== tagged offsets ==\n";
  for (const std::uint32_t s : {0u, 1u, 2u})
    for (const std::uint64_t to :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4096}, std::uint64_t{1} << 40,
          ~std::uint64_t{0} - (std::uint64_t{1} << 41), ~std::uint64_t{0} - (std::uint64_t{1} << 41) + 1,
          ~std::uint64_t{0} - (std::uint64_t{1} << 41) + 2, ~std::uint64_t{0}})
      out += became(fmt::format("STag {} TO 0x{:x}", s, to),
                    fmt::format("STag {} TO 0x{:x}", s, names.tagged_offset(s, to)));
  out += "== numbers ==\n";
  for (const std::uint32_t n : {0u, 1u, 65535u, 65536u, 65537u, 0xFFFFFFFFu})
    out += became(number(n), number(names.number(n)));
  out += "== identifiers ==\n";
  for (const std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, ~std::uint64_t{0}})
    out += became(number(n), number(names.identifier(n)));
  out += "== errors of checksums ==\n";
  for (const std::uint64_t n : {0u, 1u, 2u, 3u})
    out += fmt::format("{}: 0x{:04x} 0x{:08x}\n", n, names.error16(n), names.error32(n));
  out += "== clocks and streams ==\n";
  Address a = Address::v4(192, 0, 2, 1, 40000), b = Address::v4(192, 0, 2, 2, 40000),
          c = Address::v4(192, 0, 2, 1, 40001);
  for (const Address& each : {a, b, c}) {
    out += fmt::format("{} moves its clock by 0x{:08x}, becomes {}\n", each.to_string(), names.clock_shift(each),
                       names.address(each).to_string());
  }
  Address six = a;
  six.family = Address::Family::v6;
  six.octets = {0x20, 0x01, 0x0D, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  out += fmt::format("{} becomes {}\n", six.to_string(), names.address(six).to_string());
  const auto keys = [&](const Address& from, const Address& to, std::uint32_t first, std::uint64_t at, std::size_t n) {
    Bytes mask(n);
    names.stream(from, to, first).fill(at, mask);
    out += fmt::format("{} to {}, number {}, from octet {}: {}\n", from.to_string(), to.to_string(), first, at,
                       hex_text(mask));
  };
  keys(a, b, 7, 0, 17);
  for (const std::uint64_t at : {1u, 7u, 8u, 9u, 16u}) keys(a, b, 7, at, 3);
  keys(a, b, 8, 0, 3);
  keys(b, a, 7, 0, 3);
  keys(c, b, 7, 0, 3);
  keys(a, six, 7, 0, 3);
  out += "== SipHash of so many octets ==\n";
  Bytes in;
  for (std::uint8_t i = 0; i < 18; ++i) {
    out += fmt::format("{}: {:016x}\n", in.size(), siphash({1, 2}, in));
    in.push_back(i);
  }
  expect_as_reviewed("capture_pseudonym_numbers.txt", out);
}

}  // namespace
}  // namespace parley::capture
