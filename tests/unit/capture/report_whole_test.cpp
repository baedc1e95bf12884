// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Every word that a report has for a connection, in all its forms: text, ladder with all facts and fields, JSON, CSV
// (tests/states/capture_report_*.txt).
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "capture/link_type.hpp"
#include "capture/report/csv.hpp"
#include "capture/report/json.hpp"
#include "capture/report/ladder.hpp"
#include "capture/report/text.hpp"
#include "capture/report/text_ladder.hpp"
#include "capture/report/total.hpp"
#include "tests/unit/capture/stories.hpp"
#include "tests/unit/reviewed.hpp"
#include "tests/unit/runs.hpp"

namespace parley::capture {
namespace {

using test::Exchange;
using test::fpdu;
using test::startup;
using wire::MpaKey;

/// A connection with something in every field.
ConnectionReport full() {
  ConnectionReport c;
  c.first_frame = 3;
  c.last_frame = 90;
  c.initiator = test::end_a(false);
  c.responder = test::end_b(false);
  c.outcome = Outcome::established;
  c.end = "open at the end of the capture";
  StartupSeen s;
  s.frame = 6;
  s.key = MpaKey::req;
  s.flags = PARLEY_MPA_FLAG_C;
  s.revision = 1;
  c.request = s;
  s.frame = 7;
  s.key = MpaKey::rep;
  c.reply = s;
  c.crc = true;
  return c;
}
std::string facts_of(const ConnectionReport& c) {
  std::string out;
  for (const auto& [name, value] : ladder_of("a.pcap", c).facts) out += fmt::format("  {}: {}\n", name, value);
  return out;
}

TEST(ReportWhole, WhatWasAgreed) {
  ConnectionReport c = full();
  const auto whole = [](const ConnectionReport& of) { return to_text(of) + facts_of(of); };
  std::string out = whole(c);  // of the others the lines that differ
  Runs runs(out);
  const auto add = [&](const std::string& name, const ConnectionReport& of) { runs.add(name, whole(of)); };
  for (const unsigned m : {1u, 2u, 3u}) {
    c.markers_to_initiator = (m & 1) != 0;
    c.markers_to_responder = (m & 2) != 0;
    c.crc = m != 2;
    add(fmt::format("markers {}", m), c);
  }
  c = full();
  c.depths_negotiated = true;
  c.ird = 3, c.ord = 9;
  c.revision = 2;
  for (const mpa::Rtr kind : {mpa::Rtr::frame, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) {
    c.rtr = kind;
    add("RTR seen", c);
  }
  c.rtr = mpa::Rtr::none;
  for (const mpa::Rtr kind : {mpa::Rtr::frame, mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) {
    c.rtr_agreed = kind;
    add("RTR agreed", c);
  }
  c.rtr_agreed = mpa::Rtr::none;
  c.peer_to_peer = true;
  add("no kind in common", c);
  c.rtr_common = {.send = true, .write = true, .read = true};
  add("three kinds in common", c);
  c = full();
  c.request.reset();
  add("no Request", c);
  for (const Outcome o :
       {Outcome::established, Outcome::rejected, Outcome::failed, Outcome::incomplete, Outcome::not_captured})
    for (const std::uint64_t fpdus : {0u, 1u}) {
      c = full();
      c.outcome = o;
      c.from_responder.fpdus = fpdus;
      if (o == Outcome::rejected) c.reply->flags |= PARLEY_MPA_FLAG_R;
      if (o == Outcome::failed) c.reply->key = MpaKey::req;
      if (o == Outcome::failed) c.judgement = {Standing::failed, "the set-up failed"};
      if (o == Outcome::incomplete) c.reply.reset();
      add(fmt::format("{}, {} FPDUs of the responder", to_string(o), fpdus), c);
    }
  c = full();
  using std::chrono::microseconds;
  for (const unsigned steps : {0u, 1u, 2u, 4u, 8u, 15u}) {
    c.steps = {};
    if ((steps & 1) != 0) c.steps.tcp = microseconds(12);
    if ((steps & 2) != 0) c.steps.request = microseconds(340);
    if ((steps & 4) != 0) c.steps.reply = microseconds(5600);
    if ((steps & 8) != 0) c.steps.first_fpdu = microseconds(7'800'000);
    add(fmt::format("steps {}", steps), c);
  }
  c = full();
  c.from_initiator = {.octets = 900, .fpdus = 1, .messages = 1, .missing_octets = 1};
  c.from_initiator.messages_by_opcode[3] = 1;
  c.from_responder = {
      .octets = 800, .fpdus = 5, .messages = 3, .retransmissions = 2, .out_of_order = 4, .missing_octets = 30};
  c.from_responder.messages_by_opcode[0] = 2;
  c.from_responder.messages_by_opcode[15] = 1;
  c.findings = {{0, Severity::note, "", "of no frame", {}},
                {7, Severity::warning, "RFC 5044 §4.4", "the responder's", Side::responder},
                {9, Severity::error, "RFC 5041 §4.1", "of neither", {}}};
  add("counts and findings", c);
  out += runs.text() + to_text(c, {.width = 40}) + to_text(c, {.width = 100, .notes = false});
  expect_as_reviewed("capture_report_agreed.txt", out);
}

std::string ladder_rows(const ConnectionReport& c, const CaptureLadderOptions& options) {
  const draw::Ladder p = ladder_of("a.pcap", c, options);
  std::string out = fmt::format("{} | {} | {} rows dropped\n", p.title, p.subtitle, p.rows_dropped);
  for (const auto& k : p.connections) out += fmt::format("connection: {} | {} | {}\n", k.name, k.result, k.outcome);
  for (const draw::LadderRow& r : p.rows) {
    out += fmt::format("{} at {} frame {} from {} to {} {}{}: {} | {} | {}\n", static_cast<int>(r.kind),
                       r.at.time_since_epoch().count(), r.frame, r.from, r.to, r.layer, r.repeated ? ", repeated" : "",
                       r.text, r.detail, r.why);
    for (const auto& [name, value] : r.fields)
      out += fmt::format("{}{}: {}", &name == &r.fields.front().first ? "    " : "; ", name, value);
    if (!r.fields.empty()) out += "\n";
  }
  return out;
}

TEST(ReportWhole, LaddersWithFields) {
  std::string out;
  for (const test::Story& s : test::set_ups()) {
    if (s.name != "Rtr frame" && s.name != "RTR by RDMA Read") continue;
    Exchange x = test::told(s);
    x.frames.push_back(x.frames[6]);
    const FileReport r = test::analyse(x.frames, {.events = true, .fields = true});
    for (const ConnectionReport& c : r.connections) out += "== " + s.name + " ==\n" + ladder_rows(c, {.number = 2});
  }
  Exchange wrong;
  Bytes bad = fpdu(test::send_segment(2, 8));
  bad.back() ^= 1;
  wrong.set_up().send(0, fpdu(test::send_segment(1, 8)), 20).send(0, bad).send(1, fpdu(test::send_segment(5, 8)));
  wrong.send(0, Bytes{0, 0, 1, 2}).rst(1);
  wrong.frames.erase(wrong.frames.begin() + 6);
  const FileReport r = test::analyse(wrong.frames, {.events = true, .fields = true});
  for (const ConnectionReport& c : r.connections) {
    out += "== wrong ==\n" + ladder_rows(c, {});
    out += "== without notes, five rows ==\n" + ladder_rows(c, {.rows_max = 5, .notes = false});
  }
  expect_as_reviewed("capture_report_ladders.txt", out);
}

TEST(ReportWhole, TextLaddersAndCsv) {
  std::string out;
  ConnectionReport c = full();
  c.first_at = Instant{} + std::chrono::milliseconds(1000);
  c.last_at = c.first_at + std::chrono::milliseconds(1234);
  c.steps = {std::chrono::microseconds(1), std::chrono::microseconds(20), std::chrono::microseconds(300),
             std::chrono::microseconds(4000)};
  c.ird = 3, c.ord = 9, c.depths_negotiated = true, c.rtr = mpa::Rtr::read;
  c.from_initiator = {
      .octets = 900, .fpdus = 11, .messages = 12, .retransmissions = 13, .out_of_order = 14, .missing_octets = 15};
  c.from_responder = {
      .octets = 800, .fpdus = 21, .messages = 22, .retransmissions = 23, .out_of_order = 24, .missing_octets = 25};
  c.findings = {
      {0, Severity::note, "", "of no frame", {}},
      {0, Severity::warning, "RFC 1", "of no frame either", {}},
      {1, Severity::error, "RFC 2", "of the first", Side::responder},
      {7, Severity::warning, "RFC 5044 §4.4",
       "behind the last event, in words that go on for longer than a row of the ladder has room for", Side::responder}};
  c.events = {{1, c.first_at, Side::initiator, LadderEvent::Kind::tcp, "SYN", 0, {}},
              {6, c.first_at, Side::responder, LadderEvent::Kind::fpdu, "Send msn=1 " + std::string(90, 'y'), 4, {}}};
  for (const std::size_t width : {60u, 61u, 100u})
    for (const bool ascii : {false, true}) out += to_ladder(c, {.width = width, .ascii = ascii}) + "\n";
  FileReport r;
  r.connections.push_back(c);
  out += csv_header() + to_csv("a.pcap", r);
  expect_as_reviewed("capture_report_text_ladders.txt", out);
}

TEST(ReportWhole, Json) {
  Exchange x = test::told(test::set_ups()[4]);
  Exchange y(true, 5, 6);
  y.open()
      .send(0, startup(MpaKey::req, PARLEY_MPA_FLAG_C, 1, {}, Bytes{1, 2}))
      .send(1, startup(MpaKey::rep, PARLEY_MPA_FLAG_R, 1))
      .close();
  test::Frames all = x.frames;
  all.insert(all.end(), y.frames.begin(), y.frames.end());
  expect_as_reviewed("capture_report_json.txt",
                     to_json("a.pcap", test::analyse(all, {.events = true, .fields = true}), 2) + "\n");
}

TEST(ReportWhole, TalliesAndTotals) {
  std::string out;
  Total total;
  FileReport r;
  for (std::size_t i = 0; i < 7; ++i) {
    ConnectionReport c = full();
    c.outcome = static_cast<Outcome>(i % 5);
    c.judgement.standing = i < 1 ? Standing::passed : i < 3 ? Standing::partial : Standing::failed;
    c.findings = {
        {1, Severity::note, "", "n", {}}, {1, Severity::note, "", "n", {}}, {1, Severity::warning, "", "w", {}}};
    if (i % 2 == 0) c.findings.push_back({2, Severity::error, "", "e", {}});
    if (i % 3 == 0) c.findings.push_back({2, Severity::warning, "", "e", {}});
    c.from_initiator.fpdus = 10, c.from_responder.fpdus = i;
    if (i < 3)
      r.connections.push_back(c);
    else
      i < 5 ? r.unlisted.add(c) : r.taken.add(c);
  }
  r.packets = 1, r.tcp_connections = 1;
  r.judgement = {Standing::failed, "4 errors"};
  r.notes = {"a note", "another"};
  const auto tally = [&](const ConnectionTally& t) {
    out += fmt::format("{} connections, outcomes {} {} {} {} {}, findings {} {} {}, standings {} {} {}, {} FPDUs\n",
                       t.connections, t.outcomes[0], t.outcomes[1], t.outcomes[2], t.outcomes[3], t.outcomes[4],
                       t.findings[0], t.findings[1], t.findings[2], t.standings[0], t.standings[1], t.standings[2],
                       t.fpdus);
  };
  tally(r.unlisted), tally(r.taken);
  out += summary_text("a.pcap", r);
  r.tcp_connections = 9;
  out += summary_text("a.pcap", r);
  out += to_text(total) + "\n";
  total.add(r, true);
  out += to_text(total) + "\n";
  r.judgement.standing = Standing::passed;
  total.add(r, false);
  r.judgement.standing = Standing::partial;
  total.add(r, true), total.add(r, true);
  out += to_text(total) + "\n";
  const auto taken = r.take_connections();
  out += fmt::format("{} taken\n", taken.size());
  tally(r.taken);
  out += summary_text("b.pcap", FileReport{});
  expect_as_reviewed("capture_report_totals.txt", out);
}

TEST(ReportWhole, LinkTypes) {
  std::string out;
  for (unsigned type = 0; type < 0x10000; ++type) {
    const std::string text = link_type_text(static_cast<std::uint16_t>(type));
    if (text != std::to_string(type)) out += text + "\n";
  }
  out += link_type_refusal(5) + "\n" + link_type_refusal(189) + "\n";
  expect_as_reviewed("capture_link_types.txt", out);
}

}  // namespace
}  // namespace parley::capture
