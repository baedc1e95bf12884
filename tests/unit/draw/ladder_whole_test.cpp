// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Ladders as a reviewer reads them, whole: every kind and fate of a row, between two hosts and among more, in every width,
// and the same as the drawing of a page (tests/states/draw_ladder.txt, draw_page.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/text.hpp"
#include "draw/ladder.hpp"
#include "tests/unit/reviewed.hpp"

namespace parley::draw {
namespace {

using RowKind = LadderRow::Kind;
using RowFate = LadderRow::Fate;

LadderRow whole_row(RowKind kind, std::int64_t at, std::uint32_t from, std::uint32_t to, std::string layer,
                    std::string text) {
  LadderRow row;
  row.kind = kind;
  row.at = Instant{} + std::chrono::microseconds(at);
  row.arrived = row.at + std::chrono::microseconds(5);
  row.from = from;
  row.to = to;
  row.layer = std::move(layer);
  row.text = std::move(text);
  return row;
}

const std::string long_words =
    "words that go on for longer than any of the widths here has room for, and then for a "
    "good many columns more so that they are cut";

/// Every kind and fate between the first and the last host, from both sides; long texts; silences.
Ladder every_row(std::size_t hosts) {
  const auto last = static_cast<std::uint32_t>(hosts - 1);
  Ladder p;
  p.title = "every row";
  p.subtitle = fmt::format("among {} hosts", hosts);
  for (std::size_t i = 0; i < hosts; ++i) {
    p.columns.push_back(fmt::format("host{}", i));
    p.addresses.push_back(fmt::format("192.0.2.{}:7471", i + 1));
  }
  std::int64_t at = 0;
  std::uint64_t number = 0;
  for (const std::uint32_t from : {0u, last}) {
    const std::uint32_t to = last - from;
    const auto frame = [&](std::string layer, std::string text) -> LadderRow& {
      p.rows.push_back(whole_row(RowKind::frame, at += 10, from, to, std::move(layer), std::move(text)));
      p.rows.back().frame = ++number;
      return p.rows.back();
    };
    const auto note = [&](std::string layer, std::string text) {
      p.rows.push_back(whole_row(RowKind::note, at += 10, from, from, std::move(layer), std::move(text)));
    };
    for (const char* layer : {"arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate", "other"})
      frame(layer, std::string("of ") + layer).detail = "rev=1 C";
    frame("mpa", "repeated").repeated = true;
    frame("mpa", "altered").altered = true;
    for (const RowFate fate : {RowFate::dropped, RowFate::discarded, RowFate::under_way}) {
      frame("rdmap", "short").fate = fate;
      LadderRow& why = frame("rdmap", long_words);
      why.fate = fate;
      why.why = "dropped by rule 'loss'";
    }
    frame("rdmap", "altered for a reason").why = "bit 7 turned by rule 'flip'";
    frame("rdmap", "broadcast").also = {last / 2};
    note("note", "a note");
    note("note", long_words);
    note("crash", "host crashed");
    frame("tcp", "after the crash");
    at += 3'000'000;
    note("restart", "host started again");
    at += 90'000'000;
    frame("tcp", "after the restart");
    for (const RowKind kind : {RowKind::violation, RowKind::warning})
      for (const char* why : {"", "RFC 5044 §7.1.2"})
        for (const std::string& detail : {std::string("a detail"), long_words}) {
          p.rows.push_back(whole_row(kind, at += 10, from, to, "", "fence"));
          p.rows.back().detail = detail;
          p.rows.back().why = why;
        }
  }
  p.rows_dropped = 3;
  p.facts = {{"result", "failed: 1 error"}, {"seed", "7"}, {"commit", "0123abc"}};
  return p;
}

TEST(LadderWhole, EveryRowAsText) {
  struct Drawing {
    std::size_t hosts, width;
    bool ascii;
  };
  std::string out;
  for (const Drawing& d : {Drawing{2, 60, false}, Drawing{2, 60, true}, Drawing{2, 100, false}, Drawing{3, 60, false},
                           Drawing{5, 100, true}})
    out += fmt::format("== {} hosts, {} columns{} ==\n{}\n", d.hosts, d.width, d.ascii ? ", ASCII" : "",
                       to_text(every_row(d.hosts), {.width = d.width, .ascii = d.ascii}));
  expect_as_reviewed("draw_ladder.txt", out);
}

// Where this changes, look at the page in a browser as well.
TEST(LadderWhole, EveryRowOfAPage) {
  const std::string page = to_html(every_row(3));
  const std::size_t begin = page.find("<body>"), end = page.rfind("<script");
  ASSERT_LT(begin, end);
  expect_as_reviewed("draw_page.txt", page.substr(begin, end - begin));
}

}  // namespace
}  // namespace parley::draw
