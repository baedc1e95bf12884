// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Numbers, times and octets as people read them, and text in columns.
#include "base/text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace parley {
namespace {

using namespace std::chrono_literals;

TEST(Text, CountsWithThePluralOfTheWord) {
  EXPECT_EQ(counted(0, "packet"), "0 packets");
  EXPECT_EQ(counted(1, "packet"), "1 packet");
  EXPECT_EQ(counted(2, "packet"), "2 packets");
}

TEST(Text, ArticlesGoByTheSound) {
  for (const std::string text :
       {"a Send", "an RDMA Write", "an Atomic Request", "an Immediate Data message", "a Terminate", "a ULPDU",
        "an MPA Reply", "an FPDU", "a DDP segment", "an RTR", "a Read Response", "a SEND Only"})
    EXPECT_EQ(with_article(text.substr(text.find(' ') + 1)), text);
}

TEST(Text, OrdinalsEndAsInEnglish) {
  const std::vector<std::pair<std::uint32_t, const char*>> all = {
      {0, "0th"},   {1, "1st"},     {2, "2nd"},     {3, "3rd"},     {4, "4th"},    {9, "9th"},
      {10, "10th"}, {11, "11th"},   {12, "12th"},   {13, "13th"},   {14, "14th"},  {20, "20th"},
      {21, "21st"}, {110, "110th"}, {111, "111th"}, {113, "113th"}, {122, "122nd"}};
  for (const auto& [n, text] : all) EXPECT_EQ(ordinal(n), text);
}

TEST(Text, RoundedTimesChangeTheirUnitAtAThousand) {
  const std::vector<std::pair<Duration, const char*>> all = {
      {0ns, "0 ns"},      {999ns, "999 ns"}, {1us, "1 µs"},      {1499ns, "1 µs"},     {1500ns, "2 µs"},
      {2500ns, "2 µs"},   {2501ns, "3 µs"},  {-1501ns, "-2 µs"}, {-2500ns, "-2 µs"},   {-1500ns, "-2 µs"},
      {999us, "999 µs"},  {1ms, "1.0 ms"},   {1260us, "1.3 ms"}, {-3200us, "-3.2 ms"}, {1s, "1.00 s"},
      {1254ms, "1.25 s"}, {-2s, "-2.00 s"}};
  for (const auto& [time, text] : all) EXPECT_EQ(duration_text(time), text);
}

TEST(Text, MeasuredTimesHaveTwoPlacesFromAMillisecondOn) {
  const std::vector<std::pair<Duration, const char*>> all = {
      {0ns, "0 us"},       {850us, "850 us"}, {999400ns, "999 us"},    {1ms, "1.00 ms"},
      {1250us, "1.25 ms"}, {1s, "1.00 s"},    {999990us, "999.99 ms"}, {3200ms, "3.20 s"}};
  for (const auto& [time, text] : all) EXPECT_EQ(measured_duration_text(time), text);
}

TEST(Text, BriefTimesAreCutAndHaveNoTrailingZeros) {
  const std::vector<std::pair<Duration, const char*>> all = {
      {-1s, "0 ns"},        {7ns, "7 ns"},        {999ns, "999 ns"},  {1000ns, "1 us"},      {1019ns, "1.01 us"},
      {1500ns, "1.5 us"},   {999999ns, "999 us"}, {1ms, "1 ms"},      {99990us, "99.99 ms"}, {100990us, "100 ms"},
      {999999us, "999 ms"}, {1s, "1 s"},          {1250ms, "1.25 s"}, {1009ms, "1 s"},       {1010ms, "1.01 s"},
      {1200ms, "1.2 s"},    {100500ms, "100 s"}};
  for (const auto& [time, text] : all) EXPECT_EQ(brief_duration_text(time), text);
}

TEST(Text, ExactTimesAreInTheLargestUnitThatDividesThem) {
  const std::vector<std::pair<Duration, const char*>> all = {
      {0ns, "0 s"},  {7ns, "7 ns"},       {1001ns, "1001 ns"}, {2us, "2 us"}, {1500us, "1500 us"},
      {2ms, "2 ms"}, {1500ms, "1500 ms"}, {3s, "3 s"},         {-2s, "-2 s"}, {3600s, "3600 s"}};
  for (const auto& [time, text] : all) EXPECT_EQ(exact_duration_text(time), text);
}

TEST(Text, PreciseTimesHaveThreeDecimalsAndAUnitThatSuits) {
  EXPECT_EQ(precise_duration_text(0ns), "0.000 us");
  EXPECT_EQ(precise_duration_text(1'234ns), "1.234 us");
  EXPECT_EQ(precise_duration_text(999'999ns), "999.999 us");
  EXPECT_EQ(precise_duration_text(15ms), "15.000 ms");
  EXPECT_EQ(precise_duration_text(61s), "61.000 s");
}

TEST(Text, LimitsAreInSecondsWhereTheyAreWhole) {
  EXPECT_EQ(limit_text(5s), "5 s");
  EXPECT_EQ(limit_text(1500ms), "1500 ms");
  EXPECT_EQ(limit_text(1'999'999us), "1999 ms");
  EXPECT_EQ(limit_text(0ns), "0 s");
  EXPECT_EQ(milliseconds_text(2'999'999us), "2999 ms");
}

TEST(Text, DecimalSecondsAreCut) {
  EXPECT_EQ(decimal_seconds(12s + 345'999ns, 6), "12.000345");
  EXPECT_EQ(decimal_seconds(12s + 345'999ns, 9), "12.000345999");
  EXPECT_EQ(decimal_seconds(1'999ms, 2), "1.99");
  EXPECT_EQ(decimal_seconds(0ns, 6), "0.000000");
  EXPECT_EQ(decimal_seconds(-1500ms, 3), "-1.500");
}

TEST(Text, PrintableIsAsciiFromSpaceToTilde) {
  EXPECT_TRUE(is_printable(Bytes{' ', 'a', '~'}));
  EXPECT_TRUE(is_printable(Bytes{}));
  for (const Bytes& octets : {Bytes{0x1F}, Bytes{0x7F}, Bytes{0x80}, Bytes{0x0A}})
    EXPECT_FALSE(is_printable(octets)) << +octets[0];
}

TEST(Text, BitRatesAreInTheLargestUnitThatDividesThem) {
  const std::vector<std::pair<std::uint64_t, const char*>> all = {{0, "0 b/s"},
                                                                  {1, "1 b/s"},
                                                                  {999, "999 b/s"},
                                                                  {1000, "1 kb/s"},
                                                                  {1500, "1500 b/s"},
                                                                  {1'500'000, "1500 kb/s"},
                                                                  {2'000'000, "2 Mb/s"},
                                                                  {10'000'000'000, "10 Gb/s"},
                                                                  {2'500'000'000, "2500 Mb/s"},
                                                                  {1'000'001, "1000001 b/s"}};
  for (const auto& [rate, text] : all) EXPECT_EQ(bit_rate_text(rate), text);
}

TEST(Text, OctetsBeyondTheMaximumAreCounted) {
  const Bytes octets = {0x01, 0xAB, 0x20};
  EXPECT_EQ(hex_text(octets), "01 ab 20");
  EXPECT_EQ(hex_text(octets, 3), "01 ab 20");
  EXPECT_EQ(hex_text(octets, 2), "01 ab ... (3 octets)");
  EXPECT_EQ(hex_text({}), "");
  EXPECT_EQ(hex_digits(octets), "01ab20");
  EXPECT_EQ(hex_text(Bytes(32, 0)).find('.'), std::string::npos);
  EXPECT_NE(hex_text(Bytes(33, 0)).find(" ... (33 octets)"), std::string::npos);
}

TEST(Text, OctetsThatAreNoTextAreDots) {
  const Bytes octets = {'M', 'P', 'A', 0x1F, 0x20, 0x7E, 0x7F, 0xFF};
  EXPECT_EQ(readable_text(octets, 8), "MPA. ~..");
  EXPECT_EQ(readable_text(octets, 3), "MPA...");
}

// RFC 3629 §4; what is none is cut as Unicode §3.9 says.
TEST(Text, Utf8IsReadByItsTable) {
  struct Row {
    std::string text;
    std::size_t length;
    bool whole;
  };
  const std::vector<Row> all = {
      {"a", 1, true},
      {"\x7F", 1, true},
      {"\x80", 1, false},
      {"\xC1\xBF", 1, false},
      {"\xC2\x80", 2, true},
      {"\xDF\xBF", 2, true},
      {"\xC2", 1, false},
      {"\xC2\x7F", 1, false},
      {"\xC2\xC0", 1, false},
      {"\xE0\xA0\x80", 3, true},
      {"\xE0\x9F\xBF", 1, false},
      {"\xE0\xBF\xBF", 3, true},
      {"\xED\x9F\xBF", 3, true},
      {"\xED\xA0\x80", 1, false},
      {"\xEF\xBF\xBF", 3, true},
      {"\xE1\x80", 2, false},
      {"\xE1\x80\xC0", 2, false},
      {"\xF0\x90\x80\x80", 4, true},
      {"\xF0\x8F\xBF\xBF", 1, false},
      {"\xF4\x8F\xBF\xBF", 4, true},
      {"\xF4\x90\x80\x80", 1, false},
      {"\xF5\x80\x80\x80", 1, false},
      {"\xF1\x80\x80", 3, false},
      {"\xF1\x80\x80\x7F", 3, false},
  };
  for (const Row& row : all) {
    const auto [length, whole] = utf8_sequence(row.text + (row.whole ? "x" : ""));
    EXPECT_EQ(length, row.length) << row.text;
    EXPECT_EQ(whole, row.whole) << row.text;
    EXPECT_EQ(utf8_length(row.text), row.whole ? row.length : 0) << row.text;
  }
  EXPECT_EQ(utf8_length(""), 0U);
}

TEST(Text, ACharacterTakesOneColumnHoweverManyOctetsItHas) {
  EXPECT_EQ(columns(""), 0U);
  EXPECT_EQ(columns("zürich"), 6U);
  EXPECT_EQ(columns("→│x"), 3U);
}

TEST(Text, WrapsAtTheWidthAndIndentsWhatFollows) {
  EXPECT_EQ(wrap("one two three", 80, 2), "one two three");
  EXPECT_EQ(wrap("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(wrap("one two three", 8, 2), "one\n  two\n  three");
  EXPECT_EQ(wrap("one two", 9, 2), "one two");
  EXPECT_EQ(wrap("aü bü cü", 7, 2), "aü bü\n  cü");
  EXPECT_EQ(wrap("averylongword b", 5, 1), "averylongword\n b");
  EXPECT_EQ(wrap("", 5, 1), "");
}

TEST(Text, ClipsWithDotsInTheColumnsGiven) {
  EXPECT_EQ(clip("123456", 6), "123456");
  EXPECT_EQ(clip("1234567", 6), "123...");
  EXPECT_EQ(clip("züricher", 6), "zür...");
  EXPECT_EQ(clip("1234", 3), "...");
  EXPECT_EQ(clip("1234", 2), "..");
  EXPECT_EQ(clip("1234", 0), "");
}

TEST(Text, RepeatsAGlyph) {
  EXPECT_EQ(repeat("─", 3), "───");
  EXPECT_EQ(repeat("x", 0), "");
}

}  // namespace
}  // namespace parley
