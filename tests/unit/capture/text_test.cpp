// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The report for people: rows that fit the width, large reports in pieces, durations as they are read.
#include "base/text.hpp"
#include "capture/report/text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "capture/report/standing.hpp"
#include "capture/report/total.hpp"

namespace parley::capture {
namespace {

FileReport many(std::size_t connections) {
  FileReport r;
  r.packets = 14 * connections;
  r.tcp_connections = connections;
  for (std::size_t i = 0; i < connections; ++i) {
    ConnectionReport c;
    c.initiator = Address::v4(192, 0, 2, 1, static_cast<std::uint16_t>(1024 + i));
    c.responder = Address::v4(192, 0, 2, 2, 9001);
    c.outcome = Outcome::established;
    c.from_initiator.fpdus = c.from_initiator.messages = i;
    c.from_initiator.messages_by_opcode[0] = i;
    c.end = "open at the end of the capture";
    c.findings.push_back({i + 1, Severity::warning, "RFC 5044 §7.1.2",
                          "words that are long enough to go over the end of a row that has but sixty columns"});
    r.connections.push_back(std::move(c));
  }
  return r;
}

TEST(Text, GivesALargeReportInPiecesThatAreTheWhole) {
  const FileReport r = many(1000);
  std::string all;
  std::size_t largest = 0, pieces = 0;
  write_text("a.pcap", r, {}, [&](std::string_view part) {
    EXPECT_EQ(part.back(), '\n');
    largest = std::max(largest, part.size());
    ++pieces;
    all += part;
  });
  EXPECT_GT(pieces, 3u);
  EXPECT_LT(largest, 70'000u);
  EXPECT_EQ(all, to_text("a.pcap", r));
  std::string each;
  for (const ConnectionReport& c : r.connections) each += to_text(c) + "\n";
  EXPECT_EQ(
      all,
      "a.pcap: 1000 MPA connections\n\n" + each +
          "a.pcap: passed; 14000 packets, 1000 TCP connections, 1000 of them MPA: 1000 passed, 0 partial, 0 failed; "
          "0 errors, 1000 warnings, 0 notes\n");
}

TEST(Text, SaysInOneLineThatNothingIsMpa) {
  FileReport r;
  r.packets = r.tcp_packets = 3;
  r.tcp_connections = 2;
  r.judgement = judge(r);
  EXPECT_EQ(to_text("a", r),
            "a: failed: no connection of a known protocol; the capture holds 2 TCP connections that are not MPA (3 "
            "packets)\n");
}

TEST(Text, SumsUpSeveralFiles) {
  Total total;
  FileReport two = many(2);
  two.judgement = judge(two);
  two.connections[1].judgement = {Standing::failed, "1 error"};
  two.connections[1].findings.push_back({9, Severity::error, "RFC 5044 §4.4", "a CRC"});
  total.add(two, true);
  FileReport cut = many(1);
  cut.unread = "truncated";
  cut.judgement = judge(cut);
  cut.unlisted.connections = 4;
  cut.unlisted.standings = {1, 3, 0};
  total.add(cut, false);
  FileReport nothing;
  nothing.judgement = judge(nothing);
  total.add(nothing, true);
  EXPECT_EQ(to_text(total),
            "3 files: 1 passed, 1 partial, 1 failed, 1 of them not read to the end; "
            "7 MPA connections: 3 passed, 3 partial, 1 failed; 1 error, 3 warnings");
}

TEST(Text, WrapsRowsAtTheWidthAndKeepsTheirWords) {
  const ConnectionReport c = many(2).connections.back();
  std::istringstream rows(to_text(c, {.width = 60}));
  std::string row, words;
  while (std::getline(rows, row)) {
    EXPECT_LE(columns(row), 60u) << row;
    words += row.substr(std::min<std::size_t>(row.size(), 13)) + ' ';
  }
  EXPECT_THAT(words, testing::HasSubstr("frame 2: words that are long enough to go over the end of a row that has but "
                                        "sixty columns [RFC 5044 §7.1.2]"));
  EXPECT_THAT(words, testing::HasSubstr("1 FPDU, 1 message (1 RDMA Write) "));
}

TEST(Text, RoundsDurationsToTheNearest) {
  const auto text = [](std::int64_t ns) { return duration_text(Duration(ns)); };
  EXPECT_EQ(text(0), "0 ns");
  EXPECT_EQ(text(-999), "-999 ns");
  EXPECT_EQ(text(1'499), "1 µs");
  EXPECT_EQ(text(1'500), "2 µs");
  EXPECT_EQ(text(2'500), "2 µs");  // ties go to the even one
  EXPECT_EQ(text(2'501), "3 µs");
  EXPECT_EQ(text(-3'500), "-4 µs");
  EXPECT_EQ(text(1'250'000), "1.2 ms");
  EXPECT_EQ(text(3'200'000'000), "3.20 s");
}

}  // namespace
}  // namespace parley::capture
