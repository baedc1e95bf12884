// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The CSV of a report: what a spreadsheet reads out of it is what was found.
#include "capture/report/csv.hpp"
#include "base/escape.hpp"

#include <gtest/gtest.h>

#include "tests/unit/capture/exchange.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::send_segment;

/// A reader of RFC 4180 of its own: the values of each line.
std::vector<std::vector<std::string>> read(const std::string& csv) {
  std::vector<std::vector<std::string>> lines{{""}};
  bool quoted = false;
  for (std::size_t i = 0; i < csv.size(); ++i) {
    const char c = csv[i];
    if (quoted && c == '"' && i + 1 < csv.size() && csv[i + 1] == '"') {
      lines.back().back() += csv[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && c == ',') {
      lines.back().emplace_back();
    } else if (!quoted && c == '\n') {
      lines.push_back({""});
    } else {
      lines.back().back() += c;
    }
  }
  lines.pop_back();
  return lines;
}
std::string value(const std::string& csv, std::size_t line, std::string_view column) {
  const auto lines = read(csv);
  for (std::size_t i = 0; i < lines[0].size(); ++i)
    if (lines[0][i] == column && line < lines.size() && i < lines[line].size()) return lines[line][i];
  return "no such value";
}

TEST(CaptureCsv, ValuesAreQuotedWhereTheyMustBe) {  // RFC 4180 §2.5 to §2.7
  EXPECT_EQ(csv_quote("plain text"), "plain text");
  EXPECT_EQ(csv_quote(""), "");
  EXPECT_EQ(csv_quote("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_quote("say \"go\""), "\"say \"\"go\"\"\"");
  EXPECT_EQ(csv_quote("two\nlines"), "\"two\nlines\"");
  EXPECT_EQ(csv_quote(" edge"), "\" edge\"");
}

TEST(CaptureCsv, EachConnectionIsALineWithAllColumns) {
  Exchange x = test::conversation();
  Exchange bad(Address::v4(192, 0, 2, 3, 5), Address::v4(192, 0, 2, 2, 9001), 7, 8);
  Bytes broken = fpdu(send_segment(1, 4));
  broken.back() ^= 1;
  bad.set_up().send(0, broken);
  x.frames.insert(x.frames.end(), bad.frames.begin(), bad.frames.end());
  const std::string csv = csv_header() + to_csv("my \"best\", capture\n.pcap", test::analyse(x.frames));
  const auto lines = read(csv);
  ASSERT_EQ(lines.size(), 3U);
  for (const auto& line : lines) EXPECT_EQ(line.size(), lines[0].size());
  for (const std::size_t n : {1U, 2U}) {
    EXPECT_EQ(value(csv, n, "file"), "my \"best\", capture\n.pcap");
    EXPECT_EQ(value(csv, n, "connection"), std::to_string(n));
    EXPECT_EQ(value(csv, n, "outcome"), "established");
    EXPECT_EQ(value(csv, n, "reply_ms"), "1.000000");
    EXPECT_EQ(value(csv, n, "crc"), "true");
  }
  EXPECT_EQ(value(csv, 1, "initiator"), "192.0.2.1:40000");
  EXPECT_EQ(value(csv, 1, "initiator_messages"), "12");
  EXPECT_EQ(value(csv, 1, "begin_s").substr(0, 8), "1000000.");
  EXPECT_EQ(value(csv, 1, "first_error"), "");
  EXPECT_EQ(value(csv, 1, "verdict") + value(csv, 1, "reason"), "passed");
  EXPECT_EQ(value(csv, 2, "verdict") + " " + value(csv, 2, "reason"), "failed 1 error");
  EXPECT_EQ(value(csv, 2, "errors"), "1");
  EXPECT_EQ(value(csv, 2, "first_error_rule"), "RFC 5044 §4.4");
  EXPECT_NE(value(csv, 2, "first_error").find("the initiator sent an FPDU with CRC"), std::string::npos);
  EXPECT_EQ(value(csv, 2, "first_error_frame"), std::to_string(x.frames.size()));
}

TEST(CaptureCsv, AFileWithoutAConnectionIsALineThatSaysSo) {
  const std::string csv = csv_header() + to_csv("empty.pcap", test::analyse({}));
  const auto lines = read(csv);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[1].size(), lines[0].size());
  EXPECT_EQ(value(csv, 1, "file"), "empty.pcap");
  EXPECT_EQ(value(csv, 1, "connection"), "");
  EXPECT_EQ(value(csv, 1, "verdict"), "failed");
  EXPECT_EQ(value(csv, 1, "reason"), "no connection of a known protocol; the capture holds no packet");
}

}  // namespace
}  // namespace parley::capture
