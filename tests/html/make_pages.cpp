// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Writes the pages that ladder_test.py looks at into the directory named by its argument, and tells what is in them.
#include <fstream>
#include <iostream>
#include <string>

#include "capture/report/ladder.hpp"
#include "draw/ladder.hpp"
#include "sim/record/record.hpp"
#include "tests/unit/capture/exchange.hpp"

namespace {

using namespace parley;

constexpr std::string_view nasty = "</script><img src=x onerror=alert(1)>\"'&<svg onload=alert(2)>";

constexpr std::string_view crash_scenario = R"(
name = "lossy handshake, then a crash"
[[host]]
name = "initiator"
[[host]]
name = "responder"
[[link]]
ends = ["initiator", "responder"]
delay = "20us"
[[listen]]
host = "responder"
private_data = "welcome </script><img src=x onerror=alert(1)>"
[[connect]]
from = "initiator"
to = "responder"
transfer = "write"
octets = 4000
private_data = "hello"
retries = 3
[connect.mpa]
revision = 2
rtr = "read"
[[fault]]
name = "loss"
link = "initiator-responder"
match = "mpa_reply"
times = 1
action = "drop"
[[fault]]
name = "noise"
link = "initiator-responder"
match = "fpdu"
fpdu = 3
to = "responder"
times = 1
action = "corrupt"
[[fault]]
action = "crash"
host = "responder"
at = "300ms"
[[fault]]
action = "restart"
host = "responder"
at = "420ms"
)";

draw::Ladder of_a_run(std::string_view text) {
  const auto scenario = sim::parse_scenario(text, "a.toml");
  if (!scenario) {
    for (const auto& error : scenario.error()) std::cerr << error.to_string() << '\n';
    return {};
  }
  sim::LadderTap tap;
  tap.set_info({"parley, made for its tests", scenario->name, 7});
  sim::RunOptions options;
  options.seed = 7;
  options.tap = &tap;
  options.on_world = [&](const sim::World& world) { tap.begin(world); };
  const sim::RunReport report = sim::run_scenario(*scenario, options);
  return tap.finish(&report);
}

/// Every kind of row, and texts that would break a careless page.
draw::Ladder by_hand(std::size_t hosts) {
  draw::Ladder p;
  p.title = std::string("by hand ") + std::string(nasty);
  for (std::size_t i = 0; i < hosts; ++i) {
    p.columns.push_back(i == 0 ? "a " + std::string(nasty) : "h" + std::to_string(i));
    p.addresses.push_back("10.0.0." + std::to_string(i + 1));
  }
  const auto last = static_cast<std::uint32_t>(hosts - 1);
  Instant at{};
  const auto add = [&](draw::LadderRow row) {
    row.at = at += std::chrono::microseconds(3);
    row.arrived = row.at + std::chrono::microseconds(4);  // after the next row was sent
    p.rows.push_back(std::move(row));
  };
  using Row = draw::LadderRow;
  for (const char* layer : {"arp", "nd", "tcp", "ack", "mpa", "rdmap", "terminate", "other"})
    add({.from = 0,
         .to = last,
         .layer = layer,
         .text = std::string("frame of ") + layer,
         .detail = std::string(nasty),
         .fields = {{"Headers", ""}, {"Private data", std::string(nasty)}, {"Layer", layer}}});
  add({.from = last,
       .to = 0,
       .fate = Row::Fate::dropped,
       .layer = "mpa",
       .text = "MPA Reply",
       .why = std::string(nasty)});
  add({.from = last, .to = 0, .fate = Row::Fate::discarded, .layer = "tcp", .text = "SYN", .why = "bad TCP checksum"});
  add({.from = last, .to = 0, .repeated = true, .layer = "mpa", .text = "MPA Reply", .detail = "rev=1 C"});
  add({.from = 0,
       .to = last,
       .fate = Row::Fate::under_way,
       .layer = "rdmap",
       .text = "Send",
       .why = "still on its way"});
  add({.kind = Row::Kind::note,
       .from = last,
       .to = last,
       .layer = "crash",
       .text = "host " + std::string(nasty) + " crashed"});
  add({.kind = Row::Kind::violation,
       .layer = "violation",
       .text = "fence",
       .detail = std::string(nasty),
       .why = "RFC 5044 §7.1.2",
       .fields = {{"Violation", ""}, {"Checker", "fence"}}});
  p.facts = {{"result", "failed: 1 violation"}, {"seed", "7"}, {"commit", std::string(nasty)}};
  p.rows_dropped = 3;
  return p;
}

constexpr std::string_view three_scenario = R"(
name = "three, of which one is rejected and one breaks what is expected"
[[host]]
name = "initiator"
[[host]]
name = "responder"
[[link]]
ends = ["initiator", "responder"]
delay = "20us"
[[listen]]
host = "responder"
[[listen]]
host = "responder"
port = 7472
reject = true
[[connect]]
from = "initiator"
to = "responder"
[[connect]]
from = "initiator"
to = "responder"
port = 7472
expect = "rejected"
[[connect]]
from = "initiator"
to = "responder"
port = 7472
)";

/// A connection of a capture in which an FPDU was sent twice and another has a wrong CRC.
capture::FileReport of_a_capture() {
  namespace vt = capture::test;
  vt::Exchange x = vt::conversation();
  Bytes bad = vt::fpdu(vt::send_segment(1, 16));
  bad.back() ^= 1;
  vt::Exchange y(Address::v4(192, 0, 2, 3, 5), Address::v4(192, 0, 2, 2, 9001), 7, 8);
  y.open().send(0, vt::startup(wire::MpaKey::req, PARLEY_MPA_FLAG_C, 1, {}, Bytes(nasty.begin(), nasty.end())));
  y.send(1, vt::startup(wire::MpaKey::rep, PARLEY_MPA_FLAG_C, 1)).send(0, vt::fpdu(vt::send_segment(1, 16)));
  y.frames.push_back(y.frames.back());
  y.send(0, vt::fpdu(vt::send_segment(2, 16))).send(0, bad).close();
  vt::Frames frames = y.frames;
  frames.insert(frames.end(), x.frames.begin(), x.frames.end());
  capture::Analyzer analyzer({.events = true, .fields = true});
  std::uint64_t number = 0;
  for (const vt::Frame& f : frames) {
    wire::CapturedPacket p;
    p.frame = ++number;
    p.at = f.at;
    p.link_type = 1;
    p.octets = f.octets;
    p.original_length = static_cast<std::uint32_t>(f.octets.size());
    analyzer.push(p);
  }
  return analyzer.finish();
}

bool write(const std::string& directory, const std::string& name, const draw::Ladder& p, bool last = false) {
  std::ofstream(directory + "/" + name + ".html") << draw::to_html(p);
  std::size_t lost = 0, repeated = 0;
  for (const auto& row : p.rows) {
    if (row.kind == draw::LadderRow::Kind::frame && row.fate == draw::LadderRow::Fate::dropped) ++lost;
    if (row.repeated) ++repeated;
  }
  std::cout << "  \"" << name << "\": {\"rows\": " << p.rows.size() << ", \"dropped\": " << lost
            << ", \"repeated\": " << repeated << ", \"hosts\": " << p.columns.size() << "}" << (last ? "\n" : ",\n");
  return !p.rows.empty();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: ladder_pages DIRECTORY\n";
    return 2;
  }
  std::cout << "{\n";
  bool fine = write(argv[1], "run", of_a_run(crash_scenario));
  fine = write(argv[1], "three", of_a_run(three_scenario)) && fine;
  fine = write(argv[1], "two", by_hand(2)) && fine;
  fine = write(argv[1], "eight", by_hand(8)) && fine;
  const capture::FileReport capture = of_a_capture();
  if (capture.connections.size() != 2) return 1;
  std::vector<draw::Ladder> ladders;
  for (const auto& c : capture.connections) ladders.push_back(capture::ladder_of(std::string(nasty), c));
  fine = write(argv[1], "capture", ladders[0]) && fine;
  // Several ladders in one page; not among those that every test of one ladder looks at.
  std::ofstream(std::string(argv[1]) + "/book.html") << draw::to_html("book " + std::string(nasty), ladders, 4);
  write(argv[1], "empty", {}, true);
  std::cout << "}\n";
  return fine ? 0 : 1;
}
