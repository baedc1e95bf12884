// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <gtest/gtest.h>

#include <limits>

#include <fmt/format.h>

#include "base/json.hpp"
#include "base/json_text.hpp"

namespace parley::json_test {
namespace {

std::string real(double value) { return fmt::format("{:.1f}", value); }
std::string text(const Json& json, int indent = 0) { return json.dump(real, indent); }

TEST(Json, ObjectsKeepTheOrderOfTheirKeys) {
  Json object{{"z", 1}, {"a", {{"inner", true}}}, {"m", nullptr}};
  object["b"] = 2.5;
  object["z"] = "set again, in its place";
  EXPECT_EQ(text(object), R"({"z":"set again, in its place","a":{"inner":true},"m":null,"b":2.5})");
  object.update({{"m", 7}, {"new", Json::object()}});
  object.erase("a");
  EXPECT_EQ(text(object), R"({"z":"set again, in its place","m":7,"b":2.5,"new":{}})");
}

TEST(Json, ArraysComeFromVectorsAndByPushing) {
  Json object{{"numbers", std::vector<std::size_t>{1, 2}}, {"none", Json::array()}};
  object["pushed"].push_back({{"a", 1}});
  object["pushed"].push_back("b");
  EXPECT_EQ(text(object), R"({"numbers":[1,2],"none":[],"pushed":[{"a":1},"b"]})");
}

TEST(Json, IndentsForPeople) {
  EXPECT_EQ(text({{"a", std::vector<int>{1, 2}}, {"b", Json::array()}}, 1),
            "{\n \"a\": [\n  1,\n  2\n ],\n \"b\": []\n}");
}

TEST(Json, OctetsAreTextOnlyWhereAllOfThemArePrintable) {
  const auto octets = [](std::string_view of) { return text(json_octets(Bytes(of.begin(), of.end()))); };
  EXPECT_EQ(octets(""), R"({"length":0,"hex":""})");
  EXPECT_EQ(octets("ab c"), R"({"length":4,"hex":"61622063","text":"ab c"})");
  EXPECT_EQ(octets("\x7f"), R"({"length":1,"hex":"7f"})");
  EXPECT_EQ(octets("a\n"), R"({"length":2,"hex":"610a"})");
  EXPECT_EQ(octets("\xff"
                   "a"),
            R"({"length":2,"hex":"ff61"})");
}

TEST(Json, AWordHasNoSpaces) { EXPECT_EQ(json_word("not seen to the end"), "not_seen_to_the_end"); }

TEST(Json, IntegersAreWhole) {
  EXPECT_EQ(text(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(text(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(text(std::uint8_t{255}), "255");
}

TEST(Json, EscapesControlsAndQuotes) {
  EXPECT_EQ(text(std::string("\b\t\n\f\r\"\\/\x01\x1F\x7F\0", 12)),
            std::string("\"\\b\\t\\n\\f\\r\\\"\\\\/\\u0001\\u001f\x7F\\u0000\""));
}

TEST(Json, OctetsThatAreNotUtf8BecomeTheReplacementCharacter) {
  const std::string no = "\xEF\xBF\xBD";
  const std::pair<std::string, std::string> cases[] = {
      {"gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80", "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x98\x80"},
      {"\x80z", no + "z"},
      {"\xC0\x80", no + no},                    // overlong
      {"\xE0\x80\x80", no + no + no},           // overlong
      {"\xED\xA0\x80", no + no + no},           // surrogate
      {"\xF4\x90\x80\x80", no + no + no + no},  // above U+10FFFF
      {"\xE2\x82z", no + "z"},                  // cut off: one for what there is of it
      {"\xF0\x9F\x98", no},                     // cut off by the end
      {"\xC3\xC3\xBC", no + "\xC3\xBC"}};
  for (const auto& [octets, shown] : cases) EXPECT_EQ(text(octets), '"' + shown + '"');
}

}  // namespace
}  // namespace parley::json_test
