// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every octet and many texts through what makes them safe to show ("=" is the text as it was), and every shape of an address
// (tests/states/base_texts.txt, base_addresses.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "base/text.hpp"
#include "parley/address.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley {
namespace {

/// In ASCII, so that the table can be read.
std::string in_ascii(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto octet = static_cast<unsigned char>(c);
    out += octet >= 0x20 && octet < 0x7F ? std::string(1, c) : fmt::format("<{:02x}>", octet);
  }
  return out;
}

TEST(TextsWhole, EveryOctetAndManyTexts) {
  std::vector<std::string> texts{"",
                                 " ",
                                 "a b",
                                 " a",
                                 "a ",
                                 "a,b",
                                 "a\"b",
                                 "a\rb",
                                 "a\nb",
                                 "a\tb",
                                 "it's",
                                 "a<b>&c",
                                 "AZ",
                                 "az",
                                 "09",
                                 "a/b:c",
                                 "\xC2\x80",
                                 "\xC2\x9F",
                                 "\xC2\xA0",
                                 "\xC3\xA9",
                                 "\xC2",
                                 "\xC2x",
                                 "\xE2\x82\xAC",
                                 "\xE2\x82",
                                 "\xE2\x82x",
                                 "\xED\x9F\xBF",
                                 "\xED\xA0\x80",
                                 "\xED\xBF\xBF",
                                 "\xED\xA0x",
                                 "\xEE\x80\x80",
                                 "\xEF\xBF\xBD",
                                 "\xEF\xBF\xBE",
                                 "\xEF\xBF\xBF",
                                 "\xF0\x9F\x98\x80",
                                 "\xF0\x9F\x98",
                                 "\xF4\x8F\xBF\xBF",
                                 "\xF4\x90\x80\x80",
                                 "\xC0\x80",
                                 "\xE0\x80\x80",
                                 "\xF0\x80\x80\x80",
                                 "x\xED\xA0\x80y",
                                 "x\xFFy",
                                 "\xC2\x85z",
                                 "\x7F\xC2\xA0\xFF"};
  std::string out;
  const auto row = [&](std::string_view t) {
    const auto made = [t](std::string_view name, const std::string& of) {
      return fmt::format(" | {} {}", name, of == t ? "=" : in_ascii(of));
    };
    return made("printable", printable(t, false)) + made("ASCII", printable(t, true)) + made("HTML", html_text(t)) +
           made("XML", xml_escape(t)) + made("CSV", csv_quote(t)) + made("shell", shell_word(t));
  };
  for (const std::string& t : texts) out += in_ascii(t) + row(t) + "\n";
  Runs runs;
  for (unsigned octet = 0; octet < 256; ++octet)
    runs.add(fmt::format("{:02x}", octet), row(std::string(1, static_cast<char>(octet))));
  expect_as_reviewed("base_texts.txt", out + runs.text());
}

/// Apart by blanks.
constexpr std::string_view addresses =
    "1.2.3.4 1.2.3.4:5 1.2.3.4:0 1.2.3.4:65535 1.2.3.4:65536 1.2.3.4: 1.2.3.4:x 1.2.3.4:5x 1.2.3.4:-1 1.2.3 "
    "1.2.3.4.5 1.2.3. .1.2.3 1..2.3 256.1.1.1 255.255.255.255 01.2.3.4 1.2.3.04 0.0.0.0 00.0.0.0 a.b.c.d "
    "1.2.3.4x :: ::1 1:: [::] [::]:1 [::1]:7471 [::1 ::1] [::1]x [::1]7 [::1]: [] []:1 1:2:3:4:5:6:7:8 "
    "[1:2:3:4:5:6:7:8]:9 1:2:3:4:5:6:7 1:2:3:4:5:6:7:8:9 1:2:3:4:5:6:7:: ::2:3:4:5:6:7:8 1:2:3:4:5:6::8 "
    "1::3:4:5:6:7:8 1:2:3:4::5:6:7:8 1:2:3:4:5:6:7:8:: ::1:2:3:4:5:6:7:8 1::2::3 ::: :1:: 1:::2 g:: 12345:: "
    "ffff:: FFFF:: 0001:: -1:: +1:: 0x1:: 1:2:3:4:5:6:1.2.3.4 1:2:3:4:5:1.2.3.4 1:2:3:4:5:6:7:1.2.3.4 "
    "::1.2.3.4 ::ffff:1.2.3.4 ::ffff:1.2.3 ::fffe:1.2.3.4 ::1.2.3.4:5 1.2.3.4:: 1::1.2.3.4:6 ::ffff:0:0 "
    "64:ff9b::192.0.2.33 fe80::1%3 [fe80::1%3]:4 fe80::1% fe80::1%eth0 fe80::1%4294967295 fe80::1%4294967296 "
    "fe80::1%-1 fe80::%0 1.2.3.4%1 2001:db8:0:0:1:0:0:1 2001:0:0:1:0:0:0:1 2001:db8:0:1:1:1:1:1 "
    "0:0:1:0:0:0:1:0 1:0:0:2:0:0:3:4 169.254.0.1 169.253.0.1 febf::1 fec0::1 ::ffff:169.254.0.1";

TEST(TextsWhole, EveryShapeOfAnAddress) {
  std::string out;
  const auto add = [&](std::string_view text) {
    const auto a = Address::parse(text);
    out += fmt::format(
        "\"{}\": {}\n", text,
        a ? fmt::format("{}{}{}", a->to_string(), a->is_any() ? ", any" : "", a->is_link_local() ? ", link-local" : "")
          : a.error().sentence());
  };
  add("");
  add(" 1.2.3.4");
  for (std::string_view left = addresses; !left.empty();) {
    const std::size_t end = std::min(left.find(' '), left.size());
    add(left.substr(0, end));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  expect_as_reviewed("base_addresses.txt", out);
}

TEST(TextsWhole, EveryTimeNumberAndRate) {
  std::string out;
  for (const std::int64_t ns : {-1'500'000'000LL,
                                -1LL,
                                0LL,
                                1LL,
                                999LL,
                                1000LL,
                                1001LL,
                                1499LL,
                                1500LL,
                                9'949LL,
                                9'950LL,
                                9'999LL,
                                10'000LL,
                                99'499LL,
                                99'500LL,
                                850'000LL,
                                999'499LL,
                                999'500LL,
                                999'999LL,
                                1'000'000LL,
                                1'250'000LL,
                                1'999'999LL,
                                9'995'000LL,
                                99'950'000LL,
                                999'499'999LL,
                                999'500'000LL,
                                999'999'999LL,
                                1'000'000'000LL,
                                1'005'000'000LL,
                                1'250'000'000LL,
                                59'999'999'999LL,
                                60'000'000'000LL,
                                3'600'000'000'000LL,
                                86'400'000'000'001LL}) {
    const Duration d{ns};
    out += fmt::format("{} ns: {} | {} | {} | {} | {} | {}", ns, duration_text(d), measured_duration_text(d),
                       brief_duration_text(d), exact_duration_text(d), limit_text(d), milliseconds_text(d));
    if (ns >= 0) out += " | " + precise_duration_text(d);
    for (const unsigned digits : {1u, 2u, 9u}) out += " | " + decimal_seconds(d, digits);
    out += "\n";
  }
  for (std::uint32_t n = 0; n < 125; ++n) out += ordinal(n) + (n % 10 == 9 || n == 124 ? "\n" : " ");
  out += "\n";
  for (const std::uint64_t n : {0u, 1u, 2u, 10u}) out += counted(n, "octet") + "\n";
  for (const std::uint64_t rate : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{999}, std::uint64_t{1000},
                                   std::uint64_t{1500}, std::uint64_t{1'000'000}, std::uint64_t{1'500'000},
                                   std::uint64_t{10'000'000'000}, std::uint64_t{2'500'000'000'000}})
    out += bit_rate_text(rate) + "\n";
  Bytes octets;
  for (std::uint8_t i = 0; i < 5; ++i) {
    octets.push_back(static_cast<std::uint8_t>(i * 40));
    for (const std::size_t max : {1u, 2u, 4u, 5u, 32u})
      out += hex_text(octets, max) + " / " + readable_text(octets, max) + " | ";
    out += hex_digits(octets) + "\n";
  }
  expect_as_reviewed("base_numbers.txt", out);
}

TEST(TextsWhole, EveryWidth) {
  std::string out;
  const std::string words = "one two  three-and-four a,b \xC3\xA9t\xC3\xA9 averyverylongwordindeed end";
  for (std::size_t width = 1; width < 50; width += width < 12 ? 1 : 7)
    for (const std::size_t indent : {0u, 3u})
      out += fmt::format("== {} {} ==\n{}\n", width, indent, wrap(words, width + indent, indent));
  expect_as_reviewed("base_widths.txt", out);
}

}  // namespace
}  // namespace parley
