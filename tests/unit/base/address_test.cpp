// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include "parley/address.hpp"

namespace parley {
namespace {

using Family = Address::Family;

Address v6(std::initializer_list<int> head, std::initializer_list<int> tail = {}, std::uint16_t port = 0) {
  Address a = Address::any(Family::v6, port);
  std::size_t i = 0;
  for (int o : head) a.octets[i++] = static_cast<std::uint8_t>(o);
  i = 16 - tail.size();
  for (int o : tail) a.octets[i++] = static_cast<std::uint8_t>(o);
  return a;
}

struct Text {
  std::string canonical;
  Address address;
};

std::vector<Text> canonical_texts() {
  Address scoped = v6({0xfe, 0x80}, {1}, 7471);
  scoped.scope_id = 3;
  return {
      {"192.0.2.1:7471", Address::v4(192, 0, 2, 1, 7471)},
      {"0.0.0.0:0", Address::any(Family::v4, 0)},
      {"255.255.255.255:65535", Address::v4(255, 255, 255, 255, 65535)},
      {"127.0.0.1:1", Address::loopback(Family::v4, 1)},
      {"[::1]:1", Address::loopback(Family::v6, 1)},
      {"[::]:7471", Address::any(Family::v6, 7471)},
      {"[fe80::1%3]:7471", scoped},
      {"[2001:db8::1]:80", v6({0x20, 0x01, 0x0d, 0xb8}, {1}, 80)},
      // RFC 5952 §4.2.2: one zero group is not shortened; §4.2.3: the longest run, and the first of two equal ones.
      {"[2001:db8:0:1:1:1:1:1]:0", v6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1})},
      {"[2001:0:0:1::1]:0", v6({0x20, 1, 0, 0, 0, 0, 0, 1}, {1})},
      {"[2001:db8::1:0:0:1]:0", v6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 1}, {1})},
      {"[1::]:0", v6({0, 1})},
      {"[abcd:ef01:2345:6789:abcd:ef01:2345:6789]:0",
       v6({0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 1, 0x23, 0x45, 0x67, 0x89})},
      {"[::ffff:192.0.2.1]:80", v6({}, {0xff, 0xff, 192, 0, 2, 1}, 80)},  // RFC 5952 §5
      {"[0:1:0:1:0:1:0:1]:0", v6({0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1})},
  };
}

TEST(Address, PrintsTheCanonicalForm) {  // RFC 5952 §4, §6
  for (const Text& t : canonical_texts()) EXPECT_EQ(t.address.to_string(), t.canonical);
}

TEST(Address, ParsesWhatItPrints) {
  for (const Text& t : canonical_texts()) {
    const auto a = Address::parse(t.canonical);
    ASSERT_TRUE(a) << t.canonical;
    EXPECT_EQ(*a, t.address) << t.canonical;
  }
}

TEST(Address, ParsesOtherSpellings) {  // RFC 4291 §2.2
  EXPECT_EQ(Address::parse("192.0.2.1")->to_string(), "192.0.2.1:0");
  EXPECT_EQ(Address::parse("::1")->to_string(), "[::1]:0");
  EXPECT_EQ(Address::parse("[::1]")->to_string(), "[::1]:0");
  EXPECT_EQ(Address::parse("fe80::1%12")->to_string(), "[fe80::1%12]:0");
  EXPECT_EQ(Address::parse("2001:0DB8:0000:0000:0000:0000:0000:0001")->to_string(), "[2001:db8::1]:0");
  EXPECT_EQ(Address::parse("::192.0.2.1")->to_string(), "[::c000:201]:0");
  EXPECT_EQ(Address::parse("1:2:3:4:5:6:192.0.2.1")->to_string(), "[1:2:3:4:5:6:c000:201]:0");
  EXPECT_EQ(Address::parse("1:2:3:4:5:6:7::")->to_string(), "[1:2:3:4:5:6:7:0]:0");
}

TEST(Address, RefusesWhatIsNoAddress) {
  for (const char* text : {"",
                           ":",
                           "::1]",
                           "[::1",
                           "[::1]7471",
                           "[::1]:",
                           "[::1]:65536",
                           "[192.0.2.1]:1",
                           "192.0.2",
                           "192.0.2.1.",
                           "192.0.2.1.5",
                           "192.0.2.256",
                           "192.0.02.1",
                           "192.0.2.1:",
                           "192.0.2.1:-1",
                           "192.0.2.1:99999",
                           "192.0.2.1: 1",
                           "host:1",
                           "host",
                           "1:2:3:4:5:6:7",
                           "1:2:3:4:5:6:7:8:9",
                           "1::2::3",
                           ":::",
                           "1:2:3:4:5:6:7:8::",
                           "12345::",
                           "g::",
                           "::1%",
                           "::1%eth0",
                           "::1%4294967296",
                           "1:2:3:4:5:6:7:192.0.2.1",
                           "192.0.2.1::",
                           " ::1",
                           "::1 ",
                           "1:",
                           ":1:2:3:4:5:6:7"}) {
    const auto a = Address::parse(text);
    EXPECT_FALSE(a) << text << " gave " << (a ? a->to_string() : "");
    if (!a) {
      EXPECT_EQ(a.error(), Errc::bad_address);
    }
  }
}

TEST(Address, KnowsItsKinds) {
  EXPECT_TRUE(Address::any(Family::v4, 5).is_any());
  EXPECT_TRUE(Address::any(Family::v6, 5).is_any());
  EXPECT_FALSE(Address::loopback(Family::v6, 0).is_any());
  EXPECT_TRUE(Address::parse("fe80::1")->is_link_local());  // RFC 4291 §2.5.6
  EXPECT_TRUE(Address::parse("febf::1")->is_link_local());
  EXPECT_FALSE(Address::parse("fec0::1")->is_link_local());
  EXPECT_TRUE(Address::parse("169.254.1.1")->is_link_local());
  EXPECT_FALSE(Address::parse("192.0.2.1")->is_link_local());
}

TEST(Errc, EveryCodeHasASentence) {
  EXPECT_STREQ(error_category().name(), "parley");
#define PARLEY_X(name, text) EXPECT_EQ(make_error_code(Errc::name).message(), text);
  PARLEY_ERRC(PARLEY_X)
#undef PARLEY_X
  EXPECT_EQ(std::error_code(9999, error_category()).message(), "unknown parley error 9999");
  EXPECT_FALSE(make_error_code(Errc::ok));
}

}  // namespace
}  // namespace parley
