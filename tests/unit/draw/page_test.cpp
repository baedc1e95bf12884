// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The markup of ladder pages, and ladders as text, are the reviewed ones of tests/golden/draw. PARLEY_REWRITE=1 writes
// them anew: look at the difference before keeping it. A browser looks at pages in tests/html.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "draw/ladder.hpp"

namespace parley::draw {
namespace {

using Kind = LadderRow::Kind;
using Fate = LadderRow::Fate;

LadderRow row(std::int64_t us, std::string layer, std::string text, Kind kind = Kind::frame) {
  LadderRow out;
  out.kind = kind;
  out.at = Instant{} + std::chrono::microseconds(us);
  out.arrived = out.at + std::chrono::microseconds(7);
  out.to = kind == Kind::frame ? 1 : 0;
  out.layer = std::move(layer);
  out.text = std::move(text);
  return out;
}

/// Everything that a row can be, between as many hosts.
Ladder everything(std::size_t hosts) {
  Ladder p;
  p.title = "every row & <more>";
  p.subtitle = "two connections";
  for (std::size_t i = 0; i < hosts; ++i) {
    p.columns.push_back(std::string(1, static_cast<char>('a' + i)));
    p.addresses.push_back("192.0.2." + std::to_string(i + 1));
  }
  p.facts = {{"result", "failed: 1 error"}, {"seed", "7"}};
  p.connections = {{"a:40000 > b:7471", "failed: 1 error", "failed"},
                   {"b:40001 > a:7471", "passed", "established"},
                   {"b:40002 > a:7471", "passed", "established"}};
  p.rows_dropped = 3;
  for (const char* layer : {"arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate", "unheard of"})
    p.rows.push_back(row(static_cast<std::int64_t>(p.rows.size()) * 10, layer, layer));
  if (hosts > 2) p.rows[0].also.assign(1, static_cast<std::uint32_t>(hosts - 1));
  p.rows[4].connection = 1;
  p.rows[4].detail = "rev=1 C";
  p.rows[4].fields = {{"MPA Request", ""}, {"Rev", "1"}};
  p.rows[5].connection = 2;
  p.rows[5].text = "a name of some length with a detail that goes on and on and on";
  p.rows[5].detail = std::string(200, 'd');
  p.rows[6].connection = 2;
  p.rows[6].text = std::string(45, 'x') + std::string(150, 'y');

  LadderRow dropped = row(300'100, "mpa", "MPA Reply");
  dropped.from = 1, dropped.to = 0, dropped.fate = Fate::dropped, dropped.why = "dropped by rule 'loss'";
  LadderRow discarded = row(300'200, "mpa", "MPA Reply");
  discarded.from = 1, discarded.to = 0, discarded.fate = Fate::discarded, discarded.repeated = true;
  LadderRow under_way = row(300'300, "rdmap", "Send");
  under_way.fate = Fate::under_way;
  LadderRow altered = row(300'400, "rdmap", "Send");
  altered.altered = true, altered.why = "octet 3 was changed", altered.repeated = true;
  altered.from = static_cast<std::uint32_t>(hosts - 1), altered.to = 0;
  LadderRow late = row(300'401, "tcp", "data");
  late.arrived = late.at + std::chrono::milliseconds(2);
  LadderRow crash = row(300'500, "crash", "host b crashed", Kind::note);
  crash.from = crash.to = 1;
  LadderRow restart = row(300'900, "restart", "host b started again", Kind::note);
  restart.from = restart.to = 1;
  LadderRow while_down = row(300'600, "tcp", "data");
  while_down.fate = Fate::dropped;
  LadderRow violation = row(301'000, "", "b broke a rule", Kind::violation);
  violation.detail = "PD_Length 600", violation.why = "RFC 5044 §7.1.1";
  LadderRow warning = row(301'001, "", "a did something odd", Kind::warning);
  warning.detail = "ORD 0";
  for (const LadderRow& r :
       {dropped, discarded, under_way, altered, late, crash, while_down, restart, violation, warning})
    p.rows.push_back(r);
  for (std::size_t i = 0; i < p.rows.size(); ++i) p.rows[i].frame = i + 1;
  return p;
}

/// Without style and script, which a browser judges.
std::string markup(std::string page) {
  for (const std::string tag : {"style", "script"})
    for (std::size_t at = page.find("<" + tag + ">"); at != page.npos; at = page.find("<" + tag + ">", at + 1))
      page.erase(at + tag.size() + 2, page.find("</" + tag + ">", at) - at - tag.size() - 2);
  return page;
}

void expect_reviewed(const std::string& name, const std::string& is) {
  const std::string path = std::string(PARLEY_SOURCE_DIR) + "/tests/golden/draw/" + name;
  if (std::getenv("PARLEY_REWRITE") != nullptr) std::ofstream(path, std::ios::binary) << is;
  std::ifstream in(path, std::ios::binary);
  const std::string reviewed(std::istreambuf_iterator<char>(in), {});
  EXPECT_EQ(reviewed, is) << path;
}

TEST(LadderGolden, PageOfTwoHosts) { expect_reviewed("two_hosts.html", markup(to_html(everything(2)))); }
TEST(LadderGolden, PageOfFiveHosts) { expect_reviewed("five_hosts.html", markup(to_html(everything(5)))); }
TEST(LadderGolden, TextOfTwoHosts) { expect_reviewed("two_hosts.txt", to_text(everything(2), {.colour = true})); }
TEST(LadderGolden, TextOfFiveHosts) { expect_reviewed("five_hosts.txt", to_text(everything(5), {.ascii = true})); }

}  // namespace
}  // namespace parley::draw
